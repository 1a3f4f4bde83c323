# SPDX-License-Identifier: MIT
"""What a live loop says of itself: the line, JSON, Prometheus, and the counters that they come from."""
import json
import logging
import os
import pathlib
import queue
import re
import socket
import sys
import threading
import urllib.request

import pytest

pytest.importorskip("yaml", reason="PyYAML is not installed")

from eventually import SECONDS, wait_until  # noqa: E402
from live_kit import Loop, log  # noqa: E402, F401
from sluice.live import _report  # noqa: E402
from sluice.live._counters import BOUNDS, KEPT, Counters, LinkCounters, Times  # noqa: E402


def count(loop):
    """A loop with something to say."""
    counters = loop.counters
    counters.state = "streaming"
    for name, channel, state, frames, lost in (("input", "camera", "ok", 60, 0), ("canny", "edges", "repeat(16)", 30, 0),
                                               ("output", "painted", "ok", 58, 2)):
        counters.links[name] = LinkCounters(channel)
        counters.links[name].state, counters.links[name].frames, counters.links[name].lost = state, frames, lost
    for _ in range(58):
        counters.count_sent()
        counters.engine.add(0.0124)
    counters.engine.add(0.0126)
    counters.photon.add(0.019)
    return counters


def test_the_line(log):  # noqa: F811
    loop = Loop(report={"line": 0.02}, controls={"canny": {"channel": "edges", "scale": 0.577}})
    counters = count(loop)
    report = _report.Report(loop)
    wait_until(lambda: log.of(logging.INFO))
    pattern = (r"painted [\d.]+ fps \| engine 12\.4 ms p99 12\.6 \| in ok [\d.]+ \| canny repeat\(16\) scale 0\.58 \| "
               r"out ok 2 dropped \| photon 19 ms")
    assert re.fullmatch(pattern, log.of(logging.INFO)[0])
    with counters.lock:
        counters.errors, counters.state = 3, "paused"
        counters.ignored["/nothing"] = 4
    wait_until(lambda: re.match(r"painted [\d.]+ fps paused \|.* \| 3 errors \| 4 OSC ignored$", log.of(logging.INFO)[-1]))
    report.close()


def test_the_line_of_a_loop_that_starts():
    loop = Loop()
    assert _report.line_of(loop.counters.snapshot(), {}, {}) == "starting 0.0 fps"


def test_the_rate_of_the_input_is_that_of_the_last_line(log):  # noqa: F811
    loop = Loop(report={"line": 0.01})
    counters = count(loop)
    report = _report.Report(loop)
    wait_until(lambda: len(log.of(logging.INFO)) > 2)
    report.close()
    rates = [float(re.search(r"in ok ([\d.]+)", line)[1]) for line in log.of(logging.INFO)]
    assert rates[0] > 0 and rates[1:] == [0.0] * (len(rates) - 1) and counters.links["input"].frames == 60


def test_no_line_and_no_thread():
    before = threading.active_count()
    report = _report.Report(Loop(report={"line": 0}))
    assert threading.active_count() == before
    report.close()


def test_json_is_replaced_whole(folder, monkeypatch, log):  # noqa: F811
    monkeypatch.setattr(_report, "JSON_EVERY", 0.001)
    path = pathlib.Path(folder) / "status.json"
    loop = Loop(report={"line": 0, "json": str(path)})
    counters = count(loop)
    report = _report.Report(loop)
    wait_until(path.exists)
    first = path.stat().st_ino
    for _ in range(200):
        status = json.loads(path.read_text())
        assert status["links"]["output"]["channel"] == "painted" and status["engine"]["count"] == 59
    wait_until(lambda: path.stat().st_ino != first)
    counters.state = "stopped"
    report.close()
    status = json.loads(path.read_text())
    assert status["state"] == "stopped" and status["sent"] == 58 and status["ignored"] == {}
    assert [each.name for each in path.parent.iterdir()] == ["status.json"] and not log.of(logging.WARNING)


def test_json_lines_on_standard_output(monkeypatch, capfd):
    monkeypatch.setattr(_report, "JSON_EVERY", 0.01)
    loop = Loop(report={"line": 0, "json": "-"})
    count(loop)
    report, lines = _report.Report(loop), ""

    def two():
        nonlocal lines
        lines += capfd.readouterr().out
        return lines.count("\n") > 1

    wait_until(two)
    report.close()
    assert all(json.loads(line)["sent"] == 58 for line in lines.splitlines())


