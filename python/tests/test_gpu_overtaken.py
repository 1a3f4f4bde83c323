# SPDX-License-Identifier: MIT
"""Copies of frames of cuda-link's protocol, whose writer waits for no reader: whole, or a LostError."""
import asyncio
import os

import numpy as np
import pytest

import sluice
from gpu_frames import SIZE

NAME = f"cipd:sluice-test-{os.getpid()}-overtaken"
SHAPE = (4, SIZE // 16, 4)


@pytest.fixture
def pair(gpu):
    with sluice.Writer(NAME, shape=SHAPE, device=gpu.device, slots=3) as writer, sluice.Reader(NAME, wait=20) as reader:
        yield writer, reader
        gpu.open_gates()


def send(writer, *values):
    for value in values:
        writer.send(np.full(SHAPE, value, np.uint8))


def fetch(frame):
    async def main():
        return await frame.fetch()
    return asyncio.run(main())


def copy_to(frame):
    target = np.empty(SHAPE, np.uint8)
    frame.copy_to(target)
    return target


@pytest.mark.parametrize("how", [lambda frame: frame.numpy(), lambda frame: frame.copy(), lambda frame: frame[0].numpy(),
                                 lambda frame: frame[0].copy(), fetch, copy_to], ids=["numpy", "copy", "[0].numpy", "[0].copy", "fetch", "copy_to"])
def test_a_copy_of_a_frame_that_was_overtaken(pair, how):
    writer, reader = pair
    send(writer, 1)
    frame = reader.next(timeout=20)
    assert (how(frame) == 1).all()
    send(writer, 2, 3, 4, 5)
    with pytest.raises(sluice.LostError, match="may have written to this frame"):
        how(frame)
    with pytest.raises(sluice.LostError):
        frame.release()
    frame = reader.next(timeout=20)  # the reader goes on, with the newest frame that the GPU has made
    while frame.sequence < 5:
        frame.release()
        frame = reader.next(timeout=20)
    assert (how(frame) == 5).all()


def test_a_large_copy_that_is_waited_for(gpu):
    """Overtaken before it begins, or while it waits for others."""
    large = np.zeros((1024, 1024, 4), np.uint8)
    with sluice.Writer.like(NAME, large, device=gpu.device, slots=3) as writer, sluice.Reader(NAME, wait=20) as reader:
        writer.send(large + 1)
        frame = reader.next(timeout=20)

        async def main():
            copy = frame.fetch()
            assert (await copy == 1).all()
            copy = frame.fetch()
            for value in (2, 3, 4, 5):
                writer.send(large + value)
            with pytest.raises(sluice.LostError, match="may have written to this frame"):
                await copy

        asyncio.run(main())
