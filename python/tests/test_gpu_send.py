# SPDX-License-Identifier: MIT
"""Copies into frames on a GPU, from arrays of all kinds."""
import asyncio
import contextlib
import gc
import pathlib
import threading

import pytest

import sluice
from eventually import wait_until
from gpu_arrays import CPU, MANAGED, CudaInterface, DLPack, Memory
from gpu_kit import LEGACY
from gpu_pair import SHAPE, SIZE, got, gpu_count, memory, pair, pattern, put, torch  # noqa: F401

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")


# ---- in: send() ----

@pytest.mark.parametrize("torch", [True, False], ids=["exchange_table", "capsule"], indirect=True)
def test_send_is_queued_on_the_frameworks_current_stream(gpu, memory, pair, torch):
    writer, reader = pair()
    stream = torch.current[0] = gpu.stream()
    source = memory(pattern())
    gate = gpu.gate(stream)
    gpu.fill(source.address, 7, SIZE, stream)
    tensor = torch.Tensor(source, SHAPE, grad=True)
    assert writer.send(tensor) == 1  # or this would never end
    gpu.fill(source.address, 8, SIZE, stream)  # behind the copy
    with pytest.raises(sluice.Timeout):
        reader.next(timeout=0.05)
    gate.open()
    assert (reader.next(timeout=60).numpy() == 7).all()
    if not torch.exchange:
        assert tensor.called == ["detach"]  # which has what it was asked


def test_send_without_a_framework_in_the_default_streams_place(gpu, memory, pair, torch):
    """PyTorch's current stream is the default one, native 0."""
    writer, reader = pair()
    assert torch.current == {}
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    assert (reader.next(timeout=60).numpy() == pattern()).all()


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
    assert (reader.next(timeout=60).numpy() == 7).all()


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
    assert (reader.next(timeout=60).numpy() == 5).all()
    wait_until(lambda: writer.send(pattern()) and reader.next(timeout=60).release() is None and array.deleted == 1)


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


def test_send_without_a_free_slot_says_so_while_copies_are_under_way(gpu, memory, pair):
    writer, _ = pair(shape=SHAPE, slots=4, max_slots=4)
    source, stream = memory(pattern()), gpu.stream()
    gate = gpu.gate(stream)
    with pytest.raises(sluice.NoFreeSlot) as raised:
        for _ in range(5):
            writer.send(CudaInterface(source, SHAPE, stream=stream))
    gate.open()
    assert "none of its 4 slots is free" in str(raised.value)


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
    assert (reader.next(timeout=60).numpy() == 6).all()
    for ready in (None, 1):
        put(gpu, source, pattern())
        writer.send(CudaInterface(source, SHAPE, stream=ready))
        assert (reader.next(timeout=60).numpy() == pattern()).all()
    with pytest.raises(TypeError, match="stream"):
        writer.send(CudaInterface(source, SHAPE, stream=0))


def test_send_of_other_memory(gpu, memory, pair):
    writer, reader = pair()
    managed = DLPack(memory(pattern(seed=1), managed=True), SHAPE, device=MANAGED)
    writer.send(managed)
    assert (reader.next(timeout=60).numpy() == pattern(seed=1)).all()
    if gpu_count(gpu) > 1:
        writer.send(DLPack(memory(pattern(seed=2), ordinal=1), SHAPE))
        assert (reader.next(timeout=60).numpy() == pattern(seed=2)).all()
    writer.send(DLPack(memory(pattern(seed=3)), SHAPE, offset=0))
    assert (reader.next(timeout=60).numpy() == pattern(seed=3)).all()
    with pytest.raises(sluice.UnsupportedError, match="unsupported device"):
        writer.send(DLPack(memory(), SHAPE, device=10))


@pytest.mark.parametrize("way", ["none is named", "named", "entered"])
def test_host_memory_goes_past_a_busy_default_stream(gpu, pair, way):
    """Or this would never end."""
    writer, reader = pair(shape=64)
    stream = sluice.Stream(gpu.device)
    given = {"stream": stream} if way == "named" else {}
    data = numpy.arange(64, dtype="u1")
    data.flags.writeable = False
    gate = gpu.gate(LEGACY)
    with stream.use() if way == "entered" else contextlib.nullcontext():
        writer.send(data, **given)
        with reader.next(timeout=60) as frame:
            out = numpy.zeros(64, "u1")
            assert (frame.numpy() == data).all()
            frame.copy_to(out, **given)
    assert (out == data).all()
    gate.open()


