# SPDX-License-Identifier: MIT
"""Copies between frames on a GPU and memory that a program has, on the machine's GPU or the fake driver."""
import asyncio
import ctypes
import gc
import threading
import time

import pytest

import sluice
from gpu_arrays import CPU, MANAGED, CudaInterface, DLPack, Memory, Torch

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

SHAPE = (6, 8, 4)
SIZE = 6 * 8 * 4


def pattern(shape=SHAPE, dtype="uint8", seed=0):
    return (numpy.arange(numpy.prod(shape), dtype="uint32") * 7 + seed).astype(dtype).reshape(shape)


@pytest.fixture
def memory(gpu):
    made = []

    def make(content=None, size=SIZE, **options):
        made.append(Memory(gpu, size, **options))
        if content is not None:
            put(gpu, made[-1], content)
        return made[-1]

    yield make
    gc.collect()
    for each in made:
        each.free()


@pytest.fixture
def torch(monkeypatch, request):
    """A stand-in for PyTorch; or with "capsule" for one without the exchange table."""
    sluice._sluice._forget()
    yield Torch(monkeypatch, getattr(request, "param", True))
    sluice._sluice._forget()


def put(gpu, memory, content):
    data = numpy.ascontiguousarray(content)
    stream = gpu.stream()
    gpu.call("MemcpyHtoDAsync", ctypes.c_uint64(memory.address), ctypes.c_void_p(data.ctypes.data),
             ctypes.c_size_t(data.nbytes), ctypes.c_void_p(stream))
    gpu.synchronize(stream)


def got(gpu, memory, shape=SHAPE, dtype="uint8"):
    size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    return numpy.frombuffer(gpu.read(memory.address, size), dtype).reshape(shape)


@pytest.fixture
def pair(gpu):
    """A writer and a reader of one channel, by the formats' arguments."""
    opened = []

    def make(*args, device=gpu.device, name="a", reader=None, **format):
        if not args and not format:
            format = {"shape": SHAPE}
        opened.append(sluice.Writer(name, *args, device=device, **format))
        opened.append(sluice.Reader(name, **(reader or {})))
        return opened[-2], opened[-1]

    yield make
    for each in reversed(opened):
        each.close()


# ---- out: numpy(), copy() ----

