# SPDX-License-Identifier: MIT
"""Tests in shares that take about as long: each process of pytest takes one of them, by SLUICE_TEST_SHARE (`2/5`: the second of
five) and SLUICE_TEST_TIMES, a file of JSON with what tests took before, in seconds by their names."""
import json
import os

USUAL = 1.0  # s


def deal(names, shares, seconds_of):
    """So many lists, the longest dealt first; each in the order that the names had."""
    dealt, loads = [[] for _ in range(max(1, shares))], [0.0] * max(1, shares)
    for at, name in sorted(enumerate(names), key=lambda each: -seconds_of(each[1])):
        least = loads.index(min(loads))
        dealt[least].append((at, name))
        loads[least] += seconds_of(name)
    return [[name for _, name in sorted(share)] for share in dealt]


def short_name(nodeid):
    """A test's file and name, wherever pytest was started."""
    path, _, name = nodeid.partition("::")
    return f"{path.rpartition('/')[2]}::{name}"


def keep_share(config, items):
    """Leaves this process's share of the tests."""
    share = os.environ.get("SLUICE_TEST_SHARE")
    if not share:
        return
    number, shares = map(int, share.split("/"))
    file = os.environ.get("SLUICE_TEST_TIMES")
    times = {}
    if file:
        with open(file) as known:
            times = json.load(known)
    mine = set(deal([item.nodeid for item in items], shares, lambda name: times.get(short_name(name), USUAL))[number - 1])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in mine])
    items[:] = [item for item in items if item.nodeid in mine]
