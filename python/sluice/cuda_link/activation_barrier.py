# SPDX-License-Identifier: MIT
"""cuda-link's activation barrier: a segment by which a sender that begins asks the exporters of the machine to skip frames.

Exporters check it themselves (ExportPolicy.barrier_enabled). This is for programs that hold it or inspect it. A count
that a dead program left behind is set right by the next that holds it, which cuda-link does not do.
"""
from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

SHM_NAME = "cudalink_activation_barrier"
SHM_SIZE = 64
MAGIC = 0xCDA1BAAA
VERSION = 1
STALE_NS = 5_000_000_000

_HEADER = struct.Struct("<II")
_COUNT, _SKIPS, _PID = 8, 24, 28
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_CHANGED = 16


class Segment:
    """The bytes, in `buf`. Unlike multiprocessing's it is not taken away when a process ends that only looked."""

    def __init__(self, path: str, create: bool) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if create else 0), 0o600)
        try:
            status = os.fstat(descriptor)
            if status.st_uid not in (os.geteuid(), 0):  # its owner could truncate it, which kills the processes that have it mapped
                raise PermissionError(f"{path} belongs to user {status.st_uid}: both sides must run as the same user")
            if status.st_size < SHM_SIZE:
                if not create:
                    raise FileNotFoundError(f"{path} is not finished")
                os.ftruncate(descriptor, SHM_SIZE)
            self._map = mmap.mmap(descriptor, SHM_SIZE)
        finally:
            os.close(descriptor)
        self.buf = memoryview(self._map)

    def close(self) -> None:
        self.buf.release()
        self._map.close()


def _section(create: bool) -> Any:
    """On Windows, where it goes with its last user and nothing takes a name away."""
    from multiprocessing.shared_memory import SharedMemory
    try:
        return SharedMemory(SHM_NAME)
    except FileNotFoundError:
        if not create:
            raise
    try:
        return SharedMemory(SHM_NAME, create=True, size=SHM_SIZE)
    except FileExistsError:  # another process was quicker
        return SharedMemory(SHM_NAME)


def open_or_create(*, create: bool) -> Segment:
    """Maps it. FileNotFoundError if there is none and it is not to be made."""
    segment: Any = _section(create) if os.name == "nt" else Segment(f"/dev/shm/{SHM_NAME}", create)
    if create and not _U32.unpack_from(segment.buf, 0)[0]:
        _HEADER.pack_into(segment.buf, 0, MAGIC, VERSION)
    return segment


def _word(kind: struct.Struct, shm: Any, offset: int) -> int:
    value: int = kind.unpack_from(shm.buf, offset)[0]
    return value


def read_state(shm: Any) -> tuple[int, int, int]:
    """(how many hold it, time.monotonic_ns() of the last change, frames skipped for it)"""
    return _word(_U32, shm, _COUNT), _word(_U64, shm, _CHANGED), _word(_U32, shm, _SKIPS)


def _change(shm: Any, count: int, pid: int) -> int:
    _U32.pack_into(shm.buf, _COUNT, count)
    _U64.pack_into(shm.buf, _CHANGED, time.monotonic_ns())
    _U32.pack_into(shm.buf, _PID, pid)
    return count


def increment(shm: Any, pid: int) -> int:
    """Holds it; returns how many do."""
    count, changed, _ = read_state(shm)
    if count and time.monotonic_ns() - changed > STALE_NS:
        count = 0  # its holders are dead
    return _change(shm, count + 1, pid)


def decrement(shm: Any, pid: int) -> int:
    """Lets it go; returns how many hold it still."""
    return _change(shm, max(0, read_state(shm)[0] - 1), pid)


def bump_skip(shm: Any) -> None:
    """Counts a frame that was skipped."""
    _U32.pack_into(shm.buf, _SKIPS, read_state(shm)[2] + 1)


class RealShmAdapter:
    """The segment, attached when it is first needed."""

    def __init__(self) -> None:
        self._segment: Segment | None = None

    @property
    def is_attached(self) -> bool:
        return self._segment is not None

    def attach(self, *, create: bool) -> None:
        if self._segment is None:
            self._segment = open_or_create(create=create)

    def read_state(self) -> tuple[int, int, int]:
        return read_state(self._there())

    def bump_skip(self) -> None:
        bump_skip(self._there())

    def close(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _there(self) -> Segment:
        if self._segment is None:
            raise RuntimeError("the activation barrier is not attached")
        return self._segment


class CheckerOutcome(Enum):
    """What a look at the barrier found."""

    DISABLED = 1
    NO_SKIP = 2
    SKIP_ACTIVE = 3
    SKIP_STALE = 4
    SHM_ABSENT = 5

    @property
    def should_skip(self) -> bool:
        return self is CheckerOutcome.SKIP_ACTIVE


@dataclass
class CheckerBarrier:
    """An exporter's side, for programs that look themselves."""

    enabled: bool
    stale_ns: int
    shm: Any = field(default_factory=RealShmAdapter)

    def evaluate(self) -> CheckerOutcome:
        """Looks; a frame that is to be skipped counts."""
        if not self.enabled:
            return CheckerOutcome.DISABLED
        try:
            self.shm.attach(create=False)
            count, changed, _ = self.shm.read_state()
        except (OSError, RuntimeError, struct.error):
            return CheckerOutcome.SHM_ABSENT
        if not count:
            return CheckerOutcome.NO_SKIP
        if time.monotonic_ns() - changed > self.stale_ns:
            return CheckerOutcome.SKIP_STALE
        self.shm.bump_skip()
        return CheckerOutcome.SKIP_ACTIVE

    def should_skip_publish(self) -> bool:
        return self.evaluate().should_skip

    def close(self) -> None:
        self.shm.close()


@dataclass
class HolderBarrier:
    """A sender's side: holds the barrier while it begins, and for so many frames after that."""

    enabled: bool
    settle_frames: int
    held: bool = False
    settle_remaining: int = 0
    shm: Segment | None = None

    def acquire(self, pid: int, *, log_fn: Callable[..., Any]) -> None:
        if not self.enabled or self.held:
            return
        try:
            self.shm = self.shm or open_or_create(create=True)
            count = increment(self.shm, pid)
        except OSError as error:
            log_fn(f"the activation barrier cannot be held: {error}", force=True)
            return
        self.held = True
        log_fn(f"the activation barrier is held by {count}", force=True)

    def arm_settle_countdown(self) -> None:
        if self.held:
            self.settle_remaining = self.settle_frames

    def tick_and_maybe_release(self, pid: int, *, log_fn: Callable[..., Any]) -> bool:
        """For each frame; whether that was the last one."""
        if self.settle_remaining <= 0:
            return False
        self.settle_remaining -= 1
        if self.settle_remaining or not self.held:
            return False
        self.force_release(pid, log_fn=log_fn)
        return True

    def force_release(self, pid: int, *, log_fn: Callable[..., Any]) -> None:
        """Once is enough."""
        if self.held and self.shm is not None:
            log_fn(f"the activation barrier is held by {decrement(self.shm, pid)}", force=True)
        self.held = False

    def close(self) -> None:
        segment, self.shm = self.shm, None
        if segment is not None:
            segment.close()