def test_numpy_is_a_copy_of_its_own(pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    one, other, copy = frame.numpy(), frame.numpy(), frame.copy()
    for each in (one, other, copy, frame[0].numpy(), frame[0].copy()):
        assert (each == pattern()).all() and each.flags.writeable and each.flags.c_contiguous
    assert not numpy.shares_memory(one, other) and not numpy.shares_memory(one, copy)
    one[:] = 0
    assert (frame.numpy() == pattern()).all() and (other == pattern()).all()
    frame.release()
    writer.close()
    reader.close()
    assert (other == pattern()).all()  # it needs neither
    part = other[1:, ::2]
    del other
    gc.collect()
    assert (part == pattern()[1:, ::2]).all()


def test_a_copy_holds_no_lease(pair):
    writer, reader = pair(reader={"hold": 1})
    copies = []
    for seed in range(5):
        writer.send(pattern(seed=seed))
        with reader.next(timeout=10) as frame:
            copies.append(frame.numpy())
    assert all((copy == pattern(seed=seed)).all() for seed, copy in enumerate(copies))


def test_pinned_memory_comes_back_and_is_given_out_again(pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    frame.numpy()
    before = sluice._sluice._pinned()
    array = frame.numpy()
    address = array.ctypes.data
    count, kept = sluice._sluice._pinned()
    assert (count, kept) == (before[0] - 1, before[1] - 4096)
    view = array[2:]
    del array
    assert sluice._sluice._pinned() == (count, kept)  # a view lives
    del view
    assert sluice._sluice._pinned() == before
    assert frame.numpy().ctypes.data == address


def test_the_pool_keeps_a_bounded_number(pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    arrays = [frame.numpy() for _ in range(50)]
    assert len({array.ctypes.data for array in arrays}) == 50
    assert all((array == pattern()).all() for array in arrays)
    del arrays
    assert sluice._sluice._pinned()[0] == 16


def test_arrays_by_name(pair):
    writer, reader = pair({"image": sluice.Tensor((4, 4, 3), "uint8"), "depth": sluice.Tensor((4, 4), "float32"),
                           "one": sluice.Tensor((), "int32")})
    sent = {"image": pattern((4, 4, 3)), "depth": pattern((4, 4), "float32"), "one": numpy.array(42, "int32")}
    writer.send(sent)
    frame = reader.next(timeout=10)
    for name, array in sent.items():
        assert (frame.numpy(name) == array).all() and frame[name].numpy().dtype == array.dtype
        assert (frame[name].copy() == array).all() and frame[name].copy().shape == array.shape
    with pytest.raises(KeyError):
        frame.numpy("none")


def test_arrays_without_elements(pair):
    writer, reader = pair(shape=(4, 3), dtype="float32")
    with writer.frame() as frame:
        frame.reshape((0, 3))
    array = reader.next(timeout=10).numpy()
    assert array.shape == (0, 3) and array.dtype == "float32"


@pytest.mark.parametrize("align", [1, 256])
@pytest.mark.parametrize("pixel_format", ["bgr24", "nv12", "yuv420p", "gray16le"])
def test_images_and_their_planes(gpu, pair, pixel_format, align):
    """Plane by plane what a channel in host memory gives."""
    image = sluice.Image(pixel_format, 10, 6)
    host, host_reader = pair(image, pitch_align=align, device="host", name="host")
    writer, reader = pair(image, pitch_align=align)
    with host.frame() as frame:
        array = frame.numpy()
        array[...] = pattern(array.shape, array.dtype, seed=3)
    there = host_reader.next(timeout=10)
    writer.send(there)
    frame = reader.next(timeout=10)
    assert frame.device == gpu.device and frame.pixel_format == pixel_format
    for one, other in zip((there, *there.planes), (frame, *frame.planes), strict=True):
        expected, copy = one.copy(), other.copy()
        assert (copy.shape, copy.dtype) == (expected.shape, expected.dtype) and copy.flags.writeable
        if expected.ndim > 1:  # else there are bytes between the rows, of which nobody speaks
            assert (copy == expected).all()
    assert (frame.numpy(pixel_format=pixel_format).shape) == there.shape
    with pytest.raises(sluice.FormatError):
        frame.numpy(pixel_format="rgba")


def test_a_slot_that_is_being_written_is_not_copied_out(pair):
    writer, _ = pair()
    with writer.frame() as frame:
        for method in (frame.numpy, frame.copy, frame[0].numpy):
            with pytest.raises(sluice.UnsupportedError, match="fill it by"):
                method()


def test_a_writable_frame_is_copied_behind_what_writes_to_it(gpu, pair):
    writer, reader = pair(shape=SHAPE, writable=True, reader={"writable": True})
    writer.send(pattern())
    frame = reader.next(timeout=10)
    stream = gpu.stream()
    gate = gpu.gate(stream)
    gpu.fill(frame[0].address, 9, SIZE, stream)
    frame.used_on(sluice.Stream.from_handle(stream, gpu.device))
    threading.Timer(0.1, gate.open).start()
    assert (frame.numpy() == 9).all()


# ---- out: fetch() ----

def test_fetch_gives_a_copy_and_leaves_the_loop_alone(gpu, pair, run):
    async def main():
        writer, reader = pair(reader={"hold": 1})
        for seed in range(4):
            writer.send(pattern(seed=seed))
            frame = await reader.next_async(timeout=10)
            array = await frame.fetch()
            assert (array == pattern(seed=seed)).all() and array.flags.writeable
            frame.release()

    asyncio.run(main())


def test_fetch_on_host():
    async def main():
        with sluice.Writer("h", shape=(300, 400)) as writer, sluice.Reader("h") as reader:
            writer.send(pattern((300, 400)))
            frame = reader.next(timeout=10)
            array = await frame.fetch()
            frame.release()
            assert (array == pattern((300, 400))).all() and array.flags.writeable

    asyncio.run(main())


SLOW = """
import asyncio, time, numpy, sluice
size = 1 << 20

async def main():
    with sluice.Writer("a", shape=size, device={device!r}) as writer, sluice.Reader("a", hold=1) as reader:
        writer.send(numpy.full(size, 5, "uint8"))
        frame = reader.next(timeout=10)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        other = asyncio.create_task(tick())
        {body}
        other.cancel()

asyncio.run(main())
print("well")
"""

BODIES = {
    "the loop goes on": """
        array = await frame.fetch()
        assert (array == 5).all() and ticks >= 3, ticks""",
    "frames may be released meanwhile": """
        task = asyncio.create_task(frame.fetch())
        await asyncio.sleep(0)
        frame.release()
        writer.send(numpy.full(size, 6, "uint8"))
        writer.send(numpy.full(size, 7, "uint8"))
        assert (await task == 5).all()
        assert reader.next(timeout=10).numpy()[0] in (6, 7)""",
    "cancelled": """
        for _ in range(3):
            task = asyncio.create_task(frame.fetch())
            await asyncio.sleep(0.01)
            task.cancel()
            try:
                await task
                assert False
            except asyncio.CancelledError:
                pass
        frame.release()
        writer.send(numpy.full(size, 6, "uint8"))
        with reader.next(timeout=10) as frame:
            arrays = [frame.numpy() for _ in range(3)]
            assert all((array == 6).all() for array in arrays)""",
    "the loop ends first": """
        task = asyncio.create_task(frame.fetch())
        await asyncio.sleep(0.01)
        frame.release()""",
    "many at once": """
        arrays = await asyncio.gather(*(frame.fetch() for _ in range(20)))
        assert all((array == 5).all() for array in arrays)""",
}


@pytest.mark.parametrize("body", BODIES, ids=[name.replace(" ", "_") for name in BODIES])
def test_fetch_under_way(gpu, run, body):
    """On a slow GPU, as only the fake driver is."""
    if not gpu.fake:
        pytest.skip("a GPU copies this before anybody can look")
    code = SLOW.format(device=gpu.device, body=BODIES[body])
    assert run(code, env={"SLUICE_FAKE_DELAY": "30000"}).endswith("well\n")


# ---- out: copy_to() ----

def test_copy_to_host_memory(pair):
    writer, reader = pair({"a": sluice.Tensor(SHAPE, "uint8"), "b": sluice.Tensor((5,), "float32")})
    sent = {"a": pattern(), "b": pattern((5,), "float32")}
    writer.send(sent)
    frame = reader.next(timeout=10)
    array = numpy.zeros(SHAPE, "uint8")
    assert frame.copy_to(array) is None
    assert (array == sent["a"]).all()
    wide = numpy.zeros((6, 16, 4), "uint8")
    frame.copy_to(wide[:, ::2], "a")
    assert (wide[:, ::2] == sent["a"]).all() and not wide[:, 1::2].any()
    targets = {"b": numpy.zeros(5, "float32"), "a": numpy.zeros(SHAPE, "uint8")}
    frame.copy_to(targets)
    assert all((targets[name] == sent[name]).all() for name in sent)
    frame.copy_to({"b": array.view("float32").ravel()[:5]})
    assert (array.view("float32").ravel()[:5] == sent["b"]).all()


def test_copy_to_on_host():
    with sluice.Writer("h", shape=SHAPE) as writer, sluice.Reader("h") as reader:
        writer.send(pattern())
        frame = reader.next(timeout=10)
        array = numpy.zeros(SHAPE, "uint8")
        frame.copy_to(array, stream=None)
        assert (array == pattern()).all()


def test_copy_to_refuses(gpu, memory, pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    frozen = numpy.zeros(SHAPE, "uint8")
    frozen.flags.writeable = False
    for target in (frozen, bytes(SIZE)):
        with pytest.raises(BufferError, match="read-only"):
            frame.copy_to(target)
    with pytest.raises(BufferError, match="read-only"):
        frame.copy_to(DLPack(memory(), SHAPE, read_only=True))
    with pytest.raises(sluice.FormatError):
        frame.copy_to(numpy.zeros((2, 2), "uint8"))
    with pytest.raises(KeyError):
        frame.copy_to(numpy.zeros(SHAPE, "uint8"), "none")
    with pytest.raises(TypeError):
        frame.copy_to({"": numpy.zeros(SHAPE, "uint8")}, "")
    with pytest.raises(TypeError):
        frame.copy_to(42)
    with pytest.raises(TypeError):
        frame.copy_to()
    with pytest.raises(TypeError, match="no stream"):
        frame.copy_to(numpy.zeros(SHAPE, "uint8"), stream=5)
    frame.release()
    with pytest.raises(sluice.StaleError):
        frame.copy_to(numpy.zeros(SHAPE, "uint8"))


def test_copy_to_a_tensor_is_queued_on_its_frameworks_stream(gpu, memory, pair, torch):
    writer, reader = pair(reader={"hold": 1})
    writer.send(pattern())
    stream = torch.current[0] = gpu.stream()
    target = memory(numpy.zeros(SHAPE, "uint8"))
    gate = gpu.gate(stream)
    frame = reader.next(timeout=10)
    start = time.monotonic()
    frame.copy_to(torch.Tensor(target, SHAPE))
    assert time.monotonic() - start < 5
    frame.release()
    del frame
    assert not got(gpu, target).any()
    writer.send(pattern(seed=1))
    writer.send(pattern(seed=2))
    gate.open()
    gpu.synchronize(stream)
    assert (got(gpu, target) == pattern()).all()  # its slot was not written meanwhile
    assert (reader.next(timeout=10).numpy() == pattern(seed=2)).all()


def test_copy_to_on_a_stream_that_is_named(gpu, memory, pair, torch):
    """It comes behind the tensor's own stream, and that behind it."""
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    for way in ("stream", "with"):
        current = torch.current[0] = gpu.stream()
        target = memory(numpy.zeros(SHAPE, "uint8"))
        gate = gpu.gate(current)
        gpu.fill(target.address, 1, SIZE, current)
        with sluice.Stream(gpu.device) as stream:
            if way == "stream":
                with sluice.Stream(gpu.device):
                    frame.copy_to(torch.Tensor(target, SHAPE), stream=stream)
            else:
                frame.copy_to(torch.Tensor(target, SHAPE))
            seen = gpu.look(target.address, SIZE, current)
            assert not got(gpu, target).any()
            gate.open()
        gpu.synchronize(current)
        assert (numpy.frombuffer(seen, "uint8").reshape(SHAPE) == pattern()).all()


def test_copy_to_other_libraries_arrays_on_a_gpu(gpu, memory, pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=10)
    target = memory(numpy.zeros(SHAPE, "uint8"))
    frame.copy_to(DLPack(target, SHAPE))
    assert (got(gpu, target) == pattern()).all()
    stream = gpu.stream()
    put(gpu, target, numpy.zeros(SHAPE, "uint8"))
    frame.copy_to(CudaInterface(target, SHAPE, stream=stream))
    assert (got(gpu, target) == pattern()).all()


def test_copy_to_another_gpu(gpu, memory, pair):
    if gpu_count(gpu) < 2:
        pytest.skip("one GPU")
    writer, reader = pair()
    writer.send(pattern())
    target = memory(ordinal=1)
    reader.next(timeout=10).copy_to(DLPack(target, SHAPE))
    assert (got(gpu, target) == pattern()).all()


def test_copy_to_a_slot_of_another_channel(gpu, pair):
    writer, reader = pair()
    other, read = pair(name="b")
    writer.send(pattern())
    with other.frame() as slot:
        reader.next(timeout=10).copy_to(slot[0])
    assert (read.next(timeout=10).numpy() == pattern()).all()


def test_copy_to_targets_that_frameworks_copy_into_better(gpu, memory, pair, torch):
    """In many pieces, or on a GPU when the frame is not."""
    writer, reader = pair()
    torch.current[0] = gpu.stream()
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    frame = reader.next(timeout=10)
    target = torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
    frame.copy_to(target)
    frame.copy_to(target, frame.keys()[0])
    assert target.called == [(frame[0].address, torch.current[0])] * 2

    writer, reader = pair(name="h", device="host", shape=SHAPE)
    writer.send(pattern())
    frame = reader.next(timeout=10)
    target = torch.Tensor(memory(), SHAPE)
    frame.copy_to(target)
    assert target.called == [(frame[0].address, torch.current[0])]
    with pytest.raises(sluice.UnsupportedError, match="PyTorch and CuPy only"):
        frame.copy_to(DLPack(memory(), SHAPE))


# ---- in: send() ----

def gpu_count(gpu):
    count = ctypes.c_int()
    gpu.call("DeviceGetCount", ctypes.byref(count))
    return count.value


@pytest.mark.parametrize("torch", [True, False], ids=["exchange_table", "capsule"], indirect=True)
def test_send_is_queued_on_the_frameworks_current_stream(gpu, memory, pair, torch):
    writer, reader = pair()
    stream = torch.current[0] = gpu.stream()
    source = memory(pattern())
    gate = gpu.gate(stream)
    gpu.fill(source.address, 7, SIZE, stream)
    tensor = torch.Tensor(source, SHAPE, grad=True)
    start = time.monotonic()
    assert writer.send(tensor) == 1
    assert time.monotonic() - start < 5
    gpu.fill(source.address, 8, SIZE, stream)  # behind the copy
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.05)
    gate.open()
    assert (reader.next(timeout=10).numpy() == 7).all()
    if not torch.exchange:
        assert tensor.called == ["detach"]  # which has what it was asked


def test_send_without_a_framework_in_the_default_streams_place(gpu, memory, pair, torch):
    """PyTorch's current stream is the default one, native 0."""
    writer, reader = pair()
    assert torch.current == {}
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    assert (reader.next(timeout=10).numpy() == pattern()).all()


@pytest.mark.parametrize("way", ["stream", "with"])
def test_send_on_a_stream_that_is_named(gpu, memory, pair, torch, way):
    """Behind the tensor's own stream, and that behind it: the tensor may go, or change, at once."""
    writer, reader = pair()
    current = torch.current[0] = gpu.stream()
    source = memory(pattern())
    before, named = gpu.gate(current), gpu.stream()
    gpu.fill(source.address, 7, SIZE, current)
    behind = gpu.gate(named)
    stream = sluice.Stream.from_handle(named, gpu.device)
    if way == "stream":
        with sluice.Stream(gpu.device):
            writer.send(torch.Tensor(source, SHAPE), stream=stream)
    else:
        with stream.use():
            writer.send(torch.Tensor(source, SHAPE))
    gpu.fill(source.address, 8, SIZE, current)
    behind.open()
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.05)
    before.open()
    assert (reader.next(timeout=10).numpy() == 7).all()


def test_send_of_other_libraries_arrays_waits_for_them_by_dlpack(gpu, memory, pair):
    writer, reader = pair()
    source = memory(pattern())

    class Slow(DLPack):
        def made_ready_on(self, stream):
            assert isinstance(stream, int) and stream > 2
            self.gate = gpu.gate(stream)
            gpu.fill(source.address, 5, SIZE, stream)

    array = Slow(source, SHAPE)
    writer.send(array)
    assert array.deleted == 0  # the copy may yet read it
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.05)
    assert array.deleted == 0
    array.gate.open()
    assert (reader.next(timeout=10).numpy() == 5).all()
    writer.send(pattern())
    assert array.deleted == 1


def test_what_a_copy_reads_goes_with_the_writer_at_the_latest(gpu, memory, pair):
    for end in ("close", "drop"):
        writer = sluice.Writer("z", shape=SHAPE, device=gpu.device)
        array = DLPack(memory(pattern()), SHAPE)
        writer.send(array)
        if end == "close":
            writer.close()
        del writer
        gc.collect()
        assert array.deleted == 1


def test_send_by_the_cuda_array_interface_honours_its_stream(gpu, memory, pair):
    writer, reader = pair()
    source, stream = memory(pattern()), gpu.stream()
    gate = gpu.gate(stream)
    gpu.fill(source.address, 6, SIZE, stream)
    writer.send(CudaInterface(source, SHAPE, stream=stream))
    gpu.fill(source.address, 9, SIZE, stream)
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.05)
    gate.open()
    assert (reader.next(timeout=10).numpy() == 6).all()
    for ready in (None, 1):
        put(gpu, source, pattern())
        writer.send(CudaInterface(source, SHAPE, stream=ready))
        assert (reader.next(timeout=10).numpy() == pattern()).all()
    with pytest.raises(TypeError, match="stream"):
        writer.send(CudaInterface(source, SHAPE, stream=0))


