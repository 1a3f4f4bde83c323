# SPDX-License-Identifier: MIT
"""What a peer of cuda-link's does, by either of its interfaces: Exporter and Importer, of 1.5 and later, or the classes of before,
CUDAIPCExporter and CUDAIPCImporter. Answers are the same, as far as both know the thing."""
import ctypes
import json
import mmap
import os
import time

import numpy

import cuda_link
import gpu_kit
from peer_picture import picture

SOURCES = 12  # a frame's source must stay while it is copied
APART = 512  # bytes: as the driver aligns memory


class Export:
    def __init__(self, name):
        self.name, self.gpu, self.exporters, self.gate_now = name, gpu_kit.Gpu(), [], None
        self.stream = self.gpu.stream()
        self.fill_size, self.fills = 0, []

    def make(self, spec, policy):
        policy = cuda_link.ExportPolicy(**policy) if policy else None
        return cuda_link.Exporter.open(cuda_link.FrameSpec(self.name, **spec), policy=policy)

    def export(self, address, size):
        return self.exporters[-1].export(cuda_link.GpuFrame(address, size, self.stream)).name

    def open(self, _, spec, policy):
        """A second `open` without a `close` begins a session over the first one's, as a program that was started anew does."""
        self.exporters.append(self.make(spec, policy))
        self.size, self.turn = self.exporters[-1].data_size, 0
        stride = -(-self.size // APART) * APART
        address, memory = ctypes.c_uint64(), ctypes.c_void_p()
        with self.gpu.relaxed():  # one of each: a driver that many processes use takes long for pinned memory
            self.gpu.call("MemAlloc", ctypes.byref(address), ctypes.c_size_t(SOURCES * stride))
            self.gpu.call("MemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(SOURCES * stride), 1)
        self.sources = [(address.value + at, memory.value + at) for at in range(0, SOURCES * stride, stride)]
        return "open"

    def send(self, plain, *_):
        """Work that makes the frame is queued on a stream, and the exporter told so."""
        address, memory = self.sources[self.turn % SOURCES]
        self.turn += 1
        made = picture(self.size, int(plain[0]))
        ctypes.memmove(memory, made.ctypes.data, self.size)
        self.gpu.call("MemcpyHtoDAsync", ctypes.c_uint64(address), ctypes.c_void_p(memory), ctypes.c_size_t(self.size),
                      ctypes.c_void_p(self.stream))
        said = self.export(address, self.size)
        if self.gate_now is None:
            self.gpu.synchronize(self.stream)
        return said

    def burst(self, plain, *_):
        """Frames of the numbers from the first to the last, one right behind the other; each is full of its number."""
        first, last = map(int, plain)
        if len(self.fills) < last - first + 1 or self.fill_size != self.size:
            self.fill_size, self.fills = self.size, [self.memory(self.size) for _ in range(last - first + 1)]
        for number, address in enumerate(self.fills[:last - first + 1], first):
            self.gpu.fill(address, number % 251, self.size, self.stream)
            said = self.export(address, self.size)
            if said != "PUBLISHED":
                return said
        self.gpu.call("CtxSynchronize")  # their memory is filled anew by the next
        return "PUBLISHED"

    def memory(self, size):
        address = ctypes.c_uint64()
        with self.gpu.relaxed():
            self.gpu.call("MemAlloc", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def wrong(self, plain, *_):
        return self.export(self.sources[0][0], int(plain[0]))

    def gate(self, *_):
        """What is sent from now on is not made before `pass`."""
        self.gate_now = self.gpu.gate(self.stream)
        return "shut"

    def pass_(self, *_):
        self.gate_now.open()
        self.gpu.synchronize(self.stream)
        self.gate_now = None
        return "open"

    def stats(self, *_):
        return json.dumps(self.exporters[-1].get_stats())

    def ready(self, *_):
        return str(self.exporters[-1].is_ready())

    def close(self, *_):
        for exporter in reversed(self.exporters):
            exporter.close()
        return "closed"


def bytes_of(frame):
    """To be looked at by the CPU, or by a kernel of PyTorch's."""
    if isinstance(frame, numpy.ndarray):
        return frame.reshape(-1).view("uint8")
    import torch
    return frame.reshape(-1).view(torch.uint8)


class Import:
    def __init__(self, name):
        self.name, self.gpu = name, gpu_kit.Gpu()

    def open(self, _, spec, policy):
        policy = cuda_link.ImportPolicy(**policy) if policy else None
        try:
            self.importer = cuda_link.Importer.open(cuda_link.ImportSpec(self.name, **spec), policy=policy)
        except (OSError, RuntimeError, ValueError) as error:
            return " ".join(each.__name__ for each in type(error).__mro__)
        return "ready" if self.importer.is_ready() else "waiting"

    def get(self):
        """The outcome's name, and a frame."""
        result = self.importer.get_frame_numpy()
        return result.outcome.name, result.frame

    def take(self, plain, *_):
        """The first outcome that is not one of those named, and what a new frame holds."""
        passed, end = set(plain), time.monotonic() + 15
        while True:
            outcome, frame = self.get()
            if outcome not in passed:
                break
            if time.monotonic() > end:
                return f"nothing but {outcome}"
            time.sleep(0.002)
        if outcome != "NEW_FRAME":
            return outcome
        frame = frame if isinstance(frame, numpy.ndarray) else frame.cpu().numpy()
        found = numpy.frombuffer(frame.tobytes(), "uint8")
        whole = numpy.array_equal(found, picture(found.size, int(found[0])))
        return f"{int(found[0])} {frame.dtype} {'x'.join(map(str, frame.shape))}" if whole else "torn"

    def watch(self, plain, *_):
        """Takes frames until one of this number has come, and looks at each byte of each: how many there were."""
        wanted, taken, end = int(plain[0]) % 251, 0, time.monotonic() + 30
        while time.monotonic() < end:
            outcome, frame = self.get()
            if outcome == "NEW_FRAME":
                found = bytes_of(frame)
                value, taken = int(found[0]), taken + 1
                if not bool((found == value).all()):
                    return f"torn, of {value} and others, before {wanted}"
                if value == wanted:
                    return str(taken)
        return f"nothing but {outcome} before {wanted}"

    def stats(self, *_):
        return json.dumps(self.importer.get_stats())

    def ready(self, *_):
        return str(self.importer.is_ready())

    def close(self, *_):
        self.importer.close()
        return "closed"


class Tensors(Import):
    def get(self):
        result = self.importer.get_frame()
        return result.outcome.name, result.frame


class Publish:
    """Publishes what lies in the slots of somebody's segment, again and again, by cuda-link's own function."""

    def __init__(self, name):
        self.path = f"/dev/shm/{name}"

    def open(self, *_):
        try:
            from cuda_link import shm_protocol
        except ImportError:
            return "this cuda-link has no module for the wire"
        with open(self.path, "r+b") as file:
            self.segment = mmap.mmap(file.fileno(), 0)
        self.wire, slots = shm_protocol, int.from_bytes(self.segment[12:16], "little")
        self.layout = shm_protocol.SHMLayout(slots)
        return "open"

    def publish(self, plain, *_):
        first, last = map(int, plain)
        with memoryview(self.segment) as bytes_of_it:
            for number in range(first, last + 1):
                self.wire.publish_frame(bytes_of_it, self.layout, number, 1.0)
        return "PUBLISHED"


# ---- the classes of before 1.5 ----

VARIABLES = {"export_sync": "EXPORT_SYNC", "use_graphs": "USE_GRAPHS", "flush_probe": "EXPORT_FLUSH_PROBE",
             "export_profile": "EXPORT_PROFILE", "doorbell": "DOORBELL", "wait_spin_us": "WAIT_SPIN_US",
             "d2h_num_streams": "D2H_STREAMS", "d2h_pipelined": "D2H_PIPELINED", "wait_backend": "WAIT_BACKEND"}
WORDS = {"high_priority_stream": "LIB_STREAM_PRIO", "d2h_stream_high_priority": "D2H_STREAM_PRIO"}


def set_variables(policy):
    """What a policy's field is by environment, which these classes look at when they are made."""
    for field, value in policy.items():
        if field in VARIABLES:
            os.environ[f"CUDALINK_{VARIABLES[field]}"] = str(int(value) if isinstance(value, bool) else value)
        elif field in WORDS:
            os.environ[f"CUDALINK_{WORDS[field]}"] = "high" if value else "normal"


class ClassExport(Export):
    def make(self, spec, policy):
        set_variables(policy)
        exporter = cuda_link.CUDAIPCExporter(self.name, **spec)
        if not exporter.initialize():
            raise RuntimeError("the exporter does not start")
        return exporter

    def export(self, address, size):
        self.exporters[-1].record_source_sync(self.stream)
        return "PUBLISHED" if self.exporters[-1].export_frame(address, size) else "FAILED"

    def close(self, *_):
        for exporter in reversed(self.exporters):
            exporter.cleanup()
        return "closed"


class ClassImport(Import):
    """Such an importer ends when the producer does, and a program makes a new one; so does this, unless told not to."""

    def open(self, _, spec, policy):
        self.again, self.spec = policy.pop("reconnect_enabled", True), {**spec, "debug": policy.pop("debug", False)}
        set_variables(policy)
        self.connect()
        return "ready" if self.was_ready else "waiting"

    def connect(self):
        self.importer = cuda_link.CUDAIPCImporter(self.name, **self.spec)
        self.was_ready = self.importer.is_ready()

    def frame(self):
        return self.importer.get_frame_numpy()

    def get(self):
        if not self.importer.is_ready() and self.again:
            self.connect()
        frame = self.frame()
        if frame is not None:
            return "NEW_FRAME", frame
        if self.importer.is_ready():
            return "NO_FRAME", None
        ended, self.was_ready = self.was_ready, False
        return "SHUTDOWN" if ended else "RECONNECTING", None

    def close(self, *_):
        self.importer.cleanup()
        return "closed"


class ClassTensors(ClassImport):
    def frame(self):
        return self.importer.get_frame()


ROLES = {"export": Export, "import": Import, "tensors": Tensors, "publish": Publish,
         "class-publish": Publish, "class-export": ClassExport, "class-import": ClassImport,
         "class-tensors": ClassTensors}
