# SPDX-License-Identifier: MIT
"""A thread's current stream: `with stream:` and `with stream.use():`."""
import contextlib
import ctypes
import threading

import pytest

import gpu_kit
import sluice
from eventually import wait_until
from stream_kit import device, on_thread  # noqa: F401


def test_withs_restore_what_was_before(device):
    a, b = sluice.Stream(device), sluice.Stream(device)
    assert sluice.current_stream() is None and sluice.current_stream(device) is None
    with a:
        assert sluice.current_stream() == a
        with b:
            assert sluice.current_stream() == b
            with a:
                assert sluice.current_stream() == a
            assert not a.closed and sluice.current_stream() == b
            with contextlib.suppress(KeyError), a.use():
                assert sluice.current_stream() == a
                raise KeyError
            assert sluice.current_stream() == b
        assert b.closed and sluice.current_stream() == a
    assert a.closed and sluice.current_stream() is None


def test_a_call_that_fails_leaves_what_is_current(device):
    outer, inner, closed = (sluice.Stream(device) for _ in range(3))
    closed.close()
    with sluice.Writer("current", shape=4, device=device) as writer, outer:
        with inner.use():
            for call, error in ((lambda: inner.wait(5), TypeError), (lambda: writer.send(object(), stream=inner), TypeError),
                                (lambda: writer.try_frame(stream=closed), sluice.StreamClosedError), (closed.__enter__, sluice.StreamClosedError),
                                (lambda: sluice.Event(device).wait(), sluice.NotRecordedError)):
                with pytest.raises(error):
                    call()
                assert sluice.current_stream() == inner
        assert sluice.current_stream() == outer
    assert sluice.current_stream() is None


def test_use_neither_waits_nor_closes(device):
    stream = sluice.Stream(device)
    use = stream.use()
    with use as same, use:
        assert same is stream and sluice.current_stream(device) == stream
    assert sluice.current_stream() is None and not stream.closed
    stream.close()
    with pytest.raises(sluice.StreamClosedError), use:
        pass
    assert sluice.current_stream() is None


def test_a_with_may_be_left_before_one_inside_it(device):
    """As generators do."""
    a, b = sluice.Stream(device), sluice.Stream(device)
    outer, inner = a.use(), b.use()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert sluice.current_stream() == b
    inner.__exit__(None, None, None)
    assert sluice.current_stream() is None
    with pytest.raises(sluice.InvalidError, match="not current on this thread"):
        outer.__exit__(None, None, None)


def test_the_current_stream_is_of_its_device(gpu):
    with sluice.Stream("host") as host, sluice.Stream(gpu.device) as stream:
        assert sluice.current_stream() == stream == sluice.current_stream(gpu.device)
        assert sluice.current_stream("host") == host


def test_each_thread_has_its_own(device):
    shared, other = sluice.Stream(device), sluice.Stream(device)
    turns = threading.Barrier(2)

    def run(mine):
        before = sluice.current_stream()
        with mine.use():
            turns.wait()
            with shared.use():
                turns.wait()
                assert sluice.current_stream() == shared
                turns.wait()
            assert sluice.current_stream() == mine
            turns.wait()
        assert sluice.current_stream() == before

    mine = sluice.Stream(device)
    thread = threading.Thread(target=run, args=(mine,))
    with shared.use():
        assert on_thread(sluice.current_stream) is None
        thread.start()
        run(other)
        assert sluice.current_stream() == shared
    thread.join()


def test_a_thread_that_ends_inside_leaves_nothing(device):
    stream = sluice.Stream(device)
    on_thread(lambda: stream.use().__enter__())
    with pytest.raises(sluice.InvalidError, match="not current on this thread"):
        stream.use().__exit__(None, None, None)

    def closes():
        with contextlib.suppress(sluice.BusyError):
            stream.close()
        return stream.closed

    wait_until(closes)  # the thread is gone for Python a moment before it is for the system


def test_a_current_stream_cannot_be_closed(device):
    with sluice.Stream(device) as stream:
        with pytest.raises(sluice.BusyError, match="leave its `with` first"):
            stream.close()
        with pytest.raises(sluice.BusyError):
            on_thread(stream.close)
        stream.synchronize()
    assert stream.closed


def test_left_while_it_is_still_current_elsewhere(device):
    stream = sluice.Stream(device)
    entered, leave = threading.Event(), threading.Event()

    def run():
        with stream.use():
            entered.set()
            leave.wait()
            sluice.current_stream().synchronize()
            stream.record().close()

    thread = threading.Thread(target=run)
    with pytest.warns(ResourceWarning, match="still the current stream"):
        with stream:
            thread.start()
            entered.wait()
    assert not stream.closed
    leave.set()
    thread.join()
    assert stream.closed
    with pytest.raises(sluice.StreamClosedError):
        stream.synchronize()


def test_too_many_withs(device):
    stream = sluice.Stream(device)
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(stream.use())
        with pytest.raises(sluice.LimitError, match="64 current streams"):
            stream.use().__enter__()
    assert sluice.current_stream() is None


@pytest.mark.parametrize("sync", [True, False])
def test_an_end_that_fails_joins_what_the_body_raised(gpu, sync):
    with pytest.raises(KeyError) as raised:
        with sluice.Stream(gpu.device, sync_on_exit=sync) as stream:
            gpu.call("StreamBeginCapture", ctypes.c_void_p(stream.native), gpu_kit.THREAD_LOCAL)
            raise KeyError("body")
    assert isinstance(raised.value.__context__, sluice.CaptureError)
    assert not stream.closed and sluice.current_stream() is None
    graph = ctypes.c_void_p()
    gpu.call("StreamEndCapture", ctypes.c_void_p(stream.native), ctypes.byref(graph))
    stream.close()
