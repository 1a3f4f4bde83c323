# SPDX-License-Identifier: MIT
"""For tests of sluice.cuda_link: programs on both sides of a channel, each a process."""
import atexit
import contextlib
import json
import os
import pathlib

from child import Child
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

    def export_whole(self, value):
        """A frame that is finished; else an older one may be what is newest of those that are."""
        assert self.export(value) == "PUBLISHED" and self.settled() == "settled"

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


class Actors:
    """Processes that are one program after the other, test for test: a GPU's context takes longer to make than most tests. Who was
    killed, has a question left, or cannot put away what it had, acts in no other test; nor does who has read other settings."""

    def __init__(self):
        self.resting, self.acting = [], []
        atexit.register(self.end, self.resting)

    @staticmethod
    def settings():
        return {name: value for name, value in os.environ.items() if name not in ("SLUICE_DIR", "PYTEST_CURRENT_TEST")}

    def start(self, role, *arguments):
        settings = self.settings()
        actor = next((each for each in self.resting if each.settings == settings and not role.startswith("theirs:")), None)
        if actor:
            self.resting.remove(actor)
            actor.write("become " + json.dumps([os.environ["SLUICE_DIR"], role, *map(str, arguments)]))
        else:
            actor = Child(HERE / "cuda_link_roles.py", STARTS, role, *arguments)
            actor.asked, actor.settings, actor.again = 1, settings, not role.startswith("theirs:")
        self.acting.append(actor)
        return actor

    def rest(self):
        """All of them, behind a test."""
        able = [each for each in self.acting if each.again and each.process.poll() is None and each.asked == each.answered]
        for actor in able:
            actor.write("rest")
        rested = [actor for actor in able if self.has_rested(actor)]
        self.end([actor for actor in self.acting if actor not in rested])
        self.resting += rested
        self.acting = []

    @staticmethod
    def has_rested(actor):
        with contextlib.suppress(AssertionError, ValueError):
            return json.loads(actor.read()) == "resting"
        return False

    @staticmethod
    def end(actors):
        for actor in actors:
            actor.process.kill()
        for actor in actors:  # a GPU's context takes its time to end: they do it together
            actor.process.wait()
            actor.process.stdin.close()
            actor.process.stdout.close()


actors = Actors()


@contextlib.contextmanager
def a_link():
    """One for a test; nothing is left in shared memory."""
    name = f"sluice-test-{os.getpid()}-link"  # and none of a process whose number begins with this one
    try:
        yield Link(actors.start, name)
    finally:
        actors.rest()
    for path in pathlib.Path("/dev/shm").glob(f"{name}*"):
        path.unlink()


def is_frame(told, value, **others):
    assert told.get("outcome") == "NEW_FRAME" and told["value"] == value and told["whole"], told
    assert {name: told[name] for name in others} == others
    return told


def says(told, outcome):
    assert told.get("outcome") == outcome, told
