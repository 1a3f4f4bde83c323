# SPDX-License-Identifier: MIT
"""For tests of sluice.cuda_link: programs on both sides of a channel, each a process."""
import contextlib
import json
import os
import pathlib

from child import children
from eventually import STARTS

HERE = pathlib.Path(__file__).parent
SHAPE = [4, 6, 4]  # of frames, unless a test asks for others


class Program:
    def __init__(self, child):
        self.child = child
        assert self.answer() == "ready"

    def answer(self):
        line = self.child.read()
        assert line, "the program has ended"
        return json.loads(line)

    def ask(self, *words):
        self.child.write(" ".join(map(str, words)))
        return self.answer()

    def __getattr__(self, name):
        return lambda *arguments: self.ask(name, *arguments)

    def kill(self):
        self.child.kill()


class Link:
    """A channel's name, and programs that use it."""

    def __init__(self, start, name):
        self.start, self.name = start, name

    def exporter(self, *sizes, kind="export", dtype="uint8", slots=3, policy="from_env", name=None):
        arguments = [name or self.name, *(sizes or (4, 6, 4)), dtype, slots]
        return Program(self.start(kind, *arguments, *([] if "11" in kind else [policy])))

    def importer(self, policy="from_env", timeout_ms=60_000, kind="import", name=None, **hints):
        arguments = [name or self.name, *([] if "11" in kind else [policy]), timeout_ms]
        if hints:
            arguments += [json.dumps(hints["shape"]).replace(" ", ""), hints["dtype"]]
        return Program(self.start(kind, *arguments))


@contextlib.contextmanager
def a_link():
    """One for a test; nothing is left in shared memory."""
    name = f"sluice-test-{os.getpid()}-link"  # and none of a process whose number begins with this one
    with children(HERE / "cuda_link_roles.py", STARTS) as start:
        yield Link(start, name)
    for path in pathlib.Path("/dev/shm").glob(f"{name}*"):
        path.unlink()


def is_frame(told, value, **others):
    assert told.get("outcome") == "NEW_FRAME" and told["value"] == value and told["whole"], told
    assert {name: told[name] for name in others} == others
    return told


def says(told, outcome):
    assert told.get("outcome") == outcome, told
