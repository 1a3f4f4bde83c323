# SPDX-License-Identifier: MIT
"""A CUDA driver by ctypes, so that tests act as the rest of a program does: with kernels, captures, slow streams.

It is the machine's if there is a GPU, else the fake one of tests/fake, whose tests have doors of their own."""
import contextlib
import ctypes
import os
import subprocess
import sys

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
LEGACY = 0
OUT_OF_MEMORY = 2  # as the driver has it

VERSIONS = {name: "_v2" for name in ("DevicePrimaryCtxRelease", "StreamDestroy", "StreamWriteValue64",
                                     "StreamWaitValue64", "MemcpyHtoDAsync", "MemcpyDtoHAsync", "MemcpyDtoDAsync",
                                     "MemAlloc", "MemFree", "StreamBeginCapture", "MemHostGetDevicePointer")}

COUNT = """
import ctypes, sys
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
sys.exit(driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value)
"""


def find():
    """Once a run, before anything loads a driver: sets the environment, or says why there is no GPU."""
    if os.environ.get("SLUICE_CUDA_DRIVER"):
        return None
    if subprocess.run([sys.executable, "-c", COUNT], stderr=subprocess.DEVNULL).returncode == 0:
        os.environ["SLUICE_CUDA_DRIVER"] = "libcuda.so.1"
        return None
    if not os.environ.get("SLUICE_FAKE_DRIVER"):
        return "no GPU, and SLUICE_FAKE_DRIVER names no fake driver"
    fake = os.environ["SLUICE_FAKE_DRIVER"]
    os.environ["SLUICE_CUDA_DRIVER"] = fake
    os.environ["SLUICE_NVRTC"] = os.path.join(os.path.dirname(fake), "libfakenvrtc.so")
    os.environ["SLUICE_FAKE_FATAL"] = os.environ.get("SLUICE_FAKE_FATAL", "1")
    return None


class Things(ctypes.Structure):
    """What there is now in the fake driver: struct fake_things of tests/fake/fake.h."""
    _fields_ = [(name, ctypes.c_long) for name in ("contexts", "streams", "events", "handles", "reservations", "mappings",
                                                   "registrations", "pinned", "modules", "graphs", "allocations")]


class Gate:
    """A stream stands still until it is opened."""

    def __init__(self, gpu, stream):
        self.word = gpu.word()
        gpu.call("StreamWaitValue64", stream, gpu.device_pointer(self.word), ctypes.c_uint64(1), 1)

    def open(self):
        self.word.value = 1


held = set()  # ordinals: a real GPU's context outlives its test, for the next one would take long to make


