# SPDX-License-Identifier: MIT
"""Another process that uses cuda-link's interface: peer.py FOLDER ROLE ARGUMENT..., where FOLDER is what `import cuda_link`
finds: cuda-link's own package, or Sluice's stand-in for it. Commands come in, one a line, and for each an answer goes out.

Words of a command like `height=4` are keyword arguments; those that begin with `policy.` are the policy's."""
import importlib
import inspect
import itertools
import json
import logging
import os
import pathlib
import sys

sys.path[:0] = [sys.argv[1], *map(str, pathlib.Path(__file__).resolve().parents[:2])]
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # cuda-link prints which runtime it has loaded
logging.basicConfig(level=logging.INFO)
if not sys.argv[2].endswith("tensors"):  # what takes seconds to be imported, in each process, is not there
    sys.modules["torch"] = sys.modules["cupy"] = None

import cuda_link  # noqa: E402
import peer_calls  # noqa: E402


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
        if not name.startswith("_") and hasattr(kind, name):
            member = getattr(kind, name)
            found[name] = signature(member) if callable(member) else "property" if isinstance(member, property) else "value"
    return found


MODULES = ("shm_protocol", "activation_barrier", "cuda_runtime_types", "cuda_ipc_exporter", "cuda_ipc_importer", "cuda_ipc_wrapper",
           "nvml_observer")


def told(thing):
    if inspect.isclass(thing):
        return members(thing)
    return signature(thing) if callable(thing) else thing if isinstance(thing, (int, str)) else None


def interface(*more):
    """Names, signatures and defaults of the package, as JSON; of its modules what is made there, and of `more` what is only named
    there, too. Without those of its inner workings."""
    said = {}
    for name in cuda_link.__all__:
        thing = getattr(cuda_link, name)
        said[name] = None if isinstance(thing, (int, str)) else told(thing)
    for inner in MODULES:
        try:
            module = importlib.import_module(f"cuda_link.{inner}")
        except ModuleNotFoundError:
            continue
        for name, thing in vars(module).items():
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            if f"{inner}.{name}" in more or getattr(thing, "__module__", module.__name__) == module.__name__:
                said[f"{inner}.{name}"] = told(thing)
    return said


def objects():
    """One of each class that a program has, not open."""
    made = {}
    if hasattr(cuda_link, "CUDAIPCExporter"):
        made["CUDAIPCExporter"] = cuda_link.CUDAIPCExporter("nobody", 4, 6)
    made["CUDAIPCImporter"] = cuda_link.CUDAIPCImporter("nobody")
    if hasattr(cuda_link, "Exporter"):
        driver = () if cuda_link.__name__ != "cuda_link" else (None,)
        made["Exporter"] = cuda_link.Exporter(cuda_link.FrameSpec("nobody", 4, 6), cuda_link.ExportPolicy(), *driver)
        made["Importer"] = cuda_link.Importer(cuda_link.ImportSpec("nobody"), cuda_link.ImportPolicy(), *driver)
    return made


def inside(*names):
    """The names of what they have inside, as JSON; or, of `CLASS.NAME`s, what is said where there is no such."""
    made = objects()
    if not names:
        return [f"{kind}.{name}" for kind, thing in made.items() for name in vars(thing) if not name.startswith("_")]
    said = {}
    for each in names:
        kind, _, name = each.partition(".")
        try:
            said[each] = repr(getattr(made[kind], name))
        except AttributeError as error:
            said[each] = f"AttributeError: {error}"
    return said


def wire():
    """The bytes and numbers of the wire, as JSON."""
    from cuda_link.importer import Format
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
        kind, bits, flags = DtypeCodec.encode(dtype)
        formats = Format.from_overrides((3, 5, 2), dtype), Format.from_metadata(Metadata(5, 3, 2, kind, bits, flags | 2, 30 * bits // 8))
        said[f"formats {dtype}"] = [{name: str(value) for name, value in vars(each).items()} for each in formats]
    for triple in itertools.product(range(4), (8, 16, 32, 64), range(8)):
        try:
            said[f"decoded {triple}"] = DtypeCodec.decode(*triple)
        except ValueError:
            said[f"decoded {triple}"] = "refused"
    return said


def main(role, *arguments):
    if role in ("interface", "wire", "inside"):
        say(json.dumps(globals()[role](*arguments)))
        return
    peer = peer_calls.ROLES[role](*arguments)
    say("here")
    for line in sys.stdin:
        command, plain, spec, policy = words(line)
        say(getattr(peer, "pass_" if command == "pass" else command)(plain, spec, policy))


main(*sys.argv[2:])
