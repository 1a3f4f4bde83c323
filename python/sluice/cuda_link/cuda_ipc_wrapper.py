# SPDX-License-Identifier: MIT
"""CUDARuntimeAPI: memory, copies, streams and events, for programs that took them from cuda-link.

It calls the driver, in the device's primary context, which is that of PyTorch, CuPy and the CUDA runtime; pointers, streams and
events are theirs, too. Sluice itself does not use it. No call breaks a capture of another thread.
"""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from ._inside import NotHere
from ._missing import __getattr__  # noqa: F401  cuda-link's _cuda_adapters is this module, too
from .cuda_graphs import CUDAGraphsMixin
from .cuda_runtime_types import (
    CUDART_GRAPHS_MIN_VERSION,
    HOST_ALLOC_PORTABLE,
    IPC_MEM_LAZY_ENABLE_PEER_ACCESS,
    CudaIpcError,
    CUDAError,
    CUDAEvent_t,
    CUDAGraph_t,
    CUDAGraphExec_t,
    CUDAGraphNode_t,
    CUDAStream_t,
    address_of,
    cudaExtent,
    cudaIpcEventHandle_t,
    cudaIpcMemHandle_t,
    cudaMemcpy3DParms,
    cudaPitchedPtr,
    cudaPointerAttributes,
    cudaPos,
)

__all__ = ["CTypesCUDAAdapter", "CUDAError", "CUDAEvent_t", "CUDAGraphExec_t", "CUDAGraphNode_t", "CUDAGraph_t",
           "CUDART_GRAPHS_MIN_VERSION", "CUDARuntimeAPI", "CUDAStream_t", "CUDA_EVENT_RECORD_EXTERNAL",
           "CUDA_EVENT_WAIT_EXTERNAL", "HOST_ALLOC_PORTABLE", "IPC_MEM_LAZY_ENABLE_PEER_ACCESS", "cudaExtent",
           "cudaIpcEventHandle_t", "cudaIpcMemHandle_t", "cudaMemcpy3DParms", "cudaPitchedPtr", "cudaPointerAttributes",
           "cudaPos", "get_cuda_runtime"]

CUDA_EVENT_RECORD_EXTERNAL = CUDA_EVENT_WAIT_EXTERNAL = 1

NOT_READY, UNKNOWN = 600, 999
RELAXED = 2
POINTER_TYPE, POINTER_DEVICE, POINTER_HOST, POINTER_MANAGED, POINTER_ORDINAL = 2, 3, 4, 8, 9


_loaded: list[ctypes.CDLL] = []


