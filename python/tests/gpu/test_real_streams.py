# SPDX-License-Identifier: MIT
"""Streams and events with kernels that take time, beside PyTorch, CuPy and cuda.core. Those of ../test_streams.py that
need no framework run on a GPU as well. Numbers are those of the specification's tests."""
import asyncio
import ctypes
import gc
import threading
import time

import pytest

import sluice
from needs import gpus, torch
from work import DEVICE, SIDE, begin_in, cycles_of_a_millisecond, narrow_writer, shown, spin, take, write


@pytest.fixture
def stream():
    with sluice.Stream(DEVICE) as stream:
        yield stream


def on(stream):
    """PyTorch's work goes there."""
    return torch.cuda.stream(stream.to_torch())


@pytest.mark.parametrize("count", [1, 1024, 10_000_000])
def test_3_work_on_a_stream_is_done_after_synchronize(stream, count):
    data = torch.zeros(count, device=DEVICE)
    torch.cuda.synchronize()
    with on(stream):
        data.add_(2)
    stream.synchronize()
    assert stream.query() and (data == 2).all()


def test_4_two_streams_fill_two_arrays():
    first, second = sluice.Stream(DEVICE), sluice.Stream(DEVICE)
    arrays = [torch.zeros(1024, device=DEVICE) for _ in range(2)]
    torch.cuda.synchronize()
    for number, (stream, array) in enumerate(zip((first, second), arrays)):
        with on(stream):
            array.fill_(number + 1)
    sluice.synchronize(DEVICE)
    assert [float(array.sum()) for array in arrays] == [1024, 2048]


@pytest.mark.parametrize("to", ["default", "another"])
def test_5_a_slow_producer_and_an_event(to):
    producer, event = sluice.Stream(DEVICE), sluice.Event(DEVICE)
    consumer = sluice.Stream.default(DEVICE) if to == "default" else sluice.Stream(DEVICE)
    value = torch.zeros((), dtype=torch.int32, device=DEVICE)
    seen = torch.zeros(200, dtype=torch.int32, device=DEVICE)
    torch.cuda.synchronize()
    for number in range(200):
        with on(producer):
            spin(0.5)
            value.fill_(number)
            event.record(producer)
        event.wait(consumer)
        with on(consumer):
            seen[number].copy_(value)
        producer.wait(consumer)
    torch.cuda.synchronize()
    assert seen.tolist() == list(range(200))


def test_6_an_event_tells_when_pinned_memory_may_be_read(stream):
    pinned, source = torch.zeros(1024, pin_memory=True), torch.ones(1024, device=DEVICE)
    event = sluice.Event(DEVICE)
    torch.cuda.synchronize()

    def attempt():
        with on(stream):
            spin(20)
            pinned.copy_(source, non_blocking=True)
        event.record(stream)
        return not event.query()

    assert shown(attempt)
    event.synchronize()
    assert event.query() and (pinned == 1).all()


def test_7_elapsed(stream):
    first, last, untimed = sluice.Event(DEVICE, timing=True), sluice.Event(DEVICE, timing=True), sluice.Event(DEVICE)
    theirs = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with pytest.raises(sluice.NotRecordedError):
        first.elapsed(last)

    def attempt():
        with on(stream):
            theirs[0].record()
            first.record(stream)
            spin(200)
            last.record(stream)
            theirs[1].record()
            untimed.record(stream)
        try:
            return first.elapsed(last) is None
        except sluice.NotReady:
            return True

    assert shown(attempt)
    last.synchronize()
    torch.cuda.synchronize()
    ours = first.elapsed(last)
    assert ours >= 180 and ours == pytest.approx(theirs[0].elapsed_time(theirs[1]), rel=0.1)
    with pytest.raises(sluice.NoTimingError):
        first.elapsed(untimed)


def test_8_a_wait_is_for_what_was_recorded_then():
    first, second, event = sluice.Stream(DEVICE), sluice.Stream(DEVICE), sluice.Event(DEVICE)

    def attempt():
        event.record(first)
        second.wait(event)
        with on(first):
            spin(100)
        event.record(first)
        second.synchronize()
        busy = not event.query()
        first.synchronize()
        return busy

    assert shown(attempt)


@pytest.mark.parametrize("tuple_, error", [((1, 5), ValueError), ((0,), TypeError), ((0, 1, 2), TypeError), (("0", 5), TypeError),
                                           ((0, "5"), TypeError), (None, TypeError)])
def test_9_bad_protocols(tuple_, error):
    class Bad:
        def __cuda_stream__(self):
            return tuple_

    closed = sluice.Stream(DEVICE)
    closed.close()
    with narrow_writer("n") as writer:
        for wrong, expected in ((Bad(), error), (5, TypeError), ("0", TypeError), (object(), TypeError), (closed, sluice.StreamClosedError)):
            with pytest.raises(expected) as caught:
                writer.try_frame(stream=wrong)
            assert caught.type is expected
        writer.try_frame(stream=None).cancel()  # as if it were not given


