# SPDX-License-Identifier: MIT
"""Copies out of frames on a GPU, and from channel to channel."""
import gc
import threading

import pytest

import gpu_arrays
import sluice
from gpu_arrays import CudaInterface, DLPack
from gpu_frames import ends_only_then, newest
from gpu_pair import SHAPE, SIZE, got, gpu_count, memory, pair, pattern, put, torch  # noqa: F401

numpy = pytest.importorskip("numpy", reason="NumPy is not installed")


# ---- out: numpy(), copy() ----

def test_numpy_is_a_copy_of_its_own(pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=60)
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
        with reader.next(timeout=60) as frame:
            copies.append(frame.numpy())
    assert all((copy == pattern(seed=seed)).all() for seed, copy in enumerate(copies))


def test_pinned_memory_comes_back_and_is_given_out_again(pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=60)
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
    frame = reader.next(timeout=60)
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
    frame = reader.next(timeout=60)
    for name, array in sent.items():
        assert (frame.numpy(name) == array).all() and frame[name].numpy().dtype == array.dtype
        assert (frame[name].copy() == array).all() and frame[name].copy().shape == array.shape
    with pytest.raises(KeyError):
        frame.numpy("none")


def test_arrays_without_elements(pair):
    writer, reader = pair(shape=(4, 3), dtype="float32")
    with writer.frame() as frame:
        frame.reshape((0, 3))
    array = reader.next(timeout=60).numpy()
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
    there = host_reader.next(timeout=60)
    writer.send(there)
    frame = reader.next(timeout=60)
    assert frame.device == gpu.device and frame.pixel_format == pixel_format
    for one, other in zip((there, *there.planes), (frame, *frame.planes), strict=True):
        expected, copy = one.copy(), other.copy()
        assert (copy.shape, copy.dtype) == (expected.shape, expected.dtype) and copy.flags.writeable
        if expected.ndim > 1:  # else there are bytes between the rows, which are undefined
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
    frame = reader.next(timeout=60)
    stream = gpu.stream()
    gate = gpu.gate(stream)
    gpu.fill(frame[0].address, 9, SIZE, stream)
    frame.used_on(sluice.Stream.from_handle(stream, gpu.device))
    threading.Timer(0.1, gate.open).start()
    assert (frame.numpy() == 9).all()


# ---- out: copy_to() ----

def test_copy_to_host_memory(pair):
    writer, reader = pair({"a": sluice.Tensor(SHAPE, "uint8"), "b": sluice.Tensor((5,), "float32")})
    sent = {"a": pattern(), "b": pattern((5,), "float32")}
    writer.send(sent)
    frame = reader.next(timeout=60)
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
        frame = reader.next(timeout=60)
        array = numpy.zeros(SHAPE, "uint8")
        frame.copy_to(array, stream=None)
        assert (array == pattern()).all()


@pytest.mark.parametrize("how", ["numpy", "copy", "copy_to", "copy_to_pinned"])
def test_copies_into_host_memory_come_behind_what_writes_to_the_frame(gpu, pair, how):
    writer, reader = pair(shape=SHAPE, writable=True, reader={"writable": True})
    writer.send(pattern())
    frame = reader.next(timeout=60)
    target = numpy.zeros(SHAPE, "uint8") if how == "copy_to" else frame.copy()
    stream = gpu.stream()
    gate = gpu.gate(stream)
    gpu.fill(frame[0].address, 9, SIZE, stream)
    frame.used_on(sluice.Stream.from_handle(stream, gpu.device))
    opener = threading.Timer(0.2, gate.open)
    opener.start()
    target = frame.copy_to(target) or target if "to" in how else getattr(frame, how)()
    opener.join()
    assert (target == 9).all()


