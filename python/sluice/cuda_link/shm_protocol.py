# SPDX-License-Identifier: MIT
"""The bytes of a cuda-link segment, for programs that look into one. Sluice's own readers and writers are in C, and do more:
docs/from-cuda-link.md says what."""
from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Union

PROTOCOL_MAGIC = 0x43495044
MAGIC_OFFSET, MAGIC_SIZE = 0, 4
VERSION_OFFSET, VERSION_SIZE = 4, 8
NUM_SLOTS_OFFSET, NUM_SLOTS_SIZE = 12, 4
WRITE_IDX_OFFSET, WRITE_IDX_SIZE = 16, 4
SHM_HEADER_SIZE = 20
IPC_HANDLE_SIZE = 64
SLOT_SIZE = 128
SHUTDOWN_FLAG_SIZE = 1
METADATA_SIZE = 20
TIMESTAMP_SIZE = 8

FORMAT_KIND_SIGNED, FORMAT_KIND_UNSIGNED, FORMAT_KIND_FLOAT = 0, 1, 2
FLAGS_BFLOAT16, FLAGS_MONO_ALPHA, FLAGS_BGRA = 1, 2, 4

_U32, _U64, _F64 = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<d")
_METADATA = struct.Struct("<IIIBBHI")
_Bytes = Union[bytearray, memoryview]

# name: kind, bits, the flag that tells it from another
_DTYPES = {
    "float32": (FORMAT_KIND_FLOAT, 32, 0),
    "float16": (FORMAT_KIND_FLOAT, 16, 0),
    "bfloat16": (FORMAT_KIND_FLOAT, 16, FLAGS_BFLOAT16),
    "uint8": (FORMAT_KIND_UNSIGNED, 8, 0),
    "uint16": (FORMAT_KIND_UNSIGNED, 16, 0),
    "int8": (FORMAT_KIND_SIGNED, 8, 0),
    "int16": (FORMAT_KIND_SIGNED, 16, 0),
}
_NAMES = {key: name for name, key in _DTYPES.items()}


class DtypeCodec:
    """Data types by name, and as the wire has them."""

    @staticmethod
    def encode(dtype: str) -> tuple[int, int, int]:
        """(kind, bits, flags); KeyError for a name that there is not."""
        return _DTYPES[dtype]

    @staticmethod
    def decode(kind: int, bits: int, flags: int) -> str:
        """The name. A ValueError if the wire does not know it, where cuda-link returns float32."""
        try:
            return _NAMES[kind, bits, flags & FLAGS_BFLOAT16]
        except KeyError:
            raise ValueError(f"no data type is of kind {kind} with {bits} bits and flags {flags:#x}") from None

    @staticmethod
    def itemsize(dtype: str) -> int:
        """Bytes of one element."""
        return _DTYPES[dtype][1] // 8

    @staticmethod
    def supported() -> tuple[str, ...]:
        return tuple(_DTYPES)

    @staticmethod
    def typestr(dtype: str) -> str:
        """As the CUDA array interface has it, which has no bfloat16: that is two bytes without a sign there."""
        letter = "u" if dtype == "bfloat16" else "iuf"[_DTYPES[dtype][0]]
        size = DtypeCodec.itemsize(dtype)
        return f"{'|' if size == 1 else '<'}{letter}{size}"

    @staticmethod
    def numpy_name(dtype: str) -> str | None:
        """NumPy's name, which has none for bfloat16."""
        return None if _DTYPES[dtype][2] else dtype

    cupy_name = numpy_name


@dataclass(frozen=True)
class SHMLayout:
    """Where what lies in a segment of so many slots."""

    num_slots: int

    def slot_offset(self, i: int) -> int:
        return SHM_HEADER_SIZE + i * SLOT_SIZE

    def mem_handle_offset(self, slot: int) -> int:
        return self.slot_offset(slot)

    def event_handle_offset(self, slot: int) -> int:
        return self.slot_offset(slot) + IPC_HANDLE_SIZE

    @property
    def shutdown_offset(self) -> int:
        return self.slot_offset(self.num_slots)

    @property
    def metadata_offset(self) -> int:
        return self.shutdown_offset + SHUTDOWN_FLAG_SIZE

    @property
    def timestamp_offset(self) -> int:
        return self.metadata_offset + METADATA_SIZE

    @property
    def total_size(self) -> int:
        return self.timestamp_offset + TIMESTAMP_SIZE

    def build_buffer(self, *, version: int = 1, write_idx: int = 0) -> bytearray:
        """A segment in plain memory, with its header."""
        buffer = bytearray(self.total_size)
        _U32.pack_into(buffer, MAGIC_OFFSET, PROTOCOL_MAGIC)
        _U64.pack_into(buffer, VERSION_OFFSET, version)
        _U32.pack_into(buffer, NUM_SLOTS_OFFSET, self.num_slots)
        _U32.pack_into(buffer, WRITE_IDX_OFFSET, write_idx)
        return buffer


