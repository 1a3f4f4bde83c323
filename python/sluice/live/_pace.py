# SPDX-License-Identifier: MIT
"""When the next shot may begin: pause and play, shots one by one, and max_fps."""
import time

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
