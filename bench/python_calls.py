# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: calls in one process, each beside the floor that the frameworks themselves have."""
import statistics

from python_kit import DEVICE, NBYTES, SHAPE, note, now, with_goal
from rows import row


class Timer:
    """Sets of samples by name, less the time of reading the clock."""

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
    """Measures the frameworks alone; returns the names of the sets that were filled."""
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
    """Measures one call of the reader with a frame ready, and then the release of the frame."""
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
    """An empty `with writer.frame()`: committed by the CPU, on a stream, and with the slot's tensor."""
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
