# SPDX-License-Identifier: MIT
"""Importer: frames of a channel as PyTorch tensors, or as CuPy or NumPy arrays."""
from __future__ import annotations

import importlib.util
import logging
import struct
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from .. import Reader, _sluice
from . import _check
from ._connection import IPCConnection
from ._importer_port import ImporterCudaPort, ImportOutcome, ImportPolicy, ImportResult, ImportSpec
from ._inside import OPEN, UNTIMED, NotHere, info_of
from .cuda_runtime_types import CudaIpcError, CudaLinkError, ProtocolError
from .shm_protocol import DtypeCodec, Metadata, SHMLayout

if TYPE_CHECKING:
    from .. import _CipdReader
    from .nvml_observer import NVMLObserver

__all__ = ["CUPY_AVAILABLE", "Format", "IPCConnection", "Importer", "NUMPY_AVAILABLE", "TORCH_AVAILABLE"]

logger = logging.getLogger("cuda_link.importer")


def _is_there(name: str) -> bool:
    """Does not import the module: PyTorch takes seconds."""
    try:
        return name in sys.modules and sys.modules[name] is not None or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


TORCH_AVAILABLE = _is_there("torch")
CUPY_AVAILABLE = _is_there("cupy")
NUMPY_AVAILABLE = _is_there("numpy")

_RENEWED = 100
_CLOSED, _NO_WRITER = _sluice.Closed.result, _sluice.NoWriter.result
_LOST, _ENDED = _sluice.LostError.result, _sluice.ClosedError.result

_NO_FRAME: ImportResult[Any] = ImportResult(ImportOutcome.NO_FRAME)
_SHUTDOWN: ImportResult[Any] = ImportResult(ImportOutcome.SHUTDOWN)
_RECONNECTING: ImportResult[Any] = ImportResult(ImportOutcome.RECONNECTING)
_TIMEOUT: ImportResult[Any] = ImportResult(ImportOutcome.TIMEOUT)
_EVERY = 97  # frames between two lines of the log
_AGAIN = 0.25  # s between attempts to open something that is not a channel
_BEGINS = ("unfinished", *OPEN)  # states of a segment in which another session begins or has begun
_UNREADABLE = (_sluice.ProtocolError, _sluice.FormatError, _sluice.VersionError, _sluice.CorruptError, _sluice.AccessError)


def channel_of(shm_name: str) -> tuple[str, bool]:
    """The channel's name for Sluice, and whether it is a native one."""
    if _check.text("shm_name", shm_name).startswith("sluice:"):
        return shm_name, True
    return "cipd:" + shm_name.removeprefix("cipd:").lstrip("/"), False  # shm_open() skips these, too


def raise_for(error: _sluice.Error) -> NoReturn:
    """Raises the error that cuda-link raises: a RuntimeError, or the built-in exception of that kind."""
    if isinstance(error, (_sluice.ProtocolError, _sluice.FormatError, _sluice.VersionError, _sluice.CorruptError)):
        raise ProtocolError(str(error)) from error
    if isinstance(error, (FileNotFoundError, PermissionError, FileExistsError, ValueError)):
        raise error
    raise CudaIpcError(str(error), code=error.result) from error