def _driver() -> ctypes.CDLL:
    if _loaded:
        return _loaded[0]
    path = os.environ.get("SLUICE_CUDA_DRIVER") or ("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise CudaIpcError(f"no CUDA driver found: {error}") from None
    code = library.cuInit(0)
    if code:
        raise CudaIpcError(f"the CUDA driver cannot be initialized: error {code}", code=code)
    _loaded.append(library)
    return library


class CUDARuntimeAPI(CUDAGraphsMixin):
    """What cuda-link's class of this name does. Failures raise CudaIpcError, a RuntimeError."""

    cudart = NotHere("it calls the driver, not the CUDA runtime: its methods do what is called through that, and load no library")

    def __init__(self, device: int = 0) -> None:
        self.device = device
        self._library = _driver()
        self._context = c_void_p()
        self._copies = c_void_p()
        self._pinned, self._pinned_size = c_void_p(), 0
        self._captured: set[int] = set()  # streams whose capture this object has begun
        self._query = ctypes.CFUNCTYPE(c_int, c_void_p)(self._event_code)
        ordinal = c_int()
        self._said("cuDeviceGet", self._library.cuDeviceGet(byref(ordinal), device))
        self._ordinal = ordinal.value
        with self._relaxed():
            self._said("cuDevicePrimaryCtxRetain", self._library.cuDevicePrimaryCtxRetain(byref(self._context), ordinal))

    # ---- calls ----

    def _said(self, name: str, code: int) -> None:
        self.check_error(code, name)

    @contextmanager
    def _relaxed(self) -> Iterator[None]:
        mode = c_int(RELAXED)
        self._library.cuThreadExchangeStreamCaptureMode(byref(mode))
        try:
            yield
        finally:
            self._library.cuThreadExchangeStreamCaptureMode(byref(mode))

    def _code(self, name: str, *arguments: Any) -> int:
        """In the primary context; the caller's is current again afterwards."""
        before = c_void_p()
        with self._relaxed():
            self._said("cuCtxPushCurrent", self._library.cuCtxPushCurrent_v2(self._context))
            try:
                code: int = self._function(name)(*arguments)
            finally:
                self._library.cuCtxPopCurrent_v2(byref(before))
        return code

    def _function(self, name: str) -> Any:
        try:
            return getattr(self._library, name)
        except AttributeError:
            raise CudaIpcError(f"this driver has no {name}: install a later one") from None

    def _call(self, name: str, *arguments: Any) -> None:
        self._said(name, self._code(name, *arguments))

    def _ask(self, name: str, *arguments: Any) -> bool:
        code = self._code(name, *arguments)
        if code not in (0, NOT_READY):
            self._said(name, code)
        return code == 0

    def check_error(self, result: int, operation: str) -> None:
        """Raises unless `result` is 0."""
        if result:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(c_int(result), byref(text))
            name = (text.value or b"unknown").decode()
            raise CudaIpcError(f"CUDA {operation} failed: {name} (error {result}: {CUDAError.get_name(result)})", code=result)

    def peek_at_last_error(self) -> int:
        """0, or what has gone wrong with the context for good."""
        code = self._code("cuStreamQuery", self._stream())
        return 0 if code == NOT_READY else code

    peek_last_error = peek_at_last_error

    def check_sticky_error(self, context: str) -> None:
        """Raises if the context is lost."""
        code = self.peek_at_last_error()
        if code and os.environ.get("CUDALINK_STICKY_ERROR_CHECK", "1") == "1":
            raise CudaIpcError(f"after {context}: error {code} of the CUDA context: restart the process", code=code)

    def get_device(self) -> int:
        return self.device

    def set_device(self, device: int) -> int:
        """Each object is of one device, which its calls are for, whichever is current. What it gives is for restore_context()."""
        if device != self.device:
            raise CudaIpcError(f"this is the runtime of device {self.device}: use get_cuda_runtime({device})")
        return 0

    def restore_context(self, token: int) -> None:
        """No call leaves another context current than was, so there is none to be restored."""

    def get_device_attribute(self, attr: int, device: int | None = None) -> int:
        value, ordinal = c_int(), c_int()
        self._call("cuDeviceGet", byref(ordinal), c_int(self.device if device is None else device))
        self._call("cuDeviceGetAttribute", byref(value), c_int(attr), ordinal)
        return value.value

    def device_can_access_peer(self, device: int, peer_device: int) -> bool:
        value = c_int()
        self._call("cuDeviceCanAccessPeer", byref(value), c_int(device), c_int(peer_device))
        return bool(value.value)

    def get_runtime_version(self) -> int:
        """The version of CUDA that the driver is of: 12080 is 12.8."""
        version = c_int()
        self._call("cuDriverGetVersion", byref(version))
        return version.value

    def mem_get_info(self) -> tuple[int, int]:
        """Bytes of the GPU's memory: free, in all."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    # ---- memory ----

    def malloc(self, size: int) -> c_void_p:
        pointer = c_void_p()
        self._call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer

    def free(self, dev_ptr: c_void_p) -> None:
        self._call("cuMemFree_v2", c_uint64(address_of(dev_ptr)))

    def malloc_host(self, size: int) -> c_void_p:
        """Pinned memory."""
        return self.malloc_host_alloc(size)

    def malloc_host_alloc(self, size: int, flags: int = 1) -> c_void_p:
        pointer = c_void_p()
        self._call("cuMemHostAlloc", byref(pointer), c_size_t(size), c_uint(flags))
        return pointer

    def free_host(self, ptr: c_void_p) -> None:
        self._call("cuMemFreeHost", c_void_p(address_of(ptr)))

    def host_register(self, ptr: int, size: int, flags: int = 0) -> None:
        self._call("cuMemHostRegister_v2", c_void_p(ptr), c_size_t(size), c_uint(flags))

    def host_unregister(self, ptr: int) -> None:
        self._call("cuMemHostUnregister", c_void_p(ptr))

    def memcpy(self, dst: Any, src: Any, count: int, kind: int) -> None:
        """Behind the default stream's work; done when it returns. Plain memory is copied by way of pinned memory."""
        to, source, stream = address_of(dst), address_of(src), self._stream()
        to_plain, source_plain = (not self.pointer_get_attributes(each).type for each in (to, source))
        if to_plain and source_plain:
            ctypes.memmove(to, source, count)
            return
        staged = self._staged(count) if to_plain or source_plain else 0
        if source_plain:
            ctypes.memmove(staged, source, count)
        self.memcpy_async(staged if to_plain else to, staged if source_plain else source, count, kind, stream)
        self._call("cuStreamSynchronize", stream)
        if to_plain:
            ctypes.memmove(to, staged, count)

    def _staged(self, count: int) -> int:
        """The address of pinned memory of ours."""
        if self._pinned_size < count:
            if self._pinned.value:
                self.free_host(self._pinned)
            self._pinned, self._pinned_size = self.malloc_host_alloc(count), count
        return self._pinned.value or 0

    def memcpy_async(self, dst: Any, src: Any, count: int, kind: int, stream: Any) -> None:
        self._enter(stream)
        self._call("cuMemcpyAsync", c_uint64(address_of(dst)), c_uint64(address_of(src)), c_size_t(count), self._native(stream))

    def pointer_get_attributes(self, ptr: int) -> cudaPointerAttributes:
        kind, device, host, managed, ordinal = c_uint(), c_uint64(), c_void_p(), ctypes.c_ubyte(), c_int(-1)
        values = (c_void_p * 5)(*(ctypes.addressof(each) for each in (kind, device, host, managed, ordinal)))
        asked = (c_int * 5)(POINTER_TYPE, POINTER_DEVICE, POINTER_HOST, POINTER_MANAGED, POINTER_ORDINAL)
        self._call("cuPointerGetAttributes", c_uint(5), asked, values, c_uint64(ptr))
        return cudaPointerAttributes(3 if managed.value else kind.value, ordinal.value, device.value or None, host.value)

    # ---- streams ----

    def _stream(self) -> c_void_p:
        """Ours, which the default stream's work comes before."""
        if not self._copies.value:
            self._call("cuStreamCreateWithPriority", byref(self._copies), c_uint(0), c_int(0))
        return self._copies

    @staticmethod
    def _native(stream: Any) -> c_void_p:
        return c_void_p(address_of(stream))

    def _enter(self, stream: Any) -> None:
        """Work on a capturing stream would become part of the graph, which the program may not intend."""
        status = c_int()
        self._call("cuStreamIsCapturing", self._native(stream), byref(status))
        if status.value and address_of(stream) not in self._captured:
            raise CudaIpcError("this stream is capturing a graph")

    def create_stream(self, flags: int = 1) -> CUDAStream_t:
        return self.create_stream_with_priority(flags, 0)

    def create_stream_with_priority(self, flags: int = 1, priority: int | None = None) -> CUDAStream_t:
        """None: as high as the device has; the driver takes what it has not for the nearest that it has."""
        stream = CUDAStream_t()
        self._call("cuStreamCreateWithPriority", byref(stream), c_uint(flags), c_int(-5 if priority is None else priority))
        return stream

    def destroy_stream(self, stream: Any) -> None:
        self._call("cuStreamDestroy_v2", self._native(stream))

    def stream_wait_event(self, stream: Any, event: Any, flags: int = 0) -> None:
        self._enter(stream)
        self._call("cuStreamWaitEvent", self._native(stream), self._native(event), c_uint(flags))

    def stream_synchronize(self, stream: Any) -> None:
        self._call("cuStreamSynchronize", self._native(stream))

    def stream_query(self, stream: Any) -> bool:
        return self._ask("cuStreamQuery", self._native(stream))

    def synchronize(self) -> None:
        """Waits for all work on the device."""
        if hasattr(self._library, "cuCtxSynchronize"):
            self._call("cuCtxSynchronize")
        else:
            self._call("cuStreamSynchronize", self._stream())

    # ---- events ----

    def _event(self, flags: int) -> CUDAEvent_t:
        event = CUDAEvent_t()
        self._call("cuEventCreate", byref(event), c_uint(flags))
        return event

    def create_ipc_event(self) -> CUDAEvent_t:
        return self._event(6)

    def create_sync_event(self) -> CUDAEvent_t:
        return self._event(2)

    def create_timing_event(self) -> CUDAEvent_t:
        return self._event(0)

    def destroy_event(self, event: Any) -> None:
        self._call("cuEventDestroy_v2", self._native(event))

    def record_event(self, event: Any, stream: Any = None) -> None:
        self._enter(stream)
        self._call("cuEventRecord", self._native(event), self._native(stream))

    def query_event(self, event: Any) -> bool:
        return self._ask("cuEventQuery", self._native(event))

    def cudart_event_query_fn_ptr(self) -> int:
        """The address of an `int query(event)`, for loops in native code: 0 once the event's work is done, 600 before, as
        cudaEventQuery says. It lives as long as this object, takes the GIL, and breaks no capture of another thread."""
        return ctypes.cast(self._query, c_void_p).value or 0

    def _event_code(self, event: int | None) -> int:
        try:
            return self._code("cuEventQuery", c_void_p(event))
        except CudaIpcError as error:  # what a callback raises is lost, and 0 would be said
            return error.code or UNKNOWN

    def wait_event(self, event: Any) -> None:
        self._call("cuEventSynchronize", self._native(event))

    def event_elapsed_time(self, start: Any, end: Any) -> float:
        """Milliseconds."""
        elapsed = c_float()
        self._call("cuEventElapsedTime", byref(elapsed), self._native(start), self._native(end))
        return elapsed.value

    # ---- other processes ----

    def ipc_get_mem_handle(self, dev_ptr: Any) -> cudaIpcMemHandle_t:
        handle = cudaIpcMemHandle_t()
        self._call("cuIpcGetMemHandle", byref(handle), c_uint64(address_of(dev_ptr)))
        return handle

    def ipc_open_mem_handle(self, handle: cudaIpcMemHandle_t, flags: int = 1) -> c_void_p:
        pointer = c_void_p()
        self._call("cuIpcOpenMemHandle_v2", byref(pointer), handle, c_uint(flags))
        return pointer

    def ipc_close_mem_handle(self, dev_ptr: Any) -> None:
        self._call("cuIpcCloseMemHandle", c_uint64(address_of(dev_ptr)))

    def ipc_get_event_handle(self, event: Any) -> cudaIpcEventHandle_t:
        handle = cudaIpcEventHandle_t()
        self._call("cuIpcGetEventHandle", byref(handle), self._native(event))
        return handle

    def ipc_open_event_handle(self, handle: cudaIpcEventHandle_t) -> CUDAEvent_t:
        event = CUDAEvent_t()
        self._call("cuIpcOpenEventHandle", byref(event), handle)
        return event


_runtimes: dict[int, CUDARuntimeAPI] = {}
_lock = threading.Lock()


def get_cuda_runtime(device: int = 0) -> CUDARuntimeAPI:
    """One for each device; there may be several, unlike in cuda-link."""
    with _lock:
        if device not in _runtimes:
            _runtimes[device] = CUDARuntimeAPI(device)
        return _runtimes[device]


class CTypesCUDAAdapter(CUDARuntimeAPI):
    """The same by the name that cuda-link 1.5 and later has for it: of a CUDARuntimeAPI, or a device."""

    def __init__(self, api: CUDARuntimeAPI | int = 0) -> None:
        if not isinstance(api, CUDARuntimeAPI):
            super().__init__(api)
            return
        super().__init__(api.device)
        self._captured = api._captured

    @classmethod
    def for_device(cls, device: int = 0) -> CTypesCUDAAdapter:
        return cls(device)