def test_pinned_memory_may_be_changed_when_send_returns(pair):
    writer, reader = pair(shape=1 << 20)
    writer.send(numpy.zeros(1 << 20, "uint8"))
    pinned = reader.next(timeout=60).numpy()
    for value in range(1, 20):
        pinned[:] = value
        writer.send(pinned)
        pinned[:] = 255
        assert (reader.next(timeout=60).numpy() == value).all()


def test_send_returns_when_pinned_memory_was_read_however_late_that_is(gpu, pair):
    """The stream is busy for longer than the library waits for anything that may be stuck."""
    writer, reader = pair(shape=1 << 20)
    writer.send(numpy.zeros(1 << 20, "uint8"))
    pinned = reader.next(timeout=60).numpy()
    stream = gpu.stream()
    gate = gpu.gate(stream)
    pinned[:] = 5

    def send():
        writer.send(pinned, stream=sluice.Stream.from_handle(stream, gpu.device))
        pinned[:] = 255

    thread = threading.Thread(target=send)
    thread.start()
    thread.join(11)
    waits = thread.is_alive()
    gate.open()
    thread.join()
    assert waits and (reader.next(timeout=60).numpy() == 5).all()


def test_ctrl_c_ends_the_wait_for_pinned_memory(gpu, run):
    """Its frame is published all the same, with what was sent: the memory is not given out again before it was read."""
    out = run(f"""
import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import gpu_kit; gpu_kit.find(); gpu = gpu_kit.Gpu()
import gc, os, signal, sluice, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests may ignore it
size = 1 << 20
with sluice.Writer("cam", shape=size, device="cuda:0") as writer, sluice.Reader("cam", mode="in_order") as reader:
    writer.send(bytes(size))
    frame = reader.next(timeout=60)
    pinned = frame.numpy()
    pinned[:] = 5
    stream = gpu.stream(); gate = gpu.gate(stream)
    committed = threading.Thread(target=lambda: [None for _ in iter(lambda: writer.stats().committed, 2)])
    interrupts = threading.Thread(target=lambda: (committed.join(), os.kill(os.getpid(), signal.SIGINT)))
    committed.start(); interrupts.start()
    try:
        writer.send(pinned, stream=sluice.Stream.from_handle(stream, "cuda:0"))
    except KeyboardInterrupt:
        print("interrupted")
    del pinned
    gc.collect()
    others = [frame.numpy() for _ in range(8)]
    for other in others:
        other[:] = 255
    gate.open()
    print((reader.next(timeout=60).numpy() == 5).all())
""")
    assert out == "interrupted\nTrue\n"


@pytest.mark.parametrize("shape", [(), (0, 4), (1,)], ids=str)
def test_send_of_few_elements(gpu, memory, pair, torch, shape):
    writer, reader = pair(shape=(2, 4) if shape == (0, 4) else shape, dtype="float32", resize=True)
    value = pattern(shape, "float32", seed=3)
    source = memory(value if value.size else None)
    for tensor in (torch.Tensor(source, shape, "float32"), DLPack(source, shape, "float32")):
        writer.send(tensor)
        array = reader.next(timeout=60).numpy()
        assert array.shape == shape and (array == value).all()


def test_send_of_arrays_in_many_pieces(gpu, memory, pair, torch):
    """PyTorch makes them contiguous; the library copies rows; others are errors."""
    writer, reader = pair(shape=(8, 6, 4))
    packed = memory(pattern(seed=5))
    tensor = torch.Tensor(memory(pattern()), (8, 6, 4), strides=(4, 32, 1))
    torch.Tensor.packed = lambda self: torch.Tensor(packed, (8, 6, 4))
    writer.send(tensor)
    assert (reader.next(timeout=60).numpy() == pattern((8, 6, 4), seed=5)).all()

    writer, reader = pair(name="rows", shape=(4, 256))
    source = memory(pattern((4, 300)), size=1200)
    torch.Tensor.packed = None
    writer.send(torch.Tensor(source, (4, 256), strides=(300, 1)))
    assert (reader.next(timeout=60).numpy() == pattern((4, 300))[:, :256]).all()
    writer.send(DLPack(source, (4, 256), strides=(300, 1)))
    assert (reader.next(timeout=60).numpy() == pattern((4, 300))[:, :256]).all()

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
    assert reader.next(timeout=60).numpy().shape == (4,)


