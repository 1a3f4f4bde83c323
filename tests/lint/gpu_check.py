#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/gpu-check without a GPU: how tests are dealt, what their shares and a run in parts come to. usage: gpu_check.py ROOT"""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "python")]
import gpu_check as python  # noqa: E402
from gpu_suite import Suite, deal, fill_in, run, side_by_side, together  # noqa: E402
from lint import Lint  # noqa: E402


def differs(found, wanted):
    return [] if found == wanted else [f"it is {found}", f"not {wanted}"]


def suite(title, *lines, status=0, seconds=1):
    return Suite(title, "\n".join(lines) + "\n", status, seconds)


def dealing():
    names = [f"{family}.{number}" for family, count in (("a", 5), ("b", 2), ("c", 2)) for number in range(count)]
    dealt = deal(names, 2, lambda name: name[0])
    problems = differs(sorted(sum(dealt, [])), sorted(names)) + differs(sorted(map(len, dealt)), [4, 5])
    problems += [f"{share}: parts of a family" for share in dealt if 0 < len([n for n in share if n[0] == "a"]) < 5]
    return problems + differs(deal(names, 1, lambda name: name[0])[0][0], "a.0") + differs(deal([], 3, str), [])


def sharing():
    """What fails in any of them fails, under a name of its own; they took as long as the longest."""
    whole = together(side_by_side(*([lambda share=share: share] for share in (
        suite("t", "ok 1 - a.x", "ok 2 - a.y # SKIP none", seconds=3), suite("t", "not ok 1 - b.z", "# why", status=1, seconds=9),
        suite("t", "gone", status=139), suite("t", "gone", status=139)))))
    return differs((whole.passed, list(whole.failed), whole.skipped, whole.seconds),
                   (["a.x"], ["b.z", "(the program)", "(the program) again"], {"a.y": "none"}, 9))


def filling_in():
    def entry(title, commit):
        return {"title": title, "commit": commit}

    before = {"suites": [entry("C", "one"), entry("Python", "one")], "facts": [1], "gpus": ["g"], "commit": "one", "machine": "m",
              "rows": [{"bench": "gpu_send"}, {"bench": "py_gpu_send"}], "missing": [{"rows": "x"}, {"rows": "y", "by": "python"}],
              "python": {"commit": "one"}}
    later = {"suites": [entry("Python", "two")], "facts": [], "gpus": [], "rows": [{"bench": "py_gpu_new"}], "missing": [],
             "failed": [], "python": {"commit": "two"}, "seconds": 5, "build_seconds": 1}
    merged = fill_in(before, later, {"python"})
    problems = differs(merged["suites"], [entry("C", "one"), entry("Python", "two")])
    problems += differs(merged["rows"], [{"bench": "gpu_send"}, {"bench": "py_gpu_new"}]) + differs(merged["missing"], [{"rows": "x"}])
    problems += differs((merged["facts"], merged["gpus"], merged["commit"], merged["python"], merged["seconds"]),
                        ([1], ["g"], "one", {"commit": "two"}, 5))
    tests = fill_in(before, {**later, "rows": [], "facts": [2]}, set())
    return problems + differs((tests["rows"], tests["python"], tests["facts"]), (before["rows"], {"commit": "one"}, [2]))


def no_results():
    """A pytest that dies leaves a failure, not silence."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        tap, status, _ = python.at_once(2, [lambda: python.pytest(out, out, run, "none", 60, out / "no-such-test.py")])
    found = Suite("t", tap, status, 0)
    return differs(list(found.failed), ["none.(the_program)"])


lint = Lint()
for rule in (dealing, sharing, filling_in, no_results):
    lint.check(f"gpu-check: {rule.__name__.replace('_', ' ')}", rule())
lint.finish()