@pytest.mark.parametrize("device", ["host", "gpu"])
@pytest.mark.parametrize("turned", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, 1), (-1, 1, -1), (-1, -1, -1)])
def test_copy_to_arrays_that_run_backwards(gpu, memory, pair, device, turned):
    """Pageable, pinned, on a GPU; what lies around them stays as it is."""
    writer, reader = pair(device=gpu.device if device == "gpu" else device, shape=SHAPE)
    writer.send(pattern(seed=5))
    frame = reader.next(timeout=60)
    backwards = tuple(slice(None, None, step) for step in turned)
    wide = numpy.zeros([extent + 2 for extent in SHAPE], "uint8")
    for target in (wide[1:-1, 1:-1, 1:-1][backwards], frame.copy()[backwards]):
        target[...] = 0
        frame.copy_to(target)
        assert (target == pattern(seed=5)).all()
    assert wide.sum() == pattern(seed=5).sum(dtype=wide.sum().dtype)
    if device == "gpu":
        there = memory(numpy.zeros(SHAPE, "uint8"))
        first = sum((extent - 1) * stride for extent, stride, step in zip(SHAPE, (32, 4, 1), turned, strict=True) if step < 0)
        frame.copy_to(DLPack(there, SHAPE, strides=[step * stride for step, stride in zip(turned, (32, 4, 1), strict=True)], offset=first))
        assert (got(gpu, there)[backwards] == pattern(seed=5)).all()
    with pytest.raises(sluice.InvalidError, match="overlap"):
        frame.copy_to(numpy.lib.stride_tricks.as_strided(wide[5:], SHAPE, (0, 4, 1)))


def test_copy_to_refuses(gpu, memory, pair):
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=60)
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
    frame = reader.next(timeout=60)
    frame.copy_to(torch.Tensor(target, SHAPE))  # or this would never end
    frame.release()
    del frame
    assert not got(gpu, target).any()
    writer.send(pattern(seed=1))
    writer.send(pattern(seed=2))
    gate.open()
    gpu.synchronize(stream)
    assert (got(gpu, target) == pattern()).all()  # its slot was not written meanwhile
    assert (newest(writer, reader).numpy() == pattern(seed=2)).all()


def test_copy_to_on_a_stream_that_is_named(gpu, memory, pair, torch):
    """The copy waits for the tensor's own stream, and that for the copy."""
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=60)
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
    frame = reader.next(timeout=60)
    target = memory(numpy.zeros(SHAPE, "uint8"))
    frame.copy_to(DLPack(target, SHAPE))
    assert (got(gpu, target) == pattern()).all()
    stream = gpu.stream()
    put(gpu, target, numpy.zeros(SHAPE, "uint8"))
    frame.copy_to(CudaInterface(target, SHAPE, stream=stream))
    assert (got(gpu, target) == pattern()).all()


def test_copy_to_that_gives_up_while_the_copy_is_queued(gpu, memory, pair):
    """The frame ends behind the copy all the same, and its target stays."""
    writer, reader = pair(shape=SHAPE, slots=3, max_slots=3)
    writer.send(pattern())
    stream, target = gpu.stream(), memory(numpy.zeros(SHAPE, "uint8"))
    gate = gpu.gate(stream)
    array = DLPack(target, SHAPE)
    with reader.next(timeout=60) as frame:
        slot = frame.slot
        with pytest.raises(sluice.Timeout, match=r'"cuda:0" has not finished after 10 s.*synchronize its stream first; the target'):
            frame.copy_to(array, stream=sluice.Stream.from_handle(stream, gpu.device))
    writer.send(pattern(seed=1))  # so that the slot does not have the newest frame
    ends_only_then(writer, slot, [gate])
    gpu.synchronize(stream)
    assert array.deleted == 0 and (got(gpu, target) == pattern()).all()


def test_copy_to_another_gpu(gpu, memory, pair):
    if gpu_count(gpu) < 2:
        pytest.skip("one GPU")
    writer, reader = pair()
    writer.send(pattern())
    target = memory(ordinal=1)
    reader.next(timeout=60).copy_to(DLPack(target, SHAPE))
    assert (got(gpu, target) == pattern()).all()


def test_copy_to_a_slot_of_another_channel(gpu, pair):
    writer, reader = pair()
    other, read = pair(name="b")
    writer.send(pattern())
    with other.frame() as slot:
        reader.next(timeout=60).copy_to(slot[0])
    assert (read.next(timeout=60).numpy() == pattern()).all()


