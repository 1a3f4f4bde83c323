# SPDX-License-Identifier: MIT
"""The arguments and results of an Importer."""
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from ._check import LONGEST_SPIN_US, MOST_FRAMES
from ._environment import env_bool, env_int, env_str
from ._exporter_port import CudaPort as ImporterCudaPort

__all__ = ["ImportOutcome", "ImportPolicy", "ImportResult", "ImportSpec", "ImporterCudaPort"]

T = TypeVar("T")


@dataclass(frozen=True)
class ImportSpec:
    """A channel to read. "sluice:NAME" is a native one. If the channel has another `shape` or `dtype`,
    the channel's are used, and a warning is logged."""

    shm_name: str
    device: int = 0
    shape: tuple[int, int, int] | None = None
    dtype: str | None = None
    timeout_ms: float = 5000.0


@dataclass(frozen=True)
class ImportPolicy:
    """How an Importer works. Only from_env() reads the environment, never a call for a frame."""

    wait_spin_us: int = 200
    d2h_num_streams: int = 1
    d2h_stream_high_priority: bool = False
    allow_pageable_fallback: bool = False
    d2h_pipelined: bool = False
    torch_gpu_wait: bool = False
    torch_gpu_wait_adaptive: bool = False
    gpu_wait_adaptive_window: int = 120
    gpu_wait_adaptive_sleep_pct: int = 5
    debug: bool = False
    reconnect_enabled: bool = True
    reconnect_max_attempts: int = 20
    reconnect_backoff_frames: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 120)
    doorbell: bool = False
    wait_backend: str = "auto"

    @classmethod
    def from_env(cls) -> ImportPolicy:
        """From the current values of the CUDALINK_* variables."""
        return cls(
            wait_spin_us=env_int("CUDALINK_WAIT_SPIN_US", default=200, least=0, most=LONGEST_SPIN_US),
            d2h_num_streams=max(1, env_int("CUDALINK_D2H_STREAMS", default=1)),
            d2h_stream_high_priority=env_str("CUDALINK_D2H_STREAM_PRIO", default="normal") == "high",
            allow_pageable_fallback=env_bool("CUDALINK_ALLOW_PAGEABLE_FALLBACK", default=False),
            d2h_pipelined=env_bool("CUDALINK_D2H_PIPELINED", default=False),
            torch_gpu_wait=env_bool("CUDALINK_TORCH_GPU_WAIT", default=False),
            torch_gpu_wait_adaptive=env_bool("CUDALINK_TORCH_GPU_WAIT_ADAPTIVE", default=False),
            gpu_wait_adaptive_window=env_int("CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", default=120, least=-MOST_FRAMES, most=MOST_FRAMES),
            gpu_wait_adaptive_sleep_pct=env_int("CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", default=5, least=-100, most=100),
            reconnect_enabled=env_bool("CUDALINK_IMPORT_RECONNECT", default=True),
            reconnect_max_attempts=env_int("CUDALINK_IMPORT_RECONNECT_MAX_ATTEMPTS", default=20),
            doorbell=env_bool("CUDALINK_DOORBELL", default=False),
            wait_backend=env_str("CUDALINK_WAIT_BACKEND", default="auto"),
        )

    @classmethod
    def low_latency(cls) -> ImportPolicy:
        """Spins for long before it sleeps."""
        return cls(wait_spin_us=2000, d2h_num_streams=2, d2h_stream_high_priority=True)

    @classmethod
    def for_testing(cls) -> ImportPolicy:
        """Does not spin, and does not wait for a missing producer."""
        return cls(wait_spin_us=0, allow_pageable_fallback=True, reconnect_enabled=False, wait_backend="python")


class ImportOutcome(Enum):
    """The outcome of a call for a frame."""

    NEW_FRAME = 1
    NO_FRAME = 2
    SHUTDOWN = 3
    RECONNECTING = 4
    TIMEOUT = 5


@dataclass(frozen=True)
class ImportResult(Generic[T]):
    """An outcome, and with NEW_FRAME the frame."""

    outcome: ImportOutcome
    frame: T | None = None
