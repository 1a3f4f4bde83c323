# SPDX-License-Identifier: MIT
"""Exporter: publishes frames from GPU memory of the program."""
from __future__ import annotations

import logging
import sys
import time
from ctypes import c_void_p
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import Tensor, Writer, _sluice
from . import _check, activation_barrier
from ._exporter_port import CudaPort, ExportPolicy, FrameOutcome, FrameSpec, GpuFrame
from ._inside import NO_SOURCE_EVENT, NotHere, Segment, Session, info_of
from .importer import channel_of, raise_for
from .shm_protocol import DtypeCodec

if TYPE_CHECKING:
    from .. import _CipdWriter
    from .nvml_observer import NVMLObserver

__all__ = ["Exporter"]

logger = logging.getLogger("cuda_link.exporter")

_NO_SLOT, _CAPTURING = _sluice.NoFreeSlot.result, _sluice.CaptureError.result
_LONGEST = (1 << 63) - 1  # ns
_EVERY = 97  # frames between two lines of the log
_ALIGNED = 2 << 20
_NATIVE_SLOTS = 3  # the fewest of a native channel
_BFLOAT16, _MONO_ALPHA, _BGRA = 1, 2, 4  # flags on the wire


class Exporter(_sluice._LinkExporter):
    """Writes a channel: Exporter.open(FrameSpec("name", height, width)). One thread at a time."""

    def __init__(self, spec: FrameSpec, policy: ExportPolicy, settles: bool = False) -> None:
        _check.of_kind("spec", spec, FrameSpec, "num_slots")
        _check.of_kind("policy", policy, ExportPolicy, "export_sync")
        _check.frame_spec(spec)
        _check.export_policy(policy)
        self._spec, self._policy = spec, policy
        self._name, self._native = channel_of(spec.shm_name)
        self._settles = settles
        self._writer: Writer | None = None
        self._is_open = False
        self._info: dict[str, Any] = {}
        self._session = Session(self._name, spec.device)
        self._armed = self._warned = False
        self._nvml: NVMLObserver | None = None
        self._sends, self._total = 0.0, 0.0
        self._counts = dict.fromkeys(FrameOutcome, 0)
        self.data_size: int = spec.height * spec.width * spec.channels * DtypeCodec.itemsize(spec.dtype)
        self.buffer_size: int = -(-self.data_size // _ALIGNED) * _ALIGNED
        self.ipc_stream = None
        self.num_slots: int = spec.num_slots

    @classmethod
    def open(cls, spec: FrameSpec, *, policy: ExportPolicy | None = None, cuda: CudaPort | None = None,
             barrier: object = None) -> Exporter:
        """Opens the channel; on failure raises and leaves nothing behind. `cuda` and `barrier` are not used: Sluice uses the
        driver and the barrier itself."""
        self = cls(spec, ExportPolicy.from_env() if policy is None else policy)
        self._open()
        return self

    def _open(self) -> None:
        spec, graph = self._spec, bool(self._policy.use_graphs)
        slots = max(spec.num_slots, _NATIVE_SLOTS) if self._native else spec.num_slots
        try:
            self._writer = Writer(
                self._name, {"image": Tensor((spec.height, spec.width, spec.channels), spec.dtype)}, device=f"cuda:{spec.device}",
                slots=slots, graph=graph, writable=self._native,  # programs of cuda-link may write to what they read
                cipd=None if self._native else self._cipd())
            self._attach(self._writer, self._settles)
        except _sluice.Error as error:
            raise_for(error)
        self._is_open = True
        self._info = info_of(self._writer)
        self._tell_usual()

    def _cipd(self) -> _CipdWriter:
        """The parameters of a writer of cuda-link's protocol. Three of the wire's flags are parameters of their own."""
        spec, policy = self._spec, self._policy
        taken = _BGRA | _MONO_ALPHA | (_BFLOAT16 if spec.dtype == "bfloat16" else 0)
        return {"block": bool(policy.export_sync), "graph": bool(policy.use_graphs), "order": "bgra" if spec.extra_flags & _BGRA else None,
                "mono_alpha": bool(spec.extra_flags & _MONO_ALPHA), "flags": int(spec.extra_flags) & ~taken,
                "barrier": bool(policy.barrier_enabled) and policy.barrier_stale_ns > 0,  # a barrier stale at once is never up
                "barrier_stale_ns": min(max(0, int(policy.barrier_stale_ns)), _LONGEST), "strict_device": bool(policy.strict_device),
                "priority": bool(policy.high_priority_stream), "doorbell": True, "barrier_name": activation_barrier.SHM_NAME}

    def _tell_usual(self) -> None:
        """Which frames export() itself handles, without calling Python: those whose stream is known, or need not be known. It is
        written in C: python/src/cuda_link_calls.c."""
        in_c = self._is_open and not self._policy.export_profile
        self._usually(FrameOutcome.PUBLISHED, in_c, self._armed or self._warned)

    # ---- frames ----

    def record_source_sync(self, producer_stream_handle: int) -> None:
        """Orders the next frame after the work queued on this native stream (0: the default one), and work queued on it after
        the export after the copy."""
        if not self._is_open:
            return
        try:
            self._mark(_check.address("producer_stream_handle", producer_stream_handle, "the native stream"))
        except _sluice.WrongDeviceError as error:
            if self._policy.strict_device:
                raise ValueError(str(error)) from error
            logger.error("%s", error)
            return
        except _sluice.Error as error:
            raise_for(error)
        if not self._armed:
            self._armed = True
            self._tell_usual()

    def _export(self, frame: GpuFrame) -> FrameOutcome:
        """Exports a frame that export() does not handle itself."""
        policy = self._policy
        began = time.perf_counter() if policy.export_profile else 0.0
        _check.of_kind("frame", frame, GpuFrame, "producer_stream")
        address = _check.address("ptr", frame.ptr, "the address on the GPU")
        if frame.size != self.data_size:
            _check.whole("size", frame.size, -sys.maxsize)
        if not self._is_open or frame.size != self.data_size:
            return self._refused(frame)
        if frame.producer_stream is None and not self._armed:
            self._unordered()
        try:
            code = self._send(address, frame.producer_stream)
        except _sluice.Error as error:
            return self._failed(error)
        outcome = self._skipped(code) if code else FrameOutcome.PUBLISHED
        self._counts[FrameOutcome.PUBLISHED] += outcome is FrameOutcome.PUBLISHED
        if policy.export_profile:
            self._profile(time.perf_counter() - began)
        return outcome

    def _refused(self, frame: GpuFrame) -> FrameOutcome:
        if not self._is_open:
            logger.warning("channel '%s': this exporter is not open", self._name)
        else:
            logger.error("channel '%s': a frame has %d bytes, not %d", self._name, self.data_size, frame.size)
        self._counts[FrameOutcome.FAILED] += 1
        return FrameOutcome.FAILED

    def _failed(self, error: _sluice.Error) -> FrameOutcome:
        if self._policy.strict_device and isinstance(error, (_sluice.WrongDeviceError, _sluice.InvalidError)):
            raise ValueError(str(error)) from error
        logger.error("channel '%s': a frame was not exported: %s", self._name, error)
        self._counts[FrameOutcome.FAILED] += 1
        return FrameOutcome.FAILED

    def _skipped(self, code: int) -> FrameOutcome:
        outcome = FrameOutcome.SKIPPED_BARRIER if code == _NO_SLOT else FrameOutcome.SKIPPED_NOT_READY
        self._counts[outcome] += 1
        return outcome

    def _unordered(self) -> None:
        """Exports a frame whose producing stream is not known."""
        if self._policy.require_source_sync:
            raise ValueError(f"channel '{self._name}': pass GpuFrame(producer_stream=...), or call record_source_sync() first: "
                             "the policy has require_source_sync")
        if not self._warned:
            self._warned = True
            self._tell_usual()
            logger.warning("channel '%s': frames have no stream: they are copied on PyTorch's or CuPy's current one, or "
                           "at once if there is none", self._name)

    def _profile(self, seconds: float) -> None:
        self._total += seconds
        count = sum(self._counts.values())
        if count % _EVERY == 0:
            logger.debug("frame %d [PROFILE] total=%.1fus", count, self._total / count * 1e6)

    # ---- inspection ----

    @property
    def frame_count(self) -> int:
        """Frames published."""
        return self._counts[FrameOutcome.PUBLISHED] + self._published

    write_idx = frame_count

    @property
    def dev_ptrs(self) -> list[c_void_p]:
        """The addresses of the slots."""
        if not self._is_open:
            return []
        return [c_void_p(each) for each in self._info.get("addresses", ())]

    def _now(self) -> dict[str, Any]:
        return info_of(self._writer)

    @property
    def shm_handle(self) -> Segment | None:
        """The channel's segment, to be read only; None once it is closed."""
        return self._session.segment(self._now())

    @property
    def ipc_handles(self) -> list[Any]:
        """The handles by which other processes open the slots' memory."""
        return self._session.memory_handles(self._now())

    @property
    def ipc_event_handles(self) -> list[Any]:
        """The handles of the events recorded after the slots' contents."""
        return self._session.event_handles(self._now())

    ipc_events = NotHere("events are for readers; ExportPolicy(export_sync=True) has export() wait for the GPU")
    source_sync_event = NotHere(NO_SOURCE_EVENT)

    def is_ready(self) -> bool:
        """Whether it is open."""
        return self._is_open

    def attach_nvml_observer(self, observer: NVMLObserver) -> None:
        """Attaches an observer, whose figures get_stats() then includes."""
        self._nvml = observer

    def get_stats(self) -> dict[str, Any]:
        """cuda-link's keys, and also: skipped, failed, graph_frames, version."""
        spec = self._spec
        info = self._now() or self._info
        average = self._total / max(1, sum(self._counts.values())) * 1e6
        stats = {
            "initialized": self._is_open,
            "closed": not self._is_open,
            "shm_name": spec.shm_name,
            "resolution": f"{spec.width}x{spec.height}x{spec.channels}",
            "dtype": spec.dtype,
            "num_slots": spec.num_slots,
            "data_size_kb": self.data_size / 1024,
            "buffer_size_mb": self.buffer_size / (1 << 20),
            "frame_count": self.frame_count,
            "write_idx": self.write_idx,
            "hws_mode": "unknown",
            "avg_memcpy_us": average,
            "avg_total_us": average,
            "dev_ptrs": [f"0x{each.value:016x}" if each.value else "NULL" for each in self.dev_ptrs],
            "skipped": self._counts[FrameOutcome.SKIPPED_BARRIER] + self._counts[FrameOutcome.SKIPPED_NOT_READY],
            "failed": self._counts[FrameOutcome.FAILED],
            "graph_frames": info.get("graph_frames", 0),
            "version": info.get("version", 0),
        }
        if self._nvml is not None:
            stats["nvml"] = self._nvml.snapshot()
        return stats

    stats = get_stats

    # ---- the end ----

    def close(self) -> None:
        """Notifies readers, disconnects them, and frees the memory; a second call does nothing."""
        if not self._is_open:
            return
        assert self._writer is not None
        self._info = self._now() or self._info
        self._is_open = False
        self._tell_usual()
        self._detach()
        self._writer.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sluice.cuda_link.Exporter of '{self._spec.shm_name}'{' (closed)' if not self._is_open else ''}>"
