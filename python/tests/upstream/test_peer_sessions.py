# SPDX-License-Identifier: MIT
"""Beginnings and ends between cuda-link and Sluice's stand-in for it: who comes first, shutdown, restart, deaths, barriers."""
import json
import os
import subprocess
import sys
import time

import pytest

from conftest import Two, ask, has_classes

WAITING = "NO_FRAME RECONNECTING SHUTDOWN"


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_the_importer_comes_first(two):
    assert two.connect() == "waiting"
    assert ask(two.importer, "take") == "RECONNECTING"
    two.export("height=32 width=16 dtype=uint16")
    two.send(9)
    assert two.take() == "9 uint16 32x16x4"


def test_nobody_is_there(peers, kind):
    said = ask(peers.start(kind, "import"), "open policy.reconnect_enabled=false").split()
    assert said == ["waiting"] if has_classes(kind) else "FileNotFoundError" in said


def test_shutdown_is_said_once(two, segment):
    two.export("height=32 width=32")
    assert two.connect() == "ready"
    two.send(1)
    assert two.take() == "1 uint8 32x32x4"
    assert ask(two.exporter, "close") == "closed"
    assert not segment.exists()
    assert two.take() == "SHUTDOWN"
    assert ask(two.importer, "ready") == "False"
    assert ask(two.importer, "take") == "RECONNECTING"
    two.export("height=8 width=8 dtype=float32 num_slots=5")  # other everything
    two.send(2)
    assert two.take() == "2 float32 8x8x4"
    assert json.loads(ask(two.importer, "stats"))["num_slots"] == 5


def test_without_reconnecting_shutdown_is_the_end(two):
    two.export("height=32 width=32")
    assert two.connect("policy.reconnect_enabled=false") == "ready"
    two.send(1)
    assert two.take() == "1 uint8 32x32x4"
    ask(two.exporter, "close")
    assert two.take() == "SHUTDOWN"
    two.export("height=32 width=32")
    two.send(2)
    assert ask(two.importer, "take") == "RECONNECTING" and ask(two.importer, "ready") == "False"


@pytest.mark.parametrize("slots", (2, 3, 5))
def test_restarts_one_after_another(two, slots):
    if os.name == "nt" and two.pair == ("cuda-link", "cuda-link"):
        pytest.skip("in a section that stays cuda-link's importer takes a session's first frame for one that it has had")
    two.export("height=16 width=16 num_slots=3")
    assert two.connect() == "ready"
    for turn in range(1, 4):
        two.send(turn)
        assert two.take(WAITING) == f"{turn} uint8 {16 * turn}x16x4"
        ask(two.exporter, "close")
        two.export(f"height={16 * (turn + 1)} width=16 num_slots={slots}")


def test_a_session_over_a_living_one(peers, pair):
    """A program that was killed and started anew opens the segment that is there: the version goes up, and the flag never rose."""
    if pair[0].startswith("sluice"):
        pytest.skip("of two Sluice writers that live the second is refused")
    two = Two(peers, pair)
    two.export("height=32 width=32 num_slots=3")
    assert two.connect() == "ready"
    two.send(1)
    assert two.take() == "1 uint8 32x32x4"
    two.export("height=16 width=64 num_slots=3 dtype=uint16")
    if has_classes(pair[1]):
        assert ask(two.importer, "take") == "NO_FRAME"  # such an importer opens the new session within a call
    else:
        assert ask(two.importer, "take NO_FRAME") == "RECONNECTING"
    two.send(2)
    if pair[1] == "cuda-link":  # it takes the first frame for the one that it has had
        assert ask(two.importer, "take") == "NO_FRAME"
        two.send(2)
    assert two.take() == "2 uint16 16x64x4"


def test_the_exporter_is_killed(peers, pair, segment):
    if pair == ("cuda-link", "cuda-link"):
        pytest.skip("cuda-link's importer stays with the segment of the dead one")
    two = Two(peers, pair)
    two.export("height=32 width=32 num_slots=3")
    assert two.connect() == "ready"
    for turn in range(1, 4):
        two.send(turn)
        assert two.take(WAITING) == f"{turn} uint8 {32 * turn}x32x4"
        two.exporter.kill()
        if pair[0] == "cuda-link":
            wait_until(lambda: not segment.exists())  # Python's resource tracker takes the name away
        two.exporter = None
        two.export(f"height={32 * (turn + 1)} width=32 num_slots={2 + turn % 2 if pair[0] == 'cuda-link' else 3}")


