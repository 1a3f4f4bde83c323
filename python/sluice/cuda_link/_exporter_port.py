# SPDX-License-Identifier: MIT
"""The arguments and results of an Exporter."""
from __future__ import annotations

from ctypes import c_void_p
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from .. import _sluice
from ._check import LONGEST_NS
from ._environment import env_bool, env_int, env_str


@dataclass(frozen=True)
class FrameSpec:
    """A channel to write: its name and the format of its frames. "sluice:NAME" is a native channel.

    `extra_flags` are or-ed into the wire's flags: 2 says that two components are mono and alpha, 4 that four bytes are B, G,
    R and A."""

    shm_name: str
    height: int
    width: int
    channels: int = 4
    dtype: str = "uint8"
    num_slots: int = 3
    device: int = 0
    extra_flags: int = 0


@dataclass(frozen=True)
class ExportPolicy:
    """How an Exporter works. Only from_env() reads the environment, never a call for a frame."""

    export_sync: bool = False
    use_graphs: bool = True
    flush_probe: bool = True
    strict_device: bool = False
    require_source_sync: bool = False
    barrier_enabled: bool = True
    barrier_stale_ns: int = 5_000_000_000
    high_priority_stream: bool = True
    export_profile: bool = False
    doorbell: bool = False

    @classmethod
    def from_env(cls) -> ExportPolicy:
        """From the current values of the CUDALINK_* variables."""
        return cls(
            export_sync=env_bool("CUDALINK_EXPORT_SYNC", default=False),
            use_graphs=env_bool("CUDALINK_USE_GRAPHS", default=True),
            flush_probe=env_bool("CUDALINK_EXPORT_FLUSH_PROBE", default=True),
            strict_device=env_bool("CUDALINK_STRICT_DEVICE", default=False),
            require_source_sync=env_bool("CUDALINK_REQUIRE_SOURCE_SYNC", default=False),
            barrier_enabled=env_bool("CUDALINK_ACTIVATION_BARRIER", default=True),
            barrier_stale_ns=env_int("CUDALINK_BARRIER_STALE_NS", default=5_000_000_000, least=0, most=LONGEST_NS),
            high_priority_stream=env_str("CUDALINK_LIB_STREAM_PRIO", default="high") != "normal",
            export_profile=env_bool("CUDALINK_EXPORT_PROFILE", default=False),
            doorbell=env_bool("CUDALINK_DOORBELL", default=False),
        )

    @classmethod
    def low_latency(cls) -> ExportPolicy:
        """The least work for each frame."""
        return cls(flush_probe=False)

    @classmethod
    def for_testing(cls) -> ExportPolicy:
        """Without anything that depends on other programs of the machine."""
        return cls(use_graphs=False, flush_probe=False, barrier_enabled=False, barrier_stale_ns=0,
                   high_priority_stream=False)


@dataclass(frozen=True, init=False)
class GpuFrame(_sluice._LinkFrame):
    """A frame to export: its address, its size in bytes, and the native stream (0: the default one) that produces it."""

    __slots__ = ()
    ptr: int
    size: int
    producer_stream: int | None = None

    def __reduce__(self) -> tuple[type[GpuFrame], tuple[int, int, int | None]]:
        return type(self), (self.ptr, self.size, self.producer_stream)


delattr(GpuFrame, "producer_stream")  # what frames have there is in their base; the default is the field's


class FrameOutcome(Enum):
    """The outcome of exporting a frame."""

    PUBLISHED = 1
    SKIPPED_BARRIER = 2
    SKIPPED_NOT_READY = 3
    FAILED = 4


@runtime_checkable
class CudaPort(Protocol):
    """The calls of the object that get_cuda_runtime() returns. Sluice itself does not use it."""

    def get_device(self) -> int: ...

    def malloc(self, size: int) -> c_void_p: ...

    def free(self, dev_ptr: c_void_p) -> None: ...

    def synchronize(self) -> None: ...
