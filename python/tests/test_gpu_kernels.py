# SPDX-License-Identifier: MIT
"""Arrays of other libraries as arguments of kernels, in place: on which stream, in which order, and what is refused."""
import struct

import numpy
import pytest

import sluice
from gpu_arrays import CudaInterface, DLPack, Memory, Tensor, Torch
from gpu_pair import torch  # noqa: F401
from test_gpu_which_stream import NAMED, Streams

SOURCE = """
__global__ void add(float *x, float value) { x[threadIdx.x] += value; }
__global__ void copy(float *to, const float *from) { to[threadIdx.x] = from[threadIdx.x]; }
"""
ONE = {"grid": 1, "block": 4}


@pytest.fixture
def fx(gpu):
    with sluice.Kernels(SOURCE, gpu.device) as loaded:
        yield loaded


@pytest.fixture
def memory(gpu):
    made = [Memory(gpu, 16), Memory(gpu, 16)]
    for each in made:
        gpu.fill(each.address, 0, 16, 0)
    gpu.synchronize(0)
    yield made
    gpu.open_gates()
    sluice.synchronize(gpu.device)
    for each in made:
        each.free()


def numbers(gpu, memory):
    return list(struct.unpack("4f", gpu.read(memory.address, 16)))


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("kind", ["tensor", "interface"])
def test_the_order_of_streams(gpu, torch, fx, memory, named, kind):  # noqa: F811
    streams = Streams(gpu, torch)
    made = {"tensor": lambda: torch.Tensor(memory[0], (4,), "float32"),
            "interface": lambda: CudaInterface(memory[0], (4,), "float32", stream=streams.native["f"])}[kind]()
    streams.shut()
    if kind == "tensor":
        with streams.entered(named):
            fx.add(made, 3, **ONE, **streams.given(named))
        after = gpu.look(memory[0].address, 16, streams.native["f"])  # the framework's next work is behind the launch
        streams.check_behind(NAMED[named] + "f", lambda: numbers(gpu, memory[0]) == [3] * 4)
        gpu.synchronize(streams.native["f"])
        assert bytes(after) == struct.pack("4f", 3, 3, 3, 3)
    else:  # its owner orders nothing: the call waits until the memory was used
        for gate in streams.gates.values():
            gate.open()
        with streams.entered(named):
            fx.add(made, 3, **ONE, **streams.given(named))
        assert numbers(gpu, memory[0]) == [3] * 4


def test_torch_without_the_exchange_table_and_others(gpu, fx, memory, monkeypatch):
    module = Torch(monkeypatch, exchange=False)
    module.current[0] = gpu.stream()
    fx.add(Tensor(memory[0], (2, 2), "float32"), 1, **ONE)
    gpu.synchronize(module.current[0])  # nothing orders the other arrays after PyTorch's stream
    fx.copy(DLPack(memory[1], (4,), "float32"), DLPack(memory[0], (4,), "float32", read_only=True), **ONE)
    assert numbers(gpu, memory[0]) == [1] * 4
    sluice.synchronize(gpu.device)
    assert numbers(gpu, memory[1]) == [1] * 4


def test_200_tensors_that_are_dropped_right_after(gpu, torch, fx, memory):  # noqa: F811
    torch.current[0] = gpu.stream()
    with sluice.Stream(gpu.device):
        for number in range(200):
            gpu.fill(memory[0].address, 0, 16, torch.current[0])  # behind the launch before
            fx.add(torch.Tensor(memory[0], (4,), "float32"), number, **ONE)
            found = gpu.look(memory[0].address, 16, torch.current[0])
            gpu.synchronize(torch.current[0])
            assert bytes(found) == struct.pack("4f", *[number] * 4)


def test_arrays_of_numpy_use_no_default_stream(gpu, fx):
    """It stands still meanwhile: what was queued there would never be done. The fake driver counts what is not waited for, too."""
    uses = gpu.library.fake_default_uses if gpu.fake else lambda: 0
    with sluice.Stream(gpu.device) as stream:
        gpu.gate(0)
        before = uses()
        for number in range(200):
            source, target = numpy.full(4, number, "float32"), numpy.zeros(4, "float32")
            fx.copy(target, source, **ONE, stream=stream)
            source[:] = -1  # the call is done with it
            assert target.tolist() == [number] * 4
        assert uses() == before
        gpu.open_gates()
        fx.copy(target, source, **ONE, stream=sluice.Stream.default(gpu.device))
        assert uses() > before or not gpu.fake


@pytest.mark.parametrize(("array", "error", "words"), [
    (lambda memory: DLPack(memory, (4,), "int32"), TypeError, "parameter 1 is 'float .'; a pointer of int32 was passed"),
    (lambda memory: DLPack(memory, (4,), "float32", read_only=True), ValueError, "parameter 1 .* which it may write; read-only memory"),
    (lambda memory: CudaInterface(memory, (4,), "float32", read_only=True, stream=1), ValueError, "read-only memory"),
    (lambda memory: DLPack(memory, (2,), "float32", strides=(2,)), ValueError, "parameter 1: the array is not contiguous"),
    (lambda memory: Tensor(memory, (2, 2), "float32", strides=(1, 2)), ValueError, "parameter 1: the tensor is not contiguous"),
])
def test_what_is_refused(gpu, torch, fx, memory, array, error, words):  # noqa: F811
    with pytest.raises(error, match=words):
        fx.add(array(memory[0]), 1, **ONE)
    lazy = torch.Tensor(memory[0], (4,), "float32")
    lazy.negative = True
    with pytest.raises(ValueError, match="yet to be conjugated or negated"):
        fx.add(lazy, 1, **ONE)
    assert numbers(gpu, memory[0]) == [0] * 4


def test_arrays_of_a_gpu_for_a_kernel_on_host(gpu, torch, memory):  # noqa: F811
    fx = sluice.Kernels(SOURCE, "host")
    for array in (torch.Tensor(memory[0], (4,), "float32"), DLPack(memory[0], (4,), "float32"),
                  CudaInterface(memory[0], (4,), "float32", stream=1)):
        with pytest.raises(sluice.WrongDeviceError, match='parameter 1: it is on "cuda:0", and the kernel is on "host"'):
            fx.add(array, 1, **ONE)


def test_a_tensor_in_a_capture(gpu, torch, fx, memory):  # noqa: F811
    torch.current[0] = gpu.stream()
    with sluice.Stream(gpu.device) as stream:
        with sluice.capture(stream) as graph:
            fx.add(torch.Tensor(memory[0], (4,), "float32"), 2, **ONE)
        assert graph.nodes == 1
        for _ in range(3):
            graph.launch()
        stream.synchronize()
    assert numbers(gpu, memory[0]) == [6] * 4
    with gpu.capture(torch.current[0]) as recorded:  # theirs
        fx.add(torch.Tensor(memory[0], (4,), "float32"), 1, **ONE)
        with pytest.raises(sluice.CaptureError, match="launch on that stream"):
            fx.add(torch.Tensor(memory[0], (4,), "float32"), 1, **ONE, stream=sluice.Stream(gpu.device))
    assert recorded.nodes() == 1 and numbers(gpu, memory[0]) == [6] * 4
    recorded.replay(gpu.stream())
    assert numbers(gpu, memory[0]) == [7] * 4
