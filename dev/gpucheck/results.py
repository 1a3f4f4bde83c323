# SPDX-License-Identifier: MIT
"""results.json of dev/gpu-check. It is rewritten after each step, so that an interrupted run leaves its results so far; and it can be
merged into the file of an earlier run."""
import json
import pathlib
import sys
import threading
import time

from gpucheck.suite import add, nothing

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from rows import write as write_figures  # noqa: E402

NOTED = 0.3  # s: the duration of longer tests is recorded


def read(path):
    return json.loads(path.read_text()) if path else {}


def read_facts(path):
    """Reads a file with one JSON object per line; the last line may be incomplete."""
    facts = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            facts.append(json.loads(line))
        except ValueError:
            continue
    return facts


def kind_of(entry):
    """Returns which bench, "c" or "python", a row or a missing row belongs to."""
    return "python" if entry.get("by") == "python" or entry.get("bench", "").startswith("py_") else "c"


def same(row):
    return row["bench"], json.dumps(row["params"], sort_keys=True)


def fill_in(before, found, kinds, partly=frozenset()):
    """Merges this run into the results of an earlier one: results of the same name are replaced. `kinds` are the benches that ran, "c"
    and "python"; `partly` are those that did not measure all rows, whose other rows are kept."""
    titles = {suite["title"] for suite in found["suites"]}
    merged = {**before, "suites": [each for each in before.get("suites", []) if each["title"] not in titles] + found["suites"]}
    for key in ("facts", "gpus"):
        merged[key] = found[key] or before.get(key, [])
    rows = {same(row) for row in found.get("rows", [])}
    for key in ("rows", "missing", "failed"):
        stay = [each for each in before.get(key, []) if kind_of(each) not in kinds
                or key == "rows" and kind_of(each) in partly and same(each) not in rows]
        merged[key] = stay + found.get(key, [])
    for key in ("machine", "commit", "bench_seconds") if "c" in kinds else ():
        merged[key] = found.get(key)
    if "c" in kinds and "c" not in partly:
        merged.pop("rows_commit", None)  # set by a later run of tests only; these rows are from this run
    if "python" in kinds:
        merged["python"] = found.get("python")
    merged["times"] = {**before.get("times", {}), **found.get("times", {})}
    for key in ("unfinished", "not_run"):
        merged.pop(key, None)
        if found.get(key):
            merged[key] = found[key]
    return {**merged, "seconds": found["seconds"], "build_seconds": found["build_seconds"]}


class Results:
    """The results so far; thread-safe."""

    def __init__(self, file, before, commit, facts):
        self.file, self.before, self.commit, self.facts = file, before, commit, facts
        self.suites, self.open, self.times = {}, {}, {}  # by title: results, and the number of pending tasks
        self.unplanned = []  # parts whose tests are not yet known
        self.figures, self.measured, self.partly, self.bench_not_run = {}, set(), set(), []
        self.gpus, self.build_seconds, self.began = [], 0, time.monotonic()
        self.lock = threading.RLock()

    def expect(self, tasks):
        for task in tasks:
            self.suites.setdefault(task.title, nothing(task.title))
            self.open[task.title] = self.open.get(task.title, 0) + 1

    def add(self, task, suite):
        with self.lock:
            add(self.suites[task.title], suite)
            self.open[task.title] -= 1
            self.times.update({name: round(seconds, 1) for name, seconds in suite.times.items() if seconds >= NOTED})
            self.write()

    def measure(self, figures, kinds, partly):
        """Sets the rows of the benches so far, which benches they are of, and which of these are incomplete."""
        with self.lock:
            self.figures, self.measured, self.partly = figures, set(kinds), set(partly)
            self.write()

    def not_run(self):
        found = {title: suite.not_run for title, suite in self.suites.items() if suite.not_run}
        return {**found, "benches": self.bench_not_run} if self.bench_not_run else found

    def as_json(self, unfinished):
        suites = [{**suite.as_json(self.commit), **({"unfinished": True} if self.open[suite.title] else {})}
                  for suite in self.suites.values() if suite.has_run()]
        left = {"not_run": self.not_run()} if self.not_run() else {}
        figures = {key: value for key, value in self.figures.items() if key not in ("unfinished", "not_run")}
        if self.commit and "commit" in figures:  # the build may record another commit
            figures["commit"] = self.commit
        result = {**left, **figures, "gpus": self.gpus, "build_seconds": round(self.build_seconds, 1), "suites": suites,
                  "facts": read_facts(self.facts), "times": self.times, "bench_seconds": self.figures.get("seconds"),
                  "seconds": round(time.monotonic() - self.began, 1)}
        if unfinished:
            result = {"unfinished": [*(title for title, tasks in self.open.items() if tasks), *self.to_measure()], **result}
        return fill_in(self.before, result, self.measured, self.partly) if self.before else result

    def to_measure(self):
        return [*self.unplanned] or [f"benches ({kind})" for kind in sorted(self.partly)]

    def write(self, unfinished=True):
        """Writes a temporary file and renames it, so that the file is complete at any time."""
        with self.lock:
            beside = self.file.with_suffix(".writing")
            with beside.open("w") as out:
                write_figures(self.as_json(unfinished), out)
            beside.replace(self.file)
