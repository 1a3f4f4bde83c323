# SPDX-License-Identifier: MIT
"""Other threads run while a channel ends, whose GPU is waited for: by close(), and by the last reference. And while a
reader goes over to another session."""
import contextlib
import ctypes
import os
import pathlib
import threading
import time

import pytest

import sluice
import sluice.cuda_link as cuda_link
from dl import take

NAME = f"sluice-test-{os.getpid()}-gil"
SHAPE = (4, 6, 4)


@contextlib.contextmanager
def longest_pause():
    """Gives a list of one: how long another thread stood still, at most."""
    over, longest = threading.Event(), [0.0]

    def tick():
        last = time.monotonic()
        while not over.is_set():
            time.sleep(0.002)
            longest[0] = max(longest[0], time.monotonic() - last)
            last = time.monotonic()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield longest
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def others_run():
    """What is done takes a while, and another thread does not stand still for half of it."""
    with longest_pause() as longest:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
    assert took > 0.3, "it waited for nothing, so that this shows nothing"
    assert longest[0] < took / 2


@pytest.fixture
def busy(gpu):
    """A stream whose work does not end before the test does, once its gate was made."""
    stream = gpu.stream()
    yield sluice.Stream.from_handle(stream, gpu.device)
    gpu.open_gates()


@pytest.mark.parametrize("kind", ["native", "cipd"])
@pytest.mark.parametrize("end", ["close", "del"])
def test_a_writer(gpu, busy, kind, end):
    writer = sluice.Writer("cam" if kind == "native" else f"cipd:{NAME}", shape=SHAPE, device=gpu.device)
    with writer.frame(stream=busy):
        gpu.gate(busy.native)
    with others_run():
        if end == "close":
            writer.close()
        del writer


@pytest.fixture
def held(gpu, busy):
    """A reader, and a frame that work uses which does not end."""
    with sluice.Writer("cam", shape=SHAPE, device=gpu.device) as writer:
        with writer.frame(stream=busy):
            pass
        reader = sluice.Reader("cam")
        frame = reader.next(timeout=20, stream=busy)
        gpu.gate(busy.native)
        things = [reader, frame]
        del reader, frame
        yield things
        gpu.open_gates()


@pytest.mark.parametrize("end", ["close", "del", "frame", "array"])
def test_a_reader(held, end):
    reader, frame = held
    held.clear()
    array = frame[0] if end == "array" else None
    if end not in ("frame", "array"):
        frame.release()
        del frame
    with others_run():
        if end == "close":
            reader.close()
        del reader
        if end in ("frame", "array"):
            del frame
        del array


def test_a_reader_that_a_tensor_keeps(held, busy):
    """A deleter is not told whether its caller has the GIL, as this one does: it waits for nothing."""
    reader, frame = held
    held.clear()
    taken = take(frame, busy.native)
    del frame, reader
    deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(taken.managed.deleter, ctypes.c_void_p).value)
    address, taken.address = taken.address, None
    began = time.monotonic()
    deleter(address)
    assert time.monotonic() - began < 0.3


@pytest.mark.parametrize("end", ["close", "del"])
def test_an_exporter(gpu, busy, end):
    exporter = cuda_link.Exporter.open(cuda_link.FrameSpec(NAME, *SHAPE[:2]))
    gpu.gate(busy.native)
    memory = gpu.word()
    frame = cuda_link.GpuFrame(gpu.device_pointer(memory).value, exporter.data_size, busy.native)
    assert exporter.export(frame) is cuda_link.FrameOutcome.PUBLISHED
    with others_run():
        if end == "close":
            exporter.close()
        del exporter


ANOTHER_SESSION = """
import contextlib, gc, sys, threading, time
sys.path.insert(0, {here!r})
import gpu_kit
gpu_kit.find()
gpu = gpu_kit.Gpu()
import sluice, sluice.cuda_link as cuda_link
from cuda_link_kit import a_link
from gpu_frames import wait_until
from test_gil import longest_pause

with a_link() as link:
    exporter = link.exporter()
    if {how!r} == "get_frame_numpy":
        reader = cuda_link.Importer.open(cuda_link.ImportSpec(link.name))
    else:
        reader = sluice.Reader("cipd:" + link.name, wait=20)

    def poll():
        if {how!r} == "get_frame_numpy":
            return reader.get_frame_numpy().outcome is cuda_link.ImportOutcome.NEW_FRAME
        with contextlib.suppress(sluice.Timeout, sluice.NoWriter, sluice.Again, sluice.Closed):
            return (reader.latest() if {how!r} == "latest" else reader.next(timeout=0)) is not None

    exporter.export(1)
    wait_until(poll)
    stream = gpu.stream()
    gpu.gate(stream)
    exporter.kill()
    exporter = link.exporter()
    exporter.export(2)
    with longest_pause() as longest:
        threading.Timer(1.5, gpu.open_gates).start()
        began = before = time.monotonic()
        taken = poll()
        first = time.monotonic() - before
        while not taken and time.monotonic() < began + 30:
            time.sleep(0.001)
            taken = poll()
    assert taken and time.monotonic() > began + 1, "the driver did not wait"
    assert longest[0] < 0.3, longest
    assert first < 0.3, first
    reader.close()
    gpu.close()
"""


@pytest.mark.parametrize("how", ["next", "latest", "get_frame_numpy"])
def test_another_session(gpu, run, how):
    """The driver closes the memory of the one before when the program's work has ended, and holds up what opens another."""
    run(ANOTHER_SESSION.format(here=str(pathlib.Path(__file__).parent), how=how), timeout=60)
