# SPDX-License-Identifier: MIT
"""Calls beside a capture of another thread, through the CUDA runtime as programs make them; and captures in a loop."""
import collections
import contextlib
import ctypes
import functools
import importlib.util
import json
import mmap
import os
import pathlib
import threading

import pytest

from gpu_kit import GLOBAL, RELAXED, THREAD_LOCAL

MODES = {"global": GLOBAL, "thread-local": THREAD_LOCAL, "relaxed": RELAXED}
KINDS = {"blocking": True, "non-blocking": False}
MEASURED = 13000  # cuDriverGetVersion() of the driver 580, of which the table is
BROKEN = {900, 901, 906}
SIZE = 4096
DISABLE_TIMING, TO_DEVICE, ON_DEVICE = 2, 1, 3
LEGACY, PER_THREAD = 0, 2
FAKE_RUNTIME = "cudart64_12.dll"  # beside the fake driver


@functools.cache
def load_runtime():
    """NVIDIA's, from PyTorch's wheels or a toolkit; or what lies beside the fake driver."""
    wheels = importlib.util.find_spec("nvidia")
    places = [pathlib.Path(os.environ["SLUICE_CUDA_DRIVER"]).parent / FAKE_RUNTIME,
              *(found for place in (wheels.submodule_search_locations if wheels else ()) for found in pathlib.Path(place).glob("*/lib/libcudart.so.*")),
              *pathlib.Path("/usr/local").glob("cuda*/lib64/libcudart.so")]
    found = next((each for each in places if each.exists()), None)
    if found is None:
        pytest.skip("no CUDA runtime: neither PyTorch's nor a toolkit's")
    return ctypes.CDLL(str(found))


def pointer(address):
    return ctypes.c_void_p(address)


class Bench:
    """What the calls work on: streams, an event that is done, memory of all kinds."""

    def __init__(self, gpu):
        self.gpu, self.cuda = gpu, load_runtime()
        self.mine, self.other = gpu.stream(), gpu.stream(blocking=True)
        self.memory, self.spare, self.pinned = self.malloc(SIZE), None, ctypes.addressof(gpu.word())
        self.pageable, self.page = ctypes.create_string_buffer(SIZE), mmap.mmap(-1, SIZE)
        self.page_at = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.event = ctypes.c_void_p()
        self.call("EventCreateWithFlags", ctypes.byref(self.event), DISABLE_TIMING)
        self.call("EventRecord", self.event, pointer(self.mine))
        self.call("StreamSynchronize", pointer(self.mine))

    def code(self, name, *arguments):
        return getattr(self.cuda, "cuda" + name)(*arguments)

    def call(self, name, *arguments):
        code = self.code(name, *arguments)
        assert code == 0, f"cuda{name} said {code}"

    def malloc(self, size):
        memory = ctypes.c_void_p()
        self.call("Malloc", ctypes.byref(memory), ctypes.c_size_t(size))
        return memory.value

    def close(self):
        self.call("EventDestroy", self.event)
        self.call("Free", pointer(self.memory))

    # ---- the calls of the table, each of which gives its result ----

    def work(self, stream):
        """On the GPU alone, as a kernel."""
        return self.code("MemcpyAsync", pointer(self.memory), pointer(self.memory + 64), ctypes.c_size_t(64), ON_DEVICE, pointer(stream))

    def upload(self, stream):
        return self.code("MemcpyAsync", pointer(self.memory), self.pageable, ctypes.c_size_t(64), TO_DEVICE, pointer(stream))

    def copy(self):
        return self.code("Memcpy", pointer(self.memory), self.pageable, ctypes.c_size_t(64), TO_DEVICE)

    def wait(self, stream):
        return self.code("StreamWaitEvent", pointer(stream), self.event, 0)

    def record(self, stream):
        return self.code("EventRecord", self.event, pointer(stream))

    def made(self, name, end, *arguments):
        """Makes something, and ends it once the capture is over."""
        thing = ctypes.c_void_p()
        code = self.code(name, ctypes.byref(thing), *arguments)
        return code, (lambda: self.call(end, thing)) if code == 0 else None

    def free(self):
        code, memory = self.code("Free", pointer(self.spare)), self.spare
        return code, (lambda: self.call("Free", pointer(memory))) if code else None

    def register(self):
        code = self.code("HostRegister", pointer(self.page_at), ctypes.c_size_t(SIZE), 0)
        return code, (lambda: self.call("HostUnregister", pointer(self.page_at))) if code == 0 else None

    def attributes(self):
        return self.code("PointerGetAttributes", (ctypes.c_uint64 * 32)(), pointer(self.memory))

    def memory_info(self):
        return self.code("MemGetInfo", ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))