def test_arrays_by_name_from_everywhere(gpu, memory, pair, torch):
    writer, reader = pair({name: sluice.Tensor(SHAPE, "uint8") for name in "abcd"})
    torch.current[0] = gpu.stream()
    writer.send({"a": pattern(seed=1), "b": torch.Tensor(memory(pattern(seed=2)), SHAPE),
                 "c": DLPack(memory(pattern(seed=3)), SHAPE), "d": CudaInterface(memory(pattern(seed=4)), SHAPE)})
    frame = reader.next(timeout=60)
    assert all((frame.numpy(name) == pattern(seed=seed + 1)).all() for seed, name in enumerate("abcd"))


def test_writers_are_made_like_tensors(gpu, memory, torch):
    tensor = torch.Tensor(memory(), (2, 3, 4), "int32")
    assert sluice._sluice._describe(tensor) == ("int32", (2, 3, 4))
    assert sluice._sluice._describe(DLPack(memory(), (5,), "float32")) == ("float32", (5,))


# ---- captures ----

def test_a_stream_that_captures_is_refused_before_anything_is_queued(gpu, memory, pair, torch):
    writer, reader = pair()
    stream = torch.current[0] = gpu.stream()
    source, target = memory(pattern()), memory(numpy.zeros(SHAPE, "uint8"))
    named = sluice.Stream.from_handle(stream, gpu.device)
    writer.send(pattern(seed=1))
    frame = reader.next(timeout=60)
    with gpu.capture(stream) as graph:
        for send in (lambda: writer.send(torch.Tensor(source, SHAPE)), lambda: writer.send(pattern(), stream=named),
                     lambda: writer.send(DLPack(source, SHAPE), stream=named),
                     lambda: frame.copy_to(torch.Tensor(target, SHAPE)),
                     lambda: frame.copy_to(numpy.zeros(SHAPE, "uint8"), stream=named)):
            with pytest.raises(sluice.CaptureError):
                send()
        with sluice.Stream(gpu.device), pytest.raises(sluice.CaptureError):
            writer.send(torch.Tensor(source, SHAPE))  # what it would have to wait for
    assert graph.nodes() == 0
    assert writer.stats().committed == 1 and not got(gpu, target).any()
    frame.release()
    writer.send(torch.Tensor(source, SHAPE))
    assert (reader.next(timeout=60).numpy() == pattern()).all()


@pytest.mark.parametrize("torch", [True, False], ids=["exchange_table", "capsule"], indirect=True)
@pytest.mark.parametrize("captures", ["framework", "thread", "given"])
def test_what_a_framework_would_copy_is_refused_before_it_is_asked(gpu, memory, pair, torch, captures):
    """Tensors in many pieces, tensors whose elements are yet to be negated, and channels in host memory: what PyTorch queued for them
    would be in the program's graph, or break its capture."""
    stream = gpu.stream()
    torch.current[0] = stream if captures == "framework" else gpu.stream()
    named = sluice.Stream.from_handle(stream, gpu.device)
    given = {"stream": named} if captures == "given" else {}
    pieces, asked = {"shape": (8, 6, 4), "strides": (4, 32, 1)}, []
    writer, reader = pair(shape=(8, 6, 4), dtype="float32")
    host, host_reader = pair(name="h", device="host", shape=(8, 6, 4), dtype="float32")
    source = memory(size=4 * SIZE)

    def work(of, made):
        """A kernel of PyTorch's."""
        asked.append(of)
        gpu.fill(source.address, 3, 4 * SIZE, torch.current[0])
        return made

    torch.Tensor.packed = lambda self: work(self, torch.Tensor(source, (8, 6, 4), "float32"))
    torch.Tensor.resolve_neg = lambda self: work(self, self.like("resolve_neg", negative=False))
    torch.Tensor.copy_ = lambda self, other: work(self, self)
    torch.Tensor.cpu = lambda self: work(self, numpy.zeros((8, 6, 4), "float32"))
    odd, lazy = torch.Tensor(source, dtype="float32", **pieces), torch.Tensor(source, (8, 6, 4), "float32")
    lazy.negative = True
    writer.send(pattern((8, 6, 4), "float32"))
    host.send(pattern((8, 6, 4), "float32"))
    frame, here = reader.next(timeout=60), host_reader.next(timeout=60)
    calls = [lambda: frame.copy_to(odd, **given), lambda: frame.copy_to(lazy, **given), lambda: writer.send(odd, **given),
             lambda: writer.send(lazy, **given)]
    if captures != "given":
        calls += [lambda: host.send(odd), lambda: host.send(lazy), lambda: here.copy_to(odd), lambda: here.copy_to(lazy)]
    with gpu.capture(stream) as graph:
        with named.use() if captures == "thread" else contextlib.nullcontext():
            for call in calls:
                with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                    call()
    assert graph.nodes() == 0 and not asked
    assert writer.stats().committed == host.stats().committed == 1
    for call in calls[2:]:
        call()
    assert asked


