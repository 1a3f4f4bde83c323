# SPDX-License-Identifier: MIT
"""What the engines have in common: the loop itself, CUDA graphs, and the times of a start.

    ENGINE.py [CONFIG.yaml]             runs until it is stopped
    ENGINE.py [CONFIG.yaml] --fed 10    the engine alone for 10 seconds, without links: what its rate is compared with

An engine is made with the loop. It has set(**parameters), and engine(image, control) gives the picture. If it has rebuild(live), that is
called for another size; if it has capture(image, control), that makes its CUDA graphs in engine.graphs.
"""
import argparse
import json
import logging
import os
import pathlib
import sys
import time
import types
from collections import deque

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
KEPT = 100_000  # times of shots


def began():
    """time.monotonic() of the start of this process."""
    ticks = float(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    hertz = 100  # of /proc: USER_HZ
    return time.monotonic() - (float(pathlib.Path("/proc/uptime").read_text().split()[0]) - ticks / hertz)


class Stages:
    """How long each part of a start takes, in seconds."""

    def __init__(self):
        self.last, self.times = began(), {}

    def done(self, name):
        now = time.monotonic()
        self.times[name], self.last = round(now - self.last, 3), now

    def __str__(self):
        return f"started in {sum(self.times.values()):.2f} s: " + ", ".join(f"{name} {took:.2f}" for name, took in self.times.items())


class Graphs:
    """CUDA graphs by name. They share memory, so one runs at a time."""

    def __init__(self, live):
        import torch
        self.live, self.torch, self.pool, self.made = live, torch, torch.cuda.graph_pool_handle(), {}

    def capture(self, name, function, *arguments):
        """A graph of the function, whose arguments are tensors that stay where they are. If it cannot be captured, the loop's state says
        so, and the function runs without."""
        with self.torch.no_grad():
            for _ in range(3):  # libraries choose their algorithms, and allocate
                function(*arguments)
            graph = self.torch.cuda.CUDAGraph()
            try:
                with self.torch.cuda.graph(graph, pool=self.pool, stream=self.torch.cuda.current_stream()):
                    result = function(*arguments)
            except RuntimeError as error:
                self.live.graph_fallback(f"{name}: {error}")
                self.made[name] = lambda: function(*arguments)
                return

        def replay():
            graph.replay()
            return result

        self.made[name] = replay

    def replay(self, name):
        """What the function returns, with what the tensors hold now."""
        with self.torch.no_grad():
            return self.made[name]()


def write(tensor, values):
    """Queues a copy of the values. From pinned memory it waits for nothing: a plain copy would wait for the pictures that are queued."""
    if tensor.is_cuda and not values.is_cuda:
        values = values.to(tensor.dtype).pin_memory()
    tensor.copy_(values, non_blocking=True)


def thick(lines):
    """Lines of three pixels, from lines of one: (1, 3, height, width) in NumPy."""
    wide = lines.copy()
    for axis in 2, 3:
        before = np.moveaxis(wide.copy(), axis, 0)
        after = np.moveaxis(wide, axis, 0)
        np.maximum(after[1:], before[:-1], out=after[1:])
        np.maximum(after[:-1], before[1:], out=after[:-1])
    return wide


def percentiles(samples, unit=1.0):
    last = sorted(samples)
    return {f"p{part}": round(last[min(len(last) - 1, len(last) * part // 100)] * unit, 4) for part in (50, 95, 99)} if last else {}


def prepare(engine, live, control, stages):
    if hasattr(engine, "capture"):
        engine.graphs = Graphs(live)
        engine.capture(live.input, control)
        stages.done("capture")


def run(make, live, stages, name):
    """The loop. -> what was measured"""
    engine = make(live)
    stages.done("build")
    session, ends, captured, started = deque(maxlen=KEPT), deque(maxlen=KEPT), False, False
    before = time.thread_time()
    for shot in live:
        with shot:
            control = shot.control(live.controls[0])
            if shot.rebuild and hasattr(engine, "rebuild"):
                engine.rebuild(live)
            if shot.changed:
                engine.set(**shot.changed)
            if shot.rebuild or not captured:
                prepare(engine, live, control, stages)
                captured = True
            called = time.thread_time()
            picture = engine(shot.input, control)
            own = time.thread_time() - called
            shot.send(picture)
            if started:
                session.append(time.thread_time() - before - own)
                ends.append(time.monotonic())
            elif shot.new:
                live.stream.synchronize()
                stages.done("first picture")
                print(f"{name}: {stages}", flush=True)
                started = True
        before = time.thread_time()
    return {"fps": rate(ends), "frame_ms": percentiles(gaps(ends), 1e3), "session_cpu_us": percentiles(session, 1e6),
            "counters": live.counters.snapshot()}


def fed(make, live, stages, name, seconds):
    """The engine fed from a tensor: no links, no conversion. -> what was measured"""
    shape = (1, 3, live.size[1], live.size[0])
    edges, scale = np.random.default_rng(1).random(shape, np.float32) > 0.95, np.float32(0.577)
    if live.device == "host":
        control = types.SimpleNamespace(image=edges.astype(np.float32), scale=scale, on=True)
    else:
        import torch
        image = torch.from_numpy(edges).to(live.device, getattr(torch, live.dtype))
        control = types.SimpleNamespace(image=image, scale=torch.full((), float(scale), device=live.device), on=True)
    engine = make(live)
    stages.done("build")
    engine.set(**live.settings.params)
    prepare(engine, live, control, stages)
    engine(live.input, control)
    live.stream.synchronize()
    stages.done("first picture")
    print(f"{name}, fed from a tensor: {stages}", flush=True)
    ends, unfinished, end = [], deque(), time.monotonic() + seconds
    while time.monotonic() < end:
        engine(live.input, control)
        unfinished.append(live.stream.record())
        if len(unfinished) > 1:  # as many as the loop lets be unfinished
            unfinished.popleft().synchronize()
            ends.append(time.monotonic())
    return {"fps": rate(ends), "frame_ms": percentiles(gaps(ends), 1e3), "operation_cpu_us": operation(engine, live, control)}


def operation(engine, live, control):
    """CPU time of one operation on the input, right after a picture was waited for."""
    spent = []
    for _ in range(100):
        engine(live.input, control)
        live.stream.synchronize()
        before = time.thread_time()
        live.input[...] = 0
        spent.append(time.thread_time() - before)
    return percentiles(spent, 1e6)


def gaps(ends):
    ends = list(ends)
    return [later - earlier for earlier, later in zip(ends, ends[1:])]


def rate(ends):
    return round((len(ends) - 1) / (ends[-1] - ends[0]), 2) if len(ends) > 1 else 0.0


def main(make, config, description, **flags):
    """`flags`: further options, which the engine gets: {name: arguments of add_argument}"""
    stages = Stages()
    options = argparse.ArgumentParser(description=description.split("\n")[0])
    options.add_argument("config", nargs="?", default=HERE / config, type=pathlib.Path, help="settings: a YAML file, docs/live.md has all")
    options.add_argument("--fed", type=float, metavar="SECONDS", help="without links, from a tensor, for so long")
    options.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write times and rates at the end")
    for name, about in flags.items():
        options.add_argument(f"--{name}", **about)
    options = options.parse_args()
    given = {name: value for name in flags if (value := getattr(options, name))}
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
    from sluice.live import Live
    stages.done("import")
    name = pathlib.Path(sys.argv[0]).stem
    if options.fed:
        os.environ.update({"SLUICE_LIVE__OUTPUT__ENABLED": "false", "SLUICE_LIVE__PREVIEW__ENABLED": "false"})
    with Live(options.config) as live:
        stages.done("links")

        def engine(live):
            return make(live, **{**live.settings.engine.args, **given})

        figures = fed(engine, live, stages, name, options.fed) if options.fed else run(engine, live, stages, name)
    if options.json:
        options.json.write_text(json.dumps({"engine": name, "start_s": stages.times, **figures}) + "\n")
