# SPDX-License-Identifier: MIT
"""NVIDIA's Multi-Process Service, started for one run, with its pipes in a folder that no other program uses."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time

CONTROL = "nvidia-cuda-mps-control"
PID_FILE = f"{CONTROL}.pid"


class Unavailable(Exception):
    pass


class Mps:
    """A context in which programs with the environment `settings` are clients of the service."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
        self.environment = {**os.environ, **self.settings}

    def ask(self, command, limit=20):
        try:
            return subprocess.run([CONTROL], input=command + "\n", capture_output=True, text=True, timeout=limit,
                                  env=self.environment).stdout
        except subprocess.TimeoutExpired:
            return ""

    def __enter__(self):
        if not shutil.which(CONTROL):
            raise Unavailable(f"{CONTROL} is not installed")
        for name in ("pipe", "log"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run([CONTROL, "-d"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30,
                                  env=self.environment)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{CONTROL} does not start") from None
        if done.returncode:
            raise Unavailable(f"{CONTROL} does not start: {done.stderr.strip() or done.returncode}")
        return self

    def has_clients(self):
        """True if a server runs, which it does once programs have connected."""
        return any(line.strip().isdigit() for line in self.ask("get_server_list").splitlines())

    def last_log_line(self):
        log = self.folder / "log" / "control.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "its log is empty"

    def ended(self, limit):
        """Waits until the service ends; it then removes its PID file."""
        until = time.monotonic() + limit
        while time.monotonic() < until and (self.folder / "pipe" / PID_FILE).exists():
            time.sleep(0.1)
        return not (self.folder / "pipe" / PID_FILE).exists()

    def kill(self):
        """Kills the service and its server, which a hanging client may keep alive."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / "pipe" / PID_FILE).read_text())
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for each in (*map(int, children), pid):
                os.kill(each, signal.SIGKILL)

    def __exit__(self, *_):
        self.ask("quit", 5)
        if not self.ended(5):
            self.kill()
        time.sleep(0.5)  # until its server has left the GPU
