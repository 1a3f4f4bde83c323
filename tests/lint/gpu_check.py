#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dev/gpu-check without a GPU: how tests are dealt, what is left out when time is short, what parts of a run come to, and one
that is cut. usage: gpu_check.py ROOT"""
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "dev"), str(ROOT / "python"), str(ROOT / "bench/gpu")]
import goals  # noqa: E402
import gpu_check as python  # noqa: E402
import gpucheck.lists  # noqa: E402
from gpucheck.mps import Service, phase_of  # noqa: E402
from gpucheck.plan import Phase, Task, look_ahead, play  # noqa: E402
from gpucheck.results import Results, fill_in  # noqa: E402
from gpucheck.suite import Suite, add, clock, end, nothing, run  # noqa: E402
from gpucheck.c_tests import outputs  # noqa: E402
from lint import Lint  # noqa: E402
from shares import deal, short_name  # noqa: E402


def differs(found, wanted):
    return [] if found == wanted else [f"it is {found}", f"not {wanted}"]


def suite(title, *lines, status=0, seconds=1):
    return Suite(title, "\n".join(lines) + "\n", status, seconds)


def dealing():
    """In shares that take about as long, each in its order; every test is in one."""
    seconds = {"long": 9, **{f"short{number}": 1 for number in range(6)}, "half": 4}
    names = ["short0", "long", "short1", "short2", "half", "short3", "short4", "short5"]
    dealt = deal(names, 2, seconds.get)
    problems = differs(sorted(sum(dealt, [])), sorted(names)) + differs([sum(map(seconds.get, share)) for share in dealt], [10, 9])
    problems += differs([sorted(share, key=names.index) for share in dealt], dealt)
    problems += differs(short_name("python/tests/test_a.py::test_b[x/y::z]"), "test_a.py::test_b[x/y::z]")
    return problems + differs(deal(names, 1, seconds.get), [names]) + differs(deal([], 3, seconds.get), [[], [], []])


def task(title, seconds, rank=0, job=None):
    return Task(title, seconds, job or (lambda: suite(title, f"ok 1 - {title}.x")), (f"{title}.x",), rank)


def planning():
    """The longest first, as that ends soonest; the most important first if not all of it fits."""
    phase = Phase("p", 2, [task("a", 2), task("b", 1), task("c", 9, 1), task("d", 4, 1), task("e", 4)])
    whole, short = look_ahead(phase), look_ahead(phase, 8)
    problems = differs(([t.title for t in whole.begun], whole.left_out, whole.seconds), (["c", "d", "e", "a", "b"], [], 10))
    problems += differs(([t.title for t in short.begun], [t.title for t in short.left_out], short.seconds), (["e", "a", "b", "d"], ["c"], 7))
    spare = look_ahead(Phase("p", 1, [task("a", 2), task("b", 2, 3), task("c", 5)]), 12, later=4)
    problems += differs([t.title for t in spare.left_out], ["b"])  # it would take what comes later its time
    return problems + differs(look_ahead(Phase("p", 3, [])).seconds, 0)


def within_seconds():
    """What did not fit, and what failed when the time was over, is not run, neither passed nor failed."""
    results = Results(None, {}, "one", pathlib.Path("/none"))
    results.write = lambda: None
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log"

        def cut_short():
            clock.within = time.monotonic() - clock.began + 1
            return Suite("endless", *outputs(run(["sleep", "60"], log, 100)))

        endless = task("endless", 0.1, 1, cut_short)
        phase = Phase("p", 1, [task("long", 500), task("fits", 0.1), endless, task("late", 0.2, 2)])
        results.expect(phase.tasks)
        began, clock.within = time.monotonic(), time.monotonic() - clock.began + 100
        play(phase, results.add)
        clock.within = float("inf")
    found = results.as_json(False)
    problems = differs(results.not_run(), {"long": ["long.x"], "endless": ["endless.x"], "late": ["late.x"]})
    problems += differs([(each["title"], each["passed"], each["failed"]) for each in found["suites"]], [("fits", 1, {})])
    return problems + differs(found["not_run"], results.not_run()) + ([] if time.monotonic() - began < 50 else ["it was not ended"])


CUT = """
import pathlib, sys, time
sys.path[:0] = sys.argv[2:]
from gpucheck.plan import Phase, Task, play
from gpucheck.results import Results, read
from gpucheck.suite import Suite
def job(title, seconds):
    def done():
        time.sleep(seconds)
        return Suite(title, f"ok 1 - {title}.x\\n", 0, seconds)
    return done
