# SPDX-License-Identifier: MIT
"""sluice.convert on a GPU: what the CPU gives, on the streams that a launch would be on, in captures."""
import numpy as np
import pytest

import convert_reference as reference
import sluice
from gpu_arrays import CudaInterface, DLPack
from gpu_pair import got, memory, put, torch  # noqa: F401
from test_convert import NAMES
from test_gpu_which_stream import NAMED, Streams

WIDTH, HEIGHT = 64, 38
PIXELS = np.random.default_rng(1).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


class Channel:
    """The same image on the CPU and on a GPU."""

    def __init__(self, gpu, name, format):
        self.ends = []
        for device in ("host", gpu.device):
            image = sluice.Image(NAMES.get(format, format), WIDTH, HEIGHT)
            writer = sluice.Writer(f"{name}-{device.partition(':')[0]}", {"image": image}, device=device)
            self.ends.append((writer, sluice.Reader(writer.name)))

    def write(self, at, picture, **settings):
        """Converts into a frame, and gives the frame that a reader has."""
        writer, reader = self.ends[at]
        with writer.frame() as frame:
            sluice.convert(frame, picture, **settings)
        return reader.next(timeout=60)

    def close(self):
        for writer, reader in self.ends:
            reader.close()
            writer.close()


@pytest.fixture
def channel(gpu):
    made = []

    def make(name, format):
        made.append(Channel(gpu, name, format))
        return made[-1]

    yield make
    for each in made:
        each.close()


def are_equal(format, numbers, expected):
    """But for rounding: at most one step apart, and 99.9 of 100 equal. GRAY16's steps are as small as a float's own errors."""
    numbers, expected = numbers.ravel(), expected.ravel()
    if numbers.dtype.kind == "f":
        return np.allclose(numbers.astype(float), expected.astype(float), atol=1e-3 if numbers.dtype.itemsize == 2 else 1e-5)
    away = np.abs(numbers.astype(int) - expected)
    return away.max() <= (64 if format == "p010" else 1) and ((away > 0).mean() <= 0.001 or format == "gray16")


@pytest.mark.parametrize("format", reference.FORMATS)
def test_frames_are_those_of_the_cpu(gpu, channel, memory, format):  # noqa: F811
    """From a tensor, to another frame, smaller, and to a tensor."""
    pixels, first, second = memory(PIXELS, size=PIXELS.nbytes), channel("first", format), channel("second", format)
    host = first.write(0, PIXELS)
    there = first.write(1, DLPack(pixels, PIXELS.shape))
    assert are_equal(format, there.copy(), host.numpy())
    small, small_there = np.zeros((3, 19, 20), np.float32), memory(size=3 * 19 * 20 * 4)
    how = {"fit": "inside", "flip": "horizontal", "border": 0.5, "scale": 2, "bias": -1}
    area = sluice.convert(small, host, **how)
    assert sluice.convert(DLPack(small_there, small.shape, "float32"), there, **how) == area
    sluice.synchronize(gpu.device)
    assert are_equal(format, got(gpu, small_there, small.shape, "float32"), small)
    with second.write(0, host, crop=(4, 6, 32, 16)) as expected, second.write(1, there, crop=(4, 6, 32, 16)) as frame:
        assert are_equal(format, frame.copy(), expected.numpy())
    host.release()
    there.release()


WHITE = np.full((2, 2, 3), 255, np.uint8)


@pytest.fixture
def places(gpu, memory):  # noqa: F811
    """A source, and a target of floats."""
    return memory(WHITE, size=12), memory(np.zeros(12, np.float32), size=48)


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("kind", ["tensor", "interface"])
def test_the_order_of_streams(gpu, torch, places, named, kind):  # noqa: F811
    source, target = places
    streams = Streams(gpu, torch)

    def is_done():
        return (got(gpu, target, (12,), "float32") == 3).all()

    sluice.convert(DLPack(target, (3, 2, 2), "float32"), DLPack(source, (2, 2, 3)))  # loads the code, which waits for all work
    streams.shut()
    if kind == "tensor":
        with streams.entered(named):
            sluice.convert(torch.Tensor(target, (3, 2, 2), "float32"), torch.Tensor(source, (2, 2, 3)), scale=3, **streams.given(named))
        after = gpu.look(target.address, 48, streams.native["f"])  # the framework's next work is behind it
        streams.check_behind(NAMED[named] + "f", is_done)
        gpu.synchronize(streams.native["f"])
        assert (np.frombuffer(bytes(after), np.float32) == 3).all()
    else:  # its owner orders nothing: the call waits until the memory was used
        for gate in streams.gates.values():
            gate.open()
        with streams.entered(named):
            sluice.convert(CudaInterface(target, (3, 2, 2), "float32", stream=streams.native["f"]), DLPack(source, (2, 2, 3)), scale=3,
                           **streams.given(named))
        assert is_done()


def test_a_conversion_is_a_node(gpu, torch, places):  # noqa: F811
    """Of our graph and of theirs; replays see what the source has then."""
    source, target = places
    torch.current[0] = gpu.stream()

    def convert():
        sluice.convert(torch.Tensor(target, (3, 2, 2), "float32"), torch.Tensor(source, (2, 2, 3)), scale=2)

    convert()  # loads the code
    sluice.synchronize(gpu.device)
    with sluice.Stream(gpu.device) as stream:
        with sluice.capture(stream) as graph:
            convert()
        assert graph.nodes == 1
        put(gpu, source, np.zeros_like(WHITE))
        graph.launch()
        stream.synchronize()
    assert (got(gpu, target, (12,), "float32") == 0).all()
    with gpu.capture(torch.current[0]) as recorded:
        convert()
    assert recorded.nodes() == 1
    put(gpu, source, WHITE)
    recorded.replay(gpu.stream())
    assert (got(gpu, target, (12,), "float32") == 2).all()


def test_a_frame_in_a_frameworks_graph(gpu, torch, places):  # noqa: F811
    """Replays read the slot again: while its writer holds it, what is there by then."""
    _, target = places
    torch.current[0] = gpu.stream()
    with sluice.Writer("camera", {"image": sluice.Image("rgb24", 2, 2)}, device=gpu.device) as writer:
        frame = writer.frame()

        def convert():
            sluice.convert(torch.Tensor(target, (3, 2, 2), "float32"), frame, scale=255)

        convert()  # loads the code
        sluice.synchronize(gpu.device)
        with gpu.capture(torch.current[0]) as recorded:
            convert()
        for number in (7, 200):
            gpu.fill(frame["image"].address, number, 12, torch.current[0])
            gpu.synchronize(torch.current[0])
            recorded.replay(gpu.stream())
            assert np.allclose(got(gpu, target, (12,), "float32"), number, atol=1e-3)
        frame.cancel()


def test_both_sides_are_on_one_device(gpu, places):
    source, _ = places
    with pytest.raises(sluice.WrongDeviceError, match='both must be on one device'):
        sluice.convert(np.zeros((2, 2, 3), np.uint8), DLPack(source, (2, 2, 3)))


def test_a_read_only_target(gpu, places):
    source, target = places
    with pytest.raises(sluice.Error, match="read-only"):
        sluice.convert(DLPack(target, (3, 2, 2), "float32", read_only=True), DLPack(source, (2, 2, 3)))