def test_send_of_other_memory(gpu, memory, pair):
    writer, reader = pair()
    managed = DLPack(memory(pattern(seed=1), managed=True), SHAPE, device=MANAGED)
    writer.send(managed)
    assert (reader.next(timeout=10).numpy() == pattern(seed=1)).all()
    if gpu_count(gpu) > 1:
        writer.send(DLPack(memory(pattern(seed=2), ordinal=1), SHAPE))
        assert (reader.next(timeout=10).numpy() == pattern(seed=2)).all()
    writer.send(DLPack(memory(pattern(seed=3)), SHAPE, offset=0))
    assert (reader.next(timeout=10).numpy() == pattern(seed=3)).all()
    with pytest.raises(sluice.UnsupportedError, match="another kind"):
        writer.send(DLPack(memory(), SHAPE, device=10))


def test_pinned_memory_may_be_changed_when_send_returns(pair):
    writer, reader = pair(shape=1 << 20)
    writer.send(numpy.zeros(1 << 20, "uint8"))
    pinned = reader.next(timeout=10).numpy()
    for value in range(1, 20):
        pinned[:] = value
        writer.send(pinned)
        pinned[:] = 255
        assert (reader.next(timeout=10).numpy() == value).all()


@pytest.mark.parametrize("shape", [(), (0, 4), (1,)], ids=str)
def test_send_of_few_elements(gpu, memory, pair, torch, shape):
    writer, reader = pair(shape=(2, 4) if shape == (0, 4) else shape, dtype="float32")
    value = pattern(shape, "float32", seed=3)
    source = memory(value if value.size else None)
    for tensor in (torch.Tensor(source, shape, "float32"), DLPack(source, shape, "float32")):
        writer.send(tensor)
        array = reader.next(timeout=10).numpy()
        assert array.shape == shape and (array == value).all()


