# SPDX-License-Identifier: MIT
"""Channels "cipd:NAME" by Sluice's own interface, with cuda-link's package on the other side."""
import contextlib
import ctypes
import os
import subprocess
import sys
import time

import numpy
import pytest

import sluice
from conftest import CLASSES, DTYPES, ask
from peer_picture import picture


def publish(gpu, writer, number):
    """As a program with a stream of its own does."""
    own = gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(own, gpu.device)) as frame:
        array = frame[0]
        made, memory = picture(array.nbytes, number), ctypes.c_void_p()
        with gpu.relaxed():
            gpu.call("MemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(array.nbytes), 1)
        gpu.words.append(memory.value)
        ctypes.memmove(memory, made.ctypes.data, array.nbytes)
        gpu.call("MemcpyHtoDAsync", ctypes.c_uint64(array.address), memory, ctypes.c_size_t(array.nbytes), ctypes.c_void_p(own))
    return own


def number_of(frame):
    """Which frame it is: its bytes are those of one."""
    found = numpy.frombuffer(frame.copy().tobytes(), "uint8")
    number = int(found[0])
    assert numpy.array_equal(found, picture(found.size, number))
    return number


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_writer_of_sluices(gpu, peers, native, dtype):
    with native(sluice.Writer, shape=(9, 7, 3), dtype=dtype, slots=2) as writer:
        importer = peers.start("cuda-link", "import")
        assert ask(importer, "open") == "ready"
        for number in range(1, 6):
            publish(gpu, writer, number)
            assert ask(importer, "take NO_FRAME") == f"{number} {dtype} 9x7x3"
    assert ask(importer, "take NO_FRAME") == "SHUTDOWN"


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_reader_of_sluices(peers, native, dtype):
    exporter = peers.start("cuda-link", "export")
    assert ask(exporter, f"open height=9 width=7 channels=3 dtype={dtype} num_slots=2") == "open"
    with native(sluice.Reader) as reader:
        for number in range(1, 6):
            assert ask(exporter, f"send {number}") == "PUBLISHED"
            with reader.next(timeout=60) as frame:
                assert frame.shape == (9, 7, 3) and frame.dtype == dtype and number_of(frame) == number
        assert reader.latest() is None
        assert ask(exporter, "close") == "closed"
        with pytest.raises(sluice.Closed):
            reader.next(timeout=60)


def test_a_reader_of_sluices_over_restarts(peers, native):
    reader, sessions = None, set()
    for turn in range(1, 6):
        exporter = peers.start("cuda-link", "export")
        assert ask(exporter, f"open height={8 * turn} width=8 num_slots={turn}") == "open"
        assert ask(exporter, f"send {turn}") == "PUBLISHED"
        reader = reader or native(sluice.Reader)
        end = time.monotonic() + 20
        while True:
            try:
                frame = reader.next(timeout=60)
                break
            except (sluice.Closed, sluice.NoWriter, sluice.LostError):
                assert time.monotonic() < end
        with frame:
            assert frame.shape == (8 * turn, 8, 4) and number_of(frame) == turn and frame.new_session
            sessions.add(frame.session)
        if turn % 2:
            exporter.kill()
        else:
            assert ask(exporter, "close") == "closed"
    assert len(sessions) == 5


def test_a_writer_of_sluices_over_formats(gpu, peers, native):
    importer = peers.start("cuda-link", "import")
    with native(sluice.Writer, shape=(16, 16, 4), dtype="uint8", slots=3) as writer:
        assert ask(importer, "open") == "ready"
        publish(gpu, writer, 1)
        assert ask(importer, "take NO_FRAME") == "1 uint8 16x16x4"
        for number, (shape, dtype) in enumerate((((8, 8, 1), "float32"), ((32, 8, 2), "uint16"), ((4, 4, 4), "uint8")), 2):
            writer.reformat(shape=shape, dtype=dtype)
            publish(gpu, writer, number)
            assert ask(importer, "take NO_FRAME RECONNECTING") == f"{number} {dtype} {'x'.join(map(str, shape))}"


def test_a_frame_that_the_gpu_has_not_made_is_waited_for(gpu, peers, native):
    exporter = peers.start("cuda-link", "export")
    assert ask(exporter, "open height=32 width=32 policy.export_sync=false") == "open"
    reader = native(sluice.Reader)
    assert ask(exporter, "send 1") == "PUBLISHED"
    with reader.next(timeout=60) as frame:
        assert number_of(frame) == 1
    assert ask(exporter, "gate") == "shut" and ask(exporter, "send 2") == "PUBLISHED"
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.3)
    assert ask(exporter, "pass") == "open"
    with reader.next(timeout=60) as frame:
        assert number_of(frame) == 2