@pytest.mark.parametrize("first", ["odd", "other"])
def test_no_array_is_made_whole_for_a_mapping_that_a_capture_refuses(gpu, memory, pair, torch, first):
    writer, reader = pair({name: sluice.Tensor((8, 6, 4), "uint8") for name in "ab"})
    captures, asked = gpu.stream(), []
    torch.current[0] = gpu.stream()
    packed = torch.Tensor(memory(pattern((8, 6, 4), seed=5)), (8, 6, 4))
    torch.Tensor.packed = lambda self: asked.append(self) or packed
    sent = {"a": torch.Tensor(memory(), (8, 6, 4), strides=(4, 32, 1)),
            "b": CudaInterface(memory(pattern((8, 6, 4))), (8, 6, 4), stream=captures)}
    sent = sent if first == "odd" else dict(reversed(sent.items()))
    with gpu.capture(captures) as graph:
        with pytest.raises(sluice.CaptureError, match="nothing was queued"):
            writer.send(sent)
    assert graph.nodes() == 0 and not asked and writer.stats().committed == 0
    writer.send(sent)
    frame = reader.next(timeout=60)
    assert len(asked) == 1
    assert (frame.numpy("a") == pattern((8, 6, 4), seed=5)).all() and (frame.numpy("b") == pattern((8, 6, 4))).all()


def test_an_array_on_another_gpu_is_asked_for_on_a_stream_of_sluices(gpu, memory, pair):
    """The default one may be shut by a capture there, which its library's wait would break."""
    if gpu_count(gpu) < 2:
        pytest.skip("one GPU")
    writer, reader = pair()
    array = DLPack(memory(ordinal=1), SHAPE)
    writer.send(array)
    assert reader.next(timeout=60).sequence == 1 and array.asked[0] > 2


def test_what_a_capture_refuses_waits_for_none_of_its_arrays(gpu, memory, pair):
    """Of two streams that a copy would have to wait for, the first could be waited for."""
    writer, reader = pair({name: sluice.Tensor(SHAPE, "uint8") for name in "ab"}, writable=True, reader={"writable": True})
    writer.send({"a": pattern(), "b": pattern()})
    unused = reader.next(timeout=60)
    writer.send({"a": pattern(), "b": pattern()})
    slow, captures, named = (gpu.stream() for _ in range(3))
    here, there = (sluice.Stream.from_handle(stream, gpu.device) for stream in (slow, captures))
    frame = reader.next(timeout=60, stream=here)
    frame.used_on(there)
    arrays = [CudaInterface(memory(numpy.zeros(SHAPE, "uint8")), SHAPE, stream=stream) for stream in (slow, captures)]
    ready = numpy.zeros(SHAPE, "uint8")
    gate = gpu.gate(slow)
    stream = sluice.Stream.from_handle(named, gpu.device)
    with gpu.capture(captures) as graph:
        for call in (lambda: writer.send(dict(zip("ab", arrays)), stream=stream), lambda: writer.send(frame, stream=stream),
                     lambda: unused.copy_to(dict(zip("ab", arrays)), stream=stream), lambda: frame.copy_to(ready, "a", stream=stream)):
            with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                call()
        assert gpu.is_idle(named)
    gate.open()
    assert graph.nodes() == 0 and writer.stats().committed == 2
    unused.copy_to(dict(zip("ab", arrays)), stream=stream)
    assert all((got(gpu, array.memory) == pattern()).all() for array in arrays)


def test_a_default_stream_that_a_capture_has_shut_takes_no_frameworks_copy(gpu, memory, pair, torch):
    writer, _ = pair(shape=(8, 6, 4))
    odd, asked = torch.Tensor(memory(), (8, 6, 4), strides=(4, 32, 1)), []
    torch.Tensor.packed = lambda self: asked.append(self)
    assert torch.current == {}
    with gpu.capture(gpu.stream(blocking=True)) as graph:
        with pytest.raises(sluice.CaptureError, match="nothing was queued"):
            writer.send(odd)
    assert graph.nodes() == 0 and not asked


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
            done.wait()
        graphs.append(graph)

    thread = threading.Thread(target=capture)
    thread.start()
    begun.wait()
    try:
        writer, reader = pair(shape=SHAPE)
        writer.send(torch.Tensor(source, SHAPE))
        frame = reader.next(timeout=60)
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
        assert (reader.next(timeout=60).numpy() == data).all() and array.asked == [None]
