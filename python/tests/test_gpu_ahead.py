# SPDX-License-Identifier: MIT
"""Frames on a GPU that are taken before they are ready: streams wait for them."""
import asyncio
import contextlib

import pytest

import sluice
from dl import take
from gpu_frames import SIZE, publish, writer  # noqa: F401


def test_ahead(gpu, writer):
    fills, looks, last = gpu.stream(), gpu.stream(), gpu.stream()
    with sluice.Reader("cam", ahead=True, ahead_timeout=60) as reader:
        with pytest.raises(ValueError, match="ahead=True.*stream"):
            reader.next(timeout=0)
        with sluice.Stream.from_handle(looks, gpu.device).use():
            publish(gpu, writer, 1)
            reader.next(timeout=60).release()  # from here on the writer knows of it
            publish(gpu, writer, 2)
            reader.next(timeout=60).release()
            gate = gpu.gate(fills)
            publish(gpu, writer, 3, fills)
            frame = reader.next(timeout=60)
            assert frame.sequence == 3 and not gpu.is_idle(looks)
            found = gpu.look(take(frame, last).data, SIZE, last)  # another stream waits as well
            assert not gpu.is_idle(last)
            gate.open()
            gpu.synchronize(last)
            assert bytes(found) == bytes([3]) * SIZE
            frame.release()


def test_coroutines_take_frames_ahead(gpu, writer):
    fills, looks = gpu.stream(), sluice.Stream(gpu.device)

    async def main():
        with sluice.Reader("cam", ahead=True, ahead_timeout=60) as reader:
            with pytest.raises(ValueError, match="ahead=True.*stream"):
                await reader.next_async(timeout=0)
            for value in range(2):  # from then on the writer knows of it
                publish(gpu, writer, value)
                (await reader.next_async(timeout=60, stream=looks)).release()
            gate = gpu.gate(fills)
            publish(gpu, writer, 3, fills)
            with await reader.next_async(timeout=60, stream=looks) as frame:
                assert frame.sequence == 3 and not looks.query()
                gate.open()
                looks.synchronize()
                assert gpu.read(take(frame, looks.native).data, SIZE) == bytes([3]) * SIZE

    asyncio.run(main())


def test_the_threads_stream_counts_for_the_first_frame_of_a_process(gpu, run):
    run("""
import sluice
with sluice.Writer("cam", shape=64, device="cuda:0") as writer, sluice.Reader("cam", ahead=True) as reader:
    with sluice.Stream("cuda:0"):
        with writer.frame():
            pass
        reader.next(timeout=60).release()
""")


def test_what_is_made_of_a_lost_frame_is_not_published_behind_several_streams(gpu, writer):
    """One of them waits for the frame; the commit is queued on a stream of Sluice's behind all of them."""
    fills, others = gpu.stream(), [sluice.Stream(gpu.device), sluice.Stream.default(gpu.device)]
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(sluice.Writer("made", shape=SIZE, device=gpu.device))
        reader = stack.enter_context(sluice.Reader("cam", ahead=True))
        stack.callback(gpu.open_gates)
        looks = sluice.Stream(gpu.device)
        publish(gpu, writer, 1)
        reader.next(timeout=60, stream=looks).release()
        publish(gpu, writer, 2)
        reader.next(timeout=60, stream=looks).release()
        gate = gpu.gate(fills)
        publish(gpu, writer, 3, fills)
        frame = reader.next(timeout=60, stream=looks)
        assert frame.sequence == 3 and not gpu.is_idle(looks.native)
        for other in others:  # the second one: Sluice waits for the default stream without an event
            out = made.frame(stream=looks)
            out.used_on(other)
            array, cancelled = out[0], made.stats().cancelled
            with pytest.raises(sluice.LostError, match="not whole"):
                out.commit()
            assert out.ended and made.stats().cancelled == cancelled + 1  # though an array of it lives
            with pytest.raises(BufferError, match="cancelled"):
                take(array, 1)
        assert made.stats().committed == 0 and made.stats().cancelled == 2
        gate.open()
        with pytest.raises(sluice.LostError):
            frame.release()


def test_a_stream_waits_no_longer_than_its_reader_says(gpu, writer):
    """Two wait for the same frame; the one that began later is let go, and the first one still waits."""
    fills = gpu.stream()
    streams = [sluice.Stream(gpu.device) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(sluice.Reader("cam", ahead=True, ahead_timeout=each)) for each in (600, 0.01)]
        stack.callback(gpu.open_gates)
        for value in range(2):  # from then on the writer knows of them
            publish(gpu, writer, value)
            for reader, stream in zip(readers, streams):
                reader.next(timeout=60, stream=stream).release()
        gate = gpu.gate(fills)
        publish(gpu, writer, 3, fills)
        patient, hasty = [reader.next(timeout=60, stream=stream) for reader, stream in zip(readers, streams)]
        assert patient.sequence == hasty.sequence == 3
        streams[1].synchronize()
        assert not streams[0].query()
        with pytest.raises(sluice.LostError):
            hasty.release()
        gate.open()
        streams[0].synchronize()
        assert gpu.read(take(patient, 1).data, SIZE) == bytes([3]) * SIZE
        patient.release()
        assert [reader.stats().lost for reader in readers] == [0, 1]