def test_order(peers, native):
    """Four bytes: the flag says when they are BGRA."""
    if CLASSES:
        pytest.skip("this cuda-link has no such flag")
    exporter, reader = peers.start("cuda-link", "export"), None
    for flags, pixel_format in ((0, None), (4, "bgra"), (4 | 2, "bgra"), (0, None)):
        assert ask(exporter, f"open height=8 width=8 extra_flags={flags}") == "open"
        assert ask(exporter, "send 1") == "PUBLISHED"
        reader = reader or native(sluice.Reader)
        frame = None
        while frame is None:
            try:
                frame = reader.next(timeout=60)
            except sluice.Closed:
                pass
        with frame:
            assert frame.pixel_format == pixel_format
        assert ask(exporter, "close") == "closed"


def test_many_frames_none_of_them_torn(peers, native):
    """The exporter never waits. A frame is whole, or its copy or its release reports that it may not be."""
    exporter = peers.start("cuda-link", "export")
    assert ask(exporter, "open height=64 width=64 num_slots=2") == "open"
    reader, whole = native(sluice.Reader), 0
    for number in range(1, 200):
        exporter.write(f"send {number}")
    for left in range(199, 0, -1):
        assert exporter.read() == "PUBLISHED"
        frame = reader.latest()
        if frame is None:
            continue
        try:
            found = numpy.frombuffer(frame.copy().tobytes(), "uint8")
            frame.release()
        except sluice.LostError:
            assert left > 1  # the last one is not overwritten
            continue
        whole += 1
        assert numpy.array_equal(found, picture(found.size, int(found[0])))
    assert whole


@contextlib.contextmanager
def a_bridge(*arguments):
    environment = {**os.environ, "CUDALINK_ACTIVATION_BARRIER": "0"}  # which is the machine's
    bridge = subprocess.Popen([sys.executable, "-m", "sluice", "bridge", "--quiet", *arguments], env=environment)
    yield
    bridge.terminate()
    assert bridge.wait(20) == 0


def test_bridges(gpu, peers):
    """From a program of cuda-link's to a channel of Sluice's in host memory, and from that to another program of cuda-link's."""
    if os.name == "nt":
        pytest.skip("channels of Sluice's own need Linux")
    far = f"{peers.name}-far"
    with (a_bridge(f"cipd:{peers.name}", "between", "--from-device", gpu.device),
          a_bridge("between", f"cipd:{far}", "--device", gpu.device)):
        exporter, importer = peers.start("cuda-link", "export"), peers.start("cuda-link", "import", far)
        assert ask(exporter, "open height=16 width=16 num_slots=3") == "open"
        assert ask(exporter, "send 1") == "PUBLISHED"
        ask(importer, "open")
        assert ask(importer, "take NO_FRAME RECONNECTING SHUTDOWN") == "1 uint8 16x16x4"
        for turn, (size, dtype, killed) in enumerate((("8x32x4", "float32", False), ("24x8x4", "uint16", True), ("8x8x4", "uint8", False)), 1):
            assert ask(exporter, "close") == "closed"
            height, width, _ = size.split("x")
            assert ask(exporter, f"open height={height} width={width} num_slots={turn + 1} dtype={dtype}") == "open"
            for number in range(10 * turn, 10 * turn + 4):
                assert ask(exporter, f"send {number}") == "PUBLISHED"
                assert ask(importer, "take NO_FRAME RECONNECTING SHUTDOWN") == f"{number} {dtype} {size}"
            if killed:
                exporter.kill()
                exporter = peers.start("cuda-link", "export")
                assert ask(exporter, "open height=4 width=4") == "open"
