# SPDX-License-Identifier: MIT
"""Runs programs with a time limit, and collects the results of suites of tests."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TAP_LINE = re.compile(r"^(ok|not ok) \d+ - (\S+)(?: # SKIP ?(.*))?$")
OUT_OF_TIME = 124
LOOK = 2  # s
GRACE, GONE = 3, 20  # s: to end after SIGTERM; after SIGKILL, which a GPU that hangs may delay for ever


class Clock:
    """The time limit of the whole run."""

    def __init__(self):
        self.began, self.within = time.monotonic(), float("inf")

    def end(self):
        return self.began + self.within

    def left(self):
        return self.end() - time.monotonic()


clock = Clock()
lock = threading.RLock()  # for logs with several writers, and the list of running programs
running = set()
clean_up = []  # functions to call if the run ends early


def end_all():
    """Ends all programs that were started, before this program ends early."""
    with lock:
        end(running)
        for each in [*clean_up]:
            each()


def end(processes):
    """Ends programs and their children, first with SIGTERM, so that they can end services that they started."""
    until = time.monotonic() + GRACE
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, until - time.monotonic()) if number == signal.SIGTERM else GONE)


def wait(process, limit, watch):
    """Returns the status; 124 if it exceeded the limit and was ended. Calls `watch` from time to time."""
    until = min(time.monotonic() + limit, clock.end())
    while True:
        try:
            return process.wait(max(0, min(until - time.monotonic(), LOOK)))
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() >= until:
            end([process])
            return OUT_OF_TIME
        if watch:
            watch()


def run(command, log, limit, watch=None, append=False, **environment):
    """Returns (status, output, seconds); the status is 124 if it exceeded the limit. The output also goes to the log, at its end if
    `append`."""
    began = time.monotonic()
    with tempfile.TemporaryFile() if append else log.open("w+b") as out:
        try:
            with lock:
                process = subprocess.Popen([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                           env=dict(os.environ, **environment), process_group=0)
                running.add(process)
            status = wait(process, limit, watch)
            with lock:
                running.discard(process)
        except OSError as error:
            status = 127
            out.write(f"{error}\n".encode())
        if status == OUT_OF_TIME:
            out.seek(0, os.SEEK_END)
            out.write(b"\nstopped: out of time\n")
        out.seek(0)
        output = out.read().decode(errors="replace")
    if append:
        with lock, log.open("a") as file:
            file.write(output)
    return status, output, time.monotonic() - began


class Suite:
    """The output of a test program. `seconds` is the sum of the durations of its tests."""

    def __init__(self, title, output, status, seconds):
        self.title, self.seconds = title, seconds
        self.passed, self.failed, self.skipped, self.times = [], {}, {}, {}
        self.not_run = []  # names of tests, or of parts of the suite
        details = None
        for line in output.splitlines():
            result = TAP_LINE.match(line)
            if result:
                details = None
                name = result[2]
                if result[1] == "not ok":
                    details = self.failed[name] = []
                elif result[3] is not None:
                    self.skipped[name] = result[3]
                else:
                    self.passed.append(name)
            elif details is not None and line.startswith("#") and len(details) < 8:
                details.append(line[1:].strip())
        if status not in (0, 1) or not (self.passed or self.skipped or self.failed):
            self.failed["(the program)"] = [f"exit status {status}"] + output.splitlines()[-8:]

    def has_run(self):
        return bool(self.passed or self.failed or self.skipped)

    def line(self):
        words = f"{self.title:34} {len(self.passed):4} passed {len(self.failed):3} failed {len(self.skipped):3} skipped {self.seconds:6.1f} s"
        return words + (f", {len(self.not_run)} NOT RUN" if self.not_run else "")

    def as_json(self, commit):
        more = {"not_run": len(self.not_run)} if self.not_run else {}
        return {"title": self.title, "passed": len(self.passed), "failed": self.failed, "skipped": self.skipped, **more,
                "seconds": round(self.seconds, 1), "commit": commit}


def nothing(title):
    """An empty suite."""
    suite = Suite(title, "", 0, 0)
    suite.failed = {}
    return suite


def add(whole, part):
    """Adds the results of a part to the whole suite."""
    whole.passed += part.passed
    for name, details in part.failed.items():
        while name in whole.failed:
            name += " again"
        whole.failed[name] = details
    whole.skipped.update(part.skipped)
    whole.times.update(part.times)
    whole.not_run += part.not_run
    whole.seconds += part.seconds
