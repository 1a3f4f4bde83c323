# SPDX-License-Identifier: MIT
"""Frames on a GPU: where they lie, on which streams they may be used, deaths and leaks."""
import math
import os
import resource

import pytest

import sluice
from dl import Taken, take
from eventually import comes_to
from gpu_frames import SIZE, free_slots, publish, reader, wait_until, writer  # noqa: F401


# ---- what it is ----

def test_where_it_lies(gpu, writer, reader):
    assert writer.device == reader.device == gpu.device
    address = publish(gpu, writer, 7)
    frame = reader.next(timeout=60)
    array = frame[0]
    assert frame.device == array.device == gpu.device
    assert frame.__dlpack_device__() == array.__dlpack_device__() == (2, 0)
    taken = take(array, 1)
    assert taken.device == (2, 0) and taken.shape == (SIZE,) and taken.strides == (1,) and taken.read_only
    assert taken.data == array.address and taken.dtype == (1, 8, 1)
    assert gpu.read(taken.data, SIZE) == bytes([7]) * SIZE == gpu.read(address, SIZE)
    with writer.frame() as begun:
        assert begun.device == gpu.device and not take(begun, 1).read_only
        begun.cancel()


def test_the_cpu_is_told_that_it_cannot(gpu, writer, reader):
    import numpy
    publish(gpu, writer, 1)
    frame = reader.next(timeout=60)
    for thing in (frame, frame[0]):
        with pytest.raises(BufferError, match='on "cuda:0"'):
            memoryview(thing)
        with pytest.raises(TypeError, match="numpy"):
            numpy.asarray(thing)
        assert not hasattr(thing, "__array_interface__")
        with pytest.raises(ValueError, match="0"):
            thing.__dlpack__(stream=0)
        with pytest.raises(BufferError):
            thing.__dlpack__(dl_device=(2, 1))
        with pytest.raises(BufferError, match="copy"):
            thing.__dlpack__(stream=1, copy=True)


def test_on_host_nothing_is_of_a_gpu(gpu):
    with sluice.Writer("h", shape=4) as writer, sluice.Reader("h", device="host") as reader:
        assert writer.device == reader.device == "host" and reader.slots == 4
        with writer.frame(stream=None) as frame:
            frame.used_on()
        frame = reader.next(timeout=60, stream=sluice.Stream("host"))
        assert frame.device == "host" and not hasattr(frame[0], "__cuda_array_interface__")
        frame.used_on(sluice.Stream("host"))
        for call in (lambda: frame.used_on(gpu_stream), lambda: reader.next(timeout=0, stream=gpu_stream)):
            gpu_stream = sluice.Stream(gpu.device)
            with pytest.raises(sluice.WrongDeviceError):
                call()
        with pytest.raises(ValueError, match="memoryview"):
            frame.view(kind="torch")
        array = frame[0]
        frame.release()
        frame.used_on(sluice.Stream("host"))
        del array
        with pytest.raises(sluice.StaleError, match="was released"):
            frame.used_on(sluice.Stream("host"))


def test_the_cuda_array_interface(gpu, writer, reader):
    publish(gpu, writer, 3)
    own = sluice.Stream(gpu.device)
    frame = reader.next(timeout=60, stream=own)
    for thing in (frame, frame[0]):
        said = thing.__cuda_array_interface__
        assert said["shape"] == (SIZE,) and said["typestr"] == "|u1" and said["version"] == 3
        assert said["data"] == (frame[0].address, False)  # PyTorch refuses what says that it is read-only
        assert said["stream"] is None and said["strides"] is None  # it is ready
    with writer.frame(stream=own) as begun:
        assert begun.__cuda_array_interface__["stream"] == own.native
        begun.used_on(sluice.Stream.default(gpu.device))
        assert begun.__cuda_array_interface__["stream"] not in (0, None, own.native)


def test_who_names_no_stream_is_told(gpu, run):
    """In a process of its own: frameworks that are loaded have current streams."""
    run(f"""
import sluice
with sluice.Writer("cam", shape={SIZE}, device="{gpu.device}") as writer, sluice.Reader("cam") as reader:
    with writer.frame():
        pass
    frame = reader.next(timeout=60)
    for call in (lambda: frame.__cuda_array_interface__, lambda: frame.__dlpack__(stream=-1)):
        try:
            call()
        except ValueError as error:
            assert "stream=" in str(error) and "sluice.Stream" in str(error), error
        else:
            raise AssertionError("a stream was found")
    with sluice.Stream("{gpu.device}"):
        assert frame.__cuda_array_interface__["stream"] is None
""")


