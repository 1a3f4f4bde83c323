# SPDX-License-Identifier: MIT
"""Shots that the device has not finished: how many there may be, and how long each took."""
import time
from collections import deque

import sluice

from ._counters import Counters


class Unfinished:
    def __init__(self, stream: sluice.Stream, counters: Counters) -> None:
        self._stream, self._counters = stream, counters
        self._spare: list[tuple[sluice.Event, sluice.Event]] = []
        self._begun: tuple[sluice.Event, sluice.Event] | None = None
        self._begun_at = self._ended_at = 0.0
        self._shots: deque[tuple[sluice.Event, sluice.Event, float, tuple[int, ...]]] = deque()

    def begin(self) -> None:
        if self._begun is None:
            self._begun = self._spare.pop() if self._spare else (self._event(), self._event())
        self._begun[0].record(self._stream)
        self._begun_at = time.monotonic()

    def _event(self) -> sluice.Event:
        return sluice.Event(self._stream.device, timing=True, sleep=True)

    def end(self, commits: tuple[int, ...]) -> None:
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
            with self._counters as counters:
                counters.engine.add(took)
                for commit in commits:
                    counters.photon.add(self._ended_at - commit / 1e9)
