# SPDX-License-Identifier: MIT
"""Another process that uses cuda-link's interface: peer.py FOLDER ROLE ARGUMENT..., where FOLDER is what `import cuda_link`
finds: cuda-link's own package, or Sluice's stand-in for it. Commands come in, one a line, and for each an answer goes out.

Words of a command like `height=4` are keyword arguments; those that begin with `policy.` are the policy's."""
import ctypes
import inspect
import itertools
import json
import logging
import os
import pathlib
import sys
import time

sys.path[:0] = [sys.argv[1], *map(str, pathlib.Path(__file__).resolve().parents[:2])]
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # cuda-link prints which runtime it has loaded
logging.basicConfig(level=logging.INFO)
if sys.argv[2] != "tensors":  # what takes seconds to be imported, in each process, is not there
    sys.modules["torch"] = sys.modules["cupy"] = None

import numpy  # noqa: E402

import cuda_link  # noqa: E402
import gpu_kit  # noqa: E402
from cuda_link import ExportPolicy, Exporter, FrameSpec, GpuFrame, Importer, ImportOutcome, ImportPolicy, ImportSpec  # noqa: E402
from peer_picture import picture  # noqa: E402

SOURCES = 12  # a frame's source must stay while it is copied


def say(text):
    print(text, file=answers)


def words(text):
    """The command, what follows, keyword arguments, and those of the policy."""
    first, *rest = text.split()
    plain, spec, policy = [], {}, {}
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals:
            plain.append(word)
            continue
        made = json.loads(value) if value[0] in "-0123456789tf[" and value != "float32" and value != "float16" else value
        (policy if key.startswith("policy.") else spec)[key.removeprefix("policy.")] = tuple(made) if isinstance(made, list) else made
    return first, plain, spec, policy


