#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completion in real shells: types lines, presses Tab and reads the screen. usage: completion.py ROOT SLUICE

bash and zsh run in a terminal of their own; fish is asked by its `complete --do-complete`.
"""
import contextlib
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

LIMIT = 20

# Names of a cuda-link channel, unique on the machine, and of another file in the same folder.
LINK = f"completion{os.getpid()}_TD>>Python 2"
ALIEN = f"completion{os.getpid()}_alien"
SEGMENT = bytes.fromhex("44504943 0700000000000000 00000000 00000000").ljust(433, b"\0")

# What is typed, and the words after completion.
COMPLETED = [
    ("sluice reco", ["record"]),
    ("sluice help sna", ["help", "snap"]),
    ("sluice play --patt", ["play", "--pattern"]),
    ("sluice play --format nv", ["play", "--format", "nv12"]),
    ("sluice play --format=nv", ["play", "--format=nv12"]),
    ("sluice play -f nv", ["play", "-f", "nv12"]),
    ("sluice play --fps m", ["play", "--fps", "max"]),
    ("sluice info garden-c", ["info", "garden-camera"]),
    ("sluice snap garden-camera out.png --array im", ["snap", "garden-camera", "out.png", "--array", "image"]),
    ("sluice top --sort fp", ["top", "--sort", "fps"]),
    ("sluice bench kill_r", ["bench", "kill_reader"]),
    ("sluice play cl", ["play", "clip one.mp4"]),
    ("sluice demo --clip=cl", ["demo", "--clip=clip one.mp4"]),
    ("sluice demo --out re", ["demo", "--out", "results"]),
    ("sluice demo --out=", ["demo", "--out=results"]),
    (f"sluice info cipd:{LINK[:15]}", ["info", f"cipd:{LINK}"]),
    (f"sluice info cipd:{LINK.partition('>')[0]}\\>", ["info", f"cipd:{LINK}"]),
    (f"sluice info 'cipd:{LINK.partition('>')[0]}>", ["info", f"cipd:{LINK}"]),
    (f'sluice record "cipd:{LINK.partition(">")[0]}>>Python ', ["record", f"cipd:{LINK}"]),
    (f"sluice snap 'cipd:{LINK}' --arr", ["snap", f"cipd:{LINK}", "--array"]),
    ("sluice info 'garden-c", ["info", "garden-camera"]),
]
# What is typed, some candidates, and words that must not be offered.
LISTED = [
    ("sluice ", ["ls", "play", "demo", "doctor", "help"], ["clip", "results"]),
    ("sluice ls --", ["--json", "--rate", "--watch", "--help"], ["--fps", "clip"]),
    ("sluice play --format yuv4", ["yuv420p", "yuv444p", "yuv422p", "yuv422p10le"], ["rgba", "clip"]),
    ("sluice info ", ["garden-camera", "garden-gate"], ["clip", "results"]),
    ("sluice top ", ["garden-camera", "garden-gate", LINK.partition(">")[0]], ["clip", ALIEN]),
    ("sluice play ", ["test", "clip", "results"], ["garden-camera"]),
]


class Shell:
    """An interactive shell in a terminal. Keys typed during a completion are read after it."""
    def __init__(self, arguments, env, folder, lines):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(arguments[0], arguments, dict(env, PS1="ready> "))
        self.until("ready> ")
        for line in lines:
            self.enter(line)

    def until(self, what):
        """Returns the output of the terminal up to this text."""
        text, end = "", time.monotonic() + LIMIT
        while not re.search(what, text, re.M):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{what!r} did not come; there was:\n{text}")
            text += os.read(self.fd, 65536).decode(errors="replace")
            text = re.sub(r"\x1b[\[(][0-9;?]*[A-Za-z]|[^\n -~]", "", text)
        return text

    def enter(self, keys):
        """Types a line and waits until the shell has run it and reads keys again."""
        os.write(self.fd, f"{keys}\rprintf '<%s>\\n' end-of-line\r".encode())
        return self.until(r"^<end-of-line>\n(?s:.*)ready> ").rpartition("<end-of-line>")[0]

    def completed(self, line):
        """Returns the words after `line` and Tab, as the shell splits them."""
        shown = self.enter(f"{line}\t\x01printf '<%s>\\n' \x05")
        return re.findall(r"^<(.*)>$", shown, re.M)[1:]

    def listed(self, line):
        return self.enter(f"{line}\t\x15").rpartition("printf")[0]

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


class Fish:
    def __init__(self, script, env, folder):
        self.script, self.env, self.folder = script, env, folder

    def lines(self, line):
        asked = subprocess.run(["fish", "--no-config", "-c", f"source '{self.script}'; complete --do-complete $argv",
                                "--", line], env=self.env, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                               timeout=LIMIT)
        return [text.split("\t")[0] for text in asked.stdout.splitlines()]

    def completed(self, line):
        for closing in ("", "'", '"'):  # the quote that is open
            with contextlib.suppress(ValueError):
                return shlex.split(line + closing)[1:-1] + self.lines(line)

    def listed(self, line):
        return "\n".join(self.lines(line))

    def close(self):
        pass


def start(name, root, env, folder):
    scripts = root / "completions"
    if name == "bash":
        return Shell(["bash", "--noprofile", "--norc", "-i"], env, folder,
                     ["bind 'set bell-style none'", "bind 'set show-all-if-ambiguous on'",
                      "bind 'set completion-query-items 0'",  # however many channels the machine has
                      "bind 'set enable-bracketed-paste off'", "bind 'set page-completions off'",
                      f"source '{scripts}/sluice.bash'"])
    if name == "zsh":
        return Shell(["zsh", "-f", "-i"], env, folder,
                     ["unsetopt beep prompt_sp list_ambiguous", f"fpath=('{scripts}' $fpath)", "LISTMAX=100000; bindkey -e",
                      f"autoload -Uz compinit; compinit -u -d '{folder}/.zcompdump'"])
    return Fish(scripts / "sluice.fish", env, folder)


def offered(shown, word):
    """True if the word is among those shown."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?!\w)", shown)