@dataclass(frozen=True)
class Format:
    """The format of frames. NumPy's dtype is None if NumPy has none."""

    width: int
    height: int
    num_comps: int
    kind: int
    bits: int
    flags: int
    dtype_str: str
    shape: tuple[int, int, int]
    numpy_dtype: Any
    frame_nbytes: int

    @classmethod
    def from_metadata(cls, md: Metadata) -> Format:
        """From a segment's metadata; ValueError if that makes no sense."""
        dtype = DtypeCodec.decode(md.format_kind, md.bits_per_comp, md.flags)
        return cls(md.width, md.height, md.num_comps, md.format_kind, md.bits_per_comp, md.flags, dtype,
                   (md.height, md.width, md.num_comps), _numpy_dtype(dtype), md.expected_size)

    @classmethod
    def from_shm(cls, shm_buf: bytearray | memoryview, num_slots: int) -> Format | None:
        """From a segment; None if it has no format yet, or is too short for one."""
        try:
            metadata = Metadata.read_from(shm_buf, SHMLayout(num_slots))
        except (struct.error, ValueError, IndexError):
            return None
        return cls.from_metadata(metadata) if metadata.width and metadata.height and metadata.num_comps else None

    @classmethod
    def from_overrides(cls, shape: tuple[int, int, int], dtype_str: str) -> Format:
        """From a shape and a data type's name. `kind`, `bits` and `flags` are 0, as in cuda-link: they are what a segment says."""
        height, width, components = shape
        return cls(width, height, components, 0, 0, 0, dtype_str, (height, width, components), _numpy_dtype(dtype_str),
                   height * width * components * DtypeCodec.itemsize(dtype_str))

    def layout_differs_from(self, other: Format) -> bool:
        """Whether shape or data type differ."""
        return self.shape != other.shape or self.dtype_str != other.dtype_str


def _numpy_dtype(name: str) -> Any:
    try:
        import numpy
        if DtypeCodec.numpy_name(name):
            return numpy.dtype(name)
        import ml_dtypes
        return numpy.dtype(ml_dtypes.bfloat16)
    except ImportError:
        return None


def _nanoseconds(ms: float) -> int:
    """Converts a time-out, which is limited to about a hundred years; longer ones, such as infinity, become that."""
    return int(min(ms, 3e12) * 1e6)


class _Results:
    """Makes results from arrays, once for each slot of a session; warns if they are not what the program expects."""

    def __init__(self, spec: ImportSpec) -> None:
        self.spec, self.told = spec, False

    def __call__(self, frame: Any) -> ImportResult[Any]:
        if not self.told:
            self.told = True
            self.compare(tuple(frame.shape), str(getattr(frame.dtype, "name", frame.dtype)).removeprefix("torch."))
        return ImportResult(ImportOutcome.NEW_FRAME, frame)

    def compare(self, shape: tuple[int, ...], dtype: str) -> None:
        spec = self.spec
        if (spec.shape is not None and tuple(spec.shape) != shape) or (spec.dtype is not None and spec.dtype != dtype):
            logger.warning("channel '%s' has frames of %s %s, not %s %s as the program expects: it gets them as they are",
                           spec.shm_name, shape, dtype, spec.shape, spec.dtype)