def test_20_a_thread_that_waits_keeps_nobody():
    """Neither from the GIL nor from a lock: kernels are launched, marks are set, and frames written and read meanwhile."""
    stream, other = sluice.Stream(DEVICE), sluice.Stream(DEVICE)  # neither is the thread's, which frames would be behind
    value = torch.zeros(16, device=DEVICE)
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        def work(times):
            for number in range(times):
                value.add_(1)
                if number % 100 == 0:  # a frame takes a while where other processes have the GPU in turns
                    other.record().close()
                    write(writer, number)
                    with take(reader, number) as frame:
                        frame.torch().sum()

        with on(other):
            work(1)

        def attempt():
            with on(stream):
                spin(1000)
            thread = threading.Thread(target=stream.synchronize)
            thread.start()
            time.sleep(0.05)
            with on(other):
                work(1000)
            waits = thread.is_alive()
            thread.join()
            return waits

        assert shown(attempt)


def current_context():
    context = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


def test_22_a_thread_without_a_context():
    """It makes streams and events, writes and reads a frame, which is whole, and has no context behind any of it."""
    here = torch.arange(SIDE * SIDE, dtype=torch.int32).reshape(SIDE, SIDE).numpy()
    torch.zeros(1, device=DEVICE)
    contexts, frames = [current_context()], []

    def live():
        contexts.append(current_context())
        with sluice.Stream(DEVICE) as stream, sluice.Event(DEVICE) as event:
            event.record(stream)
            stream.wait(event)
            event.synchronize()
        contexts.append(current_context())
        with narrow_writer("n") as writer, sluice.Reader("n") as reader:
            writer.send(here)
            contexts.append(current_context())
            frame = reader.next(timeout=60)
            frames.extend((frame.numpy(), frame.copy(), asyncio.run(fetch(frame))))
            target = here * 0
            frame.copy_to(target)
            frames.append(target)
            contexts.append(current_context())
            frame.release()
        contexts.append(current_context())

    async def fetch(frame):
        return await frame.fetch()

    def live_with_torch():
        """PyTorch makes the context current, when it is used; Sluice before that does not, and leaves it behind."""
        with narrow_writer("n") as writer, sluice.Reader("n") as reader:
            contexts.append(current_context())
            write(writer, 5)
            with reader.next(timeout=60) as frame:
                frames.append(frame.torch().cpu().numpy())

    for run in (live, live_with_torch):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert contexts[0] and contexts[1:] == [None] * 6
    assert len(frames) == 5 and all((each == here).all() for each in frames[:4]) and (frames[4] == 5).all()


@pytest.mark.parametrize("device", range(gpus or 1))
def test_24_the_context_stays_as_it_was(device):
    with torch.cuda.device(device):
        torch.zeros(1, device="cuda")
        before = current_context()
        with narrow_writer("n") as writer, sluice.Reader("n") as reader, sluice.Stream(DEVICE) as stream:
            with torch.cuda.device(0):
                write(writer, 1)
            assert current_context() == before
            frame = reader.next(timeout=60)
            frame.numpy()
            stream.synchronize()
            frame.release()
            sluice.synchronize(DEVICE)
            assert current_context() == before and torch.cuda.current_device() == device
        assert current_context() == before


def test_30_what_is_waited_for():
    default = sluice.Stream.default(DEVICE)
    assert default.is_default and default.native == 0
    torch.cuda.synchronize()
    began = time.perf_counter()
    spin(200)
    default.synchronize()
    assert time.perf_counter() - began >= 0.18
    for stream in (default, sluice.Stream(DEVICE)):  # one at a time: the device's synchronize() is to wait for each
        began = time.perf_counter()
        with on(stream):
            spin(200)
        sluice.synchronize(DEVICE)
        assert time.perf_counter() - began >= 0.18

    def closing():
        began = time.perf_counter()
        stream = sluice.Stream(DEVICE)
        with on(stream):
            spin(200)
        mark = stream.record()
        stream.close()
        busy = not mark.query()
        sluice.synchronize(DEVICE)
        assert time.perf_counter() - began >= 0.18
        return busy

    assert shown(closing)  # which waits for nothing, and is waited for
    began = time.perf_counter()
    with sluice.Stream(DEVICE) as stream:
        with on(stream):
            spin(200)
    assert time.perf_counter() - began >= 0.18  # leaving with waits

    def leaving():
        began = time.perf_counter()
        with sluice.Stream(DEVICE, sync_on_exit=False) as stream:
            with on(stream):
                spin(200)
            mark = stream.record()
        busy = not mark.query()
        mark.synchronize()
        assert time.perf_counter() - began >= 0.18 and stream.closed
        return busy

    assert shown(leaving)  # unless that is switched off


