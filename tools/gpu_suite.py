# SPDX-License-Identifier: MIT
"""What tools/gpu-check runs and keeps: suites of tests, several at a time, and the file of one run filled in by another."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAP_LINE = re.compile(r"^(ok|not ok) \d+ - (\S+)(?: # SKIP ?(.*))?$")


def run(command, log, limit, **environment):
    """(status, output, seconds); 124 if it took too long. All it prints is in the log too."""
    began = time.monotonic()
    try:
        done = subprocess.run([str(c) for c in command], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit,
                              env=dict(os.environ, **environment))
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 124, (late.stdout or b"").decode(errors="replace") + "\nstopped: out of time\n"
    except OSError as error:
        status, output = 127, f"{error}\n"
    log.write_text(output)
    return status, output, time.monotonic() - began


class Suite:
    """What a test program said."""

    def __init__(self, title, output, status, seconds):
        self.title, self.seconds = title, seconds
        self.passed, self.failed, self.skipped = [], {}, {}
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

    def line(self):
        return f"{self.title:34} {len(self.passed):4} passed {len(self.failed):3} failed " \
               f"{len(self.skipped):3} skipped {self.seconds:6.1f} s"

    def as_json(self, commit):
        return {"title": self.title, "passed": len(self.passed), "failed": self.failed,
                "skipped": self.skipped, "seconds": round(self.seconds, 1), "commit": commit}


def together(suites):
    """The shares of one suite as one: it took as long as the longest."""
    whole = suites[0]
    for share in suites[1:]:
        whole.passed += share.passed
        for name, details in share.failed.items():
            whole.failed[name if name not in whole.failed else f"{name} again"] = details
        whole.skipped.update(share.skipped)
        whole.seconds = max(whole.seconds, share.seconds)
    return whole


def deal(names, shares, family):
    """As many lists, of about the same length: names of a family are in one, in their order."""
    families = {}
    for name in names:
        families.setdefault(family(name), []).append(name)
    dealt = [[] for _ in range(max(1, shares))]
    for members in sorted(families.values(), key=len, reverse=True):
        min(dealt, key=len).extend(members)
    return [share for share in dealt if share]


def side_by_side(*chains):
    """The suites of chains of stages: those of one come one after the other, the chains run at the same time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(chains))) as pool:
        return [suite for suites in pool.map(lambda chain: [stage() for stage in chain], chains) for suite in suites]


def one_after_the_other(*chains):
    return [stage() for chain in chains for stage in chain]


def commit_of(folder):
    """What git says, None where the repository is not there."""
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], capture_output=True, text=True,
                              cwd=folder)
    except OSError:
        return None
    return done.stdout.strip() or None


def kind_of(entry):
    """Of a row, or of what is missing or has failed: whose figure it is."""
    return "python" if entry.get("by") == "python" or entry.get("bench", "").startswith("py_") else "c"


def fill_in(before, found, kinds):
    """What this run has found in the place of what the run before has of the same name; the rest of that stays. `kinds` is
    whose figures were taken: "c", "python"."""
    titles = {suite["title"] for suite in found["suites"]}
    merged = {**before, "suites": [each for each in before.get("suites", []) if each["title"] not in titles] + found["suites"]}
    for key in ("facts", "gpus"):
        merged[key] = found[key] or before.get(key, [])
    for key in ("rows", "missing", "failed"):
        merged[key] = [each for each in before.get(key, []) if kind_of(each) not in kinds] + found.get(key, [])
    for key in ("machine", "commit", "bench_seconds") if "c" in kinds else ():
        merged[key] = found.get(key)
    if "python" in kinds:
        merged["python"] = found.get("python")
    return {**merged, "seconds": found["seconds"], "build_seconds": found["build_seconds"]}


def read(path):
    return json.loads(path.read_text()) if path else {}
