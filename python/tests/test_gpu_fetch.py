# SPDX-License-Identifier: MIT
"""Copies out of frames on a GPU while an event loop goes on."""
import asyncio

import pytest

import sluice
from gpu_pair import SHAPE, pair, pattern  # noqa: F401

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")


def test_fetch_gives_a_copy_and_leaves_the_loop_alone(gpu, pair, run):
    async def main():
        writer, reader = pair(reader={"hold": 1})
        for seed in range(4):
            writer.send(pattern(seed=seed))
            frame = await reader.next_async(timeout=60)
            array = await frame.fetch()
            assert (array == pattern(seed=seed)).all() and array.flags.writeable
            frame.release()

    asyncio.run(main())


def test_fetch_on_host():
    async def main():
        with sluice.Writer("h", shape=(300, 400)) as writer, sluice.Reader("h") as reader:
            writer.send(pattern((300, 400)))
            frame = reader.next(timeout=60)
            array = await frame.fetch()
            frame.release()
            assert (array == pattern((300, 400))).all() and array.flags.writeable

    asyncio.run(main())


SLOW = """
import asyncio, time, numpy, sluice
size = 1 << 20

async def main():
    with sluice.Writer("a", shape=size, device={device!r}) as writer, sluice.Reader("a", hold=1) as reader:
        writer.send(numpy.full(size, 5, "uint8"))
        frame = reader.next(timeout=60)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        other = asyncio.create_task(tick())
        {body}
        other.cancel()

asyncio.run(main())
print("well")
"""

BODIES = {
    "the loop goes on": """
        passed = 0
        while passed < 3:  # ever, or this would never end: this process may stand still for as long as the GPU takes
            before = ticks
            array = await frame.fetch()
            assert (array == 5).all()
            passed = ticks - before""",
    "frames may be released meanwhile": """
        task = asyncio.create_task(frame.fetch())
        await asyncio.sleep(0)
        frame.release()
        writer.send(numpy.full(size, 6, "uint8"))
        writer.send(numpy.full(size, 7, "uint8"))
        assert (await task == 5).all()
        assert reader.next(timeout=60).numpy()[0] in (6, 7)""",
    "cancelled": """
        for _ in range(3):
            task = None
            while not task or not task.cancel():  # it is over where this process stood still meanwhile
                task = asyncio.create_task(frame.fetch())
                await asyncio.sleep(0.01)
            try:
                await task
                assert False
            except asyncio.CancelledError:
                pass
        frame.release()
        writer.send(numpy.full(size, 6, "uint8"))
        while True:
            try:
                frame = reader.next(timeout=60)
                break
            except sluice.LimitError:  # the thread of one that was cancelled has not come to its copy yet
                await asyncio.sleep(0.01)
        with frame:
            arrays = [frame.numpy() for _ in range(3)]
            assert all((array == 6).all() for array in arrays)""",
    "the loop ends first": """
        task = asyncio.create_task(frame.fetch())
        await asyncio.sleep(0.01)
        frame.release()""",
    "many at once": """
        arrays = await asyncio.gather(*(frame.fetch() for _ in range(20)))
        assert all((array == 5).all() for array in arrays)""",
}


@pytest.mark.parametrize("body", BODIES, ids=[name.replace(" ", "_") for name in BODIES])
def test_fetch_under_way(gpu, run, body):
    """On a slow GPU, as only the fake driver is."""
    if not gpu.fake:
        pytest.skip("a GPU copies this before anybody can look")
    code = SLOW.format(device=gpu.device, body=BODIES[body])
    assert run(code, env={"SLUICE_FAKE_DELAY": "30000"}).endswith("well\n")


def test_copies_give_up_behind_work_that_does_not_end(gpu, pair):
    """After the 10 s that docs/python-send-fetch.md tells of."""
    writer, reader = pair(shape=SHAPE, writable=True, reader={"writable": True})
    writer.send(pattern())
    frame = reader.next(timeout=60)
    stream = gpu.stream()
    gate = gpu.gate(stream)
    frame.used_on(sluice.Stream.from_handle(stream, gpu.device))

    async def both():
        return await asyncio.gather(frame.fetch(), asyncio.to_thread(frame.numpy), return_exceptions=True)

    fetch, copy = asyncio.run(both())
    assert type(fetch) is type(copy) is sluice.Timeout and "within 10 s" in str(copy)
    assert '"cuda:0" is still under way after 10 s' in str(fetch) and "synchronize()" in str(fetch)
    gate.open()
    assert (frame.numpy() == pattern()).all()
