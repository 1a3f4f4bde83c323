#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how soon a saved kernel is on screen: `sluice run --watch` between a writer of 60 frames a second and a reader.

    bench/python_watch.py SLUICE [--device cuda:0] [--saves 40] > figures.json

SLUICE is the command. From the file's rename until the first frame of the new version is received; frames that were lost meanwhile
are counted. The bare limit: the same source compiled by `sluice.Kernels`, without the cache, in a process that does nothing else.
Then versions that crash: how long no frame comes until the version before runs again."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import sluice
from rows import row

GOALS = {"cuda": 500_000_000, "host": 1_500_000_000}  # ns
CRASH = 3_000_000_000
SIZE, RATE, PATIENCE = (1280, 720), 60, 60
BETWEEN = 12  # frames of a version before the next save
SOURCE = """__global__ void fx(sluice_out out, sluice_in in)
{{
    SLUICE_PIXEL(out, x, y);
    float4 c = load(in, x, y);
    c.x = {value}.0f / 255; // {salt}
    {more}
    store(out, x, y, c);
}}
"""


class Camera(threading.Thread):
    def __init__(self, device):
        super().__init__()
        self.ending = threading.Event()
        self.writer = sluice.Writer("camera", sluice.Image("rgba", *SIZE), device=device)

    def run(self):
        pixels = np.zeros((SIZE[1], SIZE[0], 4), np.uint8)
        while not self.ending.wait(1 / RATE):
            self.writer.send(pixels)
        self.writer.close()


def save(path, value, more=""):
    """-> when"""
    beside = path.with_suffix(".new")
    beside.write_text(SOURCE.format(value=value, salt=time.monotonic_ns(), more=more))
    now = time.perf_counter_ns()
    os.replace(beside, path)
    return now


class Run:
    """The command with --watch, and a reader of all that it writes."""

    def __init__(self, command, path, device):
        self.path, self.value = path, 1
        save(path, self.value)
        where = ["--device", device] if device != "host" else []
        self.running = subprocess.Popen([command, "run", path, "camera", "out", "--watch", *where], stdin=subprocess.DEVNULL)
        self.reader = sluice.Reader("out", wait=PATIENCE, mode="in_order")

    def close(self):
        self.reader.close()
        self.running.terminate()
        self.running.wait()

    def frames(self):
        while True:
            with self.reader.next(timeout=PATIENCE) as frame:
                yield frame, int(frame.numpy()[0, 0, 0]) == self.value

    def settle(self):
        """Until the running version has made some frames."""
        shown, frames = 0, self.frames()
        while shown < BETWEEN:
            shown += next(frames)[1]

    def version(self):
        """-> how long the next version took, in ns; how many frames were missed meanwhile"""
        self.settle()
        self.value = 10 + (self.value + 37) % 240
        saved, missed = save(self.path, self.value), 0
        for frame, is_new in self.frames():
            missed += frame.missed
            if is_new:
                return time.perf_counter_ns() - saved, missed

    def crash(self):
        """-> the time from the last frame before a crash to the first after it, in ns: of the version before"""
        self.settle()
        save(self.path, self.value, "if (x == 3) *(volatile int *)0 = 1;")
        before = time.perf_counter_ns()
        for frame, _ in self.frames():
            now = time.perf_counter_ns()
            if frame.new_session:
                return now - before
            before = now


def compiled(folder, device, rounds):
    """The same compiler alone."""
    path, times = folder / "bare.cu", []
    for number in range(-2, rounds):
        save(path, number & 255)
        before = time.perf_counter_ns()
        sluice.Kernels('#include <sluice.cuh>\n' + path.read_text(), device).close()
        if number >= 0:
            times.append(time.perf_counter_ns() - before)
    return times


def measured(options, folder):
    """-> times of versions, frames that were missed, times of crashes"""
    camera = Camera(options.device)
    camera.start()
    run = Run(options.command, folder / "fx.cu", options.device)
    try:
        versions = [run.version() for _ in range(-3, options.saves)][3:]
        crashes = [run.crash() for _ in range(max(1, options.saves // 8))]
    finally:
        run.close()
        camera.ending.set()
        camera.join()
    return [took for took, _ in versions], sum(missed for _, missed in versions), crashes


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("command", metavar="SLUICE")
    options.add_argument("--device", default="host")
    options.add_argument("--saves", type=int, default=40)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["SLUICE_DIR"] = os.environ["XDG_CACHE_HOME"] = name
        times, missed, crashes = measured(options, folder)
        limit = compiled(folder, options.device, options.saves // 2)
    params = {"device": options.device}
    watch, bare, crash = (row(*each) for each in (("run_watch", params, times), ("run_watch_limit", params, limit), ("run_crash", params, crashes)))
    goal = GOALS[options.device.partition(":")[0]]
    watch |= {"missed": missed, "limit_p50_ns": bare["p50_ns"], "goal_ns": goal, "met": watch["p50_ns"] <= goal and not missed}
    crash |= {"goal_ns": CRASH, "met": crash["p99_ns"] <= CRASH}
    json.dump({"rows": [watch, bare, crash]}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
