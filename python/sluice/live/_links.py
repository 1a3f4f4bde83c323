# SPDX-License-Identifier: MIT
"""The channels that a loop reads. A link outlives its producers, and says how it is."""
import logging
import time
from collections.abc import Mapping
from typing import Any

import sluice

from ._counters import LinkCounters
from ._tensors import Picture

log = logging.getLogger("sluice.live")
SLICE = 0.05  # s: how long a frame is waited for until the loop looks for changes
HELD_WAIT = 1 / 60  # s: the same while an old frame stands in: the engine goes on
HELD_LOOK = 0.0005  # s until a reader that holds all it may is asked again
QUIET = 1.0  # s without another case of what a state counts, until the link is ok again
COUNTED = ("late", "unpaired", "lost")
FINE = ("ok", "ok/graph-fallback")
ANSWER = 0.05  # s that a channel's writer is asked for its process


def metadata(frame: sluice.Frame) -> Any:
    """What the JSON of a frame's metadata says; bytes if it is no JSON, None if there is none."""
    try:
        return frame.meta_json
    except ValueError:
        return frame.meta


def others(but: str | None) -> str:
    """Which channels there are instead."""
    try:
        names = [name for name in sluice.channels() if name != but]
    except sluice.Error:
        names = []
    return f"there are {', '.join(names)}" if names else "there are no other channels"


class Health:
    """The state of a link, in its counters. Each change of its kind is a line of the log."""

    def __init__(self, name: str, counters: LinkCounters) -> None:
        self.name, self.counters = name, counters
        self.kind = "disabled"
        self._counted_at = 0.0

    def set(self, kind: str, detail: object = None, why: str = "", level: int = logging.WARNING) -> None:
        """`kind(detail)`. What is counted lasts until there was no other case for a while."""
        if kind == self.kind == self.counters.state:
            return
        now = time.monotonic()
        if kind in COUNTED:
            self._counted_at = now
        elif kind in ("repeat", *FINE) and self.kind in COUNTED and now - self._counted_at < QUIET:
            return
        before, self.kind = self.kind, "ok" if kind == "repeat" else kind
        self.counters.state = kind if detail is None else f"{kind}({detail})"
        if before != self.kind and not (before in COUNTED and kind in COUNTED):
            level = logging.INFO if self.kind in ("ok", "disabled") else level
            log.log(level, "%s: %s: %s -> %s%s", self.name, self.counters.channel, before, self.kind, f": {why}" if why else "")