def test_send_of_arrays_in_many_pieces(gpu, memory, pair, torch):
    """PyTorch makes them whole; rows are the library's; what nobody can copy says so."""
    writer, reader = pair(shape=(8, 6, 4))
    packed = memory(pattern(seed=5))
    tensor = torch.Tensor(memory(pattern()), (8, 6, 4), strides=(4, 32, 1))
    torch.Tensor.packed = lambda self: torch.Tensor(packed, (8, 6, 4))
    writer.send(tensor)
    assert (reader.next(timeout=10).numpy() == pattern((8, 6, 4), seed=5)).all()

    writer, reader = pair(name="rows", shape=(4, 256))
    source = memory(pattern((4, 300)), size=1200)
    torch.Tensor.packed = None
    writer.send(torch.Tensor(source, (4, 256), strides=(300, 1)))
    assert (reader.next(timeout=10).numpy() == pattern((4, 300))[:, :256]).all()
    writer.send(DLPack(source, (4, 256), strides=(300, 1)))
    assert (reader.next(timeout=10).numpy() == pattern((4, 300))[:, :256]).all()

    writer, reader = pair(name="dust", shape=(130, 130, 130))
    with pytest.raises(sluice.UnsupportedError, match="pieces"):
        writer.send(DLPack(memory(size=130 ** 3), (130, 130, 130), strides=(1, 130, 130 * 130)))
    assert writer.stats().committed == 0


