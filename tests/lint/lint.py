# SPDX-License-Identifier: MIT
"""TAP for the lints: each rule looked at is a test of its own."""
import sys


class Lint:
    def __init__(self):
        self.count = 0
        self.failed = 0
        print("TAP version 13")

    def check(self, name, problems, skip=None):
        """One line: passed if there are no problems, each of which is shown."""
        self.count += 1
        self.failed += bool(problems)
        note = f" # SKIP {skip}" if skip and not problems else ""
        print(f"{'not ok' if problems else 'ok'} {self.count} - {name}{note}")
        for problem in problems:
            for line in str(problem).splitlines():
                print(f"#   {line}")

    def finish(self):
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)
