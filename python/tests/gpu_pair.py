# SPDX-License-Identifier: MIT
"""Writer and reader of a channel on a GPU, and memory of all kinds, for tests of copies."""
import ctypes
import gc

import pytest

import sluice
from gpu_arrays import Memory, Torch

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

SHAPE = (6, 8, 4)
SIZE = 6 * 8 * 4


def pattern(shape=SHAPE, dtype="uint8", seed=0):
    return (numpy.arange(numpy.prod(shape), dtype="uint32") * 7 + seed).astype(dtype).reshape(shape)


@pytest.fixture
def memory(gpu):
    made = []

    def make(content=None, size=SIZE, **options):
        made.append(Memory(gpu, size, **options))
        if content is not None:
            put(gpu, made[-1], content)
        return made[-1]

    yield make
    gc.collect()
    for each in made:
        each.free()


@pytest.fixture
def torch(monkeypatch, request):
    """A stand-in for PyTorch; or with "capsule" for one without the exchange table."""
    sluice._sluice._forget()
    yield Torch(monkeypatch, getattr(request, "param", True))
    sluice._sluice._forget()


def put(gpu, memory, content):
    data = numpy.ascontiguousarray(content)
    stream = gpu.stream()
    gpu.call("MemcpyHtoDAsync", ctypes.c_uint64(memory.address), ctypes.c_void_p(data.ctypes.data),
             ctypes.c_size_t(data.nbytes), ctypes.c_void_p(stream))
    gpu.synchronize(stream)


def got(gpu, memory, shape=SHAPE, dtype="uint8"):
    size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    return numpy.frombuffer(gpu.read(memory.address, size), dtype).reshape(shape)


@pytest.fixture
def pair(gpu):
    """A writer and a reader of one channel, by the formats' arguments."""
    opened = []

    def make(*args, device=gpu.device, name="a", reader=None, **format):
        if not args and not format:
            format = {"shape": SHAPE}
        opened.append(sluice.Writer(name, *args, device=device, **format))
        opened.append(sluice.Reader(name, **(reader or {})))
        return opened[-2], opened[-1]

    yield make
    for each in reversed(opened):
        each.close()


def gpu_count(gpu):
    count = ctypes.c_int()
    gpu.call("DeviceGetCount", ctypes.byref(count))
    return count.value
