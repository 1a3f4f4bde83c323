# SPDX-License-Identifier: MIT
"""Sends as graphs of the driver's: only where the writer asks for them, and the frames are the same."""
import pytest

import sluice
from gpu_arrays import CudaInterface, Memory

SIZE, FRAMES = 4096, 40


@pytest.mark.parametrize("graph", [False, True])
def test_sends_that_come_again(gpu, graph):
    stream = gpu.stream()
    memory = Memory(gpu, SIZE)
    array = CudaInterface(memory, (SIZE,))
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, slots=4, max_slots=4, graph=graph) as writer:
        with sluice.Reader("cam") as reader:
            for value in range(FRAMES):
                gpu.fill(memory.address, value, SIZE, stream)
                writer.send(array, stream=sluice.Stream.from_handle(stream))
                gpu.fill(memory.address, 255, SIZE, stream)  # behind the copy
                with reader.next(timeout=5) as frame:
                    assert gpu.read(frame[0].address, SIZE) == bytes([value]) * SIZE
        launched = writer.stats().graph_sends
    gpu.synchronize(stream)
    memory.free()
    assert launched >= FRAMES // 2 if graph else launched == 0
