# SPDX-License-Identifier: MIT
"""What a loop counts. The status line, JSON, OSC and Prometheus all show these."""
import dataclasses
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from typing import Any

KEPT = 600  # times that percentiles are taken from, and pictures that the rate is
BOUNDS = (0.001, 0.002, 0.004, 0.008, 0.012, 0.016, 0.024, 0.033, 0.05, 0.1, 0.25, 1.0)  # of a histogram's buckets, in seconds


class Times:
    """The last times of something, in seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)  # times up to each bound, and longer ones
        self._last: deque[float] = deque(maxlen=KEPT)

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self._last.append(seconds)

    def percentiles(self) -> dict[str, float]:
        """p50, p95 and p99 of the last times, in seconds; empty before the first."""
        last = sorted(self._last.copy())
        return {f"p{part}": last[min(len(last) - 1, len(last) * part // 100)] for part in (50, 95, 99)} if last else {}

    def snapshot(self) -> dict[str, Any]:
        return {"count": self.count, "total": self.total, "buckets": list(self.buckets), **self.percentiles()}


def _count(help: str) -> Any:
    return dataclasses.field(default=0, metadata={"help": help})


@dataclasses.dataclass(slots=True)
class LinkCounters:
    """Of one link. docs/live.md lists its states."""
    channel: str | None
    state: str = "disabled"
    frames: int = _count("frames that were taken, or sent")
    repeated: int = _count("shots that used a frame again")
    missed: int = _count("frames that were written and not taken")
    late: int = _count("partners that came after the wait")
    unpaired: int = _count("shots without a partner")
    lost: int = _count("frames that were lost, or could not be sent")
    reconnects: int = _count("sessions since the first")
    nan: int = _count("values that are no numbers, of one picture a second")


class Counters:
    """Of the whole loop. The loop's thread writes; snapshot() may be called by any."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held while several counters change together; count_sent() may be called within
        self._sent = threading.Condition(self.lock)
        self._waiting = 0  # threads in wait()
        self._sent_at: deque[float] = deque(maxlen=KEPT)
        self.started = time.monotonic()
        self.state = "starting"  # starting, ready, streaming, paused, error, stopped
        self.links: dict[str, LinkCounters] = {}  # input, output, preview, and controls by name
        self.shots = 0
        self.sent = 0  # by count_sent()
        self.skipped = 0
        self.errors = 0
        self.error = ""  # the last one, with its shot's number
        self.error_at = 0.0  # time.time()
        self.engine = Times()  # from the shot's start to its end on the device
        self.photon = Times()  # from the input's commit to the end of the shot that shows it
        self.ignored: dict[str, int] = {}  # OSC messages that were not understood, by address

    @property
    def rate(self) -> float:
        """Pictures sent a second, over the last second."""
        now, sent_at = time.monotonic(), self._sent_at.copy()
        if len(sent_at) == KEPT and now - sent_at[0] < 1.0:
            return KEPT / max(now - sent_at[0], 1e-6)
        return (len(sent_at) - bisect_right(sent_at, now - 1.0)) / min(1.0, max(now - self.started, 1e-6))

    def count_sent(self, pictures: int = 1) -> None:
        """Counts pictures that were sent, and wakes those that wait for them."""
        with self.lock:
            self.sent += pictures
            self._sent_at.extend([time.monotonic()] * pictures)
            if self._waiting:
                self._sent.notify_all()

    def wait(self, sent: int, seconds: float) -> int:
        """Waits until the number of sent pictures is not `sent` any more, `seconds` at most, or until wake(). Returns the number."""
        with self.lock:
            if self.sent == sent and seconds > 0:
                self._waiting += 1
                self._sent.wait(seconds)
                self._waiting -= 1
            return self.sent

    def wake(self) -> None:
        """Ends wait()."""
        with self.lock:
            self._sent.notify_all()

    def snapshot(self) -> dict[str, Any]:
        """All counters, of types that JSON has."""
        with self.lock:
            plain = {name: value for name, value in vars(self).items() if isinstance(value, (int, float, str)) and name[0] != "_"}
            return {**plain, "rate": self.rate, "uptime": time.monotonic() - self.started, "ignored": dict(self.ignored),
                    "links": {name: dataclasses.asdict(link) for name, link in self.links.items()},
                    "engine": self.engine.snapshot(), "photon": self.photon.snapshot()}