class Importer(_sluice._LinkImporter):
    """Reads a channel: Importer.open(ImportSpec("name")). One thread at a time."""

    def __init__(self, spec: ImportSpec, policy: ImportPolicy) -> None:
        _check.of_kind("spec", spec, ImportSpec, "timeout_ms")
        _check.of_kind("policy", policy, ImportPolicy, "wait_spin_us")
        _check.import_spec(spec)
        _check.import_policy(policy)
        self._spec, self._policy = spec, policy
        self._name, self._native = channel_of(spec.shm_name)
        self._mapping = "writable" if self._native else "imported"
        self._reader: Reader | None = None
        self._is_open = False
        self._tensor_device = "N/A"
        self._results = _Results(spec)
        self._nvml: NVMLObserver | None = None
        self._waits = False
        self._profile = (0, 0.0)
        self._again: float | None = None  # when to try to open it again

    @classmethod
    def open(cls, spec: ImportSpec, *, policy: ImportPolicy | None = None, cuda: ImporterCudaPort | None = None) -> Importer:
        """Opens the channel. Without a producer it waits for one at each call, unless the policy says not to reconnect: then it
        raises FileNotFoundError. `cuda` is not used: Sluice uses the driver itself."""
        self = cls(spec, ImportPolicy.from_env() if policy is None else policy)
        self._open()
        if self._policy.debug:
            self._watch()
        return self

    def _open(self) -> None:
        policy = self._policy
        window = policy.gpu_wait_adaptive_window if policy.torch_gpu_wait_adaptive else 0
        timeout_ns, spin_ns = max(1, _nanoseconds(float(self._spec.timeout_ms))), max(0, int(policy.wait_spin_us) * 1000)
        try:
            self._reader, hold = self._open_reader(timeout_ns, spin_ns)
            self._attach(
                self._reader, result=self._results, none=_NO_FRAME, timeout_ns=timeout_ns, spin_ns=spin_ns,
                pageable=policy.allow_pageable_fallback, pipelined=bool(policy.d2h_pipelined) and hold > 1,
                gpu_wait=policy.torch_gpu_wait, window=max(0, window),
                threshold=max(1, -(-window * policy.gpu_wait_adaptive_sleep_pct // 100)))
        except _sluice.Error as error:
            if self._copy_instead(error):
                self._open()
                return
            if not self._is_to_wait(error):
                raise_for(error)
            self._again = time.monotonic() + _AGAIN
            return
        self._again = None
        self._is_open = True
        if self._native:
            logger.info("channel '%s': frames are %s", self._name, "mapped, and may be written" if self._mapping == "writable"
                        else "copied, as its writer does not allow writes")

    def _open_reader(self, timeout_ns: int, spin_ns: int) -> tuple[Reader, int]:
        """A reader, and how many frames it may hold: fewer where the channel has few slots."""
        device = None if self._native and self._spec.device == 0 else f"cuda:{self._spec.device}"
        cipd: _CipdReader | None = None if self._native else {"wait_spin_ns": spin_ns or -1, "wait_ns": timeout_ns}

        def open_it(hold: int) -> tuple[Reader, int]:
            return Reader(self._name, hold=hold, writable=self._mapping != "copied", ahead=True, spin=spin_ns / 1e9, device=device,
                          wait=None if self._policy.reconnect_enabled else 0, cipd=cipd), hold

        for hold in (4, 2):  # what the program has, what is copied, what comes
            try:
                return open_it(hold)
            except _sluice.LimitError:
                pass
        return open_it(1)

    def _is_to_wait(self, error: _sluice.Error) -> bool:
        """Something else at the channel's place must not end a program that waits for a producer."""
        if not self._policy.reconnect_enabled or not isinstance(error, _UNREADABLE):
            return False
        if not self._waits:
            self._waits = True
            logger.error("waiting for a producer of channel '%s': %s", self._name, error)
        return True

    def _copy_instead(self, error: _sluice.Error) -> bool:
        """The writer of a native channel does not allow writes to its frames: the program gets copies."""
        refused = isinstance(error, (_sluice.AccessError, _sluice.UnsupportedError, _sluice.InvalidError))
        if self._mapping != "writable" or not refused:
            return False
        self._mapping = "copied"
        return True

    # ---- frames: python/src/cuda_link_calls.c has the calls for a frame, and calls these if it got none ----

    def _failed(self, error: Exception | None, framework: str, stream: Any) -> ImportResult[Any]:
        if not self._is_open or error is None:
            if self._again is not None and time.monotonic() >= self._again:
                self._open()
            return _RECONNECTING
        if isinstance(error, ImportError):
            raise RuntimeError(f"{framework} is required for this call: {error}") from error
        if not isinstance(error, _sluice.Error):
            raise error
        if self._copy_instead(error):
            self._detach()
            self._open()
            return _RECONNECTING
        if self._is_to_wait(error):
            return _RECONNECTING
        raise_for(error)

    def _other(self, code: int) -> ImportResult[Any]:
        if code == _RENEWED:
            self._results.told = self._waits = False
            logger.info("channel '%s': its producer has restarted, or changed the format", self._name)
            return _RECONNECTING
        if code == _LOST:
            logger.error("channel '%s': the producer's GPU did not finish a frame within %g ms: check the producer",
                         self._name, self._spec.timeout_ms)
            return _TIMEOUT
        if code in (_CLOSED, _NO_WRITER):
            return self._alone(code)
        return _RECONNECTING if code == _ENDED else _NO_FRAME

    def _alone(self, code: int) -> ImportResult[Any]:
        """There is no producer: it has closed the channel, or has not opened it."""
        self._results.told = False
        if not self._policy.reconnect_enabled:
            if code == _NO_WRITER and self._info().get("state") in _BEGINS:
                return _RECONNECTING
            self.close()
            return _SHUTDOWN
        if code == _CLOSED:
            logger.info("channel '%s': its producer has closed it", self._name)
            return _SHUTDOWN
        if not self._waits:
            self._waits = True
            logger.warning("waiting for a producer of channel '%s'", self._name)
        return _RECONNECTING

    def wait_for_doorbell(self, timeout_ms: float) -> bool:
        """Sleeps until there is a frame or the time-out passes; False at once unless the policy has `doorbell`. Sluice's
        producers wake it; others are polled every millisecond."""
        milliseconds = _check.milliseconds("timeout_ms", timeout_ms)
        if not self._policy.doorbell or not self._is_open:
            return False
        try:
            return self._wait(max(0, _nanoseconds(milliseconds)))
        except _sluice.Error as error:
            raise_for(error)

    def request_immediate_reconnect(self) -> None:
        """Makes the next call look for a producer, even if one did so just before."""
        if self._reader is not None and self._is_open:
            self._reader._retry()
        elif self._again is not None:
            self._again = 0

    # ---- the policy's debug ----

    def _watch(self) -> None:
        for name in ("get_frame", "get_frame_cupy", "get_frame_numpy"):
            setattr(self, name, self._watched(name.removeprefix("get_frame").lstrip("_") or "torch", getattr(self, name)))

    def _watched(self, kind: str, method: Any) -> Any:
        def call(*args: Any, **keywords: Any) -> ImportResult[Any]:
            began = time.perf_counter()
            result: ImportResult[Any] = method(*args, **keywords)
            if result.outcome is ImportOutcome.NEW_FRAME:
                count, total = self._profile
                self._profile = count + 1, total + time.perf_counter() - began
                if (count + 1) % _EVERY == 0:
                    self._say(kind)
            return result
        return call

    def _say(self, kind: str) -> None:
        stats, (count, total) = self.get_stats(), self._profile
        hits = max(1, int(stats["wait_spin_hits"]) + int(stats["wait_sleep_hits"]))
        logger.debug("frame %d [%s]: total=%.1fus latency=%.2fms spin_hit=%.0f%% avg_spin=%.1fus avg_sleep=%.1fus",
                     stats["frame_count"], kind, total / count * 1e6, self.last_latency,
                     100 * int(stats["wait_spin_hits"]) / hits, stats["avg_spin_us"], stats["avg_sleep_us"])

    # ---- inspection ----

    @property
    def frame_count(self) -> int:
        """Frames returned."""
        return self._frames

    @property
    def last_latency(self) -> float:
        """Milliseconds between the publication of the last frame returned and its acquisition."""
        return self._latency_ns / 1e6

    @property
    def wait_spin_hits(self) -> int:
        """The number of waits for a frame's event that ended within `wait_spin_us`."""
        return int(self._counts()["spin_hits"])

    @property
    def wait_sleep_hits(self) -> int:
        """The number of waits that took longer."""
        return int(self._counts()["sleep_hits"])

    @property
    def total_wait_spin_us(self) -> float:
        """Microseconds in the waits that ended within `wait_spin_us`."""
        return float(self._counts()["spun_ns"]) / 1000

    @property
    def total_wait_sleep_us(self) -> float:
        """Microseconds in the longer waits."""
        return float(self._counts()["slept_ns"]) / 1000

    @property
    def total_wait_event_time(self) -> float:
        """Microseconds in all waits."""
        return self.total_wait_spin_us + self.total_wait_sleep_us

    @property
    def total_get_frame_time(self) -> float:
        """Microseconds in calls that returned a frame, with the policy's `debug`."""
        return self._profile[1] * 1e6

    total_shm_read_us = NotHere(UNTIMED)
    from_connection = NotHere("an importer connects by itself, and to nothing else: Importer.open(ImportSpec(name))")

    @property
    def wait_backend_name(self) -> str:
        """"native": the library itself waits."""
        return "native"

    def is_ready(self) -> bool:
        """Whether there is a producer and its memory is open."""
        info = self._info()
        addresses = info.get("addresses", ())
        return info.get("state") in OPEN and (self._native or (bool(addresses) and all(addresses)))

    @property
    def connection(self) -> IPCConnection | None:
        """The open session; None without one, and for a native channel. Internal in cuda-link."""
        info = self._info()
        if self._native or info.get("state") not in OPEN:
            return None
        from .cuda_ipc_wrapper import get_cuda_runtime
        return IPCConnection.of(info, get_cuda_runtime(self._spec.device))

    def _info(self) -> dict[str, Any]:
        return {} if not self._is_open else info_of(self._reader)

    def attach_nvml_observer(self, observer: NVMLObserver) -> None:
        """Attaches an observer, whose figures get_stats() then includes."""
        self._nvml = observer

    def get_stats(self) -> dict[str, Any]:
        """cuda-link's keys, and: mapping ("imported"; for native channels "writable" or "copied"), missed, overruns, timeouts,
        reconnects, last_latency_ms, producer."""
        info, counts = self._info(), self._counts()
        spins, sleeps = counts["spin_hits"], counts["sleep_hits"]
        known = info.get("dtype") is not None
        stats = {
            "initialized": self.is_ready(),
            "shm_name": self._spec.shm_name,
            "shape": info["shape"] if known else self._spec.shape,
            "dtype": info["dtype"] if known else self._spec.dtype,
            "device": self._spec.device,
            "num_slots": info.get("slots", 0),
            "frame_count": counts["frames"],
            "torch_available": TORCH_AVAILABLE,
            "numpy_available": NUMPY_AVAILABLE,
            "dev_ptrs": [f"0x{each:016x}" if each else "NULL" for each in info.get("addresses", ())],
            "tensor_device": f"cuda:{self._spec.device}" if TORCH_AVAILABLE and info.get("state") in OPEN else "N/A",
            "wait_backend": self.wait_backend_name,
            "wait_spin_hits": spins,
            "wait_sleep_hits": sleeps,
            "avg_spin_us": counts["spun_ns"] / 1000 / spins if spins else 0.0,
            "avg_sleep_us": counts["slept_ns"] / 1000 / sleeps if sleeps else 0.0,
            "gpu_wait_active": bool(counts["gpu_wait"]),
            "gpu_wait_latched_frame": counts["latched"] or None,
            "mapping": self._mapping,
            "missed": counts["missed"],
            "overruns": counts["overruns"],
            "timeouts": counts["timeouts"],
            "reconnects": counts["renewals"],
            "last_latency_ms": self.last_latency,
            "producer": info.get("writer_pid") or None,
        }
        if self._nvml is not None:
            stats["nvml"] = self._nvml.snapshot()
        return stats

    stats = get_stats

    @property
    def _pinned(self) -> bool:
        return bool(self._counts()["pinned"])

    # ---- the end ----

    def close(self) -> None:
        """Closes it; a second call does nothing. Tensors of the program stay valid as long as the producer keeps the memory."""
        self._again = None
        if self._is_open:
            self._is_open = False
            self._detach()

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sluice.cuda_link.Importer of '{self._spec.shm_name}'{' (closed)' if not self._is_open else ''}>"
