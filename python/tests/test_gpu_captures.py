# SPDX-License-Identifier: MIT
"""Frames on a GPU while streams capture graphs."""
import asyncio
import gc
import time

import pytest

import sluice
from dl import take
from gpu_frames import SIZE, free_slots, publish, reader, wait_until, writer  # noqa: F401
from gpu_kit import OUT_OF_MEMORY
from stream_kit import on_thread


@pytest.fixture
def run_fetch():
    async def fetch(frame):
        return await frame.fetch()

    return lambda frame: asyncio.run(fetch(frame))


def test_a_release_inside_a_capture(gpu, writer, reader):
    """It adds nothing to the graph, and happens when the capture has ended: also with two streams."""
    for count in (1, 2):
        publish(gpu, writer, 5)
        streams = [gpu.stream() for _ in range(count)]
        frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(streams[0], gpu.device))
        slot = frame.slot
        with gpu.capture(streams[0]) as graph:
            taken = [take(frame, stream) for stream in streams]
            gpu.look(taken[0].data, 16, streams[0])
            del taken
            frame.release()
            assert slot not in free_slots(writer)
        assert graph.nodes() == 1
        publish(gpu, writer, 6)
        with reader.next(timeout=60):
            wait_until(lambda: slot in free_slots(writer))
        for _ in range(20):
            graph.replay(streams[0])
        wait_until(lambda: reader.latest() is None and reader.stats().held == 0)


def test_a_release_that_fails_inside_a_capture(gpu, writer, reader):
    """No stream can wait for both, not even once the capture has ended: the frame ends when the work on each was seen done."""
    if not gpu.fake:
        pytest.skip("no call of a GPU's driver can be made to fail")
    publish(gpu, writer, 5)
    busy, captures = gpu.stream(), gpu.stream()
    frame = reader.next(timeout=60)
    slot = frame.slot
    taken = [take(frame, stream) for stream in (busy, captures)]
    gate = gpu.gate(busy)
    with gpu.capture(captures) as graph:
        gpu.fail("StreamCreateWithPriority", OUT_OF_MEMORY, 0)
        frame.release()
        taken.clear()
        publish(gpu, writer, 6)
        assert slot not in free_slots(writer)
        gate.open()
        time.sleep(0.05)
        assert slot not in free_slots(writer)
    assert graph.nodes() == 0
    with reader.next(timeout=60):
        wait_until(lambda: slot in free_slots(writer))
    assert gpu.library.fake_failed()
    wait_until(lambda: reader.latest() is None and reader.stats().held == 0)


@pytest.mark.parametrize("close", ["close", "del"])
def test_a_reader_that_closes_inside_a_capture(gpu, writer, close):
    reader = sluice.Reader("cam")
    publish(gpu, writer, 5)
    first, second = gpu.stream(), gpu.stream()
    frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(first, gpu.device))
    slot = frame.slot
    frame.used_on(sluice.Stream.from_handle(second, gpu.device))
    with gpu.capture(first) as graph:
        frame.release()
        if close == "close":
            reader.close()
        del reader, frame
        gc.collect()
    assert graph.nodes() == 0
    publish(gpu, writer, 6)
    wait_until(lambda: slot in free_slots(writer))
    wait_until(lambda: writer.stats().readers == 0)


@pytest.mark.parametrize("close", ["close", "del"])
def test_a_reader_that_closes_while_two_streams_capture(gpu, writer, close):
    """What both had queued before is waited for."""
    reader = sluice.Reader("cam")
    publish(gpu, writer, 5)
    streams = [gpu.stream() for _ in range(2)]
    frame = reader.next(timeout=60)
    slot = frame.slot
    frame.used_on(*[sluice.Stream.from_handle(stream, gpu.device) for stream in streams])
    gates = [gpu.gate(stream) for stream in streams]
    with gpu.capture(streams[0]) as one, gpu.capture(streams[1]) as other:
        frame.release()
        if close == "close":
            reader.close()
        del reader, frame
        gc.collect()
    assert one.nodes() == other.nodes() == 0
    publish(gpu, writer, 6)
    for gate in gates:
        time.sleep(0.1)
        assert slot not in free_slots(writer)
        gate.open()
    wait_until(lambda: slot in free_slots(writer))
    wait_until(lambda: writer.stats().readers == 0)


@pytest.mark.parametrize("count", [1, 2])
def test_a_commit_inside_a_capture(gpu, writer, reader, count):
    """It is refused before anything is queued, and the frame stays begun."""
    streams = [gpu.stream() for _ in range(count)]
    frame = writer.frame(stream=sluice.Stream.from_handle(streams[-1], gpu.device))
    frame.used_on(*[sluice.Stream.from_handle(stream, gpu.device) for stream in streams])
    address = take(frame, streams[-1]).data
    with gpu.capture(streams[0]) as graph:
        for call in (frame.commit, frame.cancel):
            with pytest.raises(sluice.CaptureError, match="stays begun"):
                call()
        assert not frame.ended
        with pytest.raises(sluice.CaptureError):
            with frame:
                pass
        assert not frame.ended and writer.stats().committed == 0
    assert graph.nodes() == 0
    gpu.fill(address, 12, SIZE, streams[-1])
    frame.commit()
    assert gpu.read(take(reader.next(timeout=60), 1).data, SIZE) == bytes([12]) * SIZE


