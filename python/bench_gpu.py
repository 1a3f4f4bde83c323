#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the package on a GPU beside what else Python programs use: bench_gpu.py [--quick] > figures.json

Calls in one process, each beside the floor that the frameworks themselves have. Then, across two processes, how long it
takes from just before a CUDA tensor is put to where the other process has a tensor that it can launch work on; the next one
is put when the last one was taken. Each row says whether the receiver sleeps while it waits, or spins; whether the sender was
awake before, or had slept; and whether the tensor was filled before, its kernel done, or is filled within what is measured.
torch.multiprocessing is measured beside it, by the same steps, and cuda-link if its package is importable or --cuda-link names the folder that
it lies in. At last calls of sluice.cuda_link, and of cuda-link where that has the same, beside the bare copy into pinned memory. One JSON object comes out, with the keys of `sluice bench`. Without a GPU that PyTorch sees it says why, and ends
with status 77.
"""
import argparse
import contextlib
import ctypes
import importlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:] = [path for path in sys.path if pathlib.Path(path or ".").resolve() != HERE]  # the package that is installed
sys.path.append(str(HERE.parent / "bench"))
from python_kit import DEVICE, PATIENCE, PAUSE, clock, note, now, stay_awake, with_goal  # noqa: E402
from python_links import links  # noqa: E402
from rows import row, write  # noqa: E402

NO_GPU = 77
SHAPE = (1080, 1920, 4)  # uint8
NBYTES = 1080 * 1920 * 4
NAP = 0.002  # s: a CPU that has slept so long is slow at first, and so is what it finds in its caches


# ---- calls in one process ----

class Timer:
    """Sets of samples by name; the clock's own time is taken off."""

    def __init__(self, rounds):
        self.rounds, self.warm_up, self.sets = rounds, max(50, rounds // 20), {}
        self.own = statistics.median(-now() + now() for _ in range(1000))

    def add(self, name, number, before, after):
        if number >= 0:
            self.sets.setdefault(name, []).append(max(0, after - before - self.own))

    def turns(self):
        return range(-self.warm_up, self.rounds)

    def p50(self, name):
        return statistics.median(self.sets[name])

    def row(self, name, goal=None, limit=None, **params):
        return with_goal(row(f"py_gpu_{name}", params, [int(each) for each in self.sets[name]]), limit, goal)


def measure_floors(torch, timer):
    """What the frameworks cost by themselves: names of the sets that were filled."""
    try:
        import cupy
    except ImportError:
        return []
    array = cupy.zeros((64, 64), "f4")
    target = cupy.zeros(64, "f4")
    kernel = cupy.RawKernel("extern \"C\" __global__ void nothing(float *p) { if (!p) *p = 0; }", "nothing")

    class Interface:
        __cuda_array_interface__ = array.__cuda_array_interface__

    interface = Interface()
    for number in timer.turns():
        t0 = now()
        tensor = torch.from_dlpack(array)
        t1 = now()
        del tensor
        t2 = now()
        tensor = torch.as_tensor(interface, device=DEVICE)
        t3 = now()
        del tensor
        t4 = now()
        kernel((1,), (1,), (target,))
        t5 = now()
        timer.add("floor_from_dlpack", number, t0, t1)
        timer.add("floor_as_tensor", number, t2, t3)
        timer.add("floor_cupy_launch", number, t4, t5)
        if number % 500 == 0:
            torch.cuda.synchronize()  # the queue of launches is never full
    return ["floor_from_dlpack", "floor_as_tensor", "floor_cupy_launch"]


def measure_reader(timer, writer, reader):
    """A frame waits, ready; then what one call of the reader's takes, and what giving the frame back takes."""
    ways = {"next": None, "next_torch": lambda frame: frame.torch(), "next_view": lambda frame: frame.view()}
    for name, use in ways.items():
        for number in timer.turns():
            with writer.frame(timeout=5):
                pass
            t0 = now()
            frame = reader.next(timeout=5)
            tensor = use and use(frame)
            t1 = now()
            del tensor
            frame.release()
            del frame
            t2 = now()
            timer.add(name, number, t0, t1)
            timer.add(f"release_after_{name}", number, t1, t2)
    with writer.frame(timeout=5):
        pass
    with reader.next(timeout=5) as frame:
        for number in timer.turns():
            t0 = now()
            view = frame.view()
            t1 = now()
            tensor = frame.torch()
            t2 = now()
            timer.add("view", number, t0, t1)
            timer.add("torch", number, t1, t2)
            del tensor, view


def measure_writer(torch, timer, writer, stream):
    """with writer.frame(): nothing, committed by the CPU; behind a stream; and with a tensor of the slot."""
    for number in timer.turns():
        t0 = now()
        with writer.frame(timeout=5):
            pass
        t1 = now()
        with writer.frame(timeout=5, stream=stream):
            pass
        t2 = now()
        with writer.frame(timeout=5) as frame:
            frame.view()
        t3 = now()
        del frame
        timer.add("writer_frame", number, t0, t1)
        timer.add("writer_frame_stream", number, t1, t2)
        timer.add("writer_frame_view", number, t2, t3)
        if number % 100 == 0:
            torch.cuda.synchronize()


def measure_send(torch, timer, writer, tensor):
    for number in timer.turns():
        t0 = now()
        writer.send(tensor)
        t1 = now()
        timer.add("send", number, t0, t1)
        torch.cuda.synchronize()


def calls(torch, rounds):
    import sluice

    timer = Timer(rounds)
    note("calls")
    floors = measure_floors(torch, timer)
    with sluice.Writer("calls", shape=SHAPE, device=DEVICE) as writer:
        with sluice.Reader("calls", hold=2) as reader:
            measure_reader(timer, writer, reader)
        measure_writer(torch, timer, writer, torch.cuda.default_stream())
        few, calls_only = Timer(rounds // 10), Timer(rounds // 10)
        source = torch.zeros(SHAPE, dtype=torch.uint8, device=DEVICE)
        measure_send(torch, few, writer, source)
    with sluice.Writer("calls-only", shape=SHAPE, device=DEVICE, graph=False) as writer:
        measure_send(torch, calls_only, writer, source)
    dlpack = timer.p50("floor_from_dlpack") if floors else None
    return [
        *(timer.row(name) for name in floors),
        timer.row("next", goal=1000),
        timer.row("next_torch", limit=dlpack, goal=dlpack + 1000 if dlpack else None),
        timer.row("torch", limit=dlpack),
        timer.row("next_view", goal=2000),
        timer.row("view"),
        timer.row("release_after_next"),
        timer.row("release_after_next_torch"),
        timer.row("writer_frame", goal=4000),
        timer.row("writer_frame_stream", goal=4000),
        timer.row("writer_frame_view", goal=4000),
        few.row("send", goal=8000, bytes=NBYTES),
        calls_only.row("send", goal=8000, bytes=NBYTES, graph=False),
    ]


# ---- ways from one process to another: each has a sender and a receiver ----

class Way:
    """`fill` is "before" what is measured, and done by then, or "within" it; the sender is "awake" before it, or "woken"."""
    way, wait, goal = "", "asleep", None

    def __init__(self, context, number, fill="before", sender="awake"):
        self.within, self.naps = fill == "within", sender == "woken"
        if self.within or self.naps:
            self.goal = None  # it is for the call alone
        self.params = {"way": self.way, "wait": self.wait, "fill": fill, "sender": sender, "bytes": NBYTES}
        self.open(context, number)

    def open(self, context, number):
        """Before the other process is there."""

    def sender(self, torch):
        self.tensor = torch.zeros(SHAPE, dtype=torch.uint8, device=DEVICE)

    def fill(self, value):
        self.tensor.fill_(value)

    def receiver(self, torch):
        pass

    def end_get(self):
        pass

    def end(self):
        pass


class Sluice(Way):
    """In place: the tensor is the slot itself. The receiver sleeps in the library's own wait."""
    way, goal, in_place, spin = "sluice, in place", 15_000, True, 0

    def open(self, context, number):
        self.name = f"way-{number}"

    def sender(self, torch):
        import sluice
        self.writer = sluice.Writer(self.name, shape=SHAPE, device=DEVICE)
        super().sender(torch)

    def fill(self, value):
        if self.in_place:
            self.frame = self.writer.frame(timeout=5)
            self.frame.torch().fill_(value)
        else:
            self.tensor.fill_(value)

    def put(self):
        self.frame.commit() if self.in_place else self.writer.send(self.tensor)

    def receiver(self, torch):
        import sluice
        self.reader = sluice.Reader(self.name, wait=PATIENCE, spin=self.spin)

    def get(self):
        self.frame = self.reader.next(timeout=PATIENCE)
        return self.frame.torch()

    def end_get(self):
        self.frame.release()

    def end(self):
        self.writer.close()


class SluiceSpins(Sluice):
    wait, spin = "spinning", 1.0


class SluiceSend(Sluice):
    """One copy, into the slot."""
    way, in_place = "sluice, send", False


class SluiceSendSpins(SluiceSend):
    wait, spin = "spinning", 1.0


class TorchQueue(Way):
    """torch.multiprocessing: the tensor's memory is shared, a handle goes through a pipe. The receiver's tensor is usable
    as its stream was made to wait for the sender's."""
    way = "torch.multiprocessing.Queue"

    def open(self, context, number):
        self.queue = context.Queue()

    def put(self):
        self.queue.put(self.tensor)

    def get(self):
        return self.queue.get()


class TorchSimpleQueue(TorchQueue):
    """The same without a thread between put() and the pipe."""
    way = "torch.multiprocessing.SimpleQueue"

    def open(self, context, number):
        self.queue = context.SimpleQueue()


class CudaLink(Way):
    """cuda-link: a copy into a ring of buffers. The receiver spins on the number of the newest, then takes the frame."""
    way, wait = "cuda-link", "spinning"
    NEWEST = 16  # where the segment has that number

    def open(self, context, number):
        importlib.import_module("cuda_link")
        self.name = f"bench_gpu_{os.getpid()}_{number}"

    def sender(self, torch):
        package = importlib.import_module("cuda_link")
        self.exporter = package.CUDAIPCExporter(shm_name=self.name, height=SHAPE[0], width=SHAPE[1], channels=SHAPE[2], dtype="uint8")
        if not self.exporter.initialize():
            raise RuntimeError("cuda-link's exporter does not start")
        super().sender(torch)

    def put(self):
        self.exporter.export_frame(gpu_ptr=self.tensor.data_ptr(), size=NBYTES)

    def receiver(self, torch):
        from multiprocessing import shared_memory
        package = importlib.import_module("cuda_link")
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.segment = shared_memory.SharedMemory(name=self.name)
                break
            except FileNotFoundError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        time.sleep(0.5)  # the exporter has written its handles
        self.importer = package.CUDAIPCImporter(shm_name=self.name, shape=SHAPE, dtype="uint8")
        self.word = ctypes.c_uint32.from_buffer(self.segment.buf, self.NEWEST)
        self.seen = self.word.value

    def get(self):
        while self.word.value == self.seen:
            pass
        self.seen = self.word.value
        return self.importer.get_frame()

    def end(self):
        self.exporter.cleanup()


WITHIN, WOKEN = {"fill": "within"}, {"sender": "woken"}
WAYS = [*((each, {}) for each in (SluiceSpins, Sluice, SluiceSendSpins, SluiceSend, TorchSimpleQueue, TorchQueue)),
        *((each, WITHIN) for each in (SluiceSpins, Sluice, TorchSimpleQueue, TorchQueue)),
        *((each, WOKEN) for each in (SluiceSpins, Sluice, TorchSimpleQueue, TorchQueue)),
        (CudaLink, {})]


def receive(ways, rounds, ready, results):
    """The other process: all ways in turn, so that PyTorch is imported once."""
    import torch

    torch.zeros(1, device=DEVICE)
    for index, way in enumerate(ways):
        try:
            taken = []
            way.receiver(torch)
            ready.put(index)
            for number in range(rounds):
                tensor = way.get()
                usable = clock()
                if int(tensor.flatten()[-1]) != number % 251:
                    raise ValueError(f"frame {number} is not what was put")
                taken.append(usable)
                del tensor
                way.end_get()
                ready.put(index)
            results.put(taken)
        except Exception:
            results.put(traceback.format_exc())


def hand_over(torch, way, index, rounds, ready, results):
    """(put samples, put-to-usable samples), or a RuntimeError."""
    began, calls_of_put = [], []
    way.sender(torch)
    wait_for(ready, results, index)
    for number in range(rounds):
        if not way.within:
            way.fill(number % 251)
        torch.cuda.synchronize()
        if way.naps:
            time.sleep(NAP)
        else:
            stay_awake(PAUSE)
        before = clock()
        if way.within:
            way.fill(number % 251)
        way.put()
        after = clock()
        began.append(before)
        calls_of_put.append(after - before)
        wait_for(ready, results, index)
    taken = results.get(timeout=PATIENCE)
    if isinstance(taken, str):
        raise RuntimeError(taken)
    skip = rounds // 10
    return calls_of_put[skip:], [end - start for start, end in zip(began, taken)][skip:]


def wait_for(ready, results, index):
    until = time.monotonic() + PATIENCE
    while ready.empty():
        if time.monotonic() > until or not results.empty():
            raise RuntimeError("the receiver does not answer" if results.empty() else results.get())
    if ready.get() != index:
        raise RuntimeError("another way's answer")


def handoffs(torch, rounds, report):
    multiprocessing = importlib.import_module("torch.multiprocessing").get_context("spawn")
    ways = []
    for number, (kind, options) in enumerate(WAYS):
        try:
            ways.append(kind(multiprocessing, number, **options))
        except ImportError as error:
            report["missing"].append({"rows": kind.way, "why": str(error)})
    ready, results = multiprocessing.SimpleQueue(), multiprocessing.Queue()
    process = multiprocessing.Process(target=receive, args=(ways, rounds, ready, results), daemon=True)
    process.start()
    for index, way in enumerate(ways):
        note(", ".join(map(str, way.params.values())))
        try:
            puts, usable = hand_over(torch, way, index, rounds, ready, results)
            report["rows"] += [row("py_gpu_put", way.params, puts),
                               with_goal(row("py_gpu_put_to_usable", way.params, usable), goal=way.goal)]
            way.end()
        except Exception as error:
            note(f"FAILED {error}")
            report["failed"].append({"bench": "py_gpu_put_to_usable", "params": way.params, "why": str(error)[-1000:]})
            if way.way == "cuda-link":  # a peer's failure is no failure of ours
                report["missing"].append({"rows": "cuda-link", "why": report["failed"].pop()["why"]})
            break  # the receiver is elsewhere now
    process.terminate()
    process.join(10)


# ---- all ----

def versions():
    found = {}
    for name in ("torch", "cupy", "jax", "numpy", "cuda_link", "sluice"):
        with contextlib.suppress(ImportError):
            found[name] = getattr(importlib.import_module(name), "__version__", "?")
    return found


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], capture_output=True,
                          text=True, cwd=HERE)
    return done.stdout.strip() or None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    parser.add_argument("--cuda-link", metavar="FOLDER", help="where the package cuda_link lies")
    options = parser.parse_args()
    if options.cuda_link:
        sys.path.insert(0, options.cuda_link)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (options.cuda_link, os.environ.get("PYTHONPATH"))))
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
    except ImportError as error:
        note(f"nothing is measured: {error}")
        sys.exit(NO_GPU)
    began, report = time.monotonic(), {"missing": [], "failed": [], "rows": []}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        os.environ["SLUICE_DIR"] = folder
        report["rows"] += calls(torch, 500 if options.quick else 10_000)
        handoffs(torch, 50 if options.quick else 500, report)
        links(torch, 50 if options.quick else 500, report)
    head = {"python": sys.version.split()[0], "packages": versions(), "commit": commit(), "gpu": torch.cuda.get_device_name(0)}
    write({**head, "seconds": round(time.monotonic() - began, 1), **report}, sys.stdout)
    sys.exit(1 if report["failed"] else 0)


if __name__ == "__main__":
    main()