def test_what_memory_does_not_tell_of_tensors(gpu, memory, pair, torch):
    """Elements that are yet to be negated or conjugated are, before they are sent."""
    writer, reader = pair(shape=(4,), dtype="complex64")
    tensor = torch.Tensor(memory(pattern((4,), "complex64")), (4,), "complex64")
    tensor.conjugate = True
    called = []
    torch.Tensor.packed = lambda self: called.append(self.called) or self
    writer.send(tensor)
    assert called and not called[0] == []
    assert reader.next(timeout=10).numpy().shape == (4,)


def test_arrays_by_name_from_everywhere(gpu, memory, pair, torch):
    writer, reader = pair({name: sluice.Tensor(SHAPE, "uint8") for name in "abcd"})
    torch.current[0] = gpu.stream()
    writer.send({"a": pattern(seed=1), "b": torch.Tensor(memory(pattern(seed=2)), SHAPE),
                 "c": DLPack(memory(pattern(seed=3)), SHAPE), "d": CudaInterface(memory(pattern(seed=4)), SHAPE)})
    frame = reader.next(timeout=10)
    assert all((frame.numpy(name) == pattern(seed=seed + 1)).all() for seed, name in enumerate("abcd"))


def test_writers_are_made_like_tensors(gpu, memory, torch):
    tensor = torch.Tensor(memory(), (2, 3, 4), "int32")
    assert sluice._sluice._describe(tensor) == ("int32", (2, 3, 4))
    assert sluice._sluice._describe(DLPack(memory(), (5,), "float32")) == ("float32", (5,))


