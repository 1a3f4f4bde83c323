# SPDX-License-Identifier: MIT
"""What cuda-link's exporters and importers have inside, for programs that look there: as far as Sluice's have it, too."""
from __future__ import annotations

import importlib
import mmap
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from .. import Reader, Writer, WriterStats, _sluice
from .._structs import first_array
from .cuda_runtime_types import cudaIpcEventHandle_t, cudaIpcMemHandle_t
from .shm_protocol import DtypeCodec, SHMLayout


class NotHere:
    """An attribute that means nothing here. The AttributeError says why, and what to use instead; hasattr() is False."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"sluice.cuda_link's {owner.__name__} has no {self._name}: {self._why}")


UNTIMED = "this stage is not timed by itself; SLUICE_TIMERS=1 times what there is of stages: docs/profiling.md"
NO_SOURCE_EVENT = "record_source_sync() notes the stream itself; no event stands between"


class Segment:
    """A channel's shared memory, to be looked at: as multiprocessing's SharedMemory, but that nothing can be stored there, and
    that the channel keeps its name when the program ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        if sys.platform == "win32":
            from multiprocessing.shared_memory import SharedMemory
            memory = SharedMemory(name)
            self._close, self.size, self.buf = memory.close, memory.size, memory.buf.toreadonly()
            return
        descriptor = os.open(f"/dev/shm/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            memory_map = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
        self._close, self.size, self.buf = memory_map.close, len(memory_map), memoryview(memory_map)

    def close(self) -> None:
        self.buf.release()
        self._close()


class CudaArray:
    """Memory of a GPU, as frameworks take it from others."""

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "strides": None, "version": 2}


OPEN = ("running", "stalled")  # states of a session that a reader can be in


def info_of(channel: Reader | Writer | None) -> dict[str, Any]:
    """What is known of a channel; {} if it is closed."""
    if channel is None:
        return {}
    try:
        info = channel.cipd_info()
    except _sluice.UnsupportedError:
        return _native_info(channel)
    except _sluice.ClosedError:
        return {}
    return {"state": info.state, "why": info.why, "version": info.version, "index": info.index, "slots": info.slot_count,
            "shape": (info.height, info.width, info.components), "flags": info.flags, "dtype": info.dtype,
            "addresses": tuple(each.address for each in info.slots), "writer_pid": info.writer_pid, "by_sluice": info.by_sluice,
            "barrier_skips": info.barrier_skips, "graph_frames": info.graph_frames}


def _native_info(channel: Reader | Writer) -> dict[str, Any]:
    """The same of a native channel, as far as it has such things."""
    stats = channel.stats()
    info = {"state": "absent", "why": "", "version": stats.session, "index": 0, "slots": 0, "shape": (0, 0, 0), "flags": 0,
            "dtype": None, "addresses": (), "writer_pid": 0, "by_sluice": True, "barrier_skips": 0, "graph_frames": 0}
    if isinstance(stats, WriterStats):
        return info | {"index": stats.committed}
    format = channel._format()
    if format:
        dtype, shape = first_array(format)
        info |= {"dtype": dtype, "shape": (*shape, 1, 1, 1)[:3]}
    return info | {"state": "running" if stats.connected else "absent", "slots": channel.slots}  # type: ignore[union-attr]


class Session:
    """What a program can look at in a session, made when it is asked for, once for each session. `info`: as info_of()."""

    def __init__(self, name: str, device: int) -> None:
        self._name, self._device = name, device
        self._version, self._made = 0, dict[str, Any]()

    def _once(self, info: dict[str, Any], what: str, make: Callable[[], Any]) -> Any:
        if info["version"] != self._version:
            self._version, self._made = info["version"], {}
        if self._made.get(what) is None:
            self._made[what] = make()
        return self._made[what]

    def segment(self, info: dict[str, Any]) -> Segment | None:
        """None also while its name is taken away."""
        if not self._name.startswith("cipd:"):
            raise AttributeError(f"channel '{self._name}' is a native one, without cuda-link's segment and handles")
        return self._once(info, "segment", self._open) if info else None

    def _open(self) -> Segment | None:
        try:
            return Segment(self._name.removeprefix("cipd:"))
        except (FileNotFoundError, ValueError):
            return None

    def _handles(self, info: dict[str, Any], kind: Any, offset: Callable[[int], int]) -> list[Any]:
        segment = self.segment(info)
        return [segment and kind.from_buffer_copy(segment.buf, offset(slot)) for slot in range(info.get("slots", 0))]

    def memory_handles(self, info: dict[str, Any]) -> list[Any]:
        return self._handles(info, cudaIpcMemHandle_t, SHMLayout(info.get("slots", 0)).mem_handle_offset)

    def event_handles(self, info: dict[str, Any]) -> list[Any]:
        return self._handles(info, cudaIpcEventHandle_t, SHMLayout(info.get("slots", 0)).event_handle_offset)

    def arrays(self, info: dict[str, Any], framework: str) -> list[Any]:
        """Of "torch" or "cupy", one for each slot; None for each where that is not installed, or has no such data type."""
        self.segment(info)
        return self._once(info, framework, lambda: self._arrays(info, framework)) if info else []

    def _arrays(self, info: dict[str, Any], framework: str) -> list[Any]:
        try:
            module = importlib.import_module(framework)
        except ImportError:
            return [None] * info["slots"]
        make = self._tensor if framework == "torch" else self._cupy_array
        return [make(module, address, info["shape"], info["dtype"]) for address in info["addresses"]]

    def _tensor(self, torch: Any, address: int, shape: tuple[int, ...], dtype: str) -> Any:
        plain = "int16" if dtype == "bfloat16" else dtype
        tensor = torch.as_tensor(CudaArray(address, shape, DtypeCodec.typestr(plain)), device=f"cuda:{self._device}")
        return tensor if plain == dtype else tensor.view(torch.bfloat16)

    def _cupy_array(self, cupy: Any, address: int, shape: tuple[int, ...], dtype: str) -> Any:
        if DtypeCodec.cupy_name(dtype) is None:
            return None
        with cupy.cuda.Device(self._device):
            return cupy.asarray(CudaArray(address, shape, DtypeCodec.typestr(dtype)))
