# SPDX-License-Identifier: MIT
"""Other processes for tests."""
import contextlib
import subprocess
import sys
import threading

from eventually import STARTS


class Child:
    """Another Python that runs a function of `script`; lines go in and out."""

    def __init__(self, script, seconds, role, *args):
        self.seconds = seconds  # that read() waits
        self.asked = self.answered = 0  # lines
        self.process = subprocess.Popen([sys.executable, "-X", "faulthandler", str(script), role, *map(str, args)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def read(self, seconds=None):
        seconds, line = seconds or self.seconds, []
        thread = threading.Thread(target=lambda: line.append(self.process.stdout.readline()))
        thread.start()
        thread.join(seconds)
        if not line:
            self.process.kill()
            thread.join()
            raise AssertionError(f"nothing came in {seconds} s")
        self.answered += 1
        return line[0].strip()

    def expect(self, text, seconds=None):
        line = self.read(seconds)
        assert line == text
        return line

    def write(self, text):
        self.asked += 1
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(STARTS)

    def wait(self, seconds=STARTS):
        return self.process.wait(seconds)


@contextlib.contextmanager
def children(script, seconds):
    """A function that starts one, whose read() waits so long; none is left behind."""
    started = []

    def start(role, *args):
        started.append(Child(script, seconds, role, *args))
        return started[-1]

    yield start
    for child in started:
        child.process.kill()
    for child in started:  # a GPU's context takes its time to end: they do it together
        child.process.wait()
        child.process.stdin.close()
        child.process.stdout.close()