# ---- frames from channel to channel ----

@pytest.mark.parametrize("ways", [("gpu", "gpu"), ("gpu", "host"), ("host", "gpu"), ("host", "host")], ids="-to-".join)
def test_frames_are_sent_on(gpu, pair, ways):
    devices = {"gpu": gpu.device, "host": "host"}
    format = {"image": sluice.Image("nv12", 16, 8), "depth": sluice.Tensor((3,), "float32")}
    writer, reader = pair(format, device=devices[ways[0]], reader={"hold": 1})
    other, read = pair(format, device=devices[ways[1]], name="b")
    for seed in range(12):  # more than there are slots
        sent = {"image": pattern((12, 16), seed=seed), "depth": pattern((3,), "float32", seed)}
        writer.send(sent, meta=b"%d" % seed)
        frame = reader.next(timeout=10)
        other.send(frame, like=frame)
        frame.release()
        with read.next(timeout=10) as there:
            assert there.meta == b"%d" % seed and there.pixel_format == "nv12"
            assert all((there.copy(name) == sent[name]).all() for name in sent)


def test_a_frame_that_is_sent_on_ends_behind_the_copy(gpu, pair, torch):
    writer, reader = pair(reader={"hold": 1})
    other, read = pair(name="b")
    writer.send(pattern())
    stream = gpu.stream()
    gate = gpu.gate(stream)
    frame = reader.next(timeout=10)
    other.send(frame, stream=sluice.Stream.from_handle(stream, gpu.device))
    frame.release()
    for seed in range(1, 9):
        writer.send(pattern(seed=seed))
    gate.open()
    assert (read.next(timeout=10).numpy() == pattern()).all()


