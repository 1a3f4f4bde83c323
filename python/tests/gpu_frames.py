# SPDX-License-Identifier: MIT
"""A channel on a GPU, for tests of its frames: kernels that fill them, and the free slots."""
import time

import pytest

import sluice
from dl import take
from eventually import wait_until  # noqa: F401

SIZE = 4096


@pytest.fixture
def writer(gpu):
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, slots=4, max_slots=4) as writer:
        yield writer
        gpu.open_gates()


@pytest.fixture
def reader(gpu, writer):
    with sluice.Reader("cam") as reader:
        yield reader
        gpu.open_gates()


def publish(gpu, writer, value, stream=None):
    """A frame full of `value`; gives its address in the writer."""
    own = stream or gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(own, gpu.device), meta=bytes([value])) as frame:
        taken = take(frame, own)
        gpu.fill(taken.data, value, SIZE, own)
    if stream is None:
        gpu.synchronize(own)
    return taken.data


def newest(writer, reader):
    """The frame that was sent last: until it is ready, one before it is the newest that is."""
    while (frame := reader.next(timeout=60)).sequence != writer.stats().committed:
        frame.release()
    return frame


def free_slots(writer):
    """Numbers of the slots that the writer may have now."""
    frames = []
    while (frame := writer.try_frame()) is not None:
        frames.append(frame)
    numbers = {frame.slot for frame in frames}
    for frame in frames:
        frame.cancel()
    return numbers


def ends_only_then(writer, slot, gates):
    """The slot comes free when all the gates have been opened, and not before."""
    for gate in gates:
        for _ in range(5):
            assert slot not in free_slots(writer)
            time.sleep(0.004)
        gate.open()
    wait_until(lambda: slot in free_slots(writer))
