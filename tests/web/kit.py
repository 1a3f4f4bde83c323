# SPDX-License-Identifier: MIT
"""Channels and a `sluice web` for tests, in a folder of their own."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint  # noqa: E402, F401

LIMIT = 60  # s; for what happens at once on an idle machine


def until(condition, what):
    """Waits for the condition, and returns what it returns."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise TimeoutError(what)


class Place:
    """A folder of channels, the programs that use it, and the server."""
    def __init__(self, sluice, clock, **env):
        self.sluice, self.clock = sluice, clock
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sluice-web-"))
        (self.folder / "channels").mkdir(mode=0o700)
        self.env = dict(os.environ, SLUICE_DIR=str(self.folder / "channels"), **env)
        self.programs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                program.send_signal(signal.SIGCONT)
            program.terminate()
        for program in self.programs:
            try:
                program.wait(LIMIT)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        shutil.rmtree(self.folder)

    def start(self, *arguments, **more):
        program = subprocess.Popen([str(word) for word in arguments], env=self.env, stdin=subprocess.DEVNULL, **more)
        self.programs.append(program)
        return program

    def run(self, *arguments):
        return subprocess.run([str(word) for word in (self.sluice, *arguments)], env=self.env, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT)

    def lacks_web(self):
        """Why there is no `sluice web` in this build, or None."""
        said = self.run("web", "--listen", "none:").stderr
        return "built without libmicrohttpd or libturbojpeg" if "this build has no web server" in said else None

    def write(self, name, size="1280x720", fps=30):
        """Starts a writer of the clock's pictures, and waits for its channel."""
        program = self.start(self.clock, name, size, fps)
        until(lambda: any(one["name"] == name and one["state"] == "live" for one in self.channels()), f"no channel {name}")
        return program

    def channels(self):
        return json.loads(self.run("ls", "--json").stdout)["channels"]

    def play(self, name, *more):
        program = self.start(self.sluice, "play", "test", name, "--quiet", *more)
        until(lambda: any(one["name"] == name for one in self.channels()), f"no channel {name}")
        return program

    def serve(self, *more, channels=("[!c]*", "c[!i]*"), listen="127.0.0.1:0"):
        """Starts a server of the channels in this folder (none of cuda-link's, which all programs share)."""
        program = self.start(self.sluice, "web", "--listen", listen, *more, *channels, stdout=subprocess.PIPE, text=True)
        program.url = program.stdout.readline().strip()
        if not program.url:
            raise RuntimeError(f"sluice web ended with {program.wait()}")
        program.port = int(program.url.split("/")[2].rpartition(":")[2])
        return program

    def readers(self, name):
        return json.loads(self.run("info", name, "--json").stdout)["readers"]


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


def get(server, path, method="GET", headers=None, body=None):
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    try:
        connection.request(method, path, body, headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def stream(server, path):
    """Opens an answer without an end; the caller reads and closes the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
    connection.request("GET", path)
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status}: {response.read().decode()}")
    return connection, response


def read_parts(response):
    """The JPEGs of a multipart stream, one after another."""
    held, boundary = b"", b"\r\n--sluice\r\n"
    while data := response.read1(65536):
        held += data
        while boundary in held:
            part, _, held = held.partition(boundary)
            yield part.partition(b"\r\n\r\n")[2]