def test_copy_to_targets_that_frameworks_copy_into_better(gpu, memory, pair, torch):
    """In many pieces, or on a GPU when the frame is not."""
    writer, reader = pair()
    torch.current[0] = gpu.stream()
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    frame = reader.next(timeout=60)
    target = torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
    frame.copy_to(target)
    frame.copy_to(target, frame.keys()[0])
    assert target.called == [(frame[0].address, torch.current[0])] * 2

    writer, reader = pair(name="h", device="host", shape=SHAPE)
    writer.send(pattern())
    frame = reader.next(timeout=60)
    target = torch.Tensor(memory(), SHAPE)
    frame.copy_to(target)
    assert target.called == [(frame[0].address, torch.current[0])]
    with pytest.raises(sluice.UnsupportedError, match="PyTorch's and CuPy's"):
        frame.copy_to(DLPack(memory(), SHAPE))


def test_a_target_that_a_framework_copies_into_wants_a_stream_of_its_gpu(gpu, memory, pair, torch, monkeypatch):
    copied = []
    monkeypatch.setattr("sluice._copies._copy_torch", lambda target, array, stream: copied.append(stream))
    on_gpu, on_host = pair(), pair(name="h", device="host", shape=SHAPE)
    own, other = sluice.Stream(gpu.device), sluice.Stream("host")
    for writer, reader in (on_gpu, on_host):
        writer.send(pattern())
        frame = reader.next(timeout=60)
        target = torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
        target.device = type("device", (int,), {"index": gpu.ordinal})(target.device)
        frame.copy_to(target, stream=own)
        if (writer, reader) == on_gpu:
            with pytest.raises(sluice.WrongDeviceError):
                frame.copy_to(target, stream=other)
        else:  # which says nothing about a GPU
            frame.copy_to(target, stream=other)
    assert copied == [own, own, None]


# What is the matter with the second of two targets, and what copy_to() says then.
AGAINST = {"captures": (sluice.CaptureError, "captur"), "read-only": (BufferError, "read-only"), "jax": (TypeError, "JAX"),
           "shape": (sluice.FormatError, "only the same"), "odd shape": (sluice.FormatError, "must be the same"),
           "name": (KeyError, "none"), "not an array": (TypeError, "not an array")}


@pytest.mark.parametrize("first", ["odd", "plain"])
@pytest.mark.parametrize("against", AGAINST)
def test_a_mapping_that_is_refused_is_not_begun(gpu, memory, pair, torch, against, first):
    """Neither is copied into that could be, a tensor in many pieces nor one in one; and none is kept."""
    writer, reader = pair({name: sluice.Tensor(SHAPE, "uint8") for name in "ab"})
    writer.send({"a": pattern(), "b": pattern(seed=1)})
    frame = reader.next(timeout=60)
    torch.current[0], captures = gpu.stream(), gpu.stream()
    whole = DLPack(memory(numpy.zeros(SHAPE, "uint8")), SHAPE)
    odd = torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
    jax = type("Array", (DLPack,), {"__module__": "jaxlib.stand_in"})
    other = {"captures": lambda: CudaInterface(memory(), SHAPE, stream=captures), "read-only": lambda: bytes(SIZE),
             "jax": lambda: jax(memory(), SHAPE), "shape": lambda: DLPack(memory(), (2, 2)),
             "odd shape": lambda: torch.Tensor(memory(), (8, 6, 4), strides=(4, 32, 1)), "name": lambda: DLPack(memory(), SHAPE),
             "not an array": lambda: 5}[against]()
    target = {"a": odd if first == "odd" else whole, "none" if against == "name" else "b": other}
    error, match = AGAINST[against]
    with gpu.capture(captures) as graph:
        with pytest.raises(error, match=match):
            frame.copy_to(target)
    assert graph.nodes() == 0 and odd.called == [] and not got(gpu, whole.memory).any()
    assert all(each.deleted == len(each.asked) for each in (whole, other) if isinstance(each, DLPack))
    frame.copy_to({"a": whole, "b": odd})
    assert odd.called == [(frame["b"].address, torch.current[0])] and (got(gpu, whole.memory) == pattern()).all()


