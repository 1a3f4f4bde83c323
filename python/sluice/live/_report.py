# SPDX-License-Identifier: MIT
"""Says how a loop does: a line of the log, JSON, and Prometheus, all from its counters."""
import dataclasses
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ._counters import BOUNDS, LinkCounters
from ._osc import Running, cannot_listen

LOG = logging.getLogger("sluice.live")
JSON_EVERY = 1.0  # seconds


class Report:
    """The threads that write the line and the JSON, and the server that Prometheus asks, as live.settings.report says, until close().
    ImportError without prometheus-client where that is wanted; OSError for an address that cannot be had."""

    def __init__(self, live: Running) -> None:
        wanted, self._live = live.settings.report, live
        self._json = wanted.json
        self._complained = False
        self._frames: dict[str, int] = {}  # of links, at the last line
        self._at = time.monotonic()
        self._server = _serve(wanted.prometheus, live) if wanted.prometheus else None
        self.port: int | None = self._server.server_address[1] if self._server else None
        self._closing = threading.Event()
        tasks = [(wanted.line, self._say), (self._json and JSON_EVERY, self._write)]
        self._threads = [threading.Thread(target=self._run, args=each, name="sluice report", daemon=True) for each in tasks if each[0]]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Ends it; the JSON is written once more, with the state that the loop ended in."""
        self._closing.set()
        for thread in self._threads:
            thread.join()
        if self._json:
            self._write()
        if self._server:
            self._server.shutdown()
            self._server.server_close()

    def _run(self, period: float, task: Callable[[], None]) -> None:
        due = time.monotonic() + period
        while not self._closing.wait(max(0.0, due - time.monotonic())):
            task()
            due = max(due + period, time.monotonic())

    def _say(self) -> None:
        now, snapshot = time.monotonic(), self._live.counters.snapshot()
        rates = {name: (link["frames"] - self._frames.get(name, 0)) / max(now - self._at, 1e-6)
                 for name, link in snapshot["links"].items()}
        self._frames, self._at = {name: link["frames"] for name, link in snapshot["links"].items()}, now
        LOG.info("%s", line_of(snapshot, rates, self._live.changes.values()))

    def _write(self) -> None:
        text = json.dumps(self._live.counters.snapshot())
        try:
            if self._json == "-":
                print(text, flush=True)
                return
            beside = f"{self._json}.{os.getpid()}"
            with open(beside, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(beside, self._json)
        except OSError as error:
            if not self._complained:
                LOG.warning("report.json: %s: %s; it is tried again each second", self._json, error.strerror)
            self._complained = True


def line_of(snapshot: dict[str, Any], rates: dict[str, float], values: dict[str, Any]) -> str:
    """painted 79.8 fps | engine 12.4 ms p99 12.6 | in ok 60.0 | canny ok scale 0.58 | out ok 0 dropped | photon 19 ms"""
    links = snapshot["links"]
    output = links.get("output", {})
    parts = [f"{output.get('channel') or snapshot['state']} {snapshot['rate']:.1f} fps"]
    if snapshot["state"] not in ("ready", "streaming") and output.get("channel"):
        parts[0] += f" {snapshot['state']}"
    if snapshot["engine"]["count"]:
        parts.append(f"engine {snapshot['engine']['p50'] * 1e3:.1f} ms p99 {snapshot['engine']['p99'] * 1e3:.1f}")
    for name, link in links.items():
        if name == "input":
            parts.append(f"in {link['state']} {rates[name]:.1f}")
        elif name not in ("output", "preview"):
            scale = values.get(f"controls.{name}.scale")
            parts.append(f"{name} {link['state']}" + ("" if scale is None else f" scale {scale:.2f}"))
    parts.extend(f"{word} {links[name]['state']} {links[name]['lost']} dropped" for name, word in
                 (("output", "out"), ("preview", "preview")) if name in links)
    if snapshot["photon"]["count"]:
        parts.append(f"photon {snapshot['photon']['p50'] * 1e3:.0f} ms")
    ignored = sum(snapshot["ignored"].values())
    parts.extend(f"{count} {what}" for count, what in ((snapshot["errors"], "errors"), (ignored, "OSC ignored")) if count)
    return " | ".join(parts)


TOTALS = {"shots": "shots", "sent": "pictures that were sent", "skipped": "shots that sent nothing", "errors": "exceptions of the engine"}


def _serve(address: tuple[str, int], live: Running) -> Any:
    """The HTTP server of prometheus-client, in its own thread."""
    try:
        import prometheus_client
    except ImportError:
        raise ImportError("report.prometheus needs the package prometheus-client: pip install prometheus-client, or remove the "
                          "setting") from None
    registry = prometheus_client.CollectorRegistry()
    registry.register(_Collector(live))
    try:
        return prometheus_client.start_http_server(address[1], address[0], registry)[0]
    except OSError as error:
        raise cannot_listen("report.prometheus", address, "-ltnp", error) from None


class _Collector:
    """Makes metrics of the counters when it is asked."""

    def __init__(self, live: Running) -> None:
        self._live = live

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
        snapshot = self._live.counters.snapshot()
        links = snapshot["links"].items()
        for field in dataclasses.fields(LinkCounters):
            if field.metadata:
                metric = CounterMetricFamily(f"sluice_live_{field.name}", field.metadata["help"], labels=["link"])
                for link, counters in links:
                    metric.add_metric([link], counters[field.name])
                yield metric
        state = GaugeMetricFamily("sluice_live_link_state", "1 for the state that a link is in", labels=["link", "state"])
        for link, counters in links:
            state.add_metric([link, counters["state"].partition("(")[0]], 1)  # without its numbers
        yield state
        for name, help in TOTALS.items():
            yield CounterMetricFamily(f"sluice_live_{name}", help, value=snapshot[name])
        yield CounterMetricFamily("sluice_live_osc_ignored", "OSC messages that were not understood",
                                  value=sum(snapshot["ignored"].values()))
        yield GaugeMetricFamily("sluice_live_rate", "pictures sent a second", value=snapshot["rate"])
        for name, help in (("engine", "from a shot's start to its end"), ("photon", "from an input's commit to the end of its shot")):
            times, below, buckets = snapshot[name], 0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), times["buckets"], strict=True):
                below += count
                buckets.append((bound, below))
            yield HistogramMetricFamily(f"sluice_live_{name}_seconds", help, buckets=buckets, sum_value=times["total"])