file = pathlib.Path(sys.argv[1])
before = {"suites": [{"title": each} for each in ("first", "last", "other")], "rows": [], "not_run": {"old": ["x"]}}
results = Results(file, before, "two", pathlib.Path("/none"))
phase = Phase("p", 2, [Task("first", 2, job("first", 0)), Task("first", 2, job("first", 99)), Task("last", 1, job("last", 99))])
results.partly = {"c"}
results.expect(phase.tasks)
results.write()
play(phase, results.add)
"""


def cutting():
    """A run that is killed keeps what was done, in the place of what another run had of it, and says what is missing."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "results.json"
        process = subprocess.Popen([sys.executable, "-c", CUT, file, ROOT / "dev"])
        until = time.monotonic() + 60
        while time.monotonic() < until and not (file.exists() and '"first.x"' not in file.read_text() and '"passed": 1' in file.read_text()):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = json.loads(file.read_text())
    first = {"title": "first", "passed": 1, "failed": {}, "skipped": {}, "seconds": 0, "commit": "two", "unfinished": True}
    problems = differs(found["suites"], [{"title": "last"}, {"title": "other"}, first])
    return problems + differs((found.get("unfinished"), found.get("not_run")), (["first", "last", "benches (c)"], None))


def adding():
    """What fails in any of them fails, under a name of its own; they took as long as all together."""
    whole = nothing("t")
    for part in (suite("t", "ok 1 - a.x", "ok 2 - a.y # SKIP none", seconds=3), suite("t", "not ok 1 - b.z", "# why", status=1, seconds=9),
                 suite("t", "gone", status=139), suite("t", "gone", status=139), suite("t", "gone", status=139)):
        add(whole, part)
    return differs((whole.passed, list(whole.failed), whole.skipped, whole.seconds),
                   (["a.x"], ["b.z", "(the program)", "(the program) again", "(the program) again again"], {"a.y": "none"}, 15))


def filling_in():
    def entry(title, commit):
        return {"title": title, "commit": commit}

    def row(bench, p50):
        return {"bench": bench, "params": {}, "p50_ns": p50}

    before = {"suites": [entry("C", "one"), entry("Python", "one")], "facts": [1], "gpus": ["g"], "commit": "one", "machine": "m",
              "rows": [row("gpu_send", 1), row("gpu_far", 1), row("py_gpu_send", 1)], "missing": [{"rows": "x"}, {"rows": "y", "by": "python"}],
              "python": {"commit": "one"}}
    later = {"suites": [entry("Python", "two")], "facts": [], "gpus": [], "rows": [row("py_gpu_new", 2)], "missing": [],
             "failed": [], "python": {"commit": "two"}, "seconds": 5, "build_seconds": 1}
    merged = fill_in(before, later, {"python"})
    problems = differs(merged["suites"], [entry("C", "one"), entry("Python", "two")])
    problems += differs(merged["rows"], [row("gpu_send", 1), row("gpu_far", 1), row("py_gpu_new", 2)]) + differs(merged["missing"], [{"rows": "x"}])
    problems += differs((merged["facts"], merged["gpus"], merged["commit"], merged["python"], merged["seconds"]),
                        ([1], ["g"], "one", {"commit": "two"}, 5))
    partly = fill_in(before, {**later, "rows": [row("gpu_send", 2)], "python": None}, {"c"}, {"c"})
    problems += differs(partly["rows"], [row("gpu_far", 1), row("py_gpu_send", 1), row("gpu_send", 2)])
    tests = fill_in(before, {**later, "rows": [], "facts": [2]}, set())
    return problems + differs((tests["rows"], tests["python"], tests["facts"]), (before["rows"], {"commit": "one"}, [2]))