@pytest.mark.parametrize("captures", ["the frame's", "given", "framework"])
def test_odd_targets_are_looked_at_before_others_are_copied(gpu, memory, pair, torch, captures):
    """The stream that the copy of a tensor in many pieces would wait for captures, the other one's does not."""
    writer, reader = pair({name: sluice.Tensor(SHAPE, "uint8") for name in "ab"}, writable=True,
                          reader={"writable": captures == "the frame's"})
    writer.send({"a": pattern(), "b": pattern(seed=1)})
    stream = gpu.stream()
    named = sluice.Stream.from_handle(stream, gpu.device)
    torch.current[0] = stream if captures == "framework" else gpu.stream()
    frame = reader.next(timeout=60, stream=named if captures == "the frame's" else None)
    whole, odd = memory(numpy.zeros(SHAPE, "uint8")), torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
    with gpu.capture(stream) as graph:
        for target in ({"a": odd}, {"b": odd, "a": DLPack(whole, SHAPE)}, {"a": DLPack(whole, SHAPE), "b": odd}):
            with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                frame.copy_to(target, stream=named if captures == "given" else None)
    assert graph.nodes() == 0 and odd.called == [] and not got(gpu, whole).any()


def test_an_odd_target_is_copied_on_a_given_stream_while_the_threads_own_captures(gpu, memory, pair, torch, monkeypatch):
    copied = []
    monkeypatch.setattr("sluice._copies._copy_torch", lambda target, array, stream: copied.append((target, stream)))
    writer, reader = pair()
    writer.send(pattern())
    captures, free = gpu.stream(), sluice.Stream(gpu.device)
    torch.current[0] = gpu.stream()
    odd = torch.Tensor(memory(), SHAPE, strides=(1, 6, 48))
    frame = reader.next(timeout=60)
    with sluice.Stream.from_handle(captures, gpu.device).use(), gpu.capture(captures) as graph:
        frame.copy_to(odd, stream=free)
    assert graph.nodes() == 0 and copied == [(odd, free)]


def test_a_copy_by_a_framework_is_refused_while_its_stream_captures(gpu, pair, torch, monkeypatch):
    """torch(copy=True): it would be in the program's graph, and the tensor empty until that is replayed."""
    cloned = []
    monkeypatch.setattr(gpu_arrays.Taken, "clone", lambda self: cloned.append(self.address) or "a copy", raising=False)
    writer, reader = pair()
    writer.send(pattern())
    frame = reader.next(timeout=60)
    stream = torch.current[0] = gpu.stream()
    with gpu.capture(stream) as graph:
        for copy in (frame.torch, frame[0].torch):
            with pytest.raises(sluice.CaptureError, match="nothing was queued"):
                copy(copy=True)
    assert graph.nodes() == 0 and cloned == []
    assert frame.torch(copy=True) == frame[0].torch(copy=True) == "a copy" and cloned == [frame[0].address] * 2


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
        frame = reader.next(timeout=60)
        other.send(frame, like=frame)
        frame.release()
        with read.next(timeout=60) as there:
            assert there.meta == b"%d" % seed and there.pixel_format == "nv12"
            assert all((there.copy(name) == sent[name]).all() for name in sent)


def test_a_frame_that_is_sent_on_ends_behind_the_copy(gpu, pair, torch):
    writer, reader = pair(reader={"hold": 1})
    other, read = pair(name="b")
    writer.send(pattern())
    stream = gpu.stream()
    gate = gpu.gate(stream)
    frame = reader.next(timeout=60)
    other.send(frame, stream=sluice.Stream.from_handle(stream, gpu.device))
    frame.release()
    for seed in range(1, 9):
        writer.send(pattern(seed=seed))
    gate.open()
    assert (read.next(timeout=60).numpy() == pattern()).all()


def test_tensors_are_sent_to_channels_in_host_memory(gpu, memory, pair, torch):
    writer, reader = pair(device="host", shape=SHAPE)
    torch.Tensor.cpu = lambda self: got(gpu, self.memory)
    writer.send(torch.Tensor(memory(pattern()), SHAPE))
    assert (reader.next(timeout=60).copy() == pattern()).all()

    class Cupy(DLPack):
        def get(self):
            return got(gpu, self.memory)

    writer.send(Cupy(memory(pattern(seed=2)), SHAPE))
    assert (reader.next(timeout=60).copy() == pattern(seed=2)).all()
    for other in (DLPack, CudaInterface):
        with pytest.raises(sluice.UnsupportedError, match="in host memory"):
            writer.send(other(memory(), SHAPE))