def test_tensors_are_sent_to_channels_in_host_memory(gpu, memory, pair, torch):
    writer, reader = pair(device="host", shape=SHAPE)
    torch.Tensor.cpu = lambda self: got(gpu, self.memory)
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    assert (reader.next(timeout=10).copy() == pattern()).all()

    class Cupy(DLPack):
        def get(self):
            return got(gpu, self.memory)

    writer.send(Cupy(memory(pattern(seed=2)), SHAPE))
    assert (reader.next(timeout=10).copy() == pattern(seed=2)).all()
    for other in (DLPack, CudaInterface):
        with pytest.raises(sluice.UnsupportedError, match="in host memory"):
            writer.send(other(memory(), SHAPE))


# ---- captures ----

def test_a_stream_that_captures_is_refused_before_anything_is_queued(gpu, memory, pair, torch):
    writer, reader = pair()
    stream = torch.current[0] = gpu.stream()
    source, target = memory(pattern()), memory(numpy.zeros(SHAPE, "uint8"))
    named = sluice.Stream.from_handle(stream, gpu.device)
    writer.send(pattern(seed=1))
    frame = reader.next(timeout=10)
    with gpu.capture(stream) as graph:
        for send in (lambda: writer.send(torch.Tensor(source, SHAPE)), lambda: writer.send(pattern(), stream=named),
                     lambda: writer.send(DLPack(source, SHAPE), stream=named),
                     lambda: frame.copy_to(torch.Tensor(target, SHAPE)),
                     lambda: frame.copy_to(numpy.zeros(SHAPE, "uint8"), stream=named)):
            with pytest.raises(sluice.CaptureError):
                send()
        with sluice.Stream(gpu.device), pytest.raises(sluice.CaptureError):
            writer.send(torch.Tensor(source, SHAPE))  # what it would come behind
    assert graph.nodes() == 0
    assert writer.stats().committed == 1 and not got(gpu, target).any()
    frame.release()
    writer.send(torch.Tensor(source, SHAPE))
    assert (reader.next(timeout=10).numpy() == pattern()).all()


