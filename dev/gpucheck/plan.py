# SPDX-License-Identifier: MIT
"""How dev/gpu-check fills its time: tasks, so many side by side, and what is left out when time is short.

A phase is over before the next one begins. Its tasks begin with those that take longest, as that ends soonest. If all of it may
take so long only (--within), the most important begin first, and what would not end in time is left out by name.
"""
import concurrent.futures
import contextlib
import heapq
import math
import traceback
import typing

from gpucheck.suite import Suite, clock, nothing

FOREVER = math.inf
SPARE = 2  # rank: from here on a task leaves room for the phases that come later


class Task(typing.NamedTuple):
    """Tests of one suite, in one go."""
    title: str  # of the suite
    seconds: float  # it will take, as far as is known
    job: typing.Callable[[], Suite]
    names: tuple[str, ...] = ()  # of what is not run without it; the suite's part, if it has none
    rank: int = 0  # 0: the most important


class Phase(typing.NamedTuple):
    title: str
    workers: int  # tasks at a time
    tasks: list[Task]
    around: typing.Callable = contextlib.nullcontext  # what there is while it goes on


class Outlook(typing.NamedTuple):
    """What becomes of a phase: which tasks, in the order in which they begin; which do not fit; how long it takes."""
    begun: list[Task]
    left_out: list[Task]
    seconds: float


def room(task, seconds, later):
    return seconds - (later if task.rank >= SPARE else 0)


def look_ahead(phase, seconds=FOREVER, later=0):
    def order(task):
        return (0 if seconds == FOREVER else task.rank), -task.seconds

    free = [0.0] * max(1, phase.workers)  # when each of them is
    begun, left_out = [], []
    for task in sorted(phase.tasks, key=order):
        end = free[0] + task.seconds
        if end > room(task, seconds, later):
            left_out.append(task)
            continue
        heapq.heapreplace(free, end)
        begun.append(task)
    return Outlook(begun, left_out, max(free))


def left_out(task):
    suite = nothing(task.title)
    suite.not_run = list(task.names) or ["all of it"]
    return suite


def do(task, later=0):
    """What came of it. A failure when time was over says nothing, and is not run."""
    if room(task, clock.left(), later) < task.seconds:
        return left_out(task)
    try:
        suite = task.job()
    except Exception:
        suite = nothing(task.title)
        suite.failed[f"{'-'.join(task.names[:1]) or task.title} (dev/gpu-check)"] = traceback.format_exc().splitlines()[-8:]
    if clock.left() <= 0 and suite.failed:
        done = {*suite.passed, *suite.skipped}
        suite.not_run = [name for name in task.names if name not in done] or ["the rest of it"]
        suite.failed = {}
    return suite


def play(phase, keep, later=0):
    """keep(task, suite) is called after each task, by any thread. `later` is how long later phases take. What seemed to have no room comes last: the rest may have been
    faster than anybody knew."""
    outlook = look_ahead(phase, clock.left(), later)
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, phase.workers)) as pool:
        for done in [pool.submit(lambda task=task: keep(task, do(task, later))) for task in [*outlook.begun, *outlook.left_out]]:
            done.result()


def time_of(phases):
    return sum(look_ahead(phase).seconds for phase in phases)


def print_plan(phases, seconds, out):
    """What will happen, before any of it does."""
    whole = 0
    for at, phase in enumerate(phases):
        outlook = look_ahead(phase, seconds - whole, time_of(phases[at + 1:]))
        whole += outlook.seconds
        print(f"{phase.title:34} {outlook.seconds:6.0f} s, {len(outlook.begun):3} parts, {phase.workers:2} at a time", file=out)
        for title in dict.fromkeys(task.title for task in phase.tasks if task.title != phase.title):
            some = [task for task in outlook.begun if task.title == title]
            without = sum(task.title == title for task in outlook.left_out)
            print(f"  {title:32} {sum(task.seconds for task in some):6.0f} s in {len(some):3}"
                  + (f", {without} left out" if without else ""), file=out)
    print(f"{'all, after the build':34} {whole:6.0f} s", file=out)
