# SPDX-License-Identifier: MIT
"""The Python package in CPython for Windows, on the fake driver: what tests/win32/run runs under Wine. Prints TAP.

usage: package.py ROLES        ROLES: python/tests/cuda_link_roles.py
"""
import json
import os
import subprocess
import sys
import traceback

from role import Role

import sluice

ROLES = sys.argv[1]
SHAPE = (4, 6, 4)


def frame(value):
    return memoryview(bytes([value]) * (SHAPE[0] * SHAPE[1] * SHAPE[2])).cast("B", SHAPE)


def value_of(reader, timeout=60):
    """The byte that the next frame is full of."""
    target = memoryview(bytearray(SHAPE[0] * SHAPE[1] * SHAPE[2])).cast("B", SHAPE)
    with reader.next(timeout) as taken:
        taken.copy_to(target)
    data = target.tobytes()
    assert data == data[:1] * len(data), data
    return data[0]


def name_of(test):
    return f"sluice test {os.getpid()} {test}"


def imports():
    assert sluice.__version__ and os.path.splitext(sluice._sluice.__file__)[1] == ".pyd"
    import sluice.cuda_link as cuda_link
    assert cuda_link.Exporter and cuda_link.Importer


def native_name():
    try:
        sluice.Reader("camera")
    except sluice.UnsupportedError as error:
        assert "cipd:NAME" in str(error), error
    else:
        raise AssertionError("a reader of Sluice's own channel")


def within_the_api():
    """A writer here, a reader in another process; then the other way round."""
    name = f"cipd:{name_of('api')}"
    with sluice.Writer(name, shape=SHAPE, device="cuda:0") as writer:
        other = Role(__file__, ROLES, "read", name)
        for value in (1, 2, 3):
            writer.send(frame(value))
            assert other.ask("take") == value
        other.end()
    other = Role(__file__, ROLES, "write", name)
    other.ask(7)
    with sluice.Reader(name, device="cuda:0") as reader:
        assert value_of(reader) == 7
        other.ask(8)
        assert value_of(reader) == 8
        other.kill()
        other = Role(__file__, ROLES, "write", name)
        other.ask(9)
        while True:
            try:
                assert value_of(reader) == 9
                break
            except (sluice.Closed, sluice.NoWriter):
                continue
        other.end()


def drop_in():
    """sluice.cuda_link in another process; Sluice here."""
    name = name_of("link")
    exporter = Role(ROLES, "export", name, *map(str, SHAPE), "uint8", "3", "for_testing")
    with sluice.Reader(f"cipd:{name}", device="cuda:0") as reader:
        for value in (5, 6):
            assert exporter.ask("export", value) == "PUBLISHED"
            assert value_of(reader) == value
    exporter.ask("close")
    exporter.end()


def drop_in_reads():
    name = name_of("back")
    with sluice.Writer(f"cipd:{name}", shape=SHAPE, device="cuda:0") as writer:
        importer = Role(ROLES, "import", name, "for_testing")
        for value in (3, 4):
            writer.send(frame(value))
            told = importer.ask("until", "get")
            assert (told["outcome"], told["value"], told["whole"]) == ("NEW_FRAME", value, True), told
        importer.ask("close")
        importer.end()


def stands_in():
    """The folder by which `import cuda_link` is Sluice's, as in PYTHONPATH."""
    code = """import os, sys, sluice
sys.path.insert(0, os.path.join(os.path.dirname(sluice.__file__), "cuda_link", "stand_in"))
import cuda_link
print(cuda_link.Exporter.__module__)"""
    said = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert said.stdout.strip().startswith("sluice."), said


def runs_unchanged():
    """python -m sluice.cuda_link PROGRAM: `import cuda_link` is Sluice's there."""
    code = "import cuda_link; print(cuda_link.Exporter.__module__)"
    path = os.path.join(os.environ["TEMP"], f"sluice {os.getpid()}.py")
    with open(path, "w") as file:
        file.write(code)
    said = subprocess.run([sys.executable, "-m", "sluice.cuda_link", path], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    os.unlink(path)
    assert said.stdout.strip().startswith("sluice."), said


def read(name):
    with sluice.Reader(name, device="cuda:0") as reader:
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            print(json.dumps(value_of(reader)), flush=True)


def write(name):
    with sluice.Writer(name, shape=SHAPE, device="cuda:0") as writer:
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            writer.send(frame(int(line)))
            print(json.dumps("sent"), flush=True)


def main():
    tests = [imports, native_name, within_the_api, drop_in, drop_in_reads, stands_in, runs_unchanged]
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        title = test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {number} - {title}", flush=True)
        except Exception:
            print(f"not ok {number} - {title}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    os._exit(0)


if len(sys.argv) > 2:
    {"read": read, "write": write}[sys.argv[2]](sys.argv[3])
else:
    main()
