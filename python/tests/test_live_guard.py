# SPDX-License-Identifier: MIT
"""sluice.live.guard: which call of which thread broke a capture. gpu/test_real_live_captures.py has PyTorch's calls."""
import contextlib
import ctypes
import sys
import threading

import pytest

import sluice
from capture_kit import bench, pointer  # noqa: F401
from eventually import wait_until
from sluice.live import guard

TELLS = sys.version_info >= (3, 12)
BREAKS = pytest.raises(RuntimeError, match="said 901")


@contextlib.contextmanager
def others(offend):
    """Threads that idle, and offend when told to; gives a function that tells them, and waits until they have."""
    begun, passed, ended = threading.Event(), threading.Event(), threading.Event()

    def meter():
        begun.wait()
        offend()
        passed.set()

    threads = [threading.Thread(target=meter, name="meter"), threading.Thread(target=ended.wait, name="idle")]
    for thread in threads:
        thread.start()

    def happen():
        begun.set()
        passed.wait()

    try:
        yield happen
    finally:
        begun.set()
        ended.set()
        for thread in threads:
            thread.join()


def query(bench):
    """As programs do that do not look at the result: nothing is raised."""
    bench.gpu.enter()
    bench.cuda.cudaStreamQuery(pointer(bench.mine))


def capture(bench, stream, happen, mode=0):
    """As a library does that Sluice knows nothing of."""
    graph = ctypes.c_void_p()
    bench.gpu.call("StreamBeginCapture", pointer(stream), mode)
    bench.gpu.fill(bench.memory, 1, 64, stream)
    happen()
    code = bench.gpu.code("StreamEndCapture", pointer(stream), ctypes.byref(graph))
    if graph:
        bench.gpu.call("GraphDestroy", graph)
    if code:
        raise RuntimeError(f"cudaStreamEndCapture said {code}")


def check_named(said, name):
    """The call, where it was made, and where the other threads were."""
    assert said.startswith('sluice.live.guard: a capture of thread "MainThread" was broken\n')
    assert 'thread "idle" was at\n' in said
    if TELLS:
        assert f'\nby thread "meter", in {name}\n' in said and "in query\n" in said, said
    else:
        assert "before Python 3.12" in said


def test_a_call_that_has_passed_is_named(bench, capfd):
    stream = bench.gpu.stream()
    with BREAKS, others(lambda: query(bench)) as happen, guard.watch(stream):
        capture(bench, stream, happen)
    check_named(capfd.readouterr().err, "ctypes.cudaStreamQuery")


def test_an_error_that_has_its_name(bench, capfd):
    """Of several calls that ran at that moment, the one that raised one is the one."""
    def offend():
        with contextlib.suppress(RuntimeError):
            query(bench)
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    stream = bench.gpu.stream()
    with BREAKS, others(offend) as happen, guard.watch(stream):
        capture(bench, stream, happen)
    said = capfd.readouterr().err
    if TELLS:
        assert 'by thread "meter", in ctypes.cudaStreamQuery: RuntimeError: CUDA error: operation not permitted' in said, said


def test_an_operator_that_nothing_showed_before_it_raised(bench, capfd):
    """The thread that looks each millisecond found the capture broken in between, and no call that ran."""
    def offend():
        with contextlib.suppress(RuntimeError):
            query(bench)
            watching.found[:] = [({}, guard._threads())]
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    stream = bench.gpu.stream()
    with BREAKS, others(offend) as happen, guard.watch(stream) as watching:
        capture(bench, stream, happen)
    said = capfd.readouterr().err
    if TELLS:
        assert 'by thread "meter", in an operator: RuntimeError: CUDA error: operation not permitted' in said, said


def test_the_capturing_threads_own_call_is_named(bench, capfd):
    stream = bench.gpu.stream()
    with BREAKS, guard.watch(stream):
        capture(bench, stream, lambda: query(bench))
    said = capfd.readouterr().err
    assert '\nby thread "MainThread", in ctypes.cudaStreamQuery\n' in said if TELLS else "was broken" in said, said


def test_captures_of_sluice(gpu, bench, capfd):
    """Sluice captures in thread-local mode, which the wait for the whole device alone breaks. No stream is given."""
    def wait_for_all():
        gpu.enter()
        bench.cuda.cudaDeviceSynchronize()

    with sluice.Stream(gpu.device) as stream, others(wait_for_all) as happen:
        with pytest.raises(sluice.CaptureError, match="INVALIDATED"), guard.capture(sluice.capture(stream)):
            gpu.fill(bench.memory, 1, 64, stream.native)
            happen()
    said = capfd.readouterr().err
    assert '\nby thread "meter", in ctypes.cudaDeviceSynchronize\n' in said if TELLS else "was broken" in said, said


def test_a_break_while_the_capture_goes_on(bench, capfd):
    """Its moment counts, not its end: what other threads do later is not blamed."""
    stream = bench.gpu.stream()
    with BREAKS, others(lambda: query(bench)) as happen, guard.watch(stream) as watching:
        def happen_and_more():
            happen()
            wait_until(lambda: watching.found)
            thread = threading.Thread(target=bench.cuda.cudaStreamQuery, args=(pointer(bench.other),), name="innocent")
            thread.start()
            thread.join()

        capture(bench, stream, happen_and_more)
    said = capfd.readouterr().err
    assert '"innocent"' not in said
    check_named(said, "ctypes.cudaStreamQuery")


def test_whole_captures_say_nothing(bench, capfd):
    stream = bench.gpu.stream()
    with others(lambda: bench.work(bench.mine)) as happen:
        for _ in range(20):
            with guard.watch(stream):
                capture(bench, stream, happen)
        with guard.capture(sluice.capture(sluice.Stream(bench.gpu.device))) as graph:
            pass
    assert isinstance(graph, sluice.Graph)
    assert capfd.readouterr().err == ""


def test_errors_of_the_body_go_on(bench, capfd):
    with pytest.raises(ZeroDivisionError), guard.watch(bench.mine):
        1 / 0
    assert capfd.readouterr().err == ""
