# SPDX-License-Identifier: MIT
import asyncio
import os
import time

import pytest

import sluice
from eventually import SECONDS


def test_async_for_takes_frames_to_the_end():
    async def main():
        with sluice.Writer("a", shape=4) as writer:
            got = []

            async def read():
                async with sluice.Reader("a", mode="in_order") as reader:
                    async for frame in reader:
                        got.append((frame.sequence, int(frame.numpy()[0])))
                assert reader.closed

            task = asyncio.create_task(read())
            await asyncio.sleep(0.02)
            for value in range(30):
                writer.send(bytes([value] * 4))
                while len(got) < value:  # it may be one behind: the writer does not wait
                    await asyncio.sleep(0.001)
            writer.close()
            await asyncio.wait_for(task, SECONDS)
            assert got == [(value + 1, value) for value in range(30)]

    asyncio.run(main())


def test_waiting_leaves_the_loop_to_others():
    async def main():
        with sluice.Writer("a", shape=4) as writer:
            reader = sluice.Reader("a")
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.005)
                    if ticks == 20:
                        writer.send(bytes(4))

            other = asyncio.create_task(tick())
            frame = await reader.next_async(timeout=60)
            assert frame.sequence == 1 and ticks >= 20
            other.cancel()

    asyncio.run(main())


def test_cancellation_and_time_outs_lose_no_frame():
    async def main():
        with sluice.Writer("a", shape=4) as writer:
            reader = sluice.Reader("a", mode="in_order")
            task = asyncio.create_task(reader.next_async())
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(sluice.Timeout):  # or this would never end
                await reader.next_async(timeout=0.05)
            writer.send(bytes(4))
            assert (await reader.next_async()).sequence == 1
            assert (await asyncio.wait_for(asyncio.gather(later(writer), reader.next_async()), SECONDS))[1].sequence == 2
            from sluice import _asyncio
            assert _asyncio._waiting == {}

    async def later(writer):
        await asyncio.sleep(0.02)
        writer.send(bytes(4))

    asyncio.run(main())


def test_a_loop_that_comes_late_gives_the_frame_that_did_not():
    async def main():
        with sluice.Writer("a", shape=4) as writer:
            reader = sluice.Reader("a")
            task = asyncio.create_task(reader.next_async(timeout=0.05))
            await asyncio.sleep(0)
            writer.send(bytes(4))
            time.sleep(0.1)
            assert (await task).sequence == 1

    asyncio.run(main())


def test_several_tasks_share_a_reader():
    async def main():
        with sluice.Writer("a", shape=4) as writer:
            reader = sluice.Reader("a", mode="in_order", hold=4, depth=4)
            tasks = [asyncio.create_task(reader.next_async(timeout=60)) for _ in range(3)]
            await asyncio.sleep(0.02)
            for _ in range(3):
                writer.send(bytes(4))
            frames = await asyncio.gather(*tasks)
            assert sorted(frame.sequence for frame in frames) == [1, 2, 3]

    asyncio.run(main())


def test_the_descriptor_stays_over_a_restart():
    async def main():
        reader = sluice.Reader("a", wait=None)
        fd = reader.fileno()
        for session in range(2):
            with sluice.Writer("a", shape=4) as writer:
                while not writer.stats().readers:
                    await asyncio.sleep(0.01)
                asyncio.get_running_loop().call_later(0.02, writer.send, bytes(4))
                while True:
                    try:
                        frame = await reader.next_async(timeout=60)
                        break
                    except sluice.Closed:
                        await asyncio.sleep(0.01)
                assert frame.new_session and reader.fileno() == fd
                frame.release()

    asyncio.run(main())


def test_a_reader_that_is_closed_wakes_who_waits():
    async def main():
        async def iterate(reader):
            async for _frame in reader:
                pass

        for wait in (lambda reader: reader.next_async(), iterate):
            with sluice.Writer("a", shape=4) as writer:
                reader = sluice.Reader("a")
                task = asyncio.create_task(wait(reader))
                await asyncio.sleep(0.02)
                descriptor = reader.fileno()
                reader.close()
                other = sluice.Reader("a")  # which gets the same descriptor as soon as that is free
                late = asyncio.create_task(other.next_async(timeout=60))
                with pytest.raises(sluice.ClosedError):
                    await asyncio.wait_for(task, SECONDS)
                writer.send(bytes(4))
                assert (await late).sequence == 1
                other.close()
                with pytest.raises(OSError):  # nothing keeps it open any more
                    os.fstat(descriptor)
                from sluice import _asyncio
                assert _asyncio._waiting == {}

    asyncio.run(main())


def test_a_reader_that_another_thread_closes_wakes_who_waits():
    async def main():
        with sluice.Writer("a", shape=4):
            reader = sluice.Reader("a")
            task = asyncio.create_task(reader.next_async())
            await asyncio.sleep(0.02)
            await asyncio.to_thread(reader.close)
            with pytest.raises(sluice.ClosedError):
                await asyncio.wait_for(task, SECONDS)

    asyncio.run(main())
