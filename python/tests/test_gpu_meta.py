# SPDX-License-Identifier: MIT
"""Metadata is copied by the CPU: a GPU's memory is refused, and the program goes on."""
import pathlib

import pytest

import sluice
from gpu_frames import SIZE, reader, writer  # noqa: F401


class OnGpu:
    """As PyTorch's and CuPy's arrays say where they are."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (16,), "typestr": "|u1", "strides": None, "version": 3}


class OnGpuByDLPack:
    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **_):
        raise AssertionError("this must not be used")


def each_way(writer, meta):
    """What takes metadata; on a channel in host memory, too."""
    with sluice.Writer("host", shape=SIZE) as host:
        for owner in (writer, host):
            yield lambda owner=owner: owner.send(bytes(SIZE), meta=meta)
            yield lambda owner=owner: owner.frame(meta=meta)
            yield lambda owner=owner: owner.try_frame(meta=meta)
            with owner.frame() as frame:
                yield lambda frame=frame: setattr(frame, "meta", meta)


def test_arrays_on_a_gpu(gpu, writer, reader):
    address = gpu.device_pointer(gpu.word()).value
    with writer.frame() as frame:
        frame.meta = b"meta"
    with reader.next(timeout=60) as frame:
        for meta in (OnGpu(address), OnGpuByDLPack(), frame, frame[0]):
            for way in each_way(writer, meta):
                with pytest.raises(TypeError, match="meta.*GPU.*bytes"):
                    way()
    for wrong in (3, object()):
        for way in each_way(writer, wrong):
            with pytest.raises(TypeError, match="must be bytes"):
                way()


ADDRESSES = """
import ctypes, mmap, sys
sys.path.insert(0, {here!r})
import gpu_kit
gpu_kit.find()
gpu = gpu_kit.Gpu()
import sluice
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
address = libc.mmap(None, 4096, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)  # as a GPU's memory is for the CPU
meta = (ctypes.c_char * 16).from_address(address)
with sluice.Writer("cam", shape=16) as writer:
    for way in (lambda: writer.send(bytes(16), meta=meta), lambda: writer.frame(meta=meta), lambda: writer.send(bytes(16), meta=memoryview(meta))):
        try:
            way()
        except ValueError as error:
            print("cannot access the 16 bytes" in str(error), "meta" in str(error))
    writer.send(bytes(16), meta=bytearray(b"x"))
    writer.send(bytes(16), meta=(ctypes.c_char * 3)(1, 2, 3))
    writer.send(bytes(16), meta=memoryview(b""))
    writer.send(bytes(16), meta=b"")
    assert writer.stats().committed == 4
gpu.close()
"""


def test_addresses_that_the_cpu_cannot_access(gpu, run):
    assert run(ADDRESSES.format(here=str(pathlib.Path(__file__).parent))) == "True True\n" * 3
