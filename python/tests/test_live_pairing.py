# SPDX-License-Identifier: MIT
"""Control images that are paired with the input that they were made from, by number or by time."""
import contextlib
import threading
import time

import numpy as np
import pytest

from eventually import wait_until
from live_hosts import SIZE, Host, Lines, loop

WAIT = 0.004


def shown(shot):
    """The number that the control's image says."""
    return round(float(shot.control("canny").image[0, 0, 0, 0]) * 255)


@pytest.fixture
def hosts():
    made = Host(), Host("edges", format="gray")
    yield made
    for each in made:
        each.close()


@contextlib.contextmanager
def pairing(pair="number"):
    """A loop that waits for each partner as long as it takes, until told."""
    with loop(controls={"canny": {"channel": "edges", "pair": pair, "stale": 600}}) as step:
        step.live.changes.put({"controls.canny.wait": 60.0})
        yield step


def counters(step):
    return step.live.counters.links["canny"]


@pytest.fixture
def pairs(hosts):
    """A loop whose control has joined, with frames 1 of both."""
    host, edges = hosts
    with pairing() as step:
        edges.send()
        host.send()
        assert shown(step()) == 1
        step.live.changes.put({"controls.canny.wait": WAIT})
        yield host, edges, step


def test_the_partner_is_taken_and_not_the_newest(pairs):
    host, edges, step = pairs
    for number in range(2, 30):
        host.send()
        edges.send()
        edges.send()  # the host is ahead with its control already
        host.number = edges.number = number
        shot = step()
        assert shown(shot) == shot.meta["n"] == number
        host.send()
        shot = step()  # its partner came with the last one, and was kept
        assert shown(shot) == shot.meta["n"] == number + 1
        host.number = edges.number = number
    assert counters(step).unpaired == counters(step).late == 0


def test_a_partner_that_comes_within_the_wait_is_waited_for(hosts):
    host, edges = hosts
    with pairing() as step:
        for number in range(1, 20):
            host.send()
            taken = step.live.counters.links["input"]

            def follow():
                wait_until(lambda: taken.frames >= number)
                edges.send()

            thread = threading.Thread(target=follow)
            thread.start()
            shot = step()
            thread.join()
            assert shown(shot) == shot.meta["n"] == number
        assert counters(step).unpaired == 0


def test_a_control_at_half_the_rate_is_unpaired_each_other_time(pairs):
    host, edges, step = pairs
    longest = 0.0
    for number in range(2, 42):
        if number % 2 == 0:
            edges.send(number=number, value=number)
        host.send()
        link, before = step.live._links.controls["canny"], time.monotonic
        take, times = link.take, []
        link.take = lambda *a: (times.append(before()), take(*a), times.append(before()))[1]
        shot = step()
        del link.take
        longest = max(longest, times[1] - times[0])
        assert shown(shot) == number - number % 2
    assert counters(step).unpaired == 20 and counters(step).late == 0
    assert longest < 0.5, "it waits for the partner's time alone"


def test_a_late_partner_is_counted_and_the_newest_stands_in(pairs):
    """Three frames late: frame n of the control comes when the input is at n + 3."""
    host, edges, step = pairs
    edges.number, expected = 1, 1
    with Lines("canny") as lines:
        for number in range(2, 22):
            if number > 4:
                edges.send(number=number - 3, value=number - 3)
            host.send()
            shot = step()
            expected = max(1, number - 3)
            assert shown(shot) == expected and shot.control("canny").on
        found = counters(step)
        assert found.unpaired == 20 and found.late == 17
        assert lines.changes == ["ok -> unpaired"], "one line, not one for each frame"


def test_a_held_input_counts_once(pairs):
    host, edges, step = pairs
    step.live.changes.put({"input.stale": 0.0})
    host.send()
    for _ in range(5):
        step()
    assert counters(step).unpaired == 1
    edges.send()
    assert shown(step.until(lambda shot: shown(shot) == 2)) == 2
    assert counters(step).unpaired == counters(step).late == 1


def test_numbers_that_begin_again_are_followed(pairs):
    host, edges, step = pairs
    step.live.changes.put({"controls.canny.wait": 60.0})
    for number in (2, 3, 1, 2, 3):
        edges.send(number=number, value=number)
        host.send(number=number, value=number)
        assert shown(step()) == number
    assert counters(step).unpaired == 0


def test_by_time_within_half_a_frame(hosts):
    host, edges = hosts
    frame = 40_000_000  # ns

    def send(to, number, late=0):
        array = np.full((*SIZE[::-1], 4) if to is host else SIZE[::-1], number, np.uint8)
        to.writer.send(array, capture_ns=number * frame + late)

    with pairing("time") as step:
        for number, late in ((1, 0), (2, 0), (3, frame // 3), (4, -frame // 3), (5, 0)):
            send(edges, number, late)
            send(host, number)
            assert shown(step()) == number
        step.live.changes.put({"controls.canny.wait": WAIT})
        send(edges, 6, -frame * 2 // 3)
        send(host, 6)
        step()
        assert counters(step).unpaired == 1


def test_without_numbers_the_newest_is_taken(hosts):
    host, edges = hosts
    with pairing() as step:
        step.live.changes.put({"controls.canny.wait": WAIT})
        for number in (1, 2, 3):
            edges.writer.send(np.full(SIZE[::-1], number, np.uint8))
            host.writer.send(np.full((*SIZE[::-1], 4), number, np.uint8), meta=b"no JSON")
            shot = step()
            assert shot.meta == b"no JSON" and shown(shot) == number
        assert counters(step).unpaired == 3


def test_pairing_is_switched_while_it_runs(pairs):
    host, edges, step = pairs
    step.live.changes.put({"controls.canny.pair": "none"})
    edges.send(number=9, value=9)
    host.send()
    step.until(lambda shot: (host.send(), shown(shot) == 9)[1])
    assert counters(step).unpaired == 0
