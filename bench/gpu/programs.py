# SPDX-License-Identifier: MIT
"""gpu-limit and gpu-sluice, kept running because a GPU's context takes longer to make than a job."""
import json
import select
import subprocess


class Missing(Exception):
    """There is no GPU; the text says why."""


class Failed(Exception):
    """A job failed; the text says why."""


class Program:
    def __init__(self, path, environment):
        self.path, self.environment, self.process = path, environment, None

    def start(self):
        try:
            self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            bufsize=1, env=self.environment)
        except FileNotFoundError:
            raise Missing(f"{self.path.name} was not built") from None

    def answer(self, limit):
        """A line; empty if the program ended or the time is over."""
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        return self.process.stdout.readline() if ready else ""

    def do(self, line, seconds):
        """Does one job and returns its sets and values."""
        if not self.process:
            self.start()
        self.process.stdin.write(f"{line} ns={int(seconds * 1e9)}\n")
        self.process.stdin.flush()
        text = self.answer(seconds + 120)
        if not text:
            self.stop()
            raise Failed(f"{self.path.name} did not answer: {line}")
        answer = json.loads(text)
        if "missing" in answer:
            raise Missing(answer["missing"])
        if "error" in answer:
            raise Failed(f"{self.path.name}: {line}: {answer['error']}")
        return answer["sets"], answer["values"]

    def end(self):
        """Asks the program to end; stop() waits for it."""
        if self.process:
            self.process.stdin.close()

    def stop(self):
        if not self.process:
            return
        self.end()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
