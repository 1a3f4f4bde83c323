# SPDX-License-Identifier: MIT
"""A reader whose channel comes back on another GPU, or in host memory: it goes on, and holds no frame for ever."""
import asyncio
import contextlib

import pytest

import sluice
from gpu_frames import SIZE, wait_until
from gpu_pair import gpu_count
from stream_kit import TorchLike

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")


@pytest.fixture
def moving(gpu):
    """A reader, and what gives its channel another writer, with a frame that is full of a value."""
    if gpu_count(gpu) < 2:
        pytest.skip("one GPU")
    with contextlib.ExitStack() as stack:
        writers = contextlib.ExitStack()
        stack.enter_context(writers)
        reader = stack.enter_context(sluice.Reader("cam", wait=None, hold=2))
        stack.callback(gpu.open_gates)

        def move(device, value):
            writers.close()
            writer = writers.enter_context(sluice.Writer("cam", shape=SIZE, device=device))
            writer.send(bytes([value]) * SIZE)
            return writer

        yield reader, move


def following(reader, **given):
    """The next frame, also behind the end of a writer."""
    found = []

    def take_one():
        with contextlib.suppress(sluice.Closed):
            found.append(reader.latest(**given))
        return found and found[-1]

    wait_until(take_one)
    return found[-1]


def holds_none(reader):
    """A release that is queued counts until the next call for a frame."""
    while frame := reader.latest():
        frame.release()
    return reader.stats().held == 0


async def fetched(frame):
    return await frame.fetch()


def test_frames_end_behind_several_streams_of_either_gpu(moving):
    """Sluice's own stream that waits for them is one of their GPU."""
    reader, move = moving
    for value, device in enumerate(["cuda:0", "cuda:1", "cuda:0", "cuda:1"]):
        writer = move(device, value)
        for number in range(5):  # more than it may hold
            if number:
                writer.send(bytes(SIZE))
            frame = following(reader)
            assert frame.device == device
            frame.used_on(sluice.Stream(device), sluice.Stream.default(device), sluice.Stream(device))
            frame.release()
        wait_until(lambda: holds_none(reader))


def test_frames_of_either_gpu_are_held_at_once(moving):
    reader, move = moving
    move("cuda:0", 1)
    first = following(reader)
    first.used_on(sluice.Stream("cuda:0"), sluice.Stream("cuda:0"))
    move("cuda:1", 2)
    second = following(reader)
    second.used_on(sluice.Stream("cuda:1"), sluice.Stream("cuda:1"))
    assert [frame.device for frame in (first, second)] == ["cuda:0", "cuda:1"]
    for frame, value in ((first, 1), (second, 2), (first, 1)):
        assert (asyncio.run(fetched(frame)) == value).all()
    second.release()
    first.release()
    wait_until(lambda: holds_none(reader))


@pytest.mark.parametrize("way", ["entered", "entered within the other", "given"])
@pytest.mark.parametrize("device", ["cuda:1", "host"])
def test_the_stream_of_the_thread_is_one_of_the_frames_device(moving, way, device):
    """There is another one, or none, for the frames of the next writer. What was given is not left out."""
    reader, move = moving
    other, later = sluice.Stream("cuda:0"), sluice.Stream(device)
    given = {"stream": other} if way == "given" else {}
    with contextlib.ExitStack() as stack:
        if way == "entered within the other":
            stack.enter_context(later.use())
        if way != "given":
            stack.enter_context(other.use())
        move("cuda:0", 1)
        following(reader, **given).release()
        move(device, 2)
        if way == "given":
            with pytest.raises(sluice.WrongDeviceError, match="came back on another device"):
                following(reader, **given)
            with pytest.raises(sluice.WrongDeviceError, match="came back on another device"):
                reader.next(timeout=60, **given)
            given = {"stream": later}
        with following(reader, **given) as frame:
            assert frame.device == device and (frame.numpy() == 2).all()
            if device != "host":  # it tells for which streams the frame was taken
                with contextlib.nullcontext() if way != "entered" else pytest.raises(ValueError, match="did not pass a stream"):
                    assert frame.__cuda_array_interface__["stream"] is None
        wait_until(lambda: holds_none(reader))


def torch_like(stream):
    if stream.device == "host":
        return stream
    theirs = TorchLike(stream.native)
    theirs.device_index = int(stream.device.removeprefix("cuda:"))
    return theirs


@pytest.mark.parametrize("kind", [lambda stream: stream, torch_like])
@pytest.mark.parametrize("first, second", [("cuda:0", "cuda:1"), ("host", "cuda:0"), ("cuda:0", "host")])
def test_a_stream_of_the_next_writers_device_is_right_at_once(moving, kind, first, second):
    """The call that is given it is the first one since that writer came."""
    reader, move = moving
    ours = sluice.Stream(first), sluice.Stream(second)
    here, there = map(kind, ours)
    for value in range(2):
        move(first, value)
        with following(reader, stream=here) as frame:
            assert frame.device == first and (frame.numpy() == value).all()
        with pytest.raises(sluice.WrongDeviceError):
            reader.latest(stream=there)
        move(second, 10 + value)
        with following(reader, stream=there) as frame:
            assert frame.device == second and (frame.numpy() == 10 + value).all()
        with pytest.raises(sluice.WrongDeviceError, match="came back on another device"):
            reader.latest(stream=here)
    wait_until(lambda: holds_none(reader))


def test_a_stream_that_was_entered_for_the_next_writer_waits_for_its_frames(moving):
    _, move = moving
    with sluice.Reader("cam", wait=None, ahead=True) as reader:
        for value in range(4):
            device = f"cuda:{value % 2}"
            with sluice.Stream(device).use():  # there is none of the last one's GPU
                move(device, value)
                with following(reader) as frame:
                    assert frame.device == device and (frame.numpy() == value).all()
                    assert frame.__cuda_array_interface__  # it tells for which stream the frame was taken
        with pytest.raises(sluice.WrongDeviceError), sluice.Stream("cuda:0").use():
            reader.latest()
        with pytest.raises(ValueError, match="ahead=True.*stream"):
            reader.latest()
        with sluice.Stream("cuda:1").use():
            wait_until(lambda: holds_none(reader))


def test_copies_out_of_either_gpu(moving):
    reader, move = moving
    target = numpy.zeros(SIZE, "u1")
    for value, device in enumerate(["cuda:0", "cuda:1", "cuda:0", "cuda:1"]):
        move(device, value)
        with following(reader) as frame:
            assert frame.device == device
            assert (asyncio.run(fetched(frame)) == value).all() and (frame.numpy() == value).all()
            frame.copy_to(target)
            assert (target == value).all()
        wait_until(lambda: holds_none(reader))