def test_34_a_graph_that_reads_what_was_copied_from_frames():
    """Replayed with other contents: what a frame holds then is what the graph reads; a number is what it was at the capture."""
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        source = torch.zeros((SIDE, SIDE), dtype=torch.int32, device=DEVICE)
        out = torch.zeros_like(source)
        factor = 3
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out.copy_(source * factor)
        factor = 5
        for number in (1, 2, 3):
            write(writer, number)
            with reader.next(timeout=60) as frame:
                source.copy_(frame.torch())
            graph.replay()
            assert (out == number * 3).all() and factor == 5


def test_34_a_graph_that_reads_and_writes_slots_themselves():
    """frame.view() is taken inside the capture, of a reader's frame and of a writer's; replayed with three other frames in the same
    slots."""
    with (narrow_writer("n") as writer, sluice.Reader("n") as reader,
          narrow_writer("m") as results, sluice.Reader("m") as seen):
        write(writer, 1)
        frame, out = take(reader, 1), results.frame(timeout=60)
        slot, to, address = frame.slot, out.slot, frame.view().data_ptr()
        torch.cuda.synchronize()
        graph, factor = torch.cuda.CUDAGraph(), 3
        with torch.cuda.graph(graph):
            torch.mul(frame.view(), factor, out=out.view())
        factor = 5
        out.cancel()
        frame.release()
        for number in (7, 8, 9):
            with begin_in(slot, writer, number) as out:
                out.torch().fill_(number)
            with take(reader, number) as frame, begin_in(to, results, number) as out:
                assert frame.slot == slot and frame.view().data_ptr() == address and out.view().data_ptr() == out[0].address
                graph.replay()
            with take(seen, number) as made:
                assert made.slot == to and (made.torch() == 3 * number).all() and factor == 5


def test_40_to_torch_and_back(stream):
    theirs = stream.to_torch()
    assert theirs.cuda_stream == stream.native and stream.__cuda_stream__() == (0, stream.native)
    again = sluice.Stream.wrap(theirs)
    assert again.native == stream.native and again.is_external
    assert again != stream and again.same_native(stream) and stream.same_native(theirs)
    assert not stream.same_native(torch.cuda.current_stream()) and not again.same_native(torch.cuda.Stream())
    default = sluice.Stream.default(DEVICE)
    assert default.same_native(torch.cuda.default_stream())
    assert default.to_torch().cuda_stream == 0  # ExternalStream(0) would be one of PyTorch's pool
    assert sluice.Stream.wrap(torch.cuda.default_stream()).native == 0


def test_40_torchs_stream_keeps_ours():
    ours = sluice.Stream(DEVICE)
    theirs = ours.to_torch()
    native = ours.native
    del ours
    gc.collect()
    data = torch.zeros(16, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(theirs):
        data.add_(1)
    theirs.synchronize()
    assert theirs.cuda_stream == native and (data == 1).all()


def test_40_to_cupy_and_back(stream, cupy):
    theirs = stream.to_cupy()
    assert theirs.ptr == stream.native
    with theirs:
        array = cupy.ones(16)
    stream.synchronize()
    assert float(array.sum()) == 16
    own = cupy.cuda.Stream(non_blocking=True)
    assert sluice.Stream.wrap(own).native == own.ptr
    assert sluice.Stream.wrap(cupy.cuda.Stream.null).native == 0


def test_40_cuda_core(stream):
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    if not hasattr(core, "Device"):
        core = pytest.importorskip("cuda.core.experimental", reason="cuda.core is too old")
    device = core.Device(0)
    device.set_current()
    theirs = device.create_stream(stream)
    assert int(theirs.handle) == stream.native
    own = device.create_stream()
    wrapped = sluice.Stream.wrap(own)
    assert wrapped.native == int(own.handle)
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        with writer.frame(timeout=60, stream=own) as frame:
            with torch.cuda.stream(torch.cuda.ExternalStream(wrapped.native)):
                spin(1)
                frame.torch().fill_(6)
        assert (reader.next(timeout=60).torch() == 6).all()


def test_40_a_profiler_sees_how_long_a_streamed_kernel_takes(role):
    """200 ms on our stream are 180 ms or more to PyTorch's profiler, and not on the default stream, where it sees another kernel.
    In a process of its own: what a profiler does to the driver would stay."""
    times = [float(each) for each in role("profile", DEVICE, int(cycles_of_a_millisecond())).read().split()]
    if not times:
        pytest.skip("this PyTorch's profiler sees no kernels on this machine")
    assert len(times) == 2 and 18 <= times[0] < 180 <= times[1], times
