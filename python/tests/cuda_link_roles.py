# SPDX-License-Identifier: MIT
"""Programs of cuda-link's, for tests: cuda_link_roles.py ROLE ARGUMENT... They obey lines, and answer each by one of JSON.

SLUICE_CUDA_LINK names the folder of cuda-link's own package: a role that begins with "theirs:" is that, any other is
Sluice's. There PyTorch and CuPy are stand-ins, which are there at once; tests/gpu has the real ones.
By `rest` a program puts away what it has, by `become [FOLDER OF CHANNELS, ROLE, ARGUMENT...]` the process is another one.
"""
import ctypes
import dataclasses
import gc
import json
import os
import sys
import threading
import time

import gpu_kit
from eventually import SECONDS

gpu_kit.find()
GPU = gpu_kit.Gpu()
ROLE = sys.argv[1].removeprefix("theirs:")
if ROLE != sys.argv[1]:
    sys.path.insert(0, os.environ["SLUICE_CUDA_LINK"])
    import cuda_link
else:
    import stand_ins
    stand_ins.install()
    import sluice.cuda_link as cuda_link
    from sluice.cuda_link import activation_barrier


def policy_of(kind, text):
    """A preset's name, and what to change in it: for_testing+{"doorbell":true}"""
    preset, _, changes = text.partition("+")
    return dataclasses.replace(getattr(kind, preset)(), **json.loads(changes or "{}"))


class Source:
    """Memory that a program renders into."""

    def __init__(self, size):
        self.cuda, self.size = cuda_link.get_cuda_runtime(), size
        self.pointer = self.cuda.malloc(size)
        self.stream = GPU.stream()

    def fill(self, value, stream=None):
        GPU.fill(self.pointer.value, value, self.size, self.stream if stream is None else stream)
        if stream is None:
            GPU.synchronize(self.stream)


def plain(thing):
    """Of something that is inside of cuda-link's objects what can be told."""
    if isinstance(thing, list):
        return [plain(each) for each in thing]
    if hasattr(thing, "buf"):
        return {"name": thing.name, "bytes": bytes(thing.buf).hex(), "size": thing.size}
    if isinstance(thing, ctypes.Structure):
        return bytes(thing).hex()
    if isinstance(thing, cuda_link.CUDARuntimeAPI):
        return {"device": thing.get_device()}
    return look(thing) if hasattr(thing, "shape") else getattr(thing, "value", thing)


class OnGpu:
    source = None

    def rest(self):
        GPU.open_gates()
        self.close()
        GPU.clear()
        if self.source:
            self.source.cuda.free(self.source.pointer)

    def inside(self, *names):
        """Attributes, by name; of one that is not there, what the error says."""
        told = {}
        for name in names:
            try:
                told[name] = plain(getattr(getattr(self, "importer", None) or self.exporter, name))
            except AttributeError as error:
                told[name] = f"AttributeError: {error}"
        return told

    def settled(self):
        """What was under way on the GPU has ended."""
        GPU.call("CtxSynchronize")
        return "settled"


class Exporting(OnGpu):
    """export NAME HEIGHT WIDTH CHANNELS DTYPE SLOTS"""

    def __init__(self, name, height, width, channels, dtype, slots, policy="from_env"):
        spec = cuda_link.FrameSpec(name, int(height), int(width), int(channels), dtype, int(slots))
        self.exporter = cuda_link.Exporter.open(spec, policy=policy_of(cuda_link.ExportPolicy, policy))
        self.source = Source(self.exporter.data_size)

    def export(self, value, how="done", size=None):
        """A frame full of `value`, which is "done", or made by work that is "queued", maybe behind a "gate", or on a stream
        that is "recorded"; with "none" nothing is made, nor said."""
        if how == "gate":
            GPU.gate(self.source.stream)
        stream = None if how in ("done", "none") else self.source.stream
        if how != "none":
            self.source.fill(int(value), stream)
        if how == "done":
            stream = 0
        if how == "recorded":
            self.exporter.record_source_sync(stream)
            stream = None
        frame = cuda_link.GpuFrame(self.source.pointer.value, int(size or self.source.size), stream)
        return self.exporter.export(frame).name

    def source_done(self, value):
        """A frame that is made, and the CPU has seen so."""
        self.source.fill(int(value))
        return "done"

    def shut_gate(self):
        """Work on the program's stream stands still from now on."""
        GPU.gate(self.source.stream)
        return "shut"

    def open_later(self, seconds):
        time.sleep(float(seconds))
        return self.open()

    def refill(self, value):
        """Queues other work on the same stream, as a program does that uses its memory again."""
        self.source.fill(int(value), self.source.stream)
        return "filled"

    def open(self):
        GPU.open_gates()
        return "open"

    def captured(self, which="source"):
        """Exports while the program's stream captures a graph, or another one does; with a "blocking" one nothing may use the
        default stream."""
        stream = self.source.stream if which == "source" else GPU.stream(which == "blocking")
        frame = cuda_link.GpuFrame(self.source.pointer.value, self.source.size, 0 if which == "blocking" else self.source.stream)
        with GPU.capture(stream) as graph:
            outcome = self.exporter.export(frame)
        return {"outcome": outcome.name, "nodes": graph.nodes()}

    def flood(self, seconds, pause=0):
        """Frames as fast as possible, each of one value."""
        end, value = time.monotonic() + float(seconds), 0
        while time.monotonic() < end:
            value = value % 250 + 1
            self.export(value, "queued")
            if value % 10 == 0:
                GPU.synchronize(self.source.stream)  # what is queued is not without end
            time.sleep(float(pause))
        return value

    def hold_barrier(self, change):
        segment = self.barrier = activation_barrier.open_or_create(create=True)  # kept: on Windows it goes with its last user
        count = activation_barrier.increment(segment, 1) if change == "up" else activation_barrier.decrement(segment, 1)
        return {"count": count, "skips": activation_barrier.read_state(segment)[2]}

    def from_host(self):
        """Host memory, and an invalid address."""
        return self.exporter.export(cuda_link.GpuFrame(0x1000, self.source.size, 0)).name

    def stats(self):
        return self.exporter.get_stats()

    def close(self):
        self.exporter.close()
        self.exporter.close()
        return "closed"