class ReadLink:
    """What the input and the controls have in common: a reader, which finds its writers by itself."""

    def __init__(self, name: str, settings: Mapping[str, Any], device: str) -> None:
        self.counters = LinkCounters(settings["channel"])
        self.health = Health(name, self.counters)
        self.settings, self.device = settings, device
        self.reader: sluice.Reader | None = None
        self.taken_at: float | None = None  # when the tensor got its frame
        self._opened_at = time.monotonic()
        self._writer_at = 0.0  # since when its writer is there, while nothing comes
        self._refused = ""
        self._few = False  # its writer has no slots for more than one frame that is held
        self._staged = False  # its channel is on another GPU

    def renew(self, picture: Picture) -> None:
        """The tensor is a new one."""
        self.picture, self.taken_at = picture, None

    def mode(self) -> Any:
        return "newest"

    def open(self) -> None:
        """Opens the channel, whether it has a writer or not. Raises what a wrong name does."""
        self.close()
        name = self.counters.channel = self.settings["channel"]
        self._opened_at, self._refused = time.monotonic(), ""
        if name is None:
            return
        cipd = name.startswith("cipd:")
        self.reader = sluice.Reader(
            name, mode=self.mode(), wait=None, hold=self._hold(), spin=self.settings.get("spin") or None,
            device=self.device if cipd or self._staged else None, staged="if_needed" if self._staged else "never",
            cipd={"undeclared": "rgba" if self.settings["order"] == "rgba" else "bgra"} if cipd else None)

    def _hold(self) -> int:
        """On a GPU a frame is held until the work before its release is done, and that may be a whole shot. In order one is kept
        until the next is seen."""
        if self._few or str(self.counters.channel).startswith("cipd:"):
            return 1
        return (1 if self.device == "host" else 2) * (1 if self.mode() == "newest" else 2)

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def adopt(self, settings: Mapping[str, Any], reopen: bool) -> None:
        """Other settings, between shots."""
        mode, self.settings = self.mode(), settings
        if not reopen and mode == self.mode():
            return
        if settings["channel"] != self.counters.channel:
            self.taken_at, self._staged = None, False
        self._reopen()

    def _reopen(self) -> None:
        try:
            self.open()
        except (sluice.Error, ValueError) as error:
            self.refuse(error)

    # ---- its frames ----

    def next(self, timeout: float) -> sluice.Frame | None:
        """The next frame, or None after the time-out."""
        if self.reader is None:
            return None
        try:
            frame = self.reader.next(timeout)
        except sluice.Closed:
            self._reopen()  # a new reader sleeps until there is a writer; this one would say so again at once
            return None
        except TimeoutError:
            return None
        except sluice.LimitError as error:
            self._limited(error, timeout)
            return None
        except sluice.LostError:
            self.lost(1)
            return None
        except sluice.Error as error:
            if isinstance(error, sluice.WrongDeviceError) and not self._staged:
                self._staged = True
                self._reopen()
            else:
                self.refuse(error)
                time.sleep(timeout)  # it is refused at once, each time
            return None
        self._met(frame)
        return frame

    def _limited(self, error: sluice.LimitError, timeout: float) -> None:
        """Frames are still held on the GPU; or the writer refuses a reader that may hold so many."""
        if self.reader is not None and self.reader.stats().held:
            time.sleep(min(timeout, HELD_LOOK))
        elif self._few or self._hold() == 1:
            self.refuse(error)
            time.sleep(timeout)  # it is refused at once, each time
        else:
            self._few = True
            self.open()

    def _met(self, frame: sluice.Frame) -> None:
        counters = self.counters
        counters.frames += 1
        counters.missed += frame.missed
        counters.reconnects += frame.new_session and self.taken_at is not None
        if frame.new_format:
            image = frame[0]
            what = f"{image.pixel_format} {image.width} x {image.height}" if image.pixel_format else f"{image.dtype} {image.shape}"
            log.info("%s: %s: %s on %s%s", self.health.name, counters.channel, what, image.device, self._assumed())

    def _assumed(self) -> str:
        """Which order four bytes are taken to have whose writer does not declare it."""
        if self.reader is None or not str(self.counters.channel).startswith("cipd:"):
            return ""
        info = self.reader.cipd_info()
        if info.order_declared or info.components != 4 or info.dtype != "uint8":
            return ""
        order = "rgba" if self.settings["order"] == "rgba" else "bgra"
        return f"; its order is not declared, and is taken as {order}: `order` of this link sets it"

    def put(self, frame: sluice.Frame, at: int = 0) -> sluice.Area | None:
        """Converts the frame into the tensor and releases it; None if that cannot be done."""
        try:
            with frame:
                area = self.picture.put(frame, self.settings, at)
        except sluice.LostError:
            self.lost(1)
            return None
        except (sluice.FormatError, sluice.UnsupportedError, sluice.InvalidError, sluice.WrongDeviceError, ValueError) as error:
            self.refuse(error)
            return None
        self.taken_at = time.monotonic()
        return area

    # ---- how it is ----

    def refuse(self, error: Exception) -> None:
        why = str(error)
        if self._refused not in ("", why):
            self.health.kind = ""  # another reason is another change
        self._refused = why
        self.health.set("format", why, why)

    def lost(self, count: int) -> None:
        self.counters.lost += count
        self.health.set("lost", self.counters.lost, "its writer took back, or overwrote, what was read")

    def age(self) -> float:
        """Seconds since the tensor got its frame, or since the channel was opened."""
        return time.monotonic() - (self._opened_at if self.taken_at is None else self.taken_at)

    def is_stale(self) -> bool:
        return bool(self.age() >= self.settings["stale"])

    def note_missing(self) -> None:
        """Nothing new came: the writer is not there, or is silent."""
        name, kind = self.counters.channel, self.health.kind
        if self.reader is None or kind == "format":
            return
        if self.reader.stats().connected:
            self._writer_at = self._writer_at or time.monotonic()
            if kind in ("waiting", "reconnecting") and time.monotonic() - self._writer_at < QUIET:
                return  # it has only just come
            lives = f"nothing for {self.settings['stale']:g} s; its writer{self._process()} lives" if kind != "stale" else ""
            self.health.set("stale", f"{self.age():.1f}", lives)
            return
        self._writer_at = 0.0
        if self.taken_at is None:
            self.health.set("waiting", name, f"there is no such channel; {others(name)}" if kind != "waiting" else "")
        else:
            gone = f"its writer is gone; {others(name)}" if kind != "reconnecting" else ""
            self.health.set("reconnecting", self.counters.reconnects + 1, gone)

    def _process(self) -> str:
        try:
            return f" (pid {sluice.info(str(self.counters.channel), ANSWER).pid})"
        except sluice.Error:
            return ""

    def note_used(self, new: bool) -> None:
        """The newest frame is shown, for the first time or again."""
        if new:
            self.health.set("ok")
        elif self.health.kind != "format":
            self.counters.repeated += 1
            self.health.set("repeat", f"{self.age() * 1000:.0f}")
