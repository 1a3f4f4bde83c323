# SPDX-License-Identifier: MIT
"""What a framework does for a loop while another thread captures a graph."""
import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Any

RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_drivers: dict[str, Any] = {}


def driver() -> Any:
    """CUDA's driver as Sluice has loaded it."""
    name = os.environ.get("SLUICE_CUDA_DRIVER") or ("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    return _drivers.get(name) or _drivers.setdefault(name, ctypes.CDLL(name))


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """Within, this thread's allocations, copies and queries break no capture of another thread: docs/live-captures.md."""
    exchange, mode = driver().cuThreadExchangeStreamCaptureMode, ctypes.c_int(RELAXED)
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))