class Gpu:
    def __init__(self, ordinal=0):
        self.ordinal, self.device = ordinal, f"cuda:{ordinal}"
        path = os.environ["SLUICE_CUDA_DRIVER"]
        self.library = ctypes.CDLL(path)
        self.fake = hasattr(self.library, "fake_calls")
        self.streams, self.gates, self.words = [], [], []
        self.context = ctypes.c_void_p()
        self.call("Init", 0)
        with self.relaxed():
            self.call("DevicePrimaryCtxRetain", ctypes.byref(self.context), ordinal)
            if not self.fake and ordinal not in held:
                self.call("DevicePrimaryCtxRetain", ctypes.byref(self.context), ordinal)
                held.add(ordinal)
            self.enter()

    def enter(self):
        """On each thread that calls: CUDA's context is a thread's."""
        self.call("CtxSetCurrent", self.context)

    def code(self, name, *args):
        function = getattr(self.library, ("test_cu" if self.fake else "cu") + name + VERSIONS.get(name, ""))
        return function(*[ctypes.c_void_p(arg) if isinstance(arg, int) and arg > 0x7fffffff else arg for arg in args])

    def call(self, name, *args):
        code = self.code(name, *args)
        assert code == 0, f"cu{name} said {code}"

    @contextlib.contextmanager
    def relaxed(self):
        """What else would break another thread's capture."""
        mode = ctypes.c_int(RELAXED)
        self.call("ThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        yield
        self.call("ThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def things(self):
        """Counts, by name, that may yet fall: much ends on threads of its own, so compare them by comes_to()."""
        self.library.fake_things.restype = Things
        now = self.library.fake_things()
        return {name: getattr(now, name) for name, _ in Things._fields_}

    def fail(self, name, code, nth=1):
        """The library's nth call of a function from now on says `code`, by the fake driver; 0: each, until fake_failed()."""
        self.library.fake_name.restype, number = ctypes.c_char_p, 0
        while self.library.fake_name(number) != b"cu" + name.encode():
            number += 1
        self.library.fake_fail(number, ctypes.c_long(nth), code)

    # ---- streams ----

    def stream(self, blocking=False):
        stream = ctypes.c_void_p()
        with self.relaxed():
            self.call("StreamCreateWithPriority", ctypes.byref(stream), 0 if blocking else 1, 0)
        self.streams.append(stream.value)
        return stream.value

    def synchronize(self, stream):
        with self.relaxed():
            self.call("StreamSynchronize", ctypes.c_void_p(stream))

    def is_idle(self, stream):
        with self.relaxed():
            return self.code("StreamQuery", ctypes.c_void_p(stream)) == 0

    def gate(self, stream):
        self.gates.append(Gate(self, ctypes.c_void_p(stream)))
        return self.gates[-1]

    # ---- memory ----

    def word(self):
        """64 bits of the host that streams see."""
        memory = ctypes.c_void_p()
        with self.relaxed():
            self.call("MemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(4096), 3)
        self.words.append(memory.value)
        word = ctypes.c_uint64.from_address(memory.value)
        word.value = 0
        return word

    def device_pointer(self, word):
        pointer = ctypes.c_uint64()
        with self.relaxed():
            self.call("MemHostGetDevicePointer", ctypes.byref(pointer), ctypes.c_void_p(ctypes.addressof(word)), 0)
        return pointer

    def fill(self, address, value, size, stream):
        """A kernel, as far as Sluice can tell."""
        self.call("MemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(size),
                  ctypes.c_void_p(stream))

    def look(self, address, size, stream):
        """Queues a copy to the host; what it found is in the buffer once the stream is idle."""
        memory = ctypes.c_void_p()
        with self.relaxed():
            self.call("MemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 1)
        self.words.append(memory.value)
        self.call("MemcpyDtoHAsync", memory, ctypes.c_uint64(address), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        return (ctypes.c_ubyte * size).from_address(memory.value)

    def read(self, address, size):
        stream = self.stream()
        found = self.look(address, size, stream)
        self.synchronize(stream)
        return bytes(found)

    # ---- captures ----

    @contextlib.contextmanager
    def capture(self, stream, mode=GLOBAL):
        """Yields a Graph, which is whole behind the `with`."""
        graph = Graph(self)
        self.call("StreamBeginCapture", ctypes.c_void_p(stream), mode)
        try:
            yield graph
        finally:
            self.call("StreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph.handle))

    def open_gates(self):
        for gate in self.gates:
            gate.open()

    def clear(self):
        """Of streams and of words there are none any more."""
        self.open_gates()
        with self.relaxed():
            for stream in self.streams:
                self.call("StreamSynchronize", ctypes.c_void_p(stream))
                self.call("StreamDestroy", ctypes.c_void_p(stream))
            for word in self.words:
                self.call("MemFreeHost", ctypes.c_void_p(word))
        self.streams, self.gates, self.words = [], [], []

    def close(self):
        self.clear()
        with self.relaxed():
            self.call("DevicePrimaryCtxRelease", self.ordinal)
            self.call("CtxSetCurrent", None)


class Graph:
    def __init__(self, gpu):
        self.gpu, self.handle = gpu, ctypes.c_void_p()

    def nodes(self):
        count = ctypes.c_size_t()
        self.gpu.call("GraphGetNodes", self.handle, None, ctypes.byref(count))
        return count.value

    def replay(self, stream):
        exec_ = ctypes.c_void_p()
        with self.gpu.relaxed():
            self.gpu.call("GraphInstantiateWithFlags", ctypes.byref(exec_), self.handle, ctypes.c_ulonglong(0))
        self.gpu.call("GraphLaunch", exec_, ctypes.c_void_p(stream))
        self.gpu.synchronize(stream)
        with self.gpu.relaxed():
            self.gpu.call("GraphExecDestroy", exec_)
