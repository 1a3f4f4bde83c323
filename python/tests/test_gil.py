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


def shown(attempt):
    """True as soon as attempt() is: a machine that is busy may let any thread stand still, but not in each of them."""
    return any(attempt() for _ in range(10))


def others_run(what):
    """Does it, which takes a while; says whether another thread did not stand still for half of that."""
    with longest_pause() as longest:
        began = time.monotonic()
        what()
        took = time.monotonic() - began
    assert took > 0.3, "it waited for nothing, so that this shows nothing"
    return longest[0] < took / 2


@pytest.fixture
def busy(gpu):
    """Gives streams whose work does not end before the test does, once their gates were made."""
    yield lambda: sluice.Stream.from_handle(gpu.stream(), gpu.device)
    gpu.open_gates()


@pytest.mark.parametrize("kind", ["native", "cipd"])
@pytest.mark.parametrize("end", ["close", "del"])
def test_a_writer(gpu, busy, kind, end):
    def attempt():
        stream = busy()
        writers = [sluice.Writer("cam" if kind == "native" else f"cipd:{NAME}", shape=SHAPE, device=gpu.device)]
        with writers[0].frame(stream=stream):
            gpu.gate(stream.native)
        there = others_run(writers[0].close if end == "close" else writers.clear)
        gpu.open_gates()
        return there

    assert shown(attempt)


COPIES = """
import sys
sys.path.insert(0, {here!r})
import gpu_kit
gpu_kit.find()
import numpy, sluice
from test_gil import NAME, SHAPE, others_run, shown

writer = sluice.Writer(f"cipd:{{NAME}}", shape=SHAPE, device="cuda:0", cipd={{"block": True}})
with writer, sluice.Reader(f"cipd:{{NAME}}", cipd={{"copy": True}}) as reader:
    def take():
        while not (frame := reader.latest()):
            pass
        frame.release()

    def attempt():
        writer.send(numpy.zeros(SHAPE, numpy.uint8))
        return others_run(take)

    attempt()  # a first frame, with all that a session needs
    assert shown(attempt)
"""


def test_a_reader_that_copies(gpu, run):
    """Each copy takes this GPU half a second, which next() and latest() wait for."""
    if not gpu.fake:
        pytest.skip("a GPU copies a small frame at once")
    run(COPIES.format(here=str(pathlib.Path(__file__).parent)), env={"SLUICE_FAKE_DELAY": "500000"})


@contextlib.contextmanager
def held(gpu, stream):
    """A reader, and a frame that work uses which does not end."""
    with sluice.Writer("cam", shape=SHAPE, device=gpu.device) as writer:
        with writer.frame(stream=stream):
            pass
        reader = sluice.Reader("cam")
        frame = reader.next(timeout=60, stream=stream)
        gpu.gate(stream.native)
        things = [reader, frame]
        del reader, frame
        yield things
        gpu.open_gates()


@pytest.mark.parametrize("end", ["close", "del", "frame", "array"])
def test_a_reader(gpu, busy, end):
    def attempt():
        with held(gpu, busy()) as things:
            if end == "array":
                things.append(things[1][0])
            elif end != "frame":
                things.pop().release()

            def finish():
                if end == "close":
                    things[0].close()
                while things:
                    things.pop(0)

            return others_run(finish)

    assert shown(attempt)


def test_a_reader_that_a_tensor_keeps(gpu, busy):
    """A deleter is not told whether its caller has the GIL, as this one does: it waits for nothing."""
    def attempt():
        stream = busy()
        with held(gpu, stream) as things:
            taken = take(things[1], stream.native)
            things.clear()
            deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(taken.managed.deleter, ctypes.c_void_p).value)
            address, taken.address = taken.address, None
            began = time.monotonic()
            deleter(address)
            return time.monotonic() - began < 0.3

    assert shown(attempt)


INSIDE_A_CAPTURE = """
import sys, threading, time
sys.path.insert(0, {here!r})
import gpu_kit
gpu_kit.find()
gpu = gpu_kit.Gpu()
import sluice
from dl import take
from test_gil import SHAPE, shown
from gpu_frames import free_slots, wait_until

def attempt():
    captures, stands = gpu.stream(), gpu.stream()
    with sluice.Writer("cam", shape=SHAPE, device=gpu.device) as writer:
        with writer.frame():
            pass
        reader = sluice.Reader("cam")
        frame = reader.next(timeout=60, stream=sluice.Stream.from_handle(captures, gpu.device))
        frame.used_on(sluice.Stream.from_handle(stands, gpu.device))
        slot, things = frame.slot, [reader, frame, *([take(frame, captures)] if {end!r} == "tensor" else [])]
        gpu.gate(stands)
        threading.Timer(1.5, gpu.open_gates).start()
        with gpu.capture(captures) as graph:
            if {end!r} in ("close", "del"):
                frame.release()
            del reader, frame

            def finish():
                if {end!r} != "del":
                    things[0].close()
                things.clear()

            began = time.monotonic()
            finish()
            there = time.monotonic() - began < 0.3
        assert graph.nodes() == 0
        with writer.frame():  # the newest one stays for readers to come
            pass
        wait_until(lambda: slot in free_slots(writer))
    return there

assert shown(attempt)
gpu.close()
"""


@pytest.mark.parametrize("end", ["close", "del", "frame", "tensor"])
def test_a_reader_whose_stream_captures(gpu, run, end):
    """The frame was used on another stream, too, which has not finished. Neither close() nor the last reference waits for the two:
    the frame ends behind them later."""
    run(INSIDE_A_CAPTURE.format(here=str(pathlib.Path(__file__).parent), end=end))


@pytest.mark.parametrize("end", ["close", "del"])
def test_an_exporter(gpu, busy, end):
    def attempt():
        stream = busy()
        exporters = [cuda_link.Exporter.open(cuda_link.FrameSpec(NAME, *SHAPE[:2]))]
        gpu.gate(stream.native)
        frame = cuda_link.GpuFrame(gpu.device_pointer(gpu.word()).value, exporters[0].data_size, stream.native)
        assert exporters[0].export(frame) is cuda_link.FrameOutcome.PUBLISHED
        there = others_run(exporters[0].close if end == "close" else exporters.clear)
        gpu.open_gates()
        return there

    assert shown(attempt)


ANOTHER_SESSION = """
import contextlib, gc, sys, threading, time
sys.path.insert(0, {here!r})
import gpu_kit
gpu_kit.find()
gpu = gpu_kit.Gpu()
import sluice, sluice.cuda_link as cuda_link
from cuda_link_kit import a_link
from gpu_frames import wait_until
from test_gil import longest_pause, shown

def attempt(link):
    exporter = link.exporter()
    if {how!r} == "get_frame_numpy":
        reader = cuda_link.Importer.open(cuda_link.ImportSpec(link.name))
    else:
        reader = sluice.Reader("cipd:" + link.name, wait=60)

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
        while not taken and time.monotonic() < began + 60:
            time.sleep(0.001)
            taken = poll()
    assert taken and time.monotonic() > began + 1, "the driver did not wait"
    reader.close()
    exporter.kill()
    told.append((longest, first))
    return longest[0] < 0.3 and first < 0.3

def attempt_it():
    with a_link() as link:
        return attempt(link)

told = []
assert shown(attempt_it), told
gpu.close()
"""


@pytest.mark.parametrize("how", ["next", "latest", "get_frame_numpy"])
def test_another_session(gpu, run, how):
    """The driver closes the memory of the one before when the program's work has ended, and holds up what opens another."""
    run(ANOTHER_SESSION.format(here=str(pathlib.Path(__file__).parent), how=how))
