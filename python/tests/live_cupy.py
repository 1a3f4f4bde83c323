# SPDX-License-Identifier: MIT
"""As much of CuPy as sluice.live asks for, on the driver of gpu_kit.py, where neither CuPy nor PyTorch is."""
import contextlib
import ctypes
import sys
import types

import numpy as np
import pytest

import sluice

from gpu_arrays import DLPack, Memory


class Array(DLPack):
    """Contiguous, in memory of its own, or a part of it."""

    @property
    def address(self):
        return self.memory.address + self.offset

    @property
    def nbytes(self):
        return int(np.prod(self.shape)) * 4

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, at):
        start, stop, _ = at.indices(len(self)) if isinstance(at, slice) else (at, at + 1, 1)
        size = self.nbytes // len(self)
        shape = (stop - start, *self.shape[1:]) if isinstance(at, slice) else self.shape[1:]
        return Array(self.memory, shape, self.dtype, offset=self.offset + start * size)

    def __setitem__(self, at, other):
        assert at is Ellipsis and other.nbytes == self.nbytes
        GPU[0].call("MemcpyDtoDAsync", ctypes.c_uint64(self.address), ctypes.c_uint64(other.address), ctypes.c_size_t(self.nbytes),
                    ctypes.c_void_p(CURRENT[-1]))

    def fill(self, value):
        self.set(np.full(self.shape, value, np.float32))

    def set(self, array):
        KEPT.append(array)  # the copy reads it later
        GPU[0].call("MemcpyHtoDAsync", ctypes.c_uint64(self.address), ctypes.c_void_p(array.ctypes.data),
                    ctypes.c_size_t(array.nbytes), ctypes.c_void_p(CURRENT[-1]))

    def sum(self, dtype, keepdims):
        return self

    def reshape(self, count):
        return self

    def get(self, out=None, blocking=True):
        if out is not None:
            assert not blocking and out.nbytes == self.nbytes
            return KEPT.append(out)  # stays as it is: no kernel of CuPy's runs here
        GPU[0].synchronize(CURRENT[-1])
        return np.frombuffer(GPU[0].read(self.address, self.nbytes), np.float32).reshape(self.shape)


Array.__module__ = "cupy"
GPU, CURRENT = [], [0]


class Stream:
    """What Stream.to_cupy() gives: ExternalStream's base."""

    def __init__(self, ptr=0, device_id=-1):
        self.ptr = ptr

    def __enter__(self):
        CURRENT.append(self.ptr)

    def __exit__(self, *error):
        CURRENT.pop()


class ExternalStream(Stream):
    pass


def zeros(shape, dtype):
    assert dtype == "float32"
    array = Array(Memory(GPU[0], max(4, int(np.prod(shape)) * 4)), shape, "float32")
    MADE.append(array.memory)
    array.fill(0.0)
    return array


def isnan(array):
    return zeros((1,), "float32")


MADE, KEPT = [], []


@contextlib.contextmanager
def installed(gpu):
    """In place of CuPy, and without PyTorch. Nothing of it is left for other tests of the process."""
    GPU[:] = [gpu]
    cupy, cupyx = types.ModuleType("cupy"), types.ModuleType("cupyx")
    cupy.zeros, cupy.isnan, cupy.ndarray, cupy.from_dlpack = zeros, isnan, Array, None
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.ExternalStream, cupy.cuda.Device = ExternalStream, lambda number: contextlib.nullcontext()
    cupy.cuda.get_current_stream = lambda device=None: Stream(CURRENT[-1])
    cupyx.zeros_pinned = np.zeros
    with pytest.MonkeyPatch.context() as patch:
        for name, module in {"torch": None, "cupy": cupy, "cupyx": cupyx, "cupy.cuda": cupy.cuda}.items():
            patch.setitem(sys.modules, name, module)
        sluice._sluice._forget()  # what was found of the real ones
        yield cupy
        for memory in MADE:
            memory.free()
        MADE.clear()
        KEPT.clear()
    sluice._sluice._forget()
