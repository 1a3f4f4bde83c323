#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the package beside what else Python programs use: bench.py [--quick] > bench/results/python-host.json

Calls in one process; then, across two processes, how long it takes from "an array lies in the sender's memory" to
"a NumPy array of the same bytes can be read by the receiver", the next one being put when the last one was read. Every
receiver sleeps while it waits. What is not installed (pyzmq, iceoryx2) is left out and named. One JSON object comes out,
like that of `sluice bench`; limit_p50_ns is what the p50 must not be above. The last line on stderr is the verdict.
"""
import argparse
import ctypes
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import shared_memory

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]  # the package that is installed, not the source
sys.path.append(os.path.join(os.path.dirname(HERE), "bench"))

import numpy as np  # noqa: E402
import rows as figures  # noqa: E402

now = time.perf_counter_ns
MIB = 1 << 20


def row(bench, samples, limit_ns=None, **params):
    """A row; samples in nanoseconds."""
    limit = {} if limit_ns is None else {"limit_p50_ns": limit_ns}
    return {**figures.row(bench, params, map(int, samples)), **limit}


# ---- one process ----

def calls(rounds):
    import sluice

    take, views, trip, sent = [], [], [], []
    clock = statistics.median(-now() + now() for _ in range(1000))
    with sluice.Writer("bench-calls", shape=(1080, 1920, 3)) as writer, sluice.Reader("bench-calls") as reader:
        small = sluice.Writer("bench-small", shape=64)
        bytes_64 = np.zeros(64, "u1")
        for number in range(rounds + 1000):
            t0 = now()
            with writer.frame():
                pass
            t1 = now()
            array = reader.next().numpy()
            t2 = now()
            del array
            with writer.frame():
                pass
            t3 = now()
            view = reader.next().view()
            t4 = now()
            del view
            t5 = now()
            small.send(bytes_64)
            t6 = now()
            if number < 1000:
                continue
            trip.append(t1 - t0 - clock)
            take.append(t2 - t1 - clock)
            views.append(t4 - t3 - clock)
            sent.append(t6 - t5 - clock)
        small.close()
    return [
        row("next_numpy", take, limit_ns=1500),  # next() to a NumPy view, a frame is waiting
        row("next_view", views),                 # the same to a memoryview
        row("writer_frame", trip, limit_ns=2000),  # with writer.frame(): pass
        row("send", sent, bytes=64),
    ]


def import_time(rounds):
    code = "import time; t = time.perf_counter_ns(); import sluice; print(time.perf_counter_ns() - t)"
    took = [int(subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True).stdout)
            for _ in range(rounds)]
    return [row("import", took, limit_ns=20_000_000)]


# ---- ways from one process to another: each has a sender and a receiver ----

class Sluice:
    """send(): one copy, into the slot."""
    in_place = False

    def __init__(self, size, folder):
        self.size = size

    def sender(self):
        import sluice
        self.writer = sluice.Writer("bench", shape=self.size)

    def source(self, source):
        return source

    def put(self, source):
        self.writer.send(source)

    def receiver(self):
        import sluice
        self.reader = sluice.Reader("bench", wait=10)

    def get(self):
        return self.reader.next().numpy()


class SluiceInPlace(Sluice):
    """The sender's array is the slot itself: no copy at all."""
    in_place = True

    def source(self, source):
        self.frame = self.writer.frame(timeout=5)
        return self.frame.numpy()

    def put(self, source):
        self.frame.commit()


class SharedMemory:
    """multiprocessing.shared_memory, four blocks in turn; their numbers go through a multiprocessing.Queue."""

    def __init__(self, size, folder):
        self.size = size
        self.queue = multiprocessing.get_context("spawn").Queue()
        self.names = multiprocessing.get_context("spawn").Queue()

    def sender(self):
        self.blocks = [shared_memory.SharedMemory(create=True, size=self.size) for _ in range(4)]
        self.arrays = [np.ndarray(self.size, "u1", block.buf) for block in self.blocks]
        self.turn = 0
        self.names.put([block.name for block in self.blocks])

    def source(self, source):
        return source

    def put(self, source):
        self.turn = (self.turn + 1) % 4
        self.arrays[self.turn][:] = source
        self.queue.put(self.turn)

    def receiver(self):
        self.blocks = [shared_memory.SharedMemory(name) for name in self.names.get()]

    def get(self):
        return np.ndarray(self.size, "u1", self.blocks[self.queue.get()].buf)

    def end(self):
        self.arrays = None
        for block in self.blocks:
            block.close()
            block.unlink()


class Queue:
    """multiprocessing.Queue: pickled through a pipe."""

    def __init__(self, size, folder):
        self.queue = multiprocessing.get_context("spawn").Queue()

    def sender(self):
        pass

    def source(self, source):
        return source

    def put(self, source):
        self.queue.put(source)

    def receiver(self):
        pass

    def get(self):
        return self.queue.get()