def test_json_that_cannot_be_written_is_said_once(monkeypatch, folder, log):  # noqa: F811
    monkeypatch.setattr(_report, "JSON_EVERY", 0.001)
    path = os.path.join(folder, "none", "status.json")
    report = _report.Report(Loop(report={"line": 0, "json": path}))
    wait_until(lambda: log.of(logging.WARNING))
    os.mkdir(os.path.dirname(path))  # it goes on trying
    wait_until(lambda: os.path.exists(path))
    report.close()
    warning, = log.of(logging.WARNING)
    assert path in warning and "No such file" in warning


def test_prometheus():
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    loop = Loop(report={"line": 0, "prometheus": "127.0.0.1:0"})
    counters = count(loop)
    counters.ignored["/nothing"] = 4
    report = _report.Report(loop)
    text = urllib.request.urlopen(f"http://127.0.0.1:{report.port}/metrics", timeout=SECONDS).read().decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    for name, value in {
        'sluice_live_frames_total{link="input"}': 60, 'sluice_live_frames_total{link="output"}': 58,
        'sluice_live_lost_total{link="output"}': 2,
        'sluice_live_link_state{link="canny",state="repeat"}': 1, "sluice_live_sent_total": 58, "sluice_live_errors_total": 0,
        "sluice_live_osc_ignored_total": 4, 'sluice_live_engine_seconds_bucket{le="0.012"}': 0,
        'sluice_live_engine_seconds_bucket{le="0.016"}': 59, 'sluice_live_engine_seconds_bucket{le="+Inf"}': 59,
        "sluice_live_engine_seconds_count": 59, "sluice_live_photon_seconds_sum": 0.019,
        **{f'sluice_live_{what}_total{{link="canny"}}': 0 for what in ("missed", "repeated", "late", "unpaired", "reconnects")}}.items():
        assert float(found[name]) == value, name
    with pytest.raises(OSError, match=rf"report\.prometheus: 127\.0\.0\.1:{report.port}: .*another port"):
        _report.Report(Loop(report={"line": 0, "prometheus": f"127.0.0.1:{report.port}"}))
    report.close()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", report.port))


def test_without_prometheus_client_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match="pip install prometheus-client"):
        _report.Report(Loop(report={"prometheus": "127.0.0.1:0"}))


def test_counters_wake_those_that_wait():
    counters, seen = Counters(), queue.Queue()

    def follow():
        sent = 0
        while sent < 200:
            sent = counters.wait(sent, 10 * SECONDS)
            seen.put(sent)

    threading.Thread(target=follow, daemon=True).start()
    for i in range(1, 201):
        if i % 2:
            counters.count_sent()
        else:
            with counters.lock:
                counters.count_sent()
        assert seen.get(timeout=SECONDS) == i
    assert counters.wait(200, 0) == 200 and counters.wait(3, SECONDS) == 200
    waiting = threading.Thread(target=counters.wait, args=(200, 10 * SECONDS))
    waiting.start()
    wait_until(lambda: counters.wake() or not waiting.is_alive())


def test_the_rate_is_that_of_the_last_second(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("sluice.live._counters.time.monotonic", lambda: now[0])
    counters = Counters()
    assert counters.rate == 0
    for _ in range(3 * KEPT):
        now[0] += 1 / 80
        counters.count_sent()
    assert counters.rate == pytest.approx(80, abs=1)
    now[0] += 0.5
    assert counters.rate == pytest.approx(40, abs=1)
    now[0] += 10
    assert counters.rate == 0
    for _ in range(2 * KEPT):
        now[0] += 1 / 3000  # more than are kept
        counters.count_sent()
    assert counters.rate == pytest.approx(3000, rel=0.01)


def test_times_fall_into_buckets():
    times = Times()
    for seconds in (0.0005, BOUNDS[0], 0.0011, 100.0):
        times.add(seconds)
    found = times.snapshot()
    assert found["buckets"][:2] == [2, 1] and found["buckets"][-1] == 1 and sum(found["buckets"]) == found["count"] == 4
    json.dumps(Counters().snapshot())