def look(lint, name, shell):
    for line, expected in COMPLETED:
        words = [word.rstrip("/") for word in shell.completed(line)]
        lint.check(f"{name}: {line}", [] if words == expected else [f"{words} instead of {expected}"])
    for line, there, absent in LISTED:
        shown = shell.listed(line)
        problems = [f"{word} is not offered" for word in there if not offered(shown, word)]
        problems += [f"{word} is offered" for word in absent if offered(shown, word)]
        lint.check(f"{name}: what may follow {line!r}", problems + [shown] if problems else [])


def wait_for(channels, sluice, env):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        shown = subprocess.run([sluice, "ls"], env=env, text=True, stdout=subprocess.PIPE).stdout
        if all(f"{channel} " in shown for channel in channels):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no channels {channels}")


def main():
    root, sluice = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    lint = Lint()
    shared = [pathlib.Path("/dev/shm", name) for name in (LINK, ALIEN)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "home"
        (folder / "results").mkdir(parents=True)
        (folder / "clip one.mp4").touch()
        channels = pathlib.Path(name) / "channels"
        channels.mkdir(mode=0o700)
        env = dict(os.environ, PATH=f"{sluice.parent}:{os.environ['PATH']}", SLUICE_DIR=str(channels), HOME=str(folder),
                   TERM="vt100", LC_ALL="C.UTF-8", COLUMNS="200", LINES="50")
        players = [subprocess.Popen([sluice, "play", "test", channel, "--pattern", "--quiet", "--size", "64x64"], env=env)
                   for channel in ("garden-camera", "garden-gate")]
        try:
            shared[0].write_bytes(SEGMENT)
            shared[1].write_bytes(SEGMENT[4:])
            wait_for(["garden-camera", "garden-gate"], sluice, env)
            for kind in ("bash", "zsh", "fish"):
                if not shutil.which(kind):
                    lint.check(kind, [], skip=f"no {kind} here")
                    continue
                shell = start(kind, root, env, folder)
                try:
                    look(lint, kind, shell)
                finally:
                    shell.close()
        finally:
            for player in players:
                player.terminate()
                player.wait()
            for segment in shared:
                segment.unlink(missing_ok=True)
    lint.finish()


main()
