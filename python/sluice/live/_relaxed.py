# SPDX-License-Identifier: MIT
"""What a framework does for a loop while another thread captures a graph."""
import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Any

RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_drivers: dict[str, Any] = {}


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """Within, this thread's allocations, copies and queries break no capture of another thread: docs/live-captures.md."""
    name = os.environ.get("SLUICE_CUDA_DRIVER") or "libcuda.so.1"  # which Sluice has loaded
    driver = _drivers.get(name) or _drivers.setdefault(name, ctypes.CDLL(name))
    mode = ctypes.c_int(RELAXED)
    driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
