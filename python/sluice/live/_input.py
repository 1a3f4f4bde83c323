# SPDX-License-Identifier: MIT
"""The input: the frames that the loop follows, and what stands in for them."""
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import sluice

from ._links import HELD_WAIT, SLICE, ReadLink, metadata
from ._tensors import Picture, size_of


class About(NamedTuple):
    """What is known of a frame in the tensor."""
    sequence: int
    data: bytes  # its metadata
    meta: Any
    capture_ns: int
    capture_clock: int
    commit_ns: int
    size: tuple[int, int]
    area: sluice.Area | None = None  # where it lies in the tensor


class InputLink(ReadLink):
    def __init__(self, name: str, settings: Mapping[str, Any], device: str) -> None:
        super().__init__(name, settings, device)
        self.new = False  # whether this shot shows a frame that the last one did not
        self.frames: list[About] = []  # those in the tensor
        self.period = 1 / 60  # s between frames
        self._last: tuple[int, int] | None = None  # sequence and capture_ns of the last frame
        self._filled = 0  # frames of a block that is not complete
        self._due = 0  # ns: when the block's next frame was captured, where it has a rate
        self._black = False  # whether the tensor is black

    def mode(self) -> Any:
        return "newest" if self.settings["take"] == "newest" else "in_order"

    def open(self) -> None:
        super().open()
        self._filled, self._last, self._due = 0, None, 0

    def renew(self, picture: Picture) -> None:
        super().renew(picture)
        self.frames, self._black = [], False

    def take(self) -> bool:
        """Waits a little for what the next shot shows; False if there is nothing yet."""
        self.new = False
        if not self.settings["enabled"] or self.reader is None:
            if self.health.kind != "format":
                self.health.set("disabled")
            return self._blacken()
        pauses = self.settings["on_stale"] == "pause"
        left = self.settings["stale"] - self.age()
        if self._take(max(0.0, min(left, SLICE)) if left > 0 else SLICE if pauses else HELD_WAIT):
            self.new, self._black = True, False
            self.note_used(True)
            return True
        if not self.is_stale():
            return False
        self.note_missing()
        self.counters.repeated += not pauses
        if self.settings["on_stale"] == "hold" and self.taken_at is not None:
            if self._filled:
                self.picture.repeat(self._filled)
                self._filled = 0
            return True
        return not pauses and self._blacken()

    def _blacken(self) -> bool:
        if not self._black:
            self.picture.black(self.settings["range"][0])
        self._black, self.frames = True, []
        return True

    def _take(self, wait: float) -> bool:
        """Takes a frame, or those that a block still lacks; False if they do not come in time."""
        end = time.monotonic() + wait
        while (frame := self.next(max(0.0, end - time.monotonic()))) is not None:
            if not self._is_due(frame):
                frame.release()
                continue
            if frame.missed and self._filled and self.settings["rate"] is None:
                self.lost(self._filled)  # a block is of consecutive frames
                self._filled = 0
            self._measure(frame)
            image = frame[0]
            size = (image.width, image.height) if image.width and image.height else size_of(image)
            about = frame.sequence, frame.meta, metadata(frame), frame.capture_ns, frame.capture_clock, frame.commit_ns, size
            area = self.put(frame, self._filled)
            if area is None:
                return False
            self.frames = [*self.frames[:self._filled], About(*about, area)]
            self._filled += 1
            if self._filled >= self.picture.count:
                self._filled = 0
                return True
        return False

    def _is_due(self, frame: sluice.Frame) -> bool:
        """Whether a block that has a rate takes this frame."""
        rate = self.settings["rate"]
        if rate is None or self.settings["take"] != "block":
            return True
        if frame.capture_ns < self._due and not frame.new_session:
            return False
        step = int(1e9 / rate)
        self._due = max(self._due + step, frame.capture_ns + step // 2)
        return True

    def _measure(self, frame: sluice.Frame) -> None:
        if self._last and not frame.new_session and frame.sequence > self._last[0]:
            period = (frame.capture_ns - self._last[1]) / 1e9 / (frame.sequence - self._last[0])
            self.period = min(max(period, 0.001), 1.0)
        self._last = frame.sequence, frame.capture_ns
