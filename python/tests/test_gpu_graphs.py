# SPDX-License-Identifier: MIT
"""Sends as graphs of the driver: for repeated frames, unless they are disabled; the frames are the same."""
import pytest

import sluice
from gpu_arrays import CudaInterface, Memory

SIZE, FRAMES = 4096, 40


@pytest.mark.parametrize("options", [{}, {"graph": True}, {"graph": False}])
def test_sends_that_come_again(gpu, options):
    stream = gpu.stream()
    memory = Memory(gpu, SIZE)
    array = CudaInterface(memory, (SIZE,))
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, slots=4, max_slots=4, **options) as writer:
        with sluice.Reader("cam") as reader:
            for value in range(FRAMES):
                gpu.fill(memory.address, value, SIZE, stream)
                writer.send(array, stream=sluice.Stream.from_handle(stream))
                gpu.fill(memory.address, 255, SIZE, stream)  # behind the copy
                with reader.next(timeout=60) as frame:
                    assert gpu.read(frame[0].address, SIZE) == bytes([value]) * SIZE
        launched = writer.stats().graph_sends
    gpu.synchronize(stream)
    memory.free()
    assert launched >= FRAMES // 2 if options.get("graph", True) else launched == 0


def test_memory_that_comes_once_makes_no_graph(gpu):
    memories = [Memory(gpu, SIZE) for _ in range(FRAMES)]
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, slots=4, max_slots=4) as writer:
        with sluice.Reader("cam") as reader:
            for value, memory in enumerate(memories):
                gpu.fill(memory.address, value, SIZE, 0)
                writer.send(CudaInterface(memory, (SIZE,), stream=1))
                with reader.next(timeout=60) as frame:
                    assert gpu.read(frame[0].address, SIZE) == bytes([value]) * SIZE
        assert writer.stats().graph_sends == 0
    gpu.synchronize(0)
    for memory in memories:
        memory.free()


def test_sends_after_the_environment_forbids_graphs(gpu, run):
    out = run(f"""
import sys
sys.path.insert(0, {__file__.rpartition("/")[0]!r})
import sluice, gpu_arrays, gpu_kit
gpu = gpu_kit.Gpu()
memory = gpu_arrays.Memory(gpu, {SIZE})
with sluice.Writer("forbidden", shape={SIZE}, device=gpu.device, slots=4, max_slots=4) as writer:
    for value in range({FRAMES}):
        writer.send(gpu_arrays.CudaInterface(memory, ({SIZE},), stream=1))
        gpu.synchronize(0)
    print(writer.stats().committed, writer.stats().graph_sends)
""", env={"SLUICE_WITHOUT": "graphs"})
    assert out.split() == [str(FRAMES), "0"]
