# SPDX-License-Identifier: MIT
"""A control image: its link, its strength, and its partner: the input that it was made from."""
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import sluice

from ._input import About, InputLink
from ._links import SLICE, ReadLink, metadata

GIVEN_UP = 64  # partners that may still be seen to come late


class ControlLink(ReadLink):
    """A control image. Its scale is 0 while it is off, missing or stale."""

    def __init__(self, name: str, settings: Mapping[str, Any], device: str, memory: Any) -> None:
        super().__init__(name, settings, device)
        self._memory = memory
        self.scale = memory.zeros((), "float32")
        self.on = False
        self._written = 0.0  # what `scale` holds
        self._waits = True  # for the first image, once
        self._pairing = Pairing(self)

    def mode(self) -> Any:
        return "newest" if self.settings["pair"] == "none" else "in_order"

    def take(self, of: InputLink) -> None:
        """Takes the newest image, or the input's partner. Waits for nothing but that, and its first image."""
        if not self.settings["enabled"] or self.reader is None:
            if self.health.kind != "format" or self.reader is not None:
                self.health.set("disabled")
            return self._switch(False)
        if self.settings["pair"] == "none":
            first = of.new and self.taken_at is None and self._waits and self.reader.stats().connected
            frame = self.next(SLICE if first else 0.0)  # a host that has just begun sends this one next
            self._waits = self._waits and not first
            new = frame is not None and self.put(frame) is not None
        else:
            new = self._pairing.take(of)
        if new or not self.is_stale():
            if self.taken_at is not None:
                self.note_used(new)
            return self._switch(self.taken_at is not None)
        self.note_missing()
        self._switch(self.taken_at is not None and self.settings["on_stale"] == "hold")

    def _switch(self, on: bool) -> None:
        scale = float(self.settings["scale"]) if on else 0.0
        if scale != self._written:
            self._memory.fill(self.scale, scale)
            self._written = scale
        self.on = scale != 0.0


def number_of(meta: Any) -> int | None:
    """`n` of a frame's metadata."""
    number = meta.get("n") if isinstance(meta, dict) else None
    return number if isinstance(number, int) else None


class Pairing:
    """Takes the frames of a control in order, up to the partner of the input's frame: the one of the same number, or captured within
    half a frame of it."""

    def __init__(self, link: ReadLink) -> None:
        self._link = link
        self._key: int | None = None  # of the image in the tensor
        self._wanted: int | None = None
        self._given_up: deque[int] = deque(maxlen=GIVEN_UP)

    def take(self, of: InputLink) -> bool:
        """Waits for the partner as long as the settings say, where the input is a new frame; gives whether there is a new image."""
        link, wanted = self._link, self._key_of(of.frames[-1]) if of.frames else None
        if wanted is not None and self._wanted is not None and wanted < self._wanted:
            self._key = None  # the host has started again
        self._wanted = wanted
        half = int(of.period * 5e8) if link.settings["pair"] == "time" else 0
        end: float | None = None  # of the wait, once there is one
        last: tuple[sluice.Frame, int | None] | None = None  # the newest one so far, up to the partner
        while _order(last[1] if last else self._key, wanted, half) < 0:
            frame = link.next(0.0 if end is None else max(0.0, end - time.monotonic()))
            if frame is None:
                if end is not None or not self._may_wait(of):
                    break
                end = time.monotonic() + link.settings["wait"]
                continue
            key = self._key_of(frame)
            if key is None:
                end = 0.0  # it never will be a partner
            self._note_late(key, half)
            if last:
                last[0].release()
            last = frame, key
        new = last is not None and link.put(last[0]) is not None
        if last and new:
            self._key = last[1]
        if of.new and (wanted is None or _order(self._key, wanted, half) != 0):
            link.counters.unpaired += 1
            why = f"no partner of the input's frame came within {link.settings['wait'] * 1e3:g} ms"
            link.health.set("unpaired", link.counters.unpaired, why)
            if wanted is not None:
                self._given_up.append(wanted)
        return new

    def _may_wait(self, of: InputLink) -> bool:
        link = self._link
        return of.new and self._wanted is not None and not link.is_stale() and link.reader is not None and link.reader.stats().connected

    def _key_of(self, frame: sluice.Frame | About) -> int | None:
        if self._link.settings["pair"] == "time":
            return frame.capture_ns
        return number_of(frame.meta if isinstance(frame, About) else metadata(frame))

    def _note_late(self, key: int | None, half: int) -> None:
        for wanted in self._given_up:
            if _order(key, wanted, half) == 0:
                self._given_up.remove(wanted)
                self._link.counters.late += 1
                self._link.health.set("late", self._link.counters.late, "the input's partner came after the wait")
                return


def _order(key: int | None, wanted: int | None, half: int) -> int:
    """Whether a frame comes before the wanted one, is its partner, or comes after it: -1, 0, 1."""
    if key is None or wanted is None or key < wanted - half:
        return -1
    return int(key > wanted + half)
