# SPDX-License-Identifier: MIT
"""Frames on a GPU: when they end, behind which streams; and what waits for what."""
import asyncio
import gc
import threading
import time
import weakref

import pytest

import sluice
from dl import take
from gpu_frames import SIZE, ends_only_then, free_slots, publish, reader, wait_until, writer  # noqa: F401
from gpu_kit import LEGACY, OUT_OF_MEMORY


@pytest.mark.parametrize("end", ["release", "with", "del", "array", "thread"])
def test_a_lease_ends_behind_its_stream(gpu, writer, reader, end):
    publish(gpu, writer, 5)
    stream = gpu.stream()
    frame = reader.next(timeout=60)
    slot = frame.slot
    taken = take(frame, stream)
    gate = gpu.gate(stream)
    found = gpu.look(taken.data, SIZE, stream)
    if end == "with":
        with frame:
            taken.drop()
    elif end == "array":
        frame.release()
        taken.drop()
    else:
        taken.drop()
        if end == "release":
            frame.release()
        elif end == "thread":
            thread = threading.Thread(target=frame.release)
            thread.start()
            thread.join()
    del frame
    publish(gpu, writer, 6)  # the slot is not the newest one any more
    ends_only_then(writer, slot, [gate])
    gpu.synchronize(stream)
    assert bytes(found) == bytes([5]) * SIZE


def test_cycles_are_collected(gpu, writer, reader):
    """With a frame, its array and what took that over: the lease ends, behind its stream."""
    class Holder:
        pass

    publish(gpu, writer, 5)
    stream = gpu.stream()
    gc.collect()  # and no more by itself soon
    holder = Holder()
    holder.me, holder.frame = holder, reader.next(timeout=60, stream=sluice.Stream.from_handle(stream, gpu.device))
    holder.array, holder.taken = holder.frame[0], take(holder.frame, stream)
    slot, gone = holder.frame.slot, weakref.ref(holder)
    gate = gpu.gate(stream)
    del holder
    assert gone() is not None and reader.stats().held == 1
    gc.collect()
    assert gone() is None
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, [gate])
    reader.next(timeout=60).release()
    wait_until(lambda: reader.latest() is None and reader.stats().held == 0)


@pytest.mark.parametrize("how", ["two", "with the default", "five"])
def test_a_lease_ends_behind_all_its_streams(gpu, writer, reader, how):
    publish(gpu, writer, 5)
    count = {"two": 2, "with the default": 1, "five": 5}[how]
    streams = [gpu.stream() for _ in range(count)] + ([LEGACY] if how == "with the default" else [])
    frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(streams[0], gpu.device))
    for stream in streams[1:]:
        taken = take(frame, stream or 1)
        taken = take(frame, stream or 1)  # once is enough
    slot = frame.slot
    gates = [gpu.gate(stream) for stream in streams]
    taken.drop()
    frame.release()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)


@pytest.mark.parametrize("way", ["taken for a stream", "not", "array"])
def test_an_end_that_cannot_be_queued_comes_when_the_work_is_done(gpu, writer, reader, way):
    """The driver has no stream for it that waits for all of them; release() says so."""
    if not gpu.fake:
        pytest.skip("no call of a GPU's driver can be made to fail")
    streams = [gpu.stream(), gpu.stream()]
    handles = [sluice.Stream.from_handle(stream, gpu.device) for stream in streams]
    publish(gpu, writer, 5)
    frame = reader.next(timeout=60, stream=handles[0] if way == "taken for a stream" else None)
    slot = frame.slot
    frame.used_on(*handles)
    gates = [gpu.gate(stream) for stream in streams]
    taken = take(frame, streams[0]) if way == "array" else None
    gpu.fail("StreamCreateWithPriority", OUT_OF_MEMORY)
    if taken:
        frame.release()
        taken.drop()
    else:
        with pytest.raises(MemoryError):
            frame.release()
    assert gpu.library.fake_failed()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)
    reader.next(timeout=60).release()


def test_a_frame_whose_cancel_fails_is_cancelled_all_the_same(gpu, writer):
    if not gpu.fake:
        pytest.skip("no call of a GPU's driver can be made to fail")
    frame = writer.frame()
    frame.used_on(sluice.Stream(gpu.device), sluice.Stream(gpu.device))
    gpu.fail("StreamCreateWithPriority", OUT_OF_MEMORY)
    del frame
    assert gpu.library.fake_failed()
    wait_until(lambda: len(free_slots(writer)) == 4)


def test_used_on(gpu, writer, reader):
    publish(gpu, writer, 5)
    first, second = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    with reader.next(timeout=60) as frame:
        slot = frame.slot
        frame.used_on(first, second)
        gates = [gpu.gate(first.native), gpu.gate(second.native)]
    with pytest.raises(sluice.StaleError):
        frame.used_on(first)
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)


def test_used_on_behind_release(gpu, writer, reader):
    """A tensor has the frame still."""
    publish(gpu, writer, 5)
    first, second = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    with reader.next(timeout=60, stream=first) as frame:
        slot, taken = frame.slot, take(frame, first.native)
    assert frame.released
    with pytest.raises(TypeError):
        frame.used_on(3)
    frame.used_on(second)
    gates = [gpu.gate(first.native), gpu.gate(second.native)]
    taken.drop()
    with pytest.raises(sluice.StaleError, match="was released"):
        frame.used_on(second)
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)
    for turn in range(3):  # who looks on sees no other frame
        publish(gpu, writer, turn)
        other = reader.next(timeout=60)
        with pytest.raises(sluice.StaleError):
            frame.used_on(second)
        other.release()