def no_results():
    """A pytest that dies leaves a failure, not silence."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        tap, status, _ = python.pytest(out, out, run, "none", 60, out / "no-such-test.py")
    found = Suite("t", tap, status, 0)
    return differs(list(found.failed), ["none.(the_program)"])


def goals_and_misses():
    """Each row with a goal counts for one line of the table, and each miss has a line."""
    figures = {"rows": [row for name in ("", "-x2") for row in json.loads((ROOT / f"bench/results/gpu-h200{name}.json").read_text())["rows"]]}
    counted = [id(row) for goal in (*goals.CHANNELS, *goals.KERNELS, *goals.CONVERSIONS, *goals.CUDA_LINK, *goals.PYTHON) for row in goals.rows_of(figures, goal.bench, goal.all)]
    problems = [f"{row['bench']} {row['params']} counts {counted.count(id(row))} times" for row in figures["rows"]
                if "met" in row and counted.count(id(row)) != 1]
    said = io.StringIO()
    goals.print_goals(figures, said)
    lines = [line for line in said.getvalue().splitlines() if line.startswith("MISSED ")]
    problems += differs(len(lines), sum(not row.get("met", True) for row in figures["rows"]))
    row = {"bench": "gpu_commit", "params": {"readers": 1, "ahead": False}, "p50_ns": 1200, "limit_p50_ns": 1100, "goal_ns": 1000, "met": False}
    problems += differs(goals.missed_by(row), "missed by 200 ns, 20 %")
    return problems + differs(goals.a_miss(row), "MISSED gpu_commit (readers 1): 1.2 us, goal 1 us; the bare limit is 1.1 us, over the goal by itself")


def ending():
    """A program that exceeds its limit is ended. It may end what it started; one that ignores SIGTERM is killed."""
    def ended(script):
        process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, process_group=0)
        process.stdout.readline()
        end([process])
        return process.returncode, process.stdout.read()

    with tempfile.TemporaryDirectory() as folder:
        status, said, seconds = run(["sleep", "60"], pathlib.Path(folder) / "log", 0.1)
    problems = differs((status, said), (124, "\nstopped: out of time\n")) + ([] if seconds < 50 else ["it was not ended"])
    problems += differs(ended("trap 'echo bye; exit 0' TERM; echo ready; sleep 60 & wait"), (0, "bye\n"))
    return problems + differs(ended("trap '' TERM; echo ready; sleep 60; sleep 60"), (-signal.SIGKILL, ""))


CONTROL = """#!/bin/sh
file=$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid
if [ "$1" = -d ]; then sleep 600 >/dev/null 2>&1 & echo $! >$file; exit; fi
read command
[ $command = quit ] && [ -z "$DEAF" ] && kill $(cat $file) && rm $file
"""
DOCTOR = """#!/bin/sh
echo '{"gpus": [{"mps": "client"}]}'
"""


def is_over(pid):
    """Perhaps nobody has waited for it."""
    stat = pathlib.Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def under_mps():
    """Each test is a client of a service in a folder of its own; of another one behind a test that failed. None is left, even of one
    that does not listen. Where there is none each test says so."""
    seen, before = [], os.environ["PATH"]

    def sees(well):
        def job(environment):
            folder = pathlib.Path(environment["CUDA_MPS_PIPE_DIRECTORY"])
            seen.append((folder, int((folder / "nvidia-cuda-mps-control.pid").read_text())))
            return suite("", f"{'ok' if well else 'not ok'} 1 - m.x")
        return Task("", 1, job, ("m.x",))

    def found(service, *tasks):
        results = []
        with service:
            play(phase_of("t", 1, service, tasks, True), lambda _, found: results.append(found))
        return results

    with tempfile.TemporaryDirectory() as folder:
        service = Service(pathlib.Path(folder) / "sluice", pathlib.Path(folder) / "log")
        problems = []
        try:
            os.environ["PATH"] = folder
            problems += differs([each.skipped for each in found(service, sees(True))], [{"m.x": "nvidia-cuda-mps-control is not installed"}])
            os.environ["PATH"] = f"{folder}:{before}"
            for name, text in (("nvidia-cuda-mps-control", CONTROL), ("sluice", DOCTOR)):
                (pathlib.Path(folder) / name).write_text(text)
                (pathlib.Path(folder) / name).chmod(0o755)
            problems += differs([list(each.failed) for each in found(service, sees(True), sees(False), sees(True))], [[], ["m.x"], []])
            os.environ["DEAF"] = "1"
            found(service, sees(True))
        finally:
            os.environ["PATH"] = before
            os.environ.pop("DEAF", None)
    problems += differs([seen[at][0] == seen[0][0] for at in range(4)], [True, True, False, False])
    problems += [f"{folder} is left" for folder, _ in seen if folder.exists()]
    return problems + [f"{pid} is left" for _, pid in seen if not is_over(pid)]


def lists():
    """Of which tests cannot be had where, each line is about tests that there are."""
    names, several = ({f"{file.stem}.{name}" for file in (ROOT / folder).glob("*.c") for name in re.findall(r"^TEST(?:_TIMEOUT)?\((\w+)", file.read_text(), re.M)}
                      for folder in ("tests/gpu", "tests/multi"))
    patterns = [f"^{part.lstrip('^')}" for pattern, _ in (*gpucheck.lists.NOT_SANITIZED, *gpucheck.lists.NOT_UNDER_MPS) for part in pattern.split("|^")]
    problems = [f"no test is {pattern}" for pattern in patterns if not any(re.search(pattern, name) for name in names)]
    files = [name for pattern in (gpucheck.lists.BETWEEN, gpucheck.lists.BETWEEN_LONG) for name in re.search(r"\((.*?)\)", pattern.pattern)[1].split("|")]
    problems += [f"tests/multi has no {file}" for file in files if not any(name.startswith(f"{file}.") for name in several)]
    problems += [] if gpucheck.lists.CONTROL in names else [f"there is no {gpucheck.lists.CONTROL}"]
    whys = [gpucheck.lists.why_not(gpucheck.lists.CONTROL, reasons) is None for reasons in (gpucheck.lists.NOT_SANITIZED, gpucheck.lists.NOT_UNDER_MPS)]
    return problems + differs((whys, gpucheck.lists.why_not("channel.x", gpucheck.lists.NOT_SANITIZED)), ([False, False], None))


lint = Lint()
for rule in (dealing, planning, within_seconds, cutting, adding, filling_in, ending, under_mps, lists, goals_and_misses, no_results):
    lint.check(f"gpu-check: {rule.__name__.replace('_', ' ')}", rule())
lint.finish()
