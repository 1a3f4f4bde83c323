#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures how soon a saved kernel is on screen: `sluice run --watch` between a writer of 60 frames a second and a reader.

    bench/python_watch.py SLUICE [--device cuda:0] [--saves 40] > figures.json

SLUICE is the command. From the file's rename until the first frame of the new version is received; frames that were lost meanwhile
are counted. The bare limit: the same source compiled by `sluice.Kernels`, without the cache, in a process that does nothing else."""
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
SIZE, RATE, PATIENCE = (1280, 720), 60, 60
BETWEEN = 12  # frames of a version before the next save
SOURCE = """__global__ void fx(sluice_out out, sluice_in in)
{{
    SLUICE_PIXEL(out, x, y);
    float4 c = load(in, x, y);
    c.x = {value}.0f / 255; // {salt}
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


def save(path, value):
    """-> when"""
    beside = path.with_suffix(".new")
    beside.write_text(SOURCE.format(value=value, salt=time.monotonic_ns()))
    now = time.perf_counter_ns()
    os.replace(beside, path)
    return now


def red(frame):
    return int(frame.numpy()[0, 0, 0])


def versions(command, path, device, saves):
    """-> the time of each save, in ns; how many frames were missed"""
    times, missed, value = [], 0, 1
    save(path, value)
    running = subprocess.Popen([command, "run", path, "camera", "out", "--watch", *(["--device", device] if device != "host" else [])],
                               stdin=subprocess.DEVNULL)
    try:
        with sluice.Reader("out", wait=PATIENCE, mode="in_order") as reader:
            for number in range(-3, saves):
                shown = 0
                while shown < BETWEEN:
                    with reader.next(timeout=PATIENCE) as frame:
                        shown += red(frame) == value
                value = 10 + (value + 37) % 240
                saved = save(path, value)
                while True:
                    with reader.next(timeout=PATIENCE) as frame:
                        now, is_new = time.perf_counter_ns(), red(frame) == value
                        missed += frame.missed
                        if is_new:
                            break
                if number >= 0:
                    times.append(now - saved)
    finally:
        running.terminate()
        running.wait()
    return times, missed


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


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("command", metavar="SLUICE")
    options.add_argument("--device", default="host")
    options.add_argument("--saves", type=int, default=40)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["SLUICE_DIR"] = os.environ["XDG_CACHE_HOME"] = name
        camera = Camera(options.device)
        camera.start()
        try:
            times, missed = versions(options.command, folder / "fx.cu", options.device, options.saves)
        finally:
            camera.ending.set()
            camera.join()
        params, limit = {"device": options.device}, compiled(folder, options.device, options.saves // 2)
    rows = [row("run_watch", params, times), row("run_watch_limit", params, limit)]
    goal = GOALS[options.device.partition(":")[0]]
    rows[0] |= {"missed": missed, "limit_p50_ns": rows[1]["p50_ns"], "goal_ns": goal, "met": rows[0]["p50_ns"] <= goal and not missed}
    json.dump({"rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