def test_the_threads_stream(gpu, writer, reader):
    """Entered: it is the frame's. One that was given comes before it."""
    publish(gpu, writer, 5)
    given, entered = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    with entered.use():
        frame = reader.next(timeout=60)
    slot, gate = frame.slot, gpu.gate(entered.native)
    frame.release()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, [gate])
    with entered.use():
        frame = reader.next(timeout=60, stream=given)
    slot, gate = frame.slot, gpu.gate(entered.native)
    frame.release()
    publish(gpu, writer, 7)
    wait_until(lambda: slot in free_slots(writer))
    gate.open()


def test_coroutines_name_their_streams(gpu, writer):
    """Those of a thread share its current stream; one that is given comes before it, also where the frame comes later."""
    entered, streams = sluice.Stream(gpu.device), [sluice.Stream(gpu.device) for _ in range(2)]

    async def read(reader, stream):
        frame = await reader.next_async(timeout=60, stream=stream)
        gate = gpu.gate(stream.native)
        frame.release()
        return frame.slot, gate

    async def main():
        with sluice.Reader("cam") as first, sluice.Reader("cam") as second, entered.use():
            tasks = [asyncio.create_task(read(*each)) for each in zip((first, second), streams)]
            await asyncio.sleep(0.02)
            publish(gpu, writer, 5)
            (slot, one), (same, other) = await asyncio.gather(*tasks)
            assert slot == same
            gate = gpu.gate(entered.native)  # whose work they have nothing to do with
            publish(gpu, writer, 6)
            ends_only_then(writer, slot, [one, other])
            gate.open()
            for wrong in (5, "x"):
                with pytest.raises(TypeError, match="stream"):
                    await first.next_async(timeout=0, stream=wrong)

    asyncio.run(main())


def test_a_commit_waits_for_its_streams(gpu, writer, reader):
    first, second = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(first, gpu.device)) as frame:
        taken = take(frame, second)
        gates = [gpu.gate(first), gpu.gate(second)]
        gpu.fill(taken.data, 8, SIZE, second)
    for gate in gates:
        assert reader.latest() is None
        time.sleep(0.02)
        assert reader.latest() is None
        gate.open()
    frame = reader.next(timeout=60)
    assert gpu.read(take(frame, 1).data, SIZE) == bytes([8]) * SIZE


def test_a_cancelled_slot_waits_for_its_streams(gpu, writer):
    stream = gpu.stream()
    frame = writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device))
    slot, gate = frame.slot, gpu.gate(stream)
    frame.cancel()
    ends_only_then(writer, slot, [gate])
    frame = writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device))
    slot, gate = frame.slot, gpu.gate(stream)
    del frame
    gc.collect()
    ends_only_then(writer, slot, [gate])


def test_a_consumer_waits_for_what_writes(gpu, writer):
    """Another stream that uses a slot waits for the stream that fills it."""
    fills, looks = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(fills, gpu.device)) as frame:
        address = take(frame, fills).data
        gate = gpu.gate(fills)
        gpu.fill(address, 44, SIZE, fills)
        taken = take(frame, looks)
        found = gpu.look(taken.data, SIZE, looks)
        assert not gpu.is_idle(looks)
        gate.open()
    gpu.synchronize(looks)
    assert bytes(found) == bytes([44]) * SIZE


def test_a_ready_frame_is_not_waited_for(gpu, writer, reader):
    publish(gpu, writer, 5)
    busy, other = gpu.stream(), gpu.stream()
    frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(busy, gpu.device))
    gate = gpu.gate(busy)
    found = gpu.look(take(frame, other).data, 8, other)
    gpu.synchronize(other)
    assert bytes(found) == b"\5" * 8
    gate.open()


def test_dropped_anywhere(gpu, writer, reader):
    """Deleters run on any thread, with and without the GIL; what a busy lock keeps from ending ends later."""
    stream = gpu.stream()
    handle = sluice.Stream.from_handle(stream, gpu.device)

    def drop(things):
        for thing in things:
            thing.drop()

    for number in range(50):
        publish(gpu, writer, number)
        frame = reader.next(timeout=60, stream=handle)
        taken = [take(frame, stream) for _ in range(4)] + [take(frame, 1)]
        frame.release()
        threads = [threading.Thread(target=drop, args=(taken[i::2],)) for i in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    gpu.synchronize(stream)
    publish(gpu, writer, 99)
    wait_until(lambda: len(free_slots(writer)) == 3)


def test_arrays_outlive_all(gpu):
    writer = sluice.Writer("cam", shape=SIZE, device=gpu.device)
    reader = sluice.Reader("cam")
    publish(gpu, writer, 42)
    with writer.frame() as begun:
        stale = take(begun, 1)
    frame = reader.next(timeout=60)
    while frame.sequence == 0:
        frame = reader.next(timeout=60)
    taken = take(frame, 1)
    address = stale.data
    reader.close()
    writer.close()
    del frame, reader, writer, begun
    gc.collect()
    gpu.read(taken.data, SIZE), gpu.read(address, SIZE)  # both are mapped still
    taken.drop()
    stale.drop()


def test_a_reset_ends_the_work_not_the_frame(gpu, writer, reader):
    publish(gpu, writer, 1)
    one, two = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    frames = [reader.next(timeout=60, stream=one)]
    publish(gpu, writer, 2)
    frames.append(reader.next(timeout=60, stream=one))
    frames[1].used_on(two)
    slots = {frame.slot for frame in frames}
    sluice.reset(gpu.device)
    for frame in frames:
        frame.release()
    publish(gpu, writer, 3)
    reader.next(timeout=60).release()
    wait_until(lambda: slots <= free_slots(writer) | {3})
    wait_until(lambda: reader.latest() is None and reader.stats().held == 0)  # a call for a frame sees what was released