@dataclass(frozen=True)
class Metadata:
    """What frames are."""

    width: int
    height: int
    num_comps: int
    format_kind: int
    bits_per_comp: int
    flags: int
    data_size: int

    @property
    def expected_size(self) -> int:
        """What data_size must be."""
        return self.width * self.height * self.num_comps * (self.bits_per_comp // 8)

    def pack_into(self, buf: _Bytes, layout: SHMLayout) -> None:
        _METADATA.pack_into(buf, layout.metadata_offset, self.width, self.height, self.num_comps, self.format_kind,
                            self.bits_per_comp, self.flags, self.data_size)

    @classmethod
    def read_from(cls, buf: _Bytes, layout: SHMLayout) -> Metadata:
        return cls(*_METADATA.unpack_from(buf, layout.metadata_offset))


def _read(kind: struct.Struct, buf: _Bytes, offset: int) -> int:
    value: int = kind.unpack_from(buf, offset)[0]
    return value


def read_magic(buf: _Bytes) -> int:
    return _read(_U32, buf, MAGIC_OFFSET)


def read_version(buf: _Bytes) -> int:
    return _read(_U64, buf, VERSION_OFFSET)


def read_num_slots(buf: _Bytes) -> int:
    return _read(_U32, buf, NUM_SLOTS_OFFSET)


def read_write_idx(buf: _Bytes) -> int:
    return _read(_U32, buf, WRITE_IDX_OFFSET)


def bump_version(buf: _Bytes) -> int:
    """Adds one; returns the new value."""
    version = read_version(buf) + 1
    _U64.pack_into(buf, VERSION_OFFSET, version)
    return version


def set_version(buf: _Bytes, version: int) -> None:
    _U64.pack_into(buf, VERSION_OFFSET, version)


_order = threading.Lock()  # CPython has no fence; taking a lock is one


def _fence() -> None:
    with _order:
        pass


def publish_frame(buf: _Bytes, layout: SHMLayout, write_idx: int, timestamp: float) -> None:
    """Readers look at the flag first, so the number comes last."""
    _F64.pack_into(buf, layout.timestamp_offset, timestamp)
    buf[layout.shutdown_offset] = 0
    _fence()
    _U32.pack_into(buf, WRITE_IDX_OFFSET, write_idx)


def set_shutdown(buf: _Bytes, layout: SHMLayout) -> None:
    buf[layout.shutdown_offset] = 1
    _fence()


def clear_shutdown(buf: _Bytes, layout: SHMLayout) -> None:
    buf[layout.shutdown_offset] = 0


class SlotState(Enum):
    """What a look at a segment can find."""

    NO_FRAME = "no_frame"
    NEW_FRAME = "new_frame"
    SHUTDOWN = "shutdown"
    VERSION_CHANGED = "version_changed"


class AcquireResult(NamedTuple):
    """What it found."""

    state: SlotState
    slot: int = -1
    timestamp: float = 0.0
    new_version: int = 0
    write_idx: int = 0


def acquire_slot(buf: _Bytes, layout: SHMLayout, last_write_idx: int, last_version: int) -> AcquireResult:
    """Looks for a frame. A version of 0 is one that is being stored just now, and no other version."""
    if buf[layout.shutdown_offset]:
        return AcquireResult(SlotState.SHUTDOWN)
    version = read_version(buf)
    if last_version and version and version != last_version:
        return AcquireResult(SlotState.VERSION_CHANGED, new_version=version)
    write_idx = read_write_idx(buf)
    if write_idx in (0, last_write_idx):
        return AcquireResult(SlotState.NO_FRAME)
    timestamp: float = _F64.unpack_from(buf, layout.timestamp_offset)[0]
    return AcquireResult(SlotState.NEW_FRAME, (write_idx - 1) % layout.num_slots, timestamp, 0, write_idx)