class Exporting11(Exporting):
    """By the class of cuda-link 1.1."""

    def __init__(self, name, height, width, channels, dtype, slots):
        self.exporter = cuda_link.CUDAIPCExporter(shm_name=name, height=int(height), width=int(width),
                                                  channels=int(channels), dtype=dtype, num_slots=int(slots))
        assert self.exporter.initialize() and self.exporter.initialize()
        self.source = Source(self.exporter.data_size)

    def export(self, value, how="done", size=None):
        self.source.fill(int(value), self.source.stream if how == "recorded" else None)
        if how == "recorded":
            self.exporter.record_source_sync(self.source.stream)
        return self.exporter.export_frame(gpu_ptr=self.source.pointer.value, size=int(size or self.source.size))

    def reuse(self, value, how):
        """Exports, and makes another frame in the same memory at once: on the stream that was "recorded"; or, if it was "guessed"
        from PyTorch's current one, on another, as no stream was named. Work stands still there for a moment. Says whether the
        export lasted until it went on."""
        self.source.fill(int(value))
        went_on, stream = threading.Event(), GPU.stream()
        GPU.gate(stream)
        timer = threading.Timer(0.5, lambda: (went_on.set(), GPU.open_gates()))
        timer.start()
        if how == "recorded":
            self.exporter.record_source_sync(stream)
        else:
            sys.modules["torch"].stream = stream
        assert self.exporter.export_frame(self.source.pointer.value, self.source.size) is True
        waited = went_on.is_set()
        self.source.fill(int(value) + 1, stream if how == "recorded" else None)
        timer.join()
        return waited

    def close(self):
        self.exporter.cleanup()
        self.exporter.cleanup()
        return "closed"


