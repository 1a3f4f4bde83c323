# SPDX-License-Identifier: MIT
"""NVMLObserver: figures of a GPU from NVIDIA's management library, the driver's libnvidia-ml; no package is needed."""
from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from ctypes import byref, c_uint, c_ulonglong, c_void_p
from types import TracebackType
from typing import Any

from ._environment import env_bool

__all__ = ["NVML_AVAILABLE", "NVMLObserver"]

logger = logging.getLogger("cuda_link.nvml_observer")

MIB = 1 << 20
CLOCK_SM, CLOCK_MEMORY, PCIE_SENT, PCIE_RECEIVED, TEMPERATURE_GPU = 1, 2, 0, 1, 0
THROTTLES = ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
             "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clocks_setting")


class _Pair(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


def _load() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None


_nvml = _load()
NVML_AVAILABLE = _nvml is not None


class NVMLObserver:
    """Reads figures on request; has no thread. `enabled` None: CUDALINK_NVML decides."""

    def __init__(self, device: int = 0, enabled: bool | None = None) -> None:
        self.device = device
        self.enabled = env_bool("CUDALINK_NVML", default=False) if enabled is None else enabled
        self._handle: c_void_p | None = None

    def start(self) -> bool:
        """Whether it can read figures."""
        library, handle = _nvml, c_void_p()
        if self._handle is not None:
            return True
        if not self.enabled or library is None or library.nvmlInit_v2():
            return False
        code = library.nvmlDeviceGetHandleByIndex_v2(c_uint(self.device), byref(handle))
        if code:
            logger.warning("NVML has no GPU %d: error %d", self.device, code)
            library.nvmlShutdown()  # NVML counts initializations
            return False
        self._handle = handle
        return True

    def stop(self) -> None:
        if self._handle is not None:
            self._handle = None
            _nvml.nvmlShutdown()  # type: ignore[union-attr]

    def _number(self, name: str, *arguments: Any, kind: Any = c_uint) -> Any:
        value = kind()
        code = getattr(_nvml, name)(self._handle, *arguments, byref(value))
        if code:
            raise OSError(code, name)
        return value

    def snapshot(self) -> dict[str, Any]:
        """The GPU's figures; {"nvml_available": False} if it was not started."""
        if self._handle is None:
            return {"nvml_available": False}
        found: dict[str, Any] = {"nvml_available": True}
        for read in (self._use, self._memory, self._clocks, self._pcie, self._heat, self._power, self._limit, self._throttles):
            self._try(found, read)
        return found

    @staticmethod
    def _try(found: dict[str, Any], read: Callable[[], dict[str, Any]]) -> None:
        try:
            found.update(read())
        except (OSError, AttributeError):
            pass  # not every GPU has all figures

    def _use(self) -> dict[str, Any]:
        use = self._number("nvmlDeviceGetUtilizationRates", kind=_Pair)
        return {"gpu_util_pct": use.gpu, "mem_bw_util_pct": use.memory}

    def _memory(self) -> dict[str, Any]:
        memory = self._number("nvmlDeviceGetMemoryInfo", kind=_Memory)
        return {"mem_used_mb": memory.used / MIB, "mem_total_mb": memory.total / MIB}

    def _clocks(self) -> dict[str, Any]:
        return {"sm_clock_mhz": self._number("nvmlDeviceGetClockInfo", c_uint(CLOCK_SM)).value,
                "mem_clock_mhz": self._number("nvmlDeviceGetClockInfo", c_uint(CLOCK_MEMORY)).value}

    def _pcie(self) -> dict[str, Any]:
        return {"pcie_tx_kbps": self._number("nvmlDeviceGetPcieThroughput", c_uint(PCIE_SENT)).value,
                "pcie_rx_kbps": self._number("nvmlDeviceGetPcieThroughput", c_uint(PCIE_RECEIVED)).value}

    def _heat(self) -> dict[str, Any]:
        return {"temp_c": self._number("nvmlDeviceGetTemperature", c_uint(TEMPERATURE_GPU)).value}

    def _power(self) -> dict[str, Any]:
        return {"power_w": self._number("nvmlDeviceGetPowerUsage").value / 1000}

    def _limit(self) -> dict[str, Any]:
        return {"power_limit_w": self._number("nvmlDeviceGetEnforcedPowerLimit").value / 1000}

    def _throttles(self) -> dict[str, Any]:
        bits = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=c_ulonglong).value
        return {"throttle_reasons": [name for bit, name in enumerate(THROTTLES) if bits >> bit & 1]}

    def __enter__(self) -> NVMLObserver:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