class Export:
    def __init__(self, name):
        self.name, self.gpu, self.exporters, self.gate_now = name, gpu_kit.Gpu(), [], None
        self.stream = self.gpu.stream()

    def open(self, _, spec, policy):
        """A second `open` without a `close` begins a session over the first one's, as a program that was started anew does."""
        policy = ExportPolicy(**policy) if policy else None
        self.exporters.append(Exporter.open(FrameSpec(self.name, **spec), policy=policy))
        self.size, self.turn, self.sources = self.exporters[-1].data_size, 0, []
        for _ in range(SOURCES):
            address, memory = ctypes.c_uint64(), ctypes.c_void_p()
            with self.gpu.relaxed():
                self.gpu.call("MemAlloc", ctypes.byref(address), ctypes.c_size_t(self.size))
                self.gpu.call("MemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(self.size), 1)
            self.sources.append((address.value, memory.value))
        return "open"

    def send(self, plain, *_):
        """Work that makes the frame is queued on a stream, and the exporter told so."""
        address, memory = self.sources[self.turn % SOURCES]
        self.turn += 1
        made = picture(self.size, int(plain[0]))
        ctypes.memmove(memory, made.ctypes.data, self.size)
        self.gpu.call("MemcpyHtoDAsync", ctypes.c_uint64(address), ctypes.c_void_p(memory), ctypes.c_size_t(self.size),
                      ctypes.c_void_p(self.stream))
        said = self.exporters[-1].export(GpuFrame(address, self.size, self.stream)).name
        if self.gate_now is None:
            self.gpu.synchronize(self.stream)
        return said

    def wrong(self, plain, *_):
        return self.exporters[-1].export(GpuFrame(self.sources[0][0], int(plain[0]), self.stream)).name

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


class Import:
    def __init__(self, name):
        self.name, self.gpu = name, gpu_kit.Gpu()

    def open(self, _, spec, policy):
        policy = ImportPolicy(**policy) if policy else None
        try:
            self.importer = Importer.open(ImportSpec(self.name, **spec), policy=policy)
        except (OSError, RuntimeError, ValueError) as error:
            return " ".join(each.__name__ for each in type(error).__mro__)
        return "ready" if self.importer.is_ready() else "waiting"

    def get(self):
        return self.importer.get_frame_numpy()

    def take(self, plain, *_):
        """The first outcome that is not one of those named, and what a new frame holds."""
        passed, end = set(plain), time.monotonic() + 15
        while True:
            result = self.get()
            outcome = result.outcome.name
            if outcome not in passed:
                break
            if time.monotonic() > end:
                return f"nothing but {outcome}"
            time.sleep(0.002)
        if result.outcome is not ImportOutcome.NEW_FRAME:
            return outcome
        frame = result.frame if isinstance(result.frame, numpy.ndarray) else result.frame.cpu().numpy()
        found = numpy.frombuffer(frame.tobytes(), "uint8")
        whole = numpy.array_equal(found, picture(found.size, int(found[0])))
        return f"{int(found[0])} {frame.dtype} {'x'.join(map(str, frame.shape))}" if whole else "torn"

    def stats(self, *_):
        return json.dumps(self.importer.get_stats())

    def ready(self, *_):
        return str(self.importer.is_ready())

    def close(self, *_):
        self.importer.close()
        return "closed"


class Tensors(Import):
    def get(self):
        return self.importer.get_frame()


def signature(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[each.name if each.kind != each.VAR_KEYWORD else "**", each.kind.name,
             repr(int(each.default) if isinstance(each.default, int) else each.default)]
            for each in parameters if not each.name.startswith("_") and each.name != "self"]


def members(kind):
    """What a class offers: methods with their parameters, enum members, properties."""
    if issubclass(kind, __import__("enum").Enum):
        return {each.name: each.value for each in kind}
    found = {"(itself)": signature(kind)}
    for name in dir(kind):
        if not name.startswith("_"):
            member = getattr(kind, name)
            found[name] = signature(member) if callable(member) else "property" if isinstance(member, property) else "value"
    return found


def interface():
    """Names, signatures and defaults of the package, as JSON; without those of its inner workings."""
    from cuda_link import activation_barrier, cuda_runtime_types, shm_protocol
    said = {}
    for name in cuda_link.__all__:
        thing = getattr(cuda_link, name)
        said[name] = members(thing) if inspect.isclass(thing) else signature(thing) if callable(thing) else None
    for module in (shm_protocol, activation_barrier, cuda_runtime_types):
        inner = module.__name__.rpartition(".")[2]
        for name, thing in vars(module).items():
            if name.startswith("_") or inspect.ismodule(thing) or getattr(thing, "__module__", module.__name__) != module.__name__:
                continue
            said[f"{inner}.{name}"] = (members(thing) if inspect.isclass(thing) else signature(thing) if callable(thing)
                                       else thing if isinstance(thing, (int, str)) else None)
    return said


def wire():
    """The bytes and numbers of the wire, as JSON."""
    from cuda_link.shm_protocol import DtypeCodec, Metadata, SHMLayout, acquire_slot, bump_version, publish_frame, set_shutdown
    said = {}
    for slots in range(1, 11):
        layout = SHMLayout(slots)
        buffer = layout.build_buffer(version=7, write_idx=3)
        said[f"layout {slots}"] = [layout.total_size, layout.shutdown_offset, layout.metadata_offset, layout.timestamp_offset,
                                   [layout.slot_offset(slot) for slot in range(slots)]]
        Metadata(1920, 1080, 4, 1, 8, 4, 1920 * 1080 * 4).pack_into(buffer, layout)
        publish_frame(buffer, layout, 4, 123.5)
        said[f"bytes {slots}"] = bytes(buffer).hex()
        said[f"acquire {slots}"] = [[str(each) for each in tuple(acquire_slot(buffer, layout, *last))]
                                    for last in ((3, 7), (4, 7), (0, 6), (0, 0))]
        set_shutdown(buffer, layout)
        said[f"shut {slots}"] = [str(acquire_slot(buffer, layout, 0, 7).state), bump_version(buffer), bytes(buffer).hex()]
    for dtype in DtypeCodec.supported():
        said[dtype] = [DtypeCodec.encode(dtype), DtypeCodec.itemsize(dtype), DtypeCodec.typestr(dtype), DtypeCodec.numpy_name(dtype),
                       DtypeCodec.cupy_name(dtype)]
    for triple in itertools.product(range(4), (8, 16, 32, 64), range(8)):
        try:
            said[f"decoded {triple}"] = DtypeCodec.decode(*triple)
        except ValueError:
            said[f"decoded {triple}"] = "refused"
    return said


def main(role, *arguments):
    if role in ("interface", "wire"):
        say(json.dumps(globals()[role]()))
        return
    peer = {"export": Export, "import": Import, "tensors": Tensors}[role](*arguments)
    say("here")
    for line in sys.stdin:
        command, plain, spec, policy = words(line)
        say(getattr(peer, "pass_" if command == "pass" else command)(plain, spec, policy))


main(*sys.argv[2:])
