# SPDX-License-Identifier: MIT
"""CUDAIPCExporter, as cuda-link 1.1 has it."""
from __future__ import annotations

import dataclasses
import logging
import os
from ctypes import c_void_p
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._exporter_port import ExportPolicy, FrameOutcome, FrameSpec, GpuFrame
from ._inside import NO_SOURCE_EVENT, UNTIMED, NotHere, Segment
from .cuda_ipc_wrapper import (
    CUDART_GRAPHS_MIN_VERSION,
    CUDAGraph_t,
    CUDAGraphExec_t,
    CUDAGraphNode_t,
    CUDARuntimeAPI,
    CUDAStream_t,
    cudaIpcMemHandle_t,
    get_cuda_runtime,
)
from .cuda_runtime_types import address_of
from .exporter import Exporter
from .shm_protocol import (
    FLAGS_BFLOAT16,
    FORMAT_KIND_FLOAT,
    FORMAT_KIND_SIGNED,
    FORMAT_KIND_UNSIGNED,
    METADATA_SIZE,
    PROTOCOL_MAGIC,
    SHM_HEADER_SIZE,
    SHUTDOWN_FLAG_SIZE,
    SLOT_SIZE,
    TIMESTAMP_SIZE,
)

if TYPE_CHECKING:
    from .nvml_observer import NVMLObserver

__all__ = ["CUDAGraphExec_t", "CUDAGraphNode_t", "CUDAGraph_t", "CUDAIPCExporter", "CUDART_GRAPHS_MIN_VERSION", "CUDARuntimeAPI",
           "CUDAStream_t", "FLAGS_BFLOAT16", "FORMAT_KIND_FLOAT", "FORMAT_KIND_SIGNED", "FORMAT_KIND_UNSIGNED", "METADATA_SIZE",
           "PROTOCOL_MAGIC", "SHM_HEADER_SIZE", "SHUTDOWN_FLAG_SIZE", "SLOT_SIZE", "TIMESTAMP_SIZE", "cudaIpcMemHandle_t",
           "get_cuda_runtime"]

logger = logging.getLogger("cuda_link.cuda_ipc_exporter")


class CUDAIPCExporter:
    """Writes a channel: initialize(), then export_frame() for each frame. cuda-link 1.1 waits for each copy. This one does so, too,
    unless record_source_sync() names the stream: what is queued on it next runs after the copy, so that the memory may be written
    again just the same. CUDALINK_EXPORT_SYNC=1 waits for each, CUDALINK_EXPORT_SYNC=0 for none."""

    def __init__(self, shm_name: str, height: int, width: int, channels: int = 4, dtype: str = "uint8", num_slots: int = 2,
                 debug: bool = False, device: int = 0) -> None:
        self.shm_name, self.height, self.width, self.channels = shm_name, height, width, channels
        self.dtype, self.num_slots, self.debug, self.device = dtype, num_slots, debug, device
        policy = ExportPolicy.from_env()
        self._exporter = Exporter(FrameSpec(shm_name, height, width, channels, dtype, num_slots, device),
                                  dataclasses.replace(policy, export_profile=debug or policy.export_profile),
                                  settles=os.environ.get("CUDALINK_EXPORT_SYNC", "1") != "0")
        self.data_size: int = self._exporter.data_size
        self.buffer_size: int = self._exporter.buffer_size
        self.ipc_stream = None

    def initialize(self) -> bool:
        """Opens the channel. False, and the log says why, if that fails. Once is enough."""
        if self._exporter.is_ready():
            return True
        try:
            self._exporter._open()
        except (RuntimeError, OSError, ValueError) as error:
            logger.error("channel '%s' cannot be opened: %s", self.shm_name, error)
            return False
        return True

    def record_source_sync(self, producer_stream_handle: int) -> None:
        """As Exporter.record_source_sync()."""
        self._exporter.record_source_sync(producer_stream_handle)

    def export_frame(self, gpu_ptr: int, size: int) -> bool:
        """Whether it was published."""
        return self._exporter.export(GpuFrame(address_of(gpu_ptr), size)) is FrameOutcome.PUBLISHED

    def cleanup(self) -> None:
        """Ends the channel; twice is as once."""
        self._exporter.close()

    close = cleanup

    def is_ready(self) -> bool:
        return self._exporter.is_ready()

    @property
    def frame_count(self) -> int:
        return self._exporter.frame_count

    @property
    def write_idx(self) -> int:
        return self._exporter.frame_count

    def _of_slots(self, found: list[Any]) -> list[Any]:
        return found or [None] * self.num_slots

    @property
    def dev_ptrs(self) -> list[c_void_p | None]:
        """Where the slots lie; None for each while it is not open, as what follows."""
        return self._of_slots(self._exporter.dev_ptrs)

    @property
    def ipc_handles(self) -> list[Any]:
        return self._of_slots(self._exporter.ipc_handles)

    @property
    def ipc_event_handles(self) -> list[Any]:
        return self._of_slots(self._exporter.ipc_event_handles)

    @property
    def shm_handle(self) -> Segment | None:
        """The channel's segment, to be looked at."""
        return self._exporter.shm_handle

    @property
    def cuda(self) -> CUDARuntimeAPI | None:
        """The runtime for its device; None while it is not open."""
        return get_cuda_runtime(self.device) if self.is_ready() else None

    @property
    def total_export_us(self) -> float:
        """Microseconds in export_frame(), with debug or CUDALINK_EXPORT_PROFILE=1."""
        return self._exporter._total * 1e6

    ipc_events = NotHere("events are for readers; CUDALINK_EXPORT_SYNC=1 has export_frame() wait for the GPU")
    source_sync_event = NotHere(NO_SOURCE_EVENT)
    total_memcpy_us = NotHere(UNTIMED)
    total_stream_wait_us = NotHere(UNTIMED)
    total_record_event_us = NotHere(UNTIMED)
    total_shm_write_us = NotHere(UNTIMED)
    total_sync_us = NotHere(UNTIMED)
    total_sticky_check_us = NotHere(UNTIMED)
    total_flush_probe_us = NotHere(UNTIMED)

    def attach_nvml_observer(self, observer: NVMLObserver) -> None:
        self._exporter.attach_nvml_observer(observer)

    def get_stats(self) -> dict[str, Any]:
        return self._exporter.get_stats()

    stats = get_stats

    def __enter__(self) -> CUDAIPCExporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.cleanup()
