# SPDX-License-Identifier: MIT
"""The channels that a loop writes: the output and the preview. Pictures go straight into their slots."""
import logging
import time
from collections.abc import Mapping
from typing import Any

import sluice

from ._counters import LinkCounters
from ._input import About
from ._links import Health
from ._tensors import Sender, size_of

RETRY = 1.0  # s until a channel that could not be opened is tried again
NAN_EVERY = 1.0  # s between two pictures that are searched for values that are no numbers
log = logging.getLogger("sluice.live")


class WriteLink:
    def __init__(self, name: str, settings: Mapping[str, Any], device: str, sender: Sender) -> None:
        self.counters = LinkCounters(settings["channel"])
        self.health = Health(name, self.counters)
        self.settings, self.device = settings, device
        self.writer: sluice.Writer | None = None
        self.sender = sender
        self._opened: tuple[Any, ...] = ()  # size and order of the writer's pictures
        self._opened_by: Mapping[str, Any] | None = None  # the settings that asked for them
        self.fine = "ok"  # its state if nothing is wrong
        self._failures = 0
        self._retry_at = 0.0

    @property
    def wanted(self) -> bool:
        return bool(self.settings["enabled"] and self.settings["channel"])

    def adopt(self, settings: Mapping[str, Any]) -> None:
        """Other settings, between shots."""
        if any(settings[name] != self.settings[name] for name in ("channel", "slots") if name in settings):
            self.close()
        self.settings, self._retry_at = settings, 0.0
        if not self.wanted:
            self.health.set("disabled")

    def open(self, size: tuple[int, int]) -> bool:
        """Opens the channel, or gives the one that is open this size. One that cannot be had is tried again later."""
        if self._opened_by is self.settings and self._opened and self._opened[0] == size:
            return True
        name = self.settings["channel"]
        order: Any = self.settings.get("format", "auto")
        self.counters.channel = name
        if not self.wanted:
            self.health.set("disabled")
            return False
        order = ("bgra" if name.startswith("cipd:") else "rgba") if order == "auto" else order
        if self._opened == (size, order):
            self._opened_by = self.settings
            return True
        if time.monotonic() < self._retry_at:
            return False
        image = sluice.Image(order, *size, alpha="opaque")
        try:
            if self.writer is None:
                slots = max(self.settings.get("slots", 0), 0 if name.startswith("cipd:") else 3)  # a native channel's least
                self.writer = sluice.Writer(name, image, device=self.device, slots=slots)
            else:
                self.writer.reformat(image)
        except sluice.Error as error:
            self._retry_at = time.monotonic() + RETRY
            self.health.set("not-init", why=str(error))
            return False
        self._opened, self._opened_by = (size, order), self.settings
        log.info("%s: %s: %s %d x %d on %s", self.health.name, name, order, *size, self.device)
        self.health.set(self.fine)
        return True

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer, self._opened = None, ()

    def send(self, picture: Any, range_: tuple[float, float], about: About | None, size: tuple[int, int], **how: Any) -> bool:
        """Queues the conversion into a slot and its commit; False if that could not be done."""
        if not self.open(size) or self.writer is None:
            return False
        low, high = range_
        try:
            frame = self.writer.try_frame(meta=about.data, capture_ns=about.capture_ns) if about else self.writer.try_frame()
            if frame is None:
                self._dropped(self.writer)
                return False
            with frame:
                if about:
                    frame.capture_clock = about.capture_clock
                sluice.convert(frame, picture, scale=high - low, bias=low, **how)
        except (sluice.Error, ValueError, TypeError) as error:
            self._failures += 1
            self.counters.lost += 1
            self.health.set("FAILED", self._failures, str(error))
            return False
        self.counters.frames += 1
        self.health.set(self.fine)
        return True

    def _dropped(self, writer: sluice.Writer) -> None:
        self.counters.lost += 1
        skips = writer.cipd_info().barrier_skips if str(self.counters.channel).startswith("cipd:") else 0
        if skips:
            self.health.set("barrier-skip", skips, "a sender of cuda-link is being activated", logging.INFO)
        else:
            self.health.set("lost", self.counters.lost, "its readers hold every slot: more of them by output.slots")


class OutputLink(WriteLink):
    """The pictures that the engine made."""

    def __init__(self, name: str, settings: Mapping[str, Any], device: str, sender: Sender) -> None:
        super().__init__(name, settings, device, sender)
        self._nan = sender.memory.pinned((1,), "float32")  # values of the last picture that was searched that are no numbers
        self._search_at, self._had_nan = 0.0, False

    def _search_nan(self, picture: Any) -> None:
        """Once a second. Nothing waits for a GPU's answer: it is there a second later."""
        now = time.monotonic()
        if now < self._search_at:
            return
        self._search_at = now + NAN_EVERY
        found, self._nan[0] = int(self._nan[0]), 0
        self.counters.nan += found
        if found and not self._had_nan:
            log.warning("%s: %s: %d values of a picture are no numbers: they are sent as black", self.health.name,
                        self.counters.channel, found)
        self._had_nan = found > 0
        self.sender.memory.count_nan(picture, self._nan)

    def fall_back(self, why: str) -> None:
        self.fine = "ok/graph-fallback"
        if self.health.kind == "ok":
            self.health.set(self.fine, why=f"the engine runs without its CUDA graph: {why}")

    def show(self, picture: Any, abouts: list[About], range_: tuple[float, float], model: tuple[int, int], fit: str) -> int:
        """Sends a picture, or those of a batch, each with the metadata of the frame that it shows. -> how many were sent"""
        pictures = self.sender.pictures(picture)
        self._search_nan(pictures[0])
        sent = 0
        for at, each in enumerate(pictures):
            about = abouts[at if len(pictures) == len(abouts) else -1] if abouts else None
            size, how = self._placed(each, about, model, fit)
            sent += self.send(each, range_, about, size, **how)
        return sent

    def _placed(self, picture: Any, about: About | None, model: tuple[int, int], fit: str) -> tuple[tuple[int, int], dict[str, Any]]:
        """The size of the output, and where the picture goes in it."""
        size = self.settings["size"]
        if size == "model":
            return model, {}
        if size != "input":
            return (int(size[0]), int(size[1])), {}
        if about is None:
            return (self._opened[0] if self._opened else model), {}
        if fit != "contain" or about.area is None:
            return about.size, {"fit": "inside" if fit == "cover" else "stretch"}
        across, down = (part / whole for part, whole in zip(size_of(picture), model))
        area = about.area  # without the border
        return about.size, {"crop": (round(area.x * across), round(area.y * down), round(area.width * across), round(area.height * down))}


class PreviewLink(WriteLink):
    """A control image as the network sees it."""

    def show(self, image: Any, range_: tuple[float, float], about: About | None) -> None:
        picture = self.sender.pictures(image)[0]
        self.send(picture, range_, about, size_of(picture))