class Importing(OnGpu):
    """import NAME POLICY TIMEOUT_MS"""

    def __init__(self, name, policy="from_env", timeout_ms=5000, shape=None, dtype=None):
        spec = cuda_link.ImportSpec(name, timeout_ms=float(timeout_ms), shape=tuple(json.loads(shape)) if shape else None,
                                    dtype=dtype)
        self.importer = cuda_link.Importer.open(spec, policy=policy_of(cuda_link.ImportPolicy, policy))
        self.stream = GPU.stream()
        self.last = None

    looks = True

    def told(self, result):
        told = {"outcome": result.outcome.name}
        if result.frame is not None:
            self.last = result.frame
            if self.looks:
                told.update(self.looked())
        return told

    def begin(self, method, *arguments):
        """Calls it until there is a frame, and does not look at that."""
        self.looks = False
        told = self.until(method, "NEW_FRAME", *arguments)
        self.looks = True
        return told

    def looked(self):
        """What is in the frame of the last call once its stream has come so far."""
        GPU.synchronize(self.stream)
        GPU.synchronize(0)
        return look(self.last)

    def late(self, method):
        """Calls it once, as soon as another frame was published; it may not be ready."""
        while self.importer._info()["index"] == self.importer.frame_count:
            time.sleep(0.001)
        return getattr(self, method)()

    def fresh(self):
        """The first answer of get_frame_numpy() that is of a new frame: a frame, or NO_FRAME where that is begun."""
        count = self.importer.frame_count
        while self.importer.frame_count == count:
            told = self.numpy()
        return told

    def get(self, stream=None):
        stream = {"own": self.stream, None: None}.get(stream, stream)
        return self.told(self.importer.get_frame(stream=stream))

    def cupy(self, stream=None):
        return self.told(self.importer.get_frame_cupy(stream=self.stream if stream == "own" else None))

    def cupy_on(self, stream):
        return self.told(self.importer.get_frame_cupy(stream=stream))

    def numpy(self):
        return self.told(self.importer.get_frame_numpy())

    def until(self, method, outcome="NEW_FRAME", *arguments):
        """Calls it until it says so; gives that, and what was said before."""
        before, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end:
            told = getattr(self, method)(*arguments)
            if told["outcome"] == outcome:
                return {**told, "before": before}
            if told["outcome"] not in before[-1:]:
                before.append(told["outcome"])
            time.sleep(0.001)
        return {"outcome": "never", "before": before}

    def captured(self, method, which="another"):
        """Calls it while another stream, and so this thread, captures a graph in the strictest mode."""
        self.looks = False
        stream = GPU.stream(which == "blocking")
        if which == "current":  # the frameworks work on the stream that captures
            sys.modules["torch"].stream = sys.modules["cupy"].current.ptr = stream
        with GPU.capture(stream) as graph:
            told = self.until(method)
        self.looks = True
        return {**told, **self.looked(), "nodes": graph.nodes()}

    def speed(self, count):
        """Mean microseconds of a call that finds nothing."""
        began = time.perf_counter()
        for _ in range(int(count)):
            self.importer.get_frame()
        return (time.perf_counter() - began) / int(count) * 1e6

    def whole(self):
        """Copies, until there were some of each kind: how many were given, were not of one value, and were tried again."""
        end, frames, torn, again = time.monotonic() + SECONDS, 0, 0, 0
        while time.monotonic() < end and (frames < 100 or not again):
            frame = self.importer.get_frame_numpy().frame
            if frame is not None:
                frames, torn = frames + 1, torn + int((frame != frame.flat[0]).any())
            again = self.importer.get_stats()["overruns"]
        return {"frames": frames, "torn": torn, "overruns": again}

    def again(self):
        """The frame of the last call, looked at once more."""
        return look(self.last)

    def doorbell(self, timeout_ms):
        began = time.monotonic()
        rang = self.importer.wait_for_doorbell(float(timeout_ms))
        return {"rang": rang, "seconds": time.monotonic() - began}

    def retry(self):
        self.importer.request_immediate_reconnect()
        return "asked"

    def stats(self):
        return {**self.importer.get_stats(), "last_latency": self.importer.last_latency, "ready": self.importer.is_ready()}

    def close(self):
        self.importer.close()
        self.importer.close()
        return "closed"


class Importing11(Importing):
    """By the class of cuda-link 1.1."""

    def __init__(self, name, timeout_ms=5000):
        self.importer = cuda_link.CUDAIPCImporter(shm_name=name, timeout_ms=float(timeout_ms))
        self.stream = GPU.stream()

    def told(self, frame):
        self.last = frame
        return {"outcome": "NO_FRAME"} if frame is None else {"outcome": "NEW_FRAME", **look(frame)}

    def stats(self):
        importer = self.importer
        names = ("shape", "dtype", "frame_count", "num_slots", "last_latency")
        return {"ready": importer.is_ready(), **{name: getattr(importer, name) for name in names}}

    def close(self):
        self.importer.cleanup()
        self.importer.cleanup()
        return "closed"


def look(array):
    """What is in it: a byte, and whether all are alike; which object it is, and where it lies."""
    if hasattr(array, "ctypes"):
        data, address = array.tobytes(), array.ctypes.data
    else:
        data, address = GPU.read(array.data, array.nbytes), array.data
    return {"value": data[0], "whole": data == data[:1] * len(data), "id": id(array), "address": address,
            "shape": list(array.shape), "dtype": str(array.dtype), "kind": type(array).__module__.partition(".")[0]}


ROLES = {"export": Exporting, "export11": Exporting11, "import": Importing, "import11": Importing11}
role = None


def become(kind, name, *arguments):
    global role
    if "stand_ins" in sys.modules:
        activation_barrier.SHM_NAME = f"{name}-barrier"  # the machine's own is everybody's
        sys.modules["torch"].stream = sys.modules["cupy"].current.ptr = 0
    role = ROLES[kind](name, *arguments)
    return "ready"


def obey(name, line):
    global role
    if name == "become":
        os.environ["SLUICE_DIR"], *arguments = json.loads(line)
        return become(*arguments)
    if name == "rest":
        role.rest()
        role = None
        gc.collect()
        return "resting"
    return getattr(role, name)(*line.split())


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # cuda-link's own package prints there, too
    print(json.dumps(become(ROLE, *sys.argv[2:])), file=answers, flush=True)
    for line in sys.stdin:
        name, _, line = line.strip().partition(" ")
        try:
            answer = obey(name, line)
        except Exception as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer, default=str), file=answers, flush=True)
    os._exit(0)  # whatever hangs


if __name__ == "__main__":
    main()
