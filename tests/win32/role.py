# SPDX-License-Identifier: MIT
"""Another process, led line by line."""
import json
import subprocess
import sys


class Role:
    """A Python with these arguments: cuda_link_roles.py, or a program that answers as that does."""

    def __init__(self, *arguments, env=None):
        self.process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the other process has ended"
        return json.loads(line)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        assert "error" not in (answer if isinstance(answer, dict) else {}), answer
        return answer

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
