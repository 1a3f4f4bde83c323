# SPDX-License-Identifier: MIT
"""Copies out of frames on a GPU while an event loop goes on."""
import asyncio
import ctypes
import gc
import sys
import time

import pytest

import sluice
import sluice.cuda_link
from gpu_pair import SHAPE, pair, pattern  # noqa: F401

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

UNKNOWN = 999  # as the driver has it
ODD = (70, 71, 4)  # of a size in pinned memory that nothing else here has


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
    assert '"cuda:0" has not finished after 10 s' in str(fetch) and "synchronize its stream" in str(fetch)
    gate.open()
    assert (frame.numpy() == pattern()).all()


def test_memory_that_a_copy_may_still_write_to_is_not_given_out_again(gpu, pair):
    """No word can tell of the copy, and the stream does not get to it: that the driver failed does not say that the copy is over."""
    if not gpu.fake:
        pytest.skip("no GPU fails when it should")
    writer, reader = pair(shape=ODD, writable=True, reader={"writable": True})
    writer.send(pattern(ODD))
    frame = reader.next(timeout=60)
    stream, target = gpu.stream(), frame.copy()
    gate = gpu.gate(stream)
    frame.used_on(sluice.Stream.from_handle(stream, gpu.device))
    before, references = sluice._sluice._pinned()[0], sys.getrefcount(target)

    async def all_three():
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, frame.numpy), loop.run_in_executor(None, frame.copy_to, target)]
        return await asyncio.gather(frame.fetch(), *others, return_exceptions=True)

    gpu.fail("StreamWriteValue64", UNKNOWN, 0)
    fetch, copy, copy_to = asyncio.run(all_three())
    assert gpu.library.fake_failed()
    assert type(fetch) is type(copy_to) is sluice.DriverError and type(copy) is sluice.Timeout
    del fetch, copy, copy_to
    gc.collect()
    assert sluice._sluice._pinned()[0] <= before and sys.getrefcount(target) > references
    gate.open()
    assert (frame.numpy() == pattern(ODD)).all()


class Machine(ctypes.Structure):
    """The beginning of struct fake_machine of tests/fake/fake.h."""
    _fields_ = [("numbers", ctypes.c_int * 3), ("sizes", ctypes.c_size_t * 2), ("cannot", ctypes.c_ubyte * 256),
                ("flags", ctypes.c_bool * 2), ("delay", ctypes.c_int64)]


@pytest.mark.parametrize("pipelined", [False, True])
def test_cuda_links_memory_that_a_copy_may_still_write_to(gpu, pair, pipelined):
    """As above, of an importer whose copies take longer than it waits."""
    if not gpu.fake:
        pytest.skip("no GPU is as slow as that")
    shape = (ODD[0] + 20 * (1 + pipelined), *ODD[1:])
    writer, reader = pair(shape=shape)
    policy = sluice.cuda_link.ImportPolicy(d2h_pipelined=pipelined)
    machine = Machine.in_dll(gpu.library, "fake_machine")

    def send():
        writer.send(pattern(shape))
        reader.next(timeout=60).release()  # it is ready

    with sluice.cuda_link.Importer.open(sluice.cuda_link.ImportSpec("sluice:a"), policy=policy) as importer:
        before = sluice._sluice._pinned()[0]
        send()
        assert (importer.get_frame_numpy().frame is None) == pipelined
        send()
        machine.delay = 15 * 10**9
        try:
            told = importer.get_frame_numpy()
            if pipelined:
                assert told.frame is not None
                time.sleep(2)  # the next copy has begun
                machine.delay = 0
                send()
                with pytest.raises(RuntimeError, match="after 10 s|under way"):
                    importer.get_frame_numpy()
            else:
                assert told.frame is None
        finally:
            machine.delay = 0
        with gpu.relaxed():
            gpu.call("CtxSynchronize")
    del told
    gc.collect()
    assert sluice._sluice._pinned()[0] <= before + pipelined  # the other one has nothing under way
