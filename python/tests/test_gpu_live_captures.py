# SPDX-License-Identifier: MIT
"""What breaks a capture of another thread, and that a live loop does not. gpu/test_real_live_captures.py has PyTorch's calls.

On the fake driver this checks that it is as the measured one; on a GPU, that docs/live-captures.md is true of its driver."""
import collections
import pathlib
import threading

import pytest

import live_cupy
from capture_kit import (BROKEN, KINDS, LEGACY, MODES, ROWS, Capturing, bench, capture_in_a_loop, check_call, check_row,  # noqa: F401
                         pointer)
from child import children
from eventually import STARTS, wait_until
from live_loop import Running

SHOTS, CAPTURES = 200, 10_000  # at least, for each mode and kind of stream
ATTEMPTS = 20_000


@pytest.fixture
def arrays(gpu):
    """Of PyTorch on a GPU; on the fake driver a stand-in of CuPy."""
    if not gpu.fake:
        yield
        return
    with live_cupy.installed(gpu):
        yield


@pytest.fixture
def host(gpu):
    with children(pathlib.Path(__file__).parent / "live_loop.py", STARTS) as start:
        yield start("host", gpu.device)


def frames_of(host):
    """How many painted frames the host program has found right."""
    host.write("how many")
    said, _, count = host.read().partition(" ")
    assert said == "seen", f"{said} {count}"
    return int(count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROWS)
def test_a_call_beside_a_capture(bench, name, kind):
    check_call(bench, ROWS, name, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_that_is_pending_before_the_capture_begins(bench, kind):
    """On the legacy stream. It breaks nothing."""
    found = []
    for mode in MODES.values():
        gate = bench.gpu.gate(bench.mine)
        bench.call("EventRecord", bench.event, pointer(bench.mine))
        said = bench.wait(LEGACY)
        found.append(f"{said}>{Capturing(bench, mode, KINDS[kind]).begin().end()}")
        gate.open()
        bench.call("StreamSynchronize", pointer(LEGACY))
    check_row(bench, "a wait that was pending on the legacy stream", kind, 3 * ["0>0"], found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_captures_beside_a_running_loop(bench, host, arrays, mode, kind, scale):
    """Channels close, open and change their sizes meanwhile; the host program checks each frame."""
    with Running(bench.gpu.device) as loop:
        seen = frames_of(host)
        wait_until(lambda: loop.error or frames_of(host) > seen)
        before, least = loop.shots, int(CAPTURES * scale)
        ends = capture_in_a_loop(bench, MODES[mode], KINDS[kind],
                                 lambda ends: loop.error or ends.total() >= least and loop.shots - before >= SHOTS)
        during, sessions = loop.shots - before, loop.sessions
        seen = frames_of(host)
        wait_until(lambda: loop.error or frames_of(host) > seen)
    assert set(ends) == {0}, f"of {ends.total()} captures, by their ends: {dict(ends)}"
    print(f"{ends.total()} captures, {mode}, {kind} stream: {during} shots in {sessions} sessions meanwhile, {frames_of(host)} frames right")


def test_the_original_failure(bench):
    """As upstream imported: its stream was the legacy one, which waited for the sender's event. In this thread captures go on."""
    said, ended = collections.Counter(), threading.Event()

    def import_frames():
        bench.gpu.enter()
        while not ended.is_set():
            said[bench.wait(LEGACY)] += 1

    thread = threading.Thread(target=import_frames)
    thread.start()
    ends = capture_in_a_loop(bench, MODES["global"], True, lambda ends: BROKEN & set(ends) and said[906] or ends.total() >= ATTEMPTS)
    ended.set()
    thread.join()
    words = f"{ends.total()} captures ended {dict(ends)}, the waits said {dict(said)}"
    assert BROKEN & set(ends) and said[906], f"it did not occur: {words}"
    print(words)