def test_copies_break_no_capture_elsewhere(gpu, memory, pair, torch):
    torch.current[0] = gpu.stream()
    source, target = memory(pattern(seed=4)), memory()
    other = gpu.stream()
    begun, done = threading.Event(), threading.Event()
    graphs = []

    def capture():
        gpu.enter()
        with gpu.capture(other) as graph:
            begun.set()
            done.wait(30)
        graphs.append(graph)

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait(10)
    try:
        writer, reader = pair(shape=SHAPE)
        writer.send(torch.Tensor(source, SHAPE))
        frame = reader.next(timeout=10)
        arrays = [frame.numpy() for _ in range(20)]  # more than the pool keeps
        frame.copy_to(torch.Tensor(target, SHAPE))
        arrays.append(asyncio.run(fetched(frame)))
        writer.send(DLPack(source, SHAPE))
        writer.send(frame)
        assert all((array == pattern(seed=4)).all() for array in arrays)
        del arrays
        frame.release()
        gc.collect()
    finally:
        done.set()
        thread.join()
    assert graphs and graphs[0].nodes() == 0
    graphs[0].replay(other)


async def fetched(frame):
    return await frame.fetch()


# ---- streams and devices that are wrong ----

def test_wrong_streams(gpu, memory, pair, torch):
    writer, reader = pair()
    for stream in (5, "s", object()):
        with pytest.raises(TypeError):
            writer.send(pattern(), stream=stream)
    closed = sluice.Stream(gpu.device)
    closed.close()
    with pytest.raises(sluice.StreamClosedError):
        writer.send(pattern(), stream=closed)
    if gpu_count(gpu) > 1:
        with pytest.raises(sluice.WrongDeviceError):
            writer.send(pattern(), stream=sluice.Stream("cuda:1"))
    host, _ = pair(device="host", name="h", shape=SHAPE)
    host.send(pattern(), stream=sluice.Stream("host"))
    with pytest.raises(sluice.WrongDeviceError):
        host.send(pattern(), stream=sluice.Stream(gpu.device))
    assert writer.stats().committed == 0 and host.stats().committed == 1


def test_memory_that_was_freed(gpu, pair):
    writer, _ = pair()
    memory = Memory(gpu, SIZE)
    array = DLPack(memory, SHAPE)
    writer.send(array)
    memory.free()
    with pytest.raises(sluice.InvalidError, match="freed"):
        writer.send(array)


def test_other_devices_memory_on_a_host_channel_is_plain_memory(gpu, memory):
    """Of a CPU's DLPack array nothing is asked of a GPU."""
    with sluice.Writer("h", shape=(SIZE,)) as writer, sluice.Reader("h") as reader:
        data = numpy.arange(SIZE, dtype="uint8")
        array = DLPack(memory(), (SIZE,), device=CPU)
        array.memory = type("Host", (), {"address": data.ctypes.data, "ordinal": 0})
        writer.send(array)
        assert (reader.next(timeout=10).numpy() == data).all() and array.asked == [None]