def test_a_frame_that_is_forgotten_inside_a_capture(gpu, writer):
    stream = gpu.stream()
    handle = sluice.Stream.from_handle(stream, gpu.device)
    with gpu.capture(stream) as graph:
        frame = writer.frame(stream=handle)
        slots = {frame.slot}
        del frame
        with pytest.raises(RuntimeError, match="the body's"):
            with writer.frame(stream=handle) as frame:
                slots.add(frame.slot)
                raise RuntimeError("the body's")
        gc.collect()
        assert len(slots) == 2 and not slots & free_slots(writer)
    assert graph.nodes() == 0
    wait_until(lambda: slots <= free_slots(writer))
    assert writer.stats().cancelled >= 2


def test_a_slot_that_cannot_be_waited_for_in_a_capture(gpu, writer):
    fills, captures = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(fills, gpu.device)) as frame:
        with gpu.capture(captures) as graph:
            with pytest.raises(sluice.CaptureError, match="before the capture begins"):
                frame.__dlpack__(stream=captures)
        assert graph.nodes() == 0


def test_a_slot_that_one_of_two_captures_has_is_not_waited_for(gpu, writer):
    """Not for the other either, which could be."""
    slow, captures, takes = (gpu.stream() for _ in range(3))
    frame = writer.frame(stream=sluice.Stream.from_handle(slow, gpu.device))
    frame.used_on(sluice.Stream.from_handle(captures, gpu.device))
    gate = gpu.gate(slow)
    with gpu.capture(captures) as graph:
        with pytest.raises(sluice.CaptureError, match="before the capture begins"):
            frame.__dlpack__(stream=takes)
        assert gpu.is_idle(takes)
    gate.open()
    assert graph.nodes() == 0
    frame.cancel()


@pytest.mark.parametrize("writable", [False, True])
def test_copies_to_the_host_beside_a_capture(gpu, run_fetch, writable):
    """They have streams of their own; they would have to wait only for what the capturing stream may have written."""
    with (sluice.Writer("out", shape=SIZE, device=gpu.device, writable=writable) as writer,
          sluice.Reader("out", writable=writable) as reader):
        publish(gpu, writer, 5)
        captures, other = gpu.stream(), gpu.stream()
        frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(captures, gpu.device))
        copies = [frame.numpy, frame.copy, lambda: run_fetch(frame)]
        target = bytearray(SIZE)
        with gpu.capture(captures) as graph:
            for copy in copies:
                if writable:
                    with pytest.raises(sluice.CaptureError, match="wait for work that is being captured.*after the capture"):
                        copy()
                else:
                    assert copy().tobytes() == bytes([5]) * SIZE
            if writable:
                with pytest.raises(sluice.CaptureError, match="wait for work that is being captured"):
                    frame.copy_to(target, stream=sluice.Stream.from_handle(other, gpu.device))
            with pytest.raises(sluice.CaptureError, match="captur"):
                frame.copy_to(target)
        assert graph.nodes() == 0
        assert all(copy().tobytes() == bytes([5]) * SIZE for copy in copies)
        frame.copy_to(target)
        assert target == bytes([5]) * SIZE


def test_another_thread_lives_a_whole_life_meanwhile(gpu, run_fetch):
    """The specification's 35: slots are added, formats change, streams, events, frames, arrays and copies come and go."""
    def live():
        gpu.enter()
        kept, own = [], sluice.Stream(gpu.device)
        with sluice.Writer("life", shape=SIZE, device=gpu.device, slots=3, max_slots=8, policy="wait", wait=60) as writer:
            with sluice.Reader("life", hold=4) as reader:
                for value in range(12):
                    if value == 8:
                        writer.reformat(shape=2 * SIZE)
                    content = bytes([value]) * writer.format["data"].shape[0]
                    writer.send(content)
                    frame = reader.next(timeout=60, stream=own)
                    assert frame.numpy().tobytes() == frame.copy().tobytes() == run_fetch(frame).tobytes() == content
                    kept = [*kept[-2:], (frame, take(frame, own.native))]
                    with sluice.Reader("life") as second, sluice.Stream(gpu.device) as stream:
                        second.latest(stream=stream)
                        stream.record().wait(own)
                assert writer.stats().slots > 3 and writer.stats().dropped == 0
            del frame
            kept.clear()
            gc.collect()

    captures = gpu.stream()
    with gpu.capture(captures) as graph:
        on_thread(live)
    assert graph.nodes() == 0
    graph.replay(captures)


def test_while_another_thread_captures_on_a_blocking_stream(gpu, writer, reader):
    """The default stream is shut then; frames that it uses begin and end all the same, with others too."""
    captures, other = gpu.stream(blocking=True), gpu.stream()
    default = sluice.Stream.default(gpu.device)
    with gpu.capture(captures) as graph:
        for number in range(6):
            with writer.frame(stream=default) as frame:
                if number % 2:
                    frame.used_on(sluice.Stream.from_handle(other, gpu.device))
            with reader.next(timeout=60, stream=default) as frame:
                assert frame.sequence == number + 1
                if number % 2:
                    frame.used_on(sluice.Stream.from_handle(other, gpu.device))
    assert graph.nodes() == 0
    wait_until(lambda: len(free_slots(writer)) == 3)
