# SPDX-License-Identifier: MIT
"""When the next shot may begin: pause and play, shots one by one, max_fps; and how many the device has not finished."""
import time
from collections import deque
from collections.abc import Sequence

import sluice

from ._changes import Changes
from ._counters import Counters

LOOK = 0.1  # s between two looks at what is asked for while nothing runs
ACK = 5.0  # s that a shot of a paused loop waits for frame_ack


class Pace:
    def __init__(self, changes: Changes, counters: Counters) -> None:
        self._changes, self._counters = changes, counters
        self._paused = False
        self._steps = 0  # shots that are asked for while it is paused
        self._ack_until = self._started_at = 0.0

    def command(self, name: str) -> None:
        if name in ("pause", "play"):
            self._paused, self._steps, self._ack_until = name == "pause", 0, 0.0
        elif name == "process_frame":
            self._steps += self._paused
        elif name == "frame_ack":
            self._ack_until = 0.0

    def may_run(self, max_fps: float | None) -> bool:
        """Whether a shot is wanted now; else waits until something is asked for, or a while."""
        now = time.monotonic()
        if not self._paused:
            due = self._started_at + 1 / max_fps if max_fps else now
            return due <= now or not self._changes.wait(min(due - now, LOOK)) and due <= time.monotonic()
        self._counters.state = "paused"
        if self._steps and now >= self._ack_until:
            return True
        self._changes.wait(LOOK)
        return False

    def started(self) -> None:
        """A shot has begun."""
        self._started_at = time.monotonic()
        if self._paused:
            self._steps, self._ack_until = self._steps - 1, self._started_at + ACK


class Unfinished:
    """Shots that the device has not finished: how many there may be, and how long each took."""

    def __init__(self, stream: sluice.Stream, counters: Counters) -> None:
        self._stream, self._counters = stream, counters
        self._spare: list[tuple[sluice.Event, sluice.Event]] = []
        self._begun: tuple[sluice.Event, sluice.Event] | None = None
        self._begun_at = self._ended_at = 0.0
        self._shots: deque[tuple[sluice.Event, sluice.Event, float, Sequence[int]]] = deque()

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._spare.pop() if self._spare else (self._event(), self._event())
        self._begun[0].record(self._stream)
        self._begun_at = time.monotonic()

    def _event(self) -> sluice.Event:
        return sluice.Event(self._stream.device, timing=True, sleep=True)

    def end(self, commits: Sequence[int]) -> None:
        """`commits`: when the frames that the shot shows were committed, in nanoseconds."""
        if self._begun is not None:
            self._begun[1].record(self._stream)
            self._shots.append((*self._begun, self._begun_at, commits))
            self._begun = None

    def bound(self, most: int) -> None:
        """Waits until at most so many are unfinished. No other wait of the loop is for the device."""
        while len(self._shots) > most:
            start, end, begun_at, commits = self._shots.popleft()
            end.synchronize()
            took = start.elapsed(end) / 1000
            # It began on the device once it was queued and the one before it was done.
            self._ended_at = min(max(self._ended_at, begun_at) + took, time.monotonic())
            self._spare.append((start, end))
            with self._counters.lock:
                self._counters.engine.add(took)
                for commit in commits:
                    self._counters.photon.add(self._ended_at - commit / 1e9)
