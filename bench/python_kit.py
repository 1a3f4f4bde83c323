# SPDX-License-Identifier: MIT
"""Shared by the benches of the Python package on a GPU."""
import sys
import time

DEVICE = "cuda:0"
PAUSE = 300_000  # ns, after which a sleeping receiver is asleep
TIMEOUT = 60
SHAPE = (1080, 1920, 4)  # uint8
NBYTES = 1080 * 1920 * 4
now = time.perf_counter_ns
clock = time.monotonic_ns  # the same in both processes


began = time.monotonic()
at_notes = []  # functions that save the figures measured so far


def note(text):
    """Reports what is measured next."""
    for keep in at_notes:
        keep()
    print(f"bench_gpu: {time.monotonic() - began:5.1f} s: {text}", file=sys.stderr, flush=True)


def with_goal(each, limit=None, goal=None):
    if limit is not None:
        each["limit_p50_ns"] = int(limit)
    if goal is not None:
        each["goal_ns"] = int(goal)
        each["met"] = each["p50_ns"] <= goal
    return each


def stay_awake(nanoseconds):
    """Spins, like a program that computes its next frame: a CPU that has slept is slow at first."""
    until = clock() + nanoseconds
    while clock() < until:
        pass
