# SPDX-License-Identifier: MIT
"""Errors, and types and numbers of the CUDA runtime, by cuda-link's names."""
from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

CUDAEvent_t = ctypes.c_uint64
CUDAStream_t = ctypes.c_uint64
CUDAGraph_t = ctypes.c_uint64
CUDAGraphExec_t = ctypes.c_uint64
CUDAGraphNode_t = ctypes.c_uint64

CUDART_GRAPHS_MIN_VERSION = 11040
IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1
HOST_ALLOC_PORTABLE = 1


def address_of(pointer: Any) -> int:
    """Of a c_void_p, a c_uint64 or an int."""
    if isinstance(pointer, int):
        return pointer
    return int(getattr(pointer, "value", pointer) or 0)


class cudaIpcMemHandle_t(ctypes.Structure):
    """What another process opens memory by."""

    _fields_ = [("internal", ctypes.c_byte * 64)]


class cudaIpcEventHandle_t(ctypes.Structure):
    """What another process opens an event by."""

    _fields_ = [("reserved", ctypes.c_byte * 64)]


class cudaPointerAttributes(ctypes.Structure):
    """What a pointer is: `type` 0 unknown to CUDA, 1 host, 2 device, 3 managed; `device` is the GPU's number."""

    _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int), ("devicePointer", ctypes.c_void_p),
                ("hostPointer", ctypes.c_void_p)]


class cudaPos(ctypes.Structure):
    """Where in an array."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("x", "y", "z")]


class cudaPitchedPtr(ctypes.Structure):
    """Memory in rows."""

    _fields_ = [("ptr", ctypes.c_void_p), *((name, ctypes.c_size_t) for name in ("pitch", "xsize", "ysize"))]


class cudaExtent(ctypes.Structure):
    """How much is copied: bytes, rows, layers."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("width", "height", "depth")]


class cudaMemcpy3DParms(ctypes.Structure):
    """A copy, as the runtime describes one."""

    _fields_ = [("srcArray", ctypes.c_void_p), ("srcPos", cudaPos), ("srcPtr", cudaPitchedPtr), ("dstArray", ctypes.c_void_p),
                ("dstPos", cudaPos), ("dstPtr", cudaPitchedPtr), ("extent", cudaExtent), ("kind", ctypes.c_int)]


class MemcpyKind(IntEnum):
    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3


class StreamFlags(IntEnum):
    DEFAULT = 0
    NON_BLOCKING = 1


class StreamCaptureMode(IntEnum):
    GLOBAL = 0
    THREAD_LOCAL = 1
    RELAXED = 2


class CUDAError:
    """Numbers of the runtime's errors."""

    SUCCESS = 0
    INVALID_VALUE = 1
    MEMORY_ALLOCATION = 2
    INVALID_DEVICE_POINTER = 17
    INVALID_DEVICE = 101
    INVALID_CONTEXT = 201
    NOT_READY = 600
    PEER_ACCESS_ALREADY_ENABLED = 704

    @staticmethod
    def get_name(code: int) -> str:
        """The name of one of these, or UNKNOWN_ERROR_ and the number."""
        for name, value in vars(CUDAError).items():
            if name.isupper() and value == code:
                return name
        return f"UNKNOWN_ERROR_{code}"


class CudaLinkError(RuntimeError):
    """The base of all errors of cuda-link. `code` is CUDA's number, where there is one."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class CudaIpcError(CudaLinkError):
    """Memory, an event or a copy: the driver said no."""


class ProtocolError(CudaLinkError, ValueError):
    """What is in the shared segment is not what cuda-link's protocol has there."""


class ProducerTimeoutError(CudaLinkError, TimeoutError):
    """The producer's GPU did not finish its frame in time."""
