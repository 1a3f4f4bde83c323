# SPDX-License-Identifier: MIT
"""`sluice-live` at work: it runs the engine of a file, follows the file, and ends when it is asked to."""
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import sluice

from eventually import STARTS, wait_until

pytest.importorskip("yaml", reason="PyYAML is not installed")

SIZE = 16, 8
ENGINE = """\
class Shift:
    built = 0

    def __init__(self, live, by=0):
        Shift.built += 1
        self.by = by
        print("built", Shift.built, live.size, by, flush=True)

    def __call__(self, shot):
        if shot.params.get("fail"):
            raise ValueError("it was asked to")
        return shot.input + (self.by + shot.params["shift"]) * 2 / 255
"""
SETTINGS = """\
size: [16, 8]
engine: {program: "shift.py:Shift", args: {by: 1}}
input: {channel: camera, stale: 600s}
output: painted
params: {shift: 10}
report: {line: 0}
"""


class Run:
    """The command, a host that sends it frames of one colour, and a reader of what it paints."""

    def __init__(self, folder, *options):
        self.path = folder / "live.yaml"
        (folder / "shift.py").write_text(ENGINE)
        self.write(SETTINGS)
        self.log = folder / "log"
        self.writer = sluice.Writer("camera", sluice.Image("rgba", *SIZE))
        self.reader = sluice.Reader("painted", wait=None)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-X", "faulthandler", "-m", "sluice.live", str(self.path), *options],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def write(self, text):
        """In one step, so that nobody reads half of it."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def shows(self, level, size=SIZE):
        """Sends a frame of 100; whether what is painted is of this level and size by now."""
        assert self.process.poll() is None, self.said()
        self.writer.send(np.full((SIZE[1], SIZE[0], 4), 100, np.uint8))
        try:
            frame = self.reader.latest()
        except sluice.Closed:
            return False
        if frame is None:
            return False
        with frame:
            array = frame.numpy()
            return array.shape[:2] == size[::-1] and (array[..., :3] == level).all()

    def said(self):
        return self.log.read_text()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(STARTS)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.close()
        self.writer.close()


@pytest.fixture
def running(tmp_path):
    runs = []

    def running(*options):
        runs.append(Run(tmp_path, *options))
        return runs[-1]

    yield running
    for each in runs:
        each.close()


def test_a_file_that_changes_is_followed(running):
    run = running()
    wait_until(lambda: run.shows(111), STARTS)
    run.write(SETTINGS.replace("shift: 10", "shift: 20"))  # is noticed
    wait_until(lambda: run.shows(121), STARTS)
    broken = SETTINGS.replace("shift: 10", "shift: 30").replace("input:", "inpt:")
    run.write(broken)
    wrong = f"{run.path}:3:1: inpt: unknown; did you mean input?"
    wait_until(lambda: run.shows(121) and wrong in run.said(), STARTS)
    run.process.send_signal(signal.SIGHUP)  # reads it again, and says it again
    wait_until(lambda: run.shows(121) and run.said().count(wrong) == 2, STARTS)
    run.write(SETTINGS.replace("shift: 10", "shift: 40").replace("by: 1", "by: 2").replace("[16, 8]", "[32, 24]"))
    wait_until(lambda: run.shows(142, (32, 24)), STARTS)
    assert run.said().count(wrong) == 2
    assert "built 1 (16, 8) 1" in run.said() and "built 2 (32, 24) 2" in run.said()
    run.write(SETTINGS.replace("report: {line: 0}", "report: {line: 5}"))
    wait_until(lambda: run.shows(111) and "report.line: takes effect when the program starts again" in run.said(), STARTS)
    assert run.end() == 0
    assert "Traceback" not in run.said()


def test_sighup_reads_the_file_again(running):
    run = running("--set", "params.shift=50")
    wait_until(lambda: run.shows(151), STARTS)
    stat = os.stat(run.path)
    text = SETTINGS.replace("by: 1", "by: 7")
    assert len(text) == len(SETTINGS)
    run.path.write_text(text)  # the same file, with the same size and time
    os.utime(run.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    run.process.send_signal(signal.SIGHUP)
    wait_until(lambda: run.shows(157), STARTS)  # --set still comes first
    assert run.end(signal.SIGINT) == 0


def test_an_engine_that_fails(running):
    run = running()
    wait_until(lambda: run.shows(111), STARTS)
    run.write(SETTINGS.replace("shift: 10", "shift: 10, fail: true").replace("report:", "on_error: stop\nreport:"))
    with pytest.raises(AssertionError):
        wait_until(lambda: run.shows(0), STARTS)
    assert run.process.wait(STARTS) == 1 and "ValueError: it was asked to" in run.said()


def test_duration(running):
    run = running("--duration", "0")
    assert run.process.wait(STARTS) == 0, run.said()


def test_status_of_a_running_loop(running):
    pytest.importorskip("pythonosc", reason="python-osc is not installed")
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = running("--set", f"osc.listen={port}")
    wait_until(lambda: run.shows(111), STARTS)
    done = subprocess.run([sys.executable, "-m", "sluice.live", "status", str(port)], capture_output=True, text=True, timeout=STARTS)
    assert done.returncode == 0 and '"shots": ' in done.stdout, done.stderr
    assert run.end() == 0