@pytest.mark.parametrize("wrong", [0, -2, 1.5, "x"])
def test_wrong_streams(gpu, writer, reader, wrong):
    publish(gpu, writer, 1)
    frame = reader.next(timeout=60)
    with pytest.raises((ValueError, TypeError)):
        frame.__dlpack__(stream=wrong)
    for call in (lambda: reader.next(timeout=0, stream=wrong), lambda: writer.frame(stream=wrong),
                 lambda: frame.used_on(wrong)):
        with pytest.raises(TypeError, match="stream"):
            call()
    frame.release()
    assert len(free_slots(writer)) >= 3


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_streams_that_have_a_name(gpu, writer, reader, stream):
    publish(gpu, writer, 9)
    frame = reader.next(timeout=60)
    slot = frame.slot
    taken = take(frame, stream)
    frame.release()
    taken.drop()
    publish(gpu, writer, 10)
    wait_until(lambda: slot in free_slots(writer))


def test_pointers_stay(gpu, writer, reader):
    """One address a slot, on either side, for a generation."""
    ours, theirs = {}, {}
    for number in range(20):
        with writer.frame() as begun:
            taken = take(begun, 1)
            assert ours.setdefault(begun.slot, taken.data) == taken.data
        frame = reader.next(timeout=60)
        taken = take(frame, 1)
        assert theirs.setdefault(frame.slot, taken.data) == taken.data
        assert reader.slots == 4 and frame.generation == 1
        frame.release()
        taken.drop()
    assert len(ours) >= 2 and set(ours.values()).isdisjoint(theirs.values())


def test_another_process_reads_the_same(gpu, writer, start):
    child = start("read_on_gpu", "cam")
    child.expect("open")
    for value in (1, 77, 250):
        publish(gpu, writer, value)
        child.expect(f"{value} True cuda:0")


# ---- deaths, leaks ----

def test_a_killed_writers_frame_stays(gpu, start):
    child = start("write_on_gpu", "cam", 200)
    child.expect("open")
    with sluice.Reader("cam", wait=60) as reader:
        frame = reader.next(timeout=60)
        taken = take(frame, 1)
        child.kill()
        assert gpu.read(taken.data, SIZE) == bytes([200]) * SIZE
        with sluice.Writer("cam", shape=SIZE, device=gpu.device) as writer:
            publish(gpu, writer, 3)
            again = reader.next(timeout=60)
            while not again.new_session:  # what the dead one has left
                again.release()
                again = reader.next(timeout=60)
            assert gpu.read(take(again, 1).data, SIZE) == bytes([3]) * SIZE
            assert gpu.read(taken.data, SIZE) == bytes([200]) * SIZE


def test_a_killed_readers_slots_come_back(gpu, writer, start):
    children = [start("hold_on_gpu", "cam") for _ in range(2)]
    for child in children:
        child.expect("open")
    publish(gpu, writer, 1)
    for child in children:
        child.expect("holds")
    assert len(free_slots(writer)) == 3
    publish(gpu, writer, 2)
    assert len(free_slots(writer)) == 2
    for child in children:
        child.kill()
    wait_until(lambda: len(free_slots(writer)) == 3)


def test_an_illegal_address(gpu, run):
    if not gpu.fake:
        pytest.skip("it would take the GPU's context from the other tests")
    run("""
import ctypes, os, sluice
writer = sluice.Writer("cam", shape=64, device="cuda:0")
reader = sluice.Reader("cam")
with writer.frame():
    pass
frame = reader.next(timeout=60)
ctypes.CDLL(os.environ["SLUICE_CUDA_DRIVER"]).fake_lose(0, 700)
try:
    while True:
        writer.frame(stream=sluice.Stream.default("cuda:0")).commit()
except sluice.DriverError as error:
    assert "stored into a frame that it may only read" in str(error), error
os._exit(0)
""")


@pytest.mark.limit(900)
def test_nothing_leaks(gpu, writer, reader, scale):
    streams = [gpu.stream(), gpu.stream()]
    handles = [sluice.Stream.from_handle(stream, gpu.device) for stream in streams]

    def turn(number):
        with writer.frame(stream=handles[0]) as frame:
            taken = take(frame, streams[number % 2])
            taken.drop()
        with reader.next(timeout=60) as frame:
            assert frame.sequence
            take(frame, streams[0]), take(frame, 1), Taken(frame[0].__dlpack__(stream=streams[1]))
            frame.__dlpack__(stream=1)  # not consumed

    def things():
        return list(gpu.things().values()) if gpu.fake else []

    def memory():  # KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def grows(turns):
        before, most = things(), memory() + 4096
        if "libasan" in os.environ.get("LD_PRELOAD", ""):  # which keeps what was freed: it grows by design
            most = math.inf
        for number in range(turns):
            turn(number)
        gpu.synchronize(streams[0])
        no_more = comes_to(lambda: all(now <= then for now, then in zip(things(), before)), True)
        return not no_more or memory() >= most

    for number in range(200):
        turn(number)
    assert not all(grows(int(3000 * scale)) for _ in range(3))  # a leak does each time, more work under way at once does once
