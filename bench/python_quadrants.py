#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sluice beside Quadrants (https://pypi.org/project/quadrants) in one process: python_quadrants.py [cuda|cpu] [--quick]

What a launch costs, on a stream and on the default one; what a launch on a closed stream does, and the closed stream's synchronize(),
while the default stream is busy for WORK; how long `with stream` takes to end, whose work takes as long; a kernel with a stream in a
graph. On the CPU the launches alone, and the closed stream. Prints rows, one JSON object; python/bench_gpu.py adds them to its own.

`raises` of a row is the exception, or "nothing"."""
import contextlib
import ctypes
import json
import sys
import tempfile

from python_kernels import GROUP, SOURCE, Driver, Interface, Missing, bare, take_turns
from python_kit import clock, note, now, with_goal
from rows import row

WORK = 50_000_000  # ns
SPIN = b""".version 6.4
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %r<5>;
    .reg .pred %p;
    ld.param.u64 %r1, [ns];
    mov.u64 %r2, %globaltimer;
    add.u64 %r3, %r2, %r1;
again:
    mov.u64 %r4, %globaltimer;
    setp.lt.u64 %p, %r4, %r3;
    @%p bra again;
    ret;
}
"""


def timed(call):
    """(ns, the exception's name or "nothing")."""
    before = now()
    try:
        call()
        said = "nothing"
    except Exception as error:
        said = type(error).__name__
    return now() - before, said


# ---- both systems by the same methods ----

class Sluice:
    """`memory`: two arrays, on a GPU or in the CPU's memory; `torch`: PyTorch, if they are its tensors."""
    name = "sluice"

    def __init__(self, device, memory, torch):
        import sluice
        self.sluice, self.device, self.memory, self.torch = sluice, device, memory, torch
        self.kernel = sluice.Kernels(SOURCE, device=device, name="bench.cu").check
        self.default = sluice.Stream.default(device)
        self.spin = sluice.Kernels(SPIN, device=device)["spin"] if device != "host" else None

    def stream(self):
        return self.sluice.Stream(self.device)

    def around(self, stream):
        """While this stream is PyTorch's current one, none waits for another."""
        return self.torch.cuda.stream(stream.to_torch()) if self.torch and stream else contextlib.nullcontext()

    def launch(self, stream):
        self.kernel(self.memory[0], 0, 7, self.memory[1], grid=1, block=1, stream=stream or self.default)

    def work(self, stream):
        """Queues WORK on a stream; None: the default one."""
        self.spin(ctypes.c_uint64(WORK), grid=1, block=1, stream=stream or self.default)

    def close(self, stream):
        stream.close()

    def graph(self, stream):
        """A function that runs a graph of kernels on the stream."""
        with self.sluice.capture(stream) as graph:
            self.launch(stream)
            self.launch(stream)
        return lambda: graph.launch(stream)

    def synchronize(self):
        if self.device != "host":
            self.default.synchronize()


class Quadrants:
    name = "quadrants"

    def __init__(self, device):
        try:
            import quadrants as qd
        except ImportError as error:
            raise Missing(str(error)) from None
        self.qd = qd
        qd.init(arch=qd.cpu if device == "host" else qd.cuda, log_level=qd.ERROR)
        self.memory = qd.ndarray(qd.i32, (1024,)), qd.ndarray(qd.i32, (1024,))
        array = qd.types.ndarray(dtype=qd.i32, ndim=1)

        @qd.kernel
        def check(words: array, count: qd.i32, value: qd.i32, bad: array):
            for i in range(1):
                if i < count and words[i] != value:
                    bad[0] = 1

        @qd.kernel(graph=True)
        def checks(words: array, count: qd.i32, value: qd.i32, bad: array):
            for i in range(1):
                if i < count and words[i] != value:
                    bad[0] = 1
            for i in range(1):
                if i < count and words[i] != value:
                    bad[0] = 1

        @qd.kernel
        def turn(words: array, count: qd.i32):
            for i in range(1):
                for _ in range(count):
                    words[i] = words[i] * 5 + 1

        self.check, self.checks, self.turn = check, checks, turn
        self.turns = self.turns_of(WORK) if device != "host" else 0

    def turns_of(self, ns):
        """How many turns of a loop take a GPU so long."""
        count = 1000
        while True:
            took = max(timed(lambda: (self.turn(self.memory[0], count), self.synchronize()))[0] for _ in range(2))
            if took > ns // 4:
                return max(1, count * ns // took)
            count *= 4

    def stream(self):
        return self.qd.create_stream()

    def around(self, stream):
        return contextlib.nullcontext()

    def launch(self, stream):
        self.check(self.memory[0], 0, 7, self.memory[1], qd_stream=stream)

    def work(self, stream):
        self.turn(self.memory[0], self.turns, qd_stream=stream)

    def close(self, stream):
        stream.destroy()

    def graph(self, stream):
        return lambda: self.checks(self.memory[0], 0, 7, self.memory[1], qd_stream=stream)

    def synchronize(self):
        self.qd.sync()


# ---- what is compared ----

def launches(systems, driver, rounds, report):
    """Behind the bare launch, where there is a GPU."""
    for name in ("explicit", "default"):
        ways = {system.name: group_of(system, system.stream() if name == "explicit" else None) for system in systems}
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            if driver:
                with contextlib.suppress(Missing):
                    ways["the driver, from C"] = bare(driver, driver.memory(), driver.memory(), driver.stream() if name == "explicit" else None, folder)
            samples = take_turns(driver, ways, rounds) if driver else take_turns(systems[0], ways, rounds)
        limit = row("", {}, samples["the driver, from C"])["p50_ns"] if "the driver, from C" in samples else None
        for way, some in samples.items():
            report["rows"].append(with_goal(row("py_gpu_quadrants_launch", {"way": way, "stream": name, **report["params"]}, some), limit))


def group_of(system, stream):
    around = system.around(stream)

    def launch_all():
        with around:
            before = now()
            for _ in range(GROUP):
                system.launch(stream)
            return now() - before
    return launch_all


def add(report, what, system, some):
    """Rows of [(ns, what was raised)]."""
    params = {"way": system.name, "raises": some[-1][1], **report["params"]}
    report["rows"].append(row(f"py_gpu_quadrants_{what}", params, [ns for ns, _ in some]))


def closed_streams(system, busy, rounds, report):
    """Launches on them, and waits for them while the default stream is `busy`."""
    launched, waited = [], []
    for _ in range(rounds):
        stream = system.stream()
        system.launch(stream)
        stream.synchronize()
        system.close(stream)
        launched.append(timed(lambda: system.launch(stream)))
        system.synchronize()
        if busy:
            system.work(None)
        waited.append(timed(stream.synchronize))
        system.synchronize()
    add(report, "closed_launch", system, launched)
    add(report, "closed_synchronize", system, waited)


def ends_of_with(system, rounds, report):
    """The end of `with stream`, on which WORK was queued just before."""
    ends = []
    for _ in range(rounds):
        with system.stream() as stream:
            system.work(stream)
            began = now()
        ends.append((now() - began, "nothing"))
        until = clock() + 4 * WORK
        while clock() < until:  # none may be left, whether or not the end has waited
            pass
    add(report, "with_end", system, ends)


def graphs(system, rounds, report):
    stream = system.stream()
    took, said = timed(lambda: system.graph(stream)())
    some = [(took, said)]
    if said == "nothing":
        launch = system.graph(stream)
        some = [timed(launch) for _ in range(rounds)]
        stream.synchronize()
    add(report, "graph", system, some)


def arrays(device, driver):
    """(two arrays, PyTorch if they are its tensors)."""
    if not driver:
        return [(ctypes.c_int * 1024)() for _ in range(2)], None
    with contextlib.suppress(ImportError):
        import torch
        if torch.cuda.is_available():
            return [torch.zeros(1024, dtype=torch.int32, device=device) for _ in range(2)], torch
    return [Interface(driver.memory()) for _ in range(2)], None


def compare(device, quick):
    report = {"rows": [], "missing": [], "failed": [], "params": {"device": "host"} if device == "host" else {}}
    driver = Driver() if device != "host" else None
    memory, torch = arrays(device, driver)
    systems = []
    for name, make in (("sluice", lambda: Sluice(device, memory, torch)), ("quadrants", lambda: Quadrants(device))):
        try:
            systems.append(make())
        except Exception as error:
            report["missing"].append({"rows": "py_gpu_quadrants_*", "way": name, "why": f"{type(error).__name__}: {error}"[-1000:], **report["params"]})
    if driver:
        driver.call("CtxSetCurrent", driver.context)  # Quadrants leaves its own current
    if systems:
        launches(systems, driver, 50 if quick else 1000, report)
    for system in systems:
        note(f"{system.name}: closed streams, graphs")
        closed_streams(system, driver, 3 if quick else 20, report)
        if driver:
            ends_of_with(system, 2 if quick else 10, report)
            graphs(system, 20 if quick else 500, report)
    del report["params"]
    return report


if __name__ == "__main__":
    print(json.dumps(compare("host" if "cpu" in sys.argv[1:] else "cuda:0", "--quick" in sys.argv[1:])))