class Zmq:
    """pyzmq, PUSH to PULL over ipc://, without copies in Python."""

    def __init__(self, size, folder):
        import zmq
        self.where = f"ipc://{folder}/zmq"
        del zmq

    def sender(self):
        import zmq
        self.socket = zmq.Context.instance().socket(zmq.PUSH)
        self.socket.bind(self.where)

    def source(self, source):
        return source

    def put(self, source):
        self.socket.send(source, copy=False)

    def receiver(self):
        import zmq
        self.socket = zmq.Context.instance().socket(zmq.PULL)
        self.socket.connect(self.where)

    def get(self):
        return np.frombuffer(self.socket.recv(copy=False), "u1")


class Iceoryx2:
    """iceoryx2: a slice is lent, filled by one copy and sent; an event wakes the receiver."""

    def __init__(self, size, folder):
        import iceoryx2
        self.size = size
        self.name = f"bench-{os.getpid()}-{size}"
        del iceoryx2

    def services(self):
        import iceoryx2 as iox2
        self.iox2 = iox2
        iox2.set_log_level(iox2.LogLevel.Error)
        self.node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        name = iox2.ServiceName.new(self.name)
        self.service = (self.node.service_builder(name).publish_subscribe(iox2.Slice[ctypes.c_uint8])
                        .subscriber_max_borrowed_samples(4).open_or_create())
        self.event = self.node.service_builder(name).event().open_or_create()

    def sender(self):
        self.services()
        self.publisher = self.service.publisher_builder().initial_max_slice_len(self.size).create()
        self.notifier = self.event.notifier_builder().create()

    def source(self, source):
        return source

    def put(self, source):
        sample = self.publisher.loan_slice_uninit(self.size)
        ctypes.memmove(sample.payload_ptr, source.ctypes.data, self.size)
        sample.assume_init().send()
        self.notifier.notify()

    def receiver(self):
        self.services()
        self.listener = self.event.listener_builder().create()
        self.subscriber = self.service.subscriber_builder().create()

    def get(self):
        while True:
            sample = self.subscriber.receive()
            if sample is not None:
                self.sample = sample  # lent as long as the array is read
                return np.ctypeslib.as_array(ctypes.cast(sample.payload_ptr, ctypes.POINTER(ctypes.c_uint8)), (self.size,))
            self.listener.blocking_wait()


WAYS = {"sluice, in place": SluiceInPlace, "sluice, send": Sluice, "multiprocessing.shared_memory and a queue": SharedMemory,
        "multiprocessing.Queue": Queue, "pyzmq": Zmq, "iceoryx2": Iceoryx2}


def receive(way, rounds, ready, results):
    way.receiver()
    ready.release()
    took = []
    for _ in range(rounds):
        array = way.get()
        usable = time.monotonic_ns()
        took.append(usable - int(array[:8].view("u8")[0]))
        del array
        ready.release()
    results.put(took)


def handoff(name, size, rounds, folder):
    context = multiprocessing.get_context("spawn")
    way = WAYS[name](size, folder)
    ready, results = context.Semaphore(0), context.Queue()
    process = context.Process(target=receive, args=(way, rounds, ready, results))
    process.start()
    way.sender()
    if not ready.acquire(timeout=30):
        raise RuntimeError(f"{name}: no receiver")
    time.sleep(0.5)
    source = np.random.default_rng(1).integers(0, 255, size, "u1")
    for _ in range(rounds):
        array = way.source(source)
        array[8:] = source[8:]  # made by the program, whichever way
        array[:8].view("u8")[0] = time.monotonic_ns()
        way.put(array)
        if not ready.acquire(timeout=30):
            raise RuntimeError(f"{name}: a frame was lost")
        time.sleep(0.004)  # the receiver is asleep again
    took = results.get(timeout=60)
    process.join()
    if hasattr(way, "end"):
        way.end()
    return row("put_to_usable", took[len(took) // 10:], way=name, bytes=size)


def machine():
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0],
            "python": platform.python_version(), "numpy": np.__version__}


def main():
    import sluice

    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds: to see that it works")
    quick = parser.parse_args().quick
    about = machine()  # before the load is ours
    left_out = {}
    rows = calls(2000 if quick else 100_000) + import_time(3 if quick else 30)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        os.environ["SLUICE_DIR"] = folder
        for size, rounds in ((MIB, 20 if quick else 500), (32 * MIB, 5 if quick else 100)):
            for name in WAYS:
                try:
                    rows.append(handoff(name, size, rounds, folder))
                except ImportError as error:
                    left_out[name] = str(error)
    figures.write({"sluice": sluice.__version__, "commit": figures.commit_of(HERE), "machine": about, "left_out": left_out, "rows": rows},
                  sys.stdout)
    over = [each["bench"] for each in rows if each["p50_ns"] > each.get("limit_p50_ns", each["p50_ns"])]
    print(f"over their limits: {', '.join(over)}" if over else "all within their limits", file=sys.stderr)
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
