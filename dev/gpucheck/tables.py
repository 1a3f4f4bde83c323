# SPDX-License-Identifier: MIT
"""The tables of dev/gpu-check."""
import collections
import sys

from goals import print_goals
from table import print_table

SOME = 8


def print_facts(facts):
    """Prints which calls break a capture, and the cost of calls."""
    rows = collections.defaultdict(dict)
    for fact in facts:
        if fact["fact"] == "capture":
            rows[fact["call"]][fact["stream"], fact["mode"]] = fact
    if rows:
        columns = [("non-blocking", "global"), ("non-blocking", "relaxed"), ("blocking", "global"),
                   ("blocking", "relaxed")]
        print("\nduring a global capture on another thread: result of the call / of the capture")
        print(f"{'call, mode and stream of the capture':36}" + "".join(f"{s[:12]} {m[:7]:8}" for s, m in columns))
        for call, row in rows.items():
            cells = [f"{row[c]['said']}/{row[c]['capture']}" if c in row else "-" for c in columns]
            print(f"{call:36}" + "".join(f"{cell:21}" if i < 2 else f"{cell:17}" for i, cell in enumerate(cells)))
    beside = [fact for fact in facts if fact["fact"] == "call beside a capture"]
    if beside:
        others = [fact for fact in beside if fact["found"] != fact["listed"]]
        print(f"\ncalls beside a capture of another thread: {len(beside) - len(others)} of {len(beside)} as docs/live-captures.md lists them")
        for fact in others:
            print(f"    {fact['call']}, {fact['stream']}: {' / '.join(fact['found'])}, listed {' / '.join(fact['listed'])}, driver {fact['driver']}")
    costs = [fact for fact in facts if fact["fact"] == "cost"]
    if costs:
        print(f"\n{'cost of a call, ns':44}{'p50':>8}{'p99':>8}")
        for fact in costs:
            print(f"{fact['call']:44}{fact['p50_ns']:8}{fact['p99_ns']:8}")
    whole = [fact for fact in facts if fact["fact"] == "torn"]
    if whole:
        print(f"\n{'every word checked, of 1080p floats':32}{'seconds':>10}{'written':>10}{'read':>10}{'ahead':>10}{'torn words':>12}")
        for fact in whole:
            print(f"{'reader: ' + fact['reader']:32}{fact['seconds']:10.0f}{fact['written']:10}{fact['frames']:10}"
                  f"{fact['ahead']:10}{fact['torn_words']:12}")
    deaths = [fact for fact in facts if fact["fact"] == "death"]
    if deaths:
        print(f"\n{'after a death, ms':64}")
        for fact in deaths:
            print(f"{fact['what']:64}{fact['ms']:8.1f}")


def print_suites(suites):
    for suite in suites:
        for name, details in suite.failed.items():
            print(f"\nFAILED {suite.title}: {name}", *details, sep="\n    ")
    print()
    for suite in suites:
        for name, reason in suite.skipped.items():
            print(f"skipped, {suite.title}: {name}: {reason}")
    print()


def print_not_run(not_run):
    """Prints the first names of each suite; results.json has all."""
    for title, names in not_run.items():
        more = f" and {len(names) - SOME} more" if len(names) > SOME else ""
        print(f"NOT RUN, {title}: {', '.join(names[:SOME])}{more}")
    if not_run:
        print()


def print_all(results, phases, seconds):
    """Prints all tables, at the end or when interrupted. `phases` are (title, seconds)."""
    suites = [suite for suite in results.suites.values() if suite.has_run() or suite.not_run]
    found = results.as_json(False)
    print_facts(found["facts"])
    if results.figures:
        print()
        print_table(results.figures, sys.stdout)
    print_suites(suites)
    print_not_run(results.not_run())
    for gpu in results.gpus or [{"name": "no GPU that nvidia-smi knows"}]:
        print(*gpu.values(), sep=", ")
    for suite in suites:
        print(suite.line())
    print(f"{'build':34} {results.build_seconds:41.1f} s")
    for title, took in phases:
        print(f"{title:34} {took:41.1f} s")
    print(f"{'all':34} {seconds:41.1f} s", flush=True)
    if results.figures.get("rows"):
        print()
        print_goals(results.figures, sys.stdout)
        sys.stdout.flush()