Row = collections.namedtuple("Row", "call blocking other relaxed inside", defaults=(False, False))
NONE, IMPLICIT, UNSAFE, ALL = (3 * ["0>0"], 3 * ["906>901"], ["900>901", "0>0", "0>0"], 3 * ["900>901"])

# What a call says > how the capture ends, in a global, a thread-local and a relaxed capture, on each kind of stream.
UNSAFE_CALLS = {
    "cudaEventQuery": lambda b: b.code("EventQuery", b.event),
    "cudaEventSynchronize": lambda b: b.code("EventSynchronize", b.event),
    "cudaStreamQuery of another stream": lambda b: b.code("StreamQuery", pointer(b.mine)),
    "cudaStreamSynchronize of another stream": lambda b: b.code("StreamSynchronize", pointer(b.mine)),
    "cudaMalloc": lambda b: b.made("Malloc", "Free", ctypes.c_size_t(SIZE)),
    "cudaFree": Bench.free,
    "cudaHostAlloc": lambda b: b.made("HostAlloc", "FreeHost", ctypes.c_size_t(SIZE), 0),
    "cudaHostRegister": Bench.register,
}
ROWS = {
    "a launch on the legacy stream": Row(lambda b: b.work(LEGACY), IMPLICIT, NONE),
    "a copy of pageable memory on the legacy stream": Row(lambda b: b.upload(LEGACY), IMPLICIT, NONE),
    "cudaStreamWaitEvent of the legacy stream": Row(lambda b: b.wait(LEGACY), IMPLICIT, NONE),
    "cudaEventRecord on the legacy stream": Row(lambda b: b.record(LEGACY), IMPLICIT, NONE),
    "cudaMemcpy": Row(Bench.copy, IMPLICIT, NONE),
    "a launch on the legacy stream, of the capturing thread": Row(lambda b: b.work(LEGACY), IMPLICIT, NONE, inside=True),
    "cudaStreamQuery of the legacy stream": Row(lambda b: b.code("StreamQuery", pointer(LEGACY)), IMPLICIT, UNSAFE),
    "cudaStreamSynchronize of the legacy stream": Row(lambda b: b.code("StreamSynchronize", pointer(LEGACY)), IMPLICIT, UNSAFE),
    **{name: Row(call, UNSAFE, UNSAFE) for name, call in UNSAFE_CALLS.items()},
    **{f"{name}, in a thread of relaxed mode": Row(call, NONE, NONE, relaxed=True) for name, call in UNSAFE_CALLS.items()},
    "cudaDeviceSynchronize": Row(lambda b: b.code("DeviceSynchronize"), ALL, ALL),
    "a launch on another stream": Row(lambda b: b.work(b.mine), NONE, NONE),
    "a launch on another blocking stream": Row(lambda b: b.work(b.other), NONE, NONE),
    "a launch on the thread's default stream": Row(lambda b: b.work(PER_THREAD), NONE, NONE),
    "cudaStreamWaitEvent of another stream": Row(lambda b: b.wait(b.mine), NONE, NONE),
    "cudaEventRecord on another stream": Row(lambda b: b.record(b.mine), NONE, NONE),
    "cudaMemGetInfo": Row(Bench.memory_info, NONE, NONE),
    "cudaPointerGetAttributes": Row(Bench.attributes, NONE, NONE),
    "cudaStreamCreateWithFlags": Row(lambda b: b.made("StreamCreateWithFlags", "StreamDestroy", 1), NONE, NONE),
    "cudaEventCreateWithFlags": Row(lambda b: b.made("EventCreateWithFlags", "EventDestroy", DISABLE_TIMING), NONE, NONE),
}