@pytest.mark.parametrize("end", ("close", "kill"))
def test_an_importer_that_ends_takes_no_channel_away(peers, end, segment):
    """Python takes a segment's name away when a process ends that had only attached to it."""
    if os.name == "nt":
        pytest.skip("Python has no resource tracker on Windows")
    two = Two(peers, ("sluice", "cuda-link"))
    two.export("height=32 width=32")
    for turn in range(1, 4):
        assert two.connect() == "ready"
        two.send(turn)
        assert two.take() == f"{turn} uint8 32x32x4"
        before = segment.stat().st_ino
        if end == "kill":
            two.importer.kill()
        else:
            two.importer.process.stdin.close()
            two.importer.wait()

        def is_back():
            two.send(turn)
            return segment.exists()

        time.sleep(0.6)  # the name is taken away some time after the end
        wait_until(is_back)
        assert segment.stat().st_ino == before


def test_killed_importers_leave_the_exporter_alone(two):
    two.export("height=64 width=64")
    for turn in range(1, 4):
        assert two.connect() in ("ready", "waiting")
        two.send(turn)
        assert two.take(WAITING) == f"{turn} uint8 64x64x4"
        if two.pair[0] == "cuda-link" and os.name != "nt":
            break  # its segment's name goes with the importer
        two.importer.kill()
    for number in range(20, 30):
        two.send(number)


def own_names(command):
    """In a mount namespace of its own, with a /dev/shm of its own: the barrier's name is the machine's. On Windows it goes with the
    process."""
    if os.name == "nt":
        return command
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh", *command]


@pytest.mark.parametrize("holder", ("cuda-link", "sluice"))
def test_a_barrier(folders, kind, holder):
    """All in one program, which has a /dev/shm of its own."""
    code = f"""
import os, sys, importlib, time
def load(folder):
    for name in [each for each in sys.modules if each.partition('.')[0] == 'cuda_link']:
        del sys.modules[name]
    sys.path.insert(0, folder)
    try:
        return importlib.import_module('cuda_link'), importlib.import_module('cuda_link.activation_barrier')
    finally:
        sys.path.remove(folder)
folders = {dict((kind, str(path)) for kind, path in folders.items())!r}
_, barrier = load(folders[{holder!r}])
link, _ = load(folders[{kind!r}])
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))!r})
import ctypes, gpu_kit
gpu = gpu_kit.Gpu()
stream, address = gpu.stream(), ctypes.c_uint64()
gpu.call("MemAlloc", ctypes.byref(address), ctypes.c_size_t(1024))
if {has_classes(kind)}:
    os.environ["CUDALINK_BARRIER_STALE_NS"] = str(3 * 10**9)
    exporter = link.CUDAIPCExporter("barred", 16, 16)
    exporter.initialize()
    exporter.record_source_sync(stream)
else:
    exporter = link.Exporter.open(link.FrameSpec("barred", 16, 16), policy=link.ExportPolicy(barrier_stale_ns=3 * 10**9))
def send():
    if {has_classes(kind)}:
        return "PUBLISHED" if exporter.export_frame(address.value, 1024) else "SKIPPED_BARRIER"
    return exporter.export(link.GpuFrame(address.value, 1024, stream)).name
said = [send()]
segment = barrier.open_or_create(create=True)
said.append(barrier.increment(segment, os.getpid()))
time.sleep(0.5)  # Sluice does not look for one at every frame
said += [send(), send(), exporter.write_idx, barrier.read_state(segment)[2]]
said.append(barrier.decrement(segment, os.getpid()))
said += [send(), exporter.write_idx]
barrier.increment(segment, os.getpid())
said.append(send())
time.sleep(3.2)  # its holder seems dead
said += [send(), exporter.write_idx]
exporter.cleanup() if {has_classes(kind)} else exporter.close()
segment.close()
os.name == "nt" or os.unlink("/dev/shm/cudalink_activation_barrier")
print(said, file=sys.stderr)
"""
    done = subprocess.run(own_names([sys.executable, "-c", code]), capture_output=True, text=True, timeout=500)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this user may not have a /dev/shm of its own")
    expected = ["PUBLISHED", 1, "SKIPPED_BARRIER", "SKIPPED_BARRIER", 1, 2, 0, "PUBLISHED", 2, "SKIPPED_BARRIER", "PUBLISHED", 3]
    assert str(expected) in done.stderr, done.stderr
