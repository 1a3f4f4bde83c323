# SPDX-License-Identifier: MIT
"""PyTorch and CuPy where neither is: as much of them as sluice.cuda_link asks for, on the driver of gpu_kit.py."""
import contextlib
import sys
import types

import dl

CODES = {(1, 8): "uint8", (1, 16): "uint16", (2, 32): "float32", (2, 16): "float16", (4, 16): "bfloat16", (0, 8): "int8",
         (0, 16): "int16"}


class Tensor(dl.DoubleTensor):
    @property
    def dtype(self):
        return "torch." + CODES[self.__dict__["dtype"][:2]]

    @dtype.setter
    def dtype(self, value):
        self.__dict__["dtype"] = value


class Array(Tensor):
    device = contextlib.nullcontext()  # CuPy's is one that can be entered

    @property
    def dtype(self):
        return CODES[self.__dict__["dtype"][:2]]

    @dtype.setter
    def dtype(self, value):
        self.__dict__["dtype"] = value


class Shown:
    """What a framework makes of memory that says where it is by the CUDA array interface."""
    NAMES = {"|u1": "uint8", "<u2": "uint16", "<f4": "float32", "<f2": "float16", "|i1": "int8", "<i2": "int16"}

    def __init__(self, what):
        about = what.__cuda_array_interface__
        (self.data, read_only), self.shape, self.dtype = about["data"], about["shape"], self.NAMES[about["typestr"]]
        assert not read_only and about["strides"] is None
        self.nbytes = int(about["typestr"][2:])
        for size in self.shape:
            self.nbytes *= size

    def view(self, dtype):
        self.dtype = dtype
        return self


class Stream:
    """CuPy's current one."""
    ptr = 0

    def wait_event(self, event):
        raise AssertionError(f"it must not wait for {event}")


def install():
    torch = dl.install_torch(exchange=False)
    torch.Tensor = Tensor
    Tensor.__module__ = "torch"
    torch.from_dlpack = Tensor
    torch.as_tensor = lambda what, device: Shown(what)
    torch.bfloat16 = "bfloat16"
    cupy = types.ModuleType("cupy")
    cupy.ndarray, Array.__module__ = Array, "cupy"
    cupy.from_dlpack = lambda parcel: Array(parcel.__dlpack__())
    cupy.asarray = Shown
    cupy.cuda = types.ModuleType("cupy.cuda")
    cupy.cuda.Device = lambda number: contextlib.nullcontext()
    stream = Stream()
    cupy.cuda.get_current_stream = lambda device=None: stream
    cupy.current = stream
    sys.modules.update({"cupy": cupy, "cupy.cuda": cupy.cuda})
    return torch, cupy