# ---- one capture ----

class Capturing(threading.Thread):
    """Another thread that captures: from start() on, until end(), which gives the result."""

    def __init__(self, bench, mode, blocking, inside=None):
        super().__init__(name="capturing")
        self.gpu, self.mode, self.inside = bench.gpu, mode, inside
        self.memory, self.stream = bench.memory, pointer(bench.gpu.stream(blocking))
        self.begun, self.wanted, self.code, self.said = threading.Event(), threading.Event(), None, None

    def run(self):
        graph = ctypes.c_void_p()
        try:
            self.gpu.enter()
            self.gpu.call("StreamBeginCapture", self.stream, self.mode)
            self.gpu.fill(self.memory, 1, 64, self.stream.value)
            self.said = self.inside and self.inside()
        finally:
            self.begun.set()
        self.wanted.wait()
        self.code = self.gpu.code("StreamEndCapture", self.stream, ctypes.byref(graph))
        if graph:
            self.gpu.call("GraphDestroy", graph)

    def begin(self):
        self.start()
        self.begun.wait()
        return self

    def end(self):
        self.wanted.set()
        self.join()
        return self.code


def beside(bench, row, mode, blocking):
    """What a row's call says, and how the capture of another thread ends, beside which it is made."""
    def call():
        with bench.gpu.relaxed() if row.relaxed else contextlib.nullcontext():
            said = row.call(bench)
        code, undo = said if isinstance(said, tuple) else (said, None)
        undoes.append(undo)
        return code

    undoes = []
    bench.spare = bench.malloc(SIZE)
    capturing = Capturing(bench, mode, blocking, call if row.inside else None).begin()
    said = capturing.said if row.inside else call()
    ended = capturing.end()
    if hasattr(bench.cuda, "cudaGetLastError"):
        bench.cuda.cudaGetLastError()  # else the next call of a framework raises it
    for undo in filter(None, undoes):
        undo()
    if row.call is not Bench.free:
        bench.call("Free", pointer(bench.spare))
    return f"{said}>{ended}"


@pytest.fixture
def bench(gpu):
    bench = Bench(gpu)
    yield bench
    bench.close()


def check_row(bench, name, kind, expected, found):
    """The driver of which the table is must do as listed. Where another differs, that is reported, in the results too."""
    version = ctypes.c_int()
    bench.gpu.call("DriverGetVersion", ctypes.byref(version))
    if os.environ.get("SLUICE_GPU_FACTS"):
        with open(os.environ["SLUICE_GPU_FACTS"], "a") as file:
            file.write(json.dumps({"fact": "call beside a capture", "call": name, "stream": kind, "driver": version.value,
                                   "listed": expected, "found": found}) + "\n")
    if found != expected:
        words = f"{name}, {kind} stream: {' / '.join(found)} in global, thread-local and relaxed captures; listed: {' / '.join(expected)}"
        if bench.gpu.fake or version.value == MEASURED:
            pytest.fail(words)
        pytest.xfail(f"driver {version.value} differs from {MEASURED}: {words}")


def check_call(bench, rows, name, kind):
    """A call of the table beside a capture in each mode."""
    row = rows[name]
    found = [beside(bench, row, mode, KINDS[kind]) for mode in MODES.values()]
    check_row(bench, name, kind, row.blocking if KINDS[kind] else row.other, found)


# ---- captures in a loop ----

def capture_in_a_loop(bench, mode, blocking, stop):
    """Captures three pieces of work again and again, until stop(ends) says so: how the captures ended, counted. Gives that."""
    gpu, stream, ends = bench.gpu, pointer(bench.gpu.stream(blocking)), collections.Counter()
    gpu.enter()
    while not stop(ends):
        graph = ctypes.c_void_p()
        code = gpu.code("StreamBeginCapture", stream, mode)
        for value in range(3):
            code = code or gpu.code("MemsetD8Async", ctypes.c_uint64(bench.memory), ctypes.c_ubyte(value), ctypes.c_size_t(64), stream)
        code = gpu.code("StreamEndCapture", stream, ctypes.byref(graph)) or code
        if graph:
            gpu.call("GraphDestroy", graph)
        ends[code] += 1
    return ends
