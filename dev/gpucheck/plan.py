# SPDX-License-Identifier: MIT
"""The schedule of dev/gpu-check: phases of tasks that run in parallel, and what is left out if time is short.

Phases run one after the other. The longest tasks of a phase start first, so that the phase ends soonest. With a time limit
(--within) the most important tasks start first, and those that would not end in time are left out and reported.
"""
import concurrent.futures
import contextlib
import heapq
import math
import traceback
import typing

from gpucheck.suite import Suite, clock, nothing

FOREVER = math.inf
SPARE = 2  # from this rank on a task must leave time for later phases


class Task(typing.NamedTuple):
    """Tests of one suite that run together."""
    title: str  # of the suite
    seconds: float  # expected duration
    job: typing.Callable[[], Suite]
    names: tuple[str, ...] = ()  # of its tests; if empty, the title is reported as not run
    rank: int = 0  # 0: the most important


class Phase(typing.NamedTuple):
    title: str
    workers: int  # tasks at a time
    tasks: list[Task]
    around: typing.Callable = contextlib.nullcontext  # a context for the whole phase


class Outlook(typing.NamedTuple):
    """The expected course of a phase: its tasks in the order in which they start, those that do not fit, and its duration."""
    begun: list[Task]
    left_out: list[Task]
    seconds: float


def room(task, seconds, later):
    return seconds - (later if task.rank >= SPARE else 0)


def look_ahead(phase, seconds=FOREVER, later=0):
    def order(task):
        return (0 if seconds == FOREVER else task.rank), -task.seconds

    free = [0.0] * max(1, phase.workers)  # when each worker is free
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
    """Runs a task. A failure after the time limit counts as not run."""
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
    """Runs a phase, and calls keep(task, suite) on any thread after each task. `later` is the duration of later phases. Tasks that did
    not fit are tried at the end, since others may have been faster than expected."""
    outlook = look_ahead(phase, clock.left(), later)
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, phase.workers)) as pool:
        for done in [pool.submit(lambda task=task: keep(task, do(task, later))) for task in [*outlook.begun, *outlook.left_out]]:
            done.result()


def time_of(phases):
    return sum(look_ahead(phase).seconds for phase in phases)


def print_plan(phases, seconds, out):
    """Prints the schedule."""
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
