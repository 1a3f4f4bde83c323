# SPDX-License-Identifier: MIT
"""CUDAIPCImporter, as cuda-link 1.1 has it, and as 1.12 does for programs that connect()."""
from __future__ import annotations

import dataclasses
import logging
from ctypes import c_void_p
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _check
from ._importer_port import ImportOutcome, ImportPolicy, ImportResult, ImportSpec
from ._inside import OPEN, UNTIMED, NotHere, Segment, Session
from .cuda_ipc_wrapper import CUDARuntimeAPI, cudaIpcEventHandle_t, cudaIpcMemHandle_t, get_cuda_runtime
from .importer import CUPY_AVAILABLE, NUMPY_AVAILABLE, TORCH_AVAILABLE, Importer, channel_of
from .shm_protocol import (
    MAGIC_OFFSET,
    MAGIC_SIZE,
    METADATA_SIZE,
    NUM_SLOTS_OFFSET,
    NUM_SLOTS_SIZE,
    PROTOCOL_MAGIC,
    SHM_HEADER_SIZE,
    SHUTDOWN_FLAG_SIZE,
    SLOT_SIZE,
    TIMESTAMP_SIZE,
    VERSION_OFFSET,
    VERSION_SIZE,
    WRITE_IDX_OFFSET,
    WRITE_IDX_SIZE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .nvml_observer import NVMLObserver

__all__ = ["CUDAIPCImporter", "CUDARuntimeAPI", "CUPY_AVAILABLE", "MAGIC_OFFSET", "MAGIC_SIZE", "METADATA_SIZE", "NUMPY_AVAILABLE",
           "NUM_SLOTS_OFFSET", "NUM_SLOTS_SIZE", "PROTOCOL_MAGIC", "SHM_HEADER_SIZE", "SHUTDOWN_FLAG_SIZE", "SLOT_SIZE",
           "TIMESTAMP_SIZE", "TORCH_AVAILABLE", "VERSION_OFFSET", "VERSION_SIZE", "WRITE_IDX_OFFSET", "WRITE_IDX_SIZE",
           "cudaIpcEventHandle_t", "cudaIpcMemHandle_t", "get_cuda_runtime"]

logger = logging.getLogger("cuda_link.cuda_ipc_importer")


class CUDAIPCImporter:
    """Reads a channel; get_frame() and the like give a frame, or None. It opens the channel at once, if that is there:
    is_ready() says so. When the producer shuts the channel it closes itself, and a new one is needed.

    1.1's programs know no more. 1.12's call connect(), from_connected(), or enter one that is not open: it follows the channel
    then, through all of its sessions, and may be there before the first."""

    def __init__(self, shm_name: str = "cudalink_ipc_TD>>Python", shape: tuple[int, int, int] | None = None,
                 dtype: str | None = None, debug: bool = False, timeout_ms: float = 5000.0, device: int = 0) -> None:
        self.shm_name, self.debug, self.timeout_ms, self.device = shm_name, debug, timeout_ms, device
        _check.import_spec(ImportSpec(shm_name, device, shape, dtype, timeout_ms))
        self._hints = shape, dtype
        self._importer: Importer | None = None
        self._ended: Importer | None = None  # the one before, for its counts
        self._session = Session(channel_of(shm_name)[0], device)
        self._nvml: NVMLObserver | None = None
        self._follows = False
        self._initialize()

    def _initialize(self) -> bool:
        if self._importer is not None:
            return True
        shape, dtype = self._hints
        policy = dataclasses.replace(ImportPolicy.from_env(), debug=self.debug)
        if not self._follows:
            policy = dataclasses.replace(policy, reconnect_enabled=False)
        spec = ImportSpec(self.shm_name, self.device, shape, dtype, self.timeout_ms)
        try:
            self._importer = Importer.open(spec, policy=policy)
        except (RuntimeError, OSError, ValueError) as error:
            logger.error("channel '%s' cannot be opened: %s", self.shm_name, error)
            return False
        if self._nvml is not None:
            self._importer.attach_nvml_observer(self._nvml)
        return True

    def initialize(self) -> bool:
        """Tries again to open the channel; whether it is open."""
        return self._initialize()

    def connect(self) -> bool:
        """Follows the channel from now on; whether there is an importer, which may have to wait for the producer."""
        if not self._follows:
            self._follows = True
            self.cleanup()
        return self._initialize()

    @classmethod
    def from_connected(cls, shm_name: str = "cudalink_ipc_TD>>Python", **others: Any) -> CUDAIPCImporter:
        importer = cls(shm_name, **others)
        importer.connect()
        return importer

    def _take(self, method: Callable[[], ImportResult[Any]]) -> Any:
        result = method()
        if result.outcome is ImportOutcome.RECONNECTING:  # 1.1 gives the first frame of another session at once
            result = method()
        if result.outcome is ImportOutcome.SHUTDOWN and not self._follows:
            self.cleanup()
        return result.frame

    def _open_one(self) -> Importer | None:
        if self._importer is None:
            logger.warning("channel '%s' is not open", self.shm_name)
        return self._importer

    def get_frame(self, stream: Any = None) -> Any:
        """A tensor of PyTorch in the slot, or None: see Importer.get_frame()."""
        importer = self._open_one()
        return None if importer is None else self._take(lambda: importer.get_frame(stream))

    def get_frame_cupy(self, stream: Any = None) -> Any:
        """An array of CuPy in the slot, or None: see Importer.get_frame_cupy()."""
        importer = self._open_one()
        return None if importer is None else self._take(lambda: importer.get_frame_cupy(stream))

    def get_frame_numpy(self) -> Any:
        """An array of NumPy that the next call writes again, or None: see Importer.get_frame_numpy()."""
        importer = self._open_one()
        return None if importer is None else self._take(importer.get_frame_numpy)

    def cleanup(self) -> None:
        """Ends it; twice is as once."""
        if self._importer is not None:
            self._importer.close()
            self._ended, self._importer = self._importer, None

    close = cleanup

    def is_ready(self) -> bool:
        """Whether it is open; also while its producer is just beginning another session, unless it follows the channel."""
        return self._importer is not None and (not self._follows or self._importer.is_ready())

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """(height, width, channels) of the channel; None before it is known."""
        found: tuple[int, int, int] | None = self.get_stats().get("shape")
        return found or self._hints[0]

    @property
    def dtype(self) -> str | None:
        found: str | None = self.get_stats().get("dtype")
        return found or self._hints[1]

    @property
    def num_slots(self) -> int:
        return int(self.get_stats().get("num_slots", 0))

    def _count(self, what: str) -> Any:
        counts = self._importer or self._ended
        return 0 if counts is None else getattr(counts, what)

    @property
    def frame_count(self) -> int:
        """As of an Importer; so is what follows."""
        return int(self._count("frame_count"))

    @property
    def last_latency(self) -> float:
        """Milliseconds."""
        return float(self._count("last_latency"))

    @property
    def wait_spin_hits(self) -> int:
        return int(self._count("wait_spin_hits"))

    @property
    def wait_sleep_hits(self) -> int:
        return int(self._count("wait_sleep_hits"))

    @property
    def total_wait_spin_us(self) -> float:
        return float(self._count("total_wait_spin_us"))

    @property
    def total_wait_sleep_us(self) -> float:
        return float(self._count("total_wait_sleep_us"))

    @property
    def total_wait_event_time(self) -> float:
        return float(self._count("total_wait_event_time"))

    @property
    def total_get_frame_time(self) -> float:
        return float(self._count("total_get_frame_time"))

    total_shm_read_us = NotHere(UNTIMED)

    # ---- the session that is open ----

    def _now(self) -> dict[str, Any]:
        info = {} if self._importer is None else self._importer._info()
        return info if info.get("state") in OPEN else {}

    @property
    def cuda(self) -> CUDARuntimeAPI | None:
        """The runtime for its device; None while it is not open."""
        return None if self._importer is None else get_cuda_runtime(self.device)

    @property
    def shm_handle(self) -> Segment | None:
        """The channel's segment, to be looked at; None without a session."""
        return self._session.segment(self._now())

    @property
    def ipc_version(self) -> int:
        """The wire's number of the session; 0 without one."""
        return int(self._now().get("version", 0))

    @property
    def ipc_handles(self) -> list[Any]:
        """By which its memory was opened."""
        return self._session.memory_handles(self._now())

    @property
    def dev_ptrs(self) -> list[c_void_p]:
        """Where it lies here."""
        return [c_void_p(each) for each in self._now().get("addresses", ())]

    @property
    def tensors(self) -> list[Any]:
        """A tensor of PyTorch for each slot, until the session ends: what is in there, finished or not. get_frame() waits, and
        knows which slot is to be read."""
        return self._session.arrays(self._now(), "torch")

    @property
    def cupy_arrays(self) -> list[Any]:
        """The same for CuPy."""
        return self._session.arrays(self._now(), "cupy")

    @property
    def pinned_memory_available(self) -> bool:
        """Whether get_frame_numpy() copies into pinned memory; False before the first."""
        return bool(self._count("_pinned"))

    ipc_events = NotHere("get_frame() and the like wait for a slot's event, and say which slot it is")

    def attach_nvml_observer(self, observer: NVMLObserver) -> None:
        self._nvml = observer
        if self._importer is not None:
            self._importer.attach_nvml_observer(observer)

    def get_stats(self) -> dict[str, Any]:
        """As Importer.get_stats()."""
        importer = self._importer or self._ended
        return {"initialized": False} if importer is None else importer.get_stats()

    stats = get_stats

    def __enter__(self) -> CUDAIPCImporter:
        if self._importer is None:
            self.connect()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cleanup()
