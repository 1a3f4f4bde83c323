# SPDX-License-Identifier: MIT
"""A control image: its link, and its strength."""
from collections.abc import Mapping
from typing import Any

from ._input import InputLink
from ._links import SLICE, ReadLink
from ._pairing import Pairing
from ._tensors import Picture


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

    def take(self, picture: Picture, of: InputLink) -> None:
        """Takes the newest image, or the input's partner. Waits for nothing but that, and its first image."""
        if not self.settings["enabled"] or self.reader is None:
            if self.health.kind != "format" or self.reader is not None:
                self.health.set("disabled")
            return self._switch(False)
        if self.settings["pair"] == "none":
            first = of.new and self.taken_at is None and self._waits and self.reader.stats().connected
            frame = self.next(SLICE if first else 0.0)  # a host that has just begun sends this one next
            self._waits = self._waits and not first
            new = frame is not None and self.put(picture, frame) is not None
        else:
            new = self._pairing.take(picture, of)
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
