# SPDX-License-Identifier: MIT
"""Frames on a GPU: where they lie, on which streams they are used, and when they end."""
import contextlib
import gc
import pathlib
import threading
import time

import pytest

import sluice
from dl import Taken, take
from gpu_kit import LEGACY

SIZE = 4096


@pytest.fixture
def writer(gpu):
    with sluice.Writer("cam", shape=SIZE, device=gpu.device, slots=4, max_slots=4) as writer:
        yield writer
        gpu.open_gates()


@pytest.fixture
def reader(gpu, writer):
    with sluice.Reader("cam") as reader:
        yield reader
        gpu.open_gates()


def publish(gpu, writer, value, stream=None):
    """A frame full of `value`; gives its address in the writer."""
    own = stream or gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(own, gpu.device), meta=bytes([value])) as frame:
        taken = take(frame, own)
        gpu.fill(taken.data, value, SIZE, own)
    if stream is None:
        gpu.synchronize(own)
    return taken.data


def wait_until(condition, seconds=5):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.001)


def free_slots(writer):
    """Numbers of the slots that the writer may have now."""
    frames = []
    while (frame := writer.try_frame()) is not None:
        frames.append(frame)
    numbers = {frame.slot for frame in frames}
    for frame in frames:
        frame.cancel()
    return numbers


def ends_only_then(writer, slot, gates):
    """The slot comes free when all the gates have been opened, and not before."""
    for gate in gates:
        for _ in range(5):
            assert slot not in free_slots(writer)
            time.sleep(0.004)
        gate.open()
    wait_until(lambda: slot in free_slots(writer))


# ---- what it is ----

def test_where_it_lies(gpu, writer, reader):
    assert writer.device == reader.device == gpu.device
    address = publish(gpu, writer, 7)
    frame = reader.next(timeout=5)
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
    frame = reader.next(timeout=5)
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
        frame = reader.next(timeout=1, stream=sluice.Stream("host"))
        assert frame.device == "host" and not hasattr(frame[0], "__cuda_array_interface__")
        frame.used_on(sluice.Stream("host"))
        for call in (lambda: frame.used_on(gpu_stream), lambda: reader.next(timeout=0, stream=gpu_stream)):
            gpu_stream = sluice.Stream(gpu.device)
            with pytest.raises(sluice.WrongDeviceError):
                call()
        with pytest.raises(ValueError, match="memoryview"):
            frame.view(kind="torch")


def test_the_cuda_array_interface(gpu, writer, reader):
    publish(gpu, writer, 3)
    own = sluice.Stream(gpu.device)
    frame = reader.next(timeout=5, stream=own)
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
    frame = reader.next(timeout=5)
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
    frame = reader.next(timeout=5)
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
    frame = reader.next(timeout=5)
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
        frame = reader.next(timeout=5)
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


# ---- ends ----

@pytest.mark.parametrize("end", ["release", "with", "del", "array", "thread"])
def test_a_lease_ends_behind_its_stream(gpu, writer, reader, end):
    publish(gpu, writer, 5)
    stream = gpu.stream()
    frame = reader.next(timeout=5)
    slot = frame.slot
    taken = take(frame, stream)
    gate = gpu.gate(stream)
    found = gpu.look(taken.data, SIZE, stream)
    if end == "with":
        with frame:
            taken.drop()
    elif end == "array":
        frame.release()
        taken.drop()
    else:
        taken.drop()
        if end == "release":
            frame.release()
        elif end == "thread":
            thread = threading.Thread(target=frame.release)
            thread.start()
            thread.join()
    del frame
    publish(gpu, writer, 6)  # the slot is not the newest one any more
    ends_only_then(writer, slot, [gate])
    gpu.synchronize(stream)
    assert bytes(found) == bytes([5]) * SIZE


@pytest.mark.parametrize("how", ["two", "with the default", "five"])
def test_a_lease_ends_behind_all_its_streams(gpu, writer, reader, how):
    publish(gpu, writer, 5)
    count = {"two": 2, "with the default": 1, "five": 5}[how]
    streams = [gpu.stream() for _ in range(count)] + ([LEGACY] if how == "with the default" else [])
    frame = reader.next(timeout=5, stream=sluice.Stream.from_handle(streams[0], gpu.device))
    for stream in streams[1:]:
        taken = take(frame, stream or 1)
        taken = take(frame, stream or 1)  # once is enough
    slot = frame.slot
    gates = [gpu.gate(stream) for stream in streams]
    taken.drop()
    frame.release()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)


def test_used_on(gpu, writer, reader):
    publish(gpu, writer, 5)
    first, second = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    with reader.next(timeout=5) as frame:
        slot = frame.slot
        frame.used_on(first, second)
        gates = [gpu.gate(first.native), gpu.gate(second.native)]
    with pytest.raises(sluice.StaleError):
        frame.used_on(first)
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, gates)


def test_the_threads_stream(gpu, writer, reader):
    """Entered: it is the frame's. One that was given comes before it."""
    publish(gpu, writer, 5)
    given, entered = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    with entered.use():
        frame = reader.next(timeout=5)
    slot, gate = frame.slot, gpu.gate(entered.native)
    frame.release()
    publish(gpu, writer, 6)
    ends_only_then(writer, slot, [gate])
    with entered.use():
        frame = reader.next(timeout=5, stream=given)
    slot, gate = frame.slot, gpu.gate(entered.native)
    frame.release()
    publish(gpu, writer, 7)
    wait_until(lambda: slot in free_slots(writer))
    gate.open()


def test_a_commit_waits_for_its_streams(gpu, writer, reader):
    first, second = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(first, gpu.device)) as frame:
        taken = take(frame, second)
        gates = [gpu.gate(first), gpu.gate(second)]
        gpu.fill(taken.data, 8, SIZE, second)
    for gate in gates:
        assert reader.latest() is None
        time.sleep(0.02)
        assert reader.latest() is None
        gate.open()
    frame = reader.next(timeout=5)
    assert gpu.read(take(frame, 1).data, SIZE) == bytes([8]) * SIZE


def test_a_cancelled_slot_waits_for_its_streams(gpu, writer):
    stream = gpu.stream()
    frame = writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device))
    slot, gate = frame.slot, gpu.gate(stream)
    frame.cancel()
    ends_only_then(writer, slot, [gate])
    frame = writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device))
    slot, gate = frame.slot, gpu.gate(stream)
    del frame
    gc.collect()
    ends_only_then(writer, slot, [gate])


def test_a_consumer_waits_for_what_writes(gpu, writer):
    """Whoever takes a slot that is being filled on one stream comes behind that on another."""
    fills, looks = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(fills, gpu.device)) as frame:
        address = take(frame, fills).data
        gate = gpu.gate(fills)
        gpu.fill(address, 44, SIZE, fills)
        taken = take(frame, looks)
        found = gpu.look(taken.data, SIZE, looks)
        assert not gpu.is_idle(looks)
        gate.open()
    gpu.synchronize(looks)
    assert bytes(found) == bytes([44]) * SIZE


def test_a_ready_frame_is_not_waited_for(gpu, writer, reader):
    publish(gpu, writer, 5)
    busy, other = gpu.stream(), gpu.stream()
    frame = reader.next(timeout=5, stream=sluice.Stream.from_handle(busy, gpu.device))
    gate = gpu.gate(busy)
    found = gpu.look(take(frame, other).data, 8, other)
    gpu.synchronize(other)
    assert bytes(found) == b"\5" * 8
    gate.open()


def test_ahead(gpu, writer):
    fills, looks, last = gpu.stream(), gpu.stream(), gpu.stream()
    with sluice.Reader("cam", ahead=True) as reader:
        with pytest.raises(ValueError, match="ahead=True.*stream"):
            reader.next(timeout=0)
        with sluice.Stream.from_handle(looks, gpu.device).use():
            publish(gpu, writer, 1)
            reader.next(timeout=5).release()  # from here on the writer knows of it
            publish(gpu, writer, 2)
            reader.next(timeout=5).release()
            gate = gpu.gate(fills)
            publish(gpu, writer, 3, fills)
            frame = reader.next(timeout=5)
            assert frame.sequence == 3 and not gpu.is_idle(looks)
            found = gpu.look(take(frame, last).data, SIZE, last)  # another stream waits as well
            assert not gpu.is_idle(last)
            gate.open()
            gpu.synchronize(last)
            assert bytes(found) == bytes([3]) * SIZE
            frame.release()


def test_what_is_made_of_a_lost_frame_is_not_published_behind_several_streams(gpu, writer):
    """One of them waits for the frame; the commit is queued on a stream of Sluice's behind all of them."""
    fills, others = gpu.stream(), [sluice.Stream(gpu.device), sluice.Stream.default(gpu.device)]
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(sluice.Writer("made", shape=SIZE, device=gpu.device))
        reader = stack.enter_context(sluice.Reader("cam", ahead=True))
        stack.callback(gpu.open_gates)
        looks = sluice.Stream(gpu.device)
        publish(gpu, writer, 1)
        reader.next(timeout=5, stream=looks).release()
        publish(gpu, writer, 2)
        reader.next(timeout=5, stream=looks).release()
        gate = gpu.gate(fills)
        publish(gpu, writer, 3, fills)
        frame = reader.next(timeout=5, stream=looks)
        assert frame.sequence == 3 and not gpu.is_idle(looks.native)
        for other in others:  # the second one: Sluice waits for the default stream without an event
            out = made.frame(stream=looks)
            out.used_on(other)
            with pytest.raises(sluice.LostError, match="not whole"):
                out.commit()
            assert out.ended
        assert made.stats().committed == 0 and made.stats().cancelled == 2
        gate.open()
        with pytest.raises(sluice.LostError):
            frame.release()


def test_dropped_anywhere(gpu, writer, reader):
    """Deleters run on any thread, with and without the GIL; what a busy lock keeps from ending ends later."""
    stream = gpu.stream()
    handle = sluice.Stream.from_handle(stream, gpu.device)

    def drop(things):
        for thing in things:
            thing.drop()

    for number in range(50):
        publish(gpu, writer, number)
        frame = reader.next(timeout=5, stream=handle)
        taken = [take(frame, stream) for _ in range(4)] + [take(frame, 1)]
        frame.release()
        threads = [threading.Thread(target=drop, args=(taken[i::2],)) for i in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    gpu.synchronize(stream)
    publish(gpu, writer, 99)
    wait_until(lambda: len(free_slots(writer)) == 3)


def test_arrays_outlive_all(gpu):
    writer = sluice.Writer("cam", shape=SIZE, device=gpu.device)
    reader = sluice.Reader("cam")
    publish(gpu, writer, 42)
    with writer.frame() as begun:
        stale = take(begun, 1)
    frame = reader.next(timeout=5)
    while frame.sequence == 0:
        frame = reader.next(timeout=5)
    taken = take(frame, 1)
    address = stale.data
    reader.close()
    writer.close()
    del frame, reader, writer, begun
    gc.collect()
    gpu.read(taken.data, SIZE), gpu.read(address, SIZE)  # both are mapped still
    taken.drop()
    stale.drop()


def test_a_reset_ends_the_work_not_the_frame(gpu, writer, reader):
    publish(gpu, writer, 1)
    one, two = sluice.Stream(gpu.device), sluice.Stream(gpu.device)
    frames = [reader.next(timeout=5, stream=one)]
    publish(gpu, writer, 2)
    frames.append(reader.next(timeout=5, stream=one))
    frames[1].used_on(two)
    slots = {frame.slot for frame in frames}
    sluice.reset(gpu.device)
    for frame in frames:
        frame.release()
    publish(gpu, writer, 3)
    reader.next(timeout=5).release()
    wait_until(lambda: slots <= free_slots(writer) | {3}, 5)
    assert reader.stats().held == 0


# ---- captures ----

def test_a_release_inside_a_capture(gpu, writer, reader):
    """It leaves nothing in the graph, and comes to pass when the capture has ended: also of two streams."""
    for count in (1, 2):
        publish(gpu, writer, 5)
        streams = [gpu.stream() for _ in range(count)]
        frame = reader.next(timeout=5, stream=sluice.Stream.from_handle(streams[0], gpu.device))
        slot = frame.slot
        with gpu.capture(streams[0]) as graph:
            taken = [take(frame, stream) for stream in streams]
            gpu.look(taken[0].data, 16, streams[0])
            del taken
            frame.release()
            assert slot not in free_slots(writer)
        assert graph.nodes() == 1
        publish(gpu, writer, 6)
        with reader.next(timeout=5):
            wait_until(lambda: slot in free_slots(writer))
        for _ in range(20):
            graph.replay(streams[0])
        assert reader.latest() is None and reader.stats().held == 0


@pytest.mark.parametrize("close", ["close", "del"])
def test_a_reader_that_closes_inside_a_capture(gpu, writer, close):
    reader = sluice.Reader("cam")
    publish(gpu, writer, 5)
    first, second = gpu.stream(), gpu.stream()
    frame = reader.next(timeout=5, stream=sluice.Stream.from_handle(first, gpu.device))
    slot = frame.slot
    frame.used_on(sluice.Stream.from_handle(second, gpu.device))
    with gpu.capture(first) as graph:
        frame.release()
        if close == "close":
            reader.close()
        del reader, frame
        gc.collect()
    assert graph.nodes() == 0
    publish(gpu, writer, 6)
    wait_until(lambda: slot in free_slots(writer))
    wait_until(lambda: writer.stats().readers == 0)


@pytest.mark.parametrize("count", [1, 2])
def test_a_commit_inside_a_capture(gpu, writer, reader, count):
    """It is refused before anything is queued, and the frame stays begun."""
    streams = [gpu.stream() for _ in range(count)]
    frame = writer.frame(stream=sluice.Stream.from_handle(streams[-1], gpu.device))
    frame.used_on(*[sluice.Stream.from_handle(stream, gpu.device) for stream in streams])
    address = take(frame, streams[-1]).data
    with gpu.capture(streams[0]) as graph:
        for call in (frame.commit, frame.cancel):
            with pytest.raises(sluice.CaptureError, match="stays begun"):
                call()
        assert not frame.ended
        with pytest.raises(sluice.CaptureError):
            with frame:
                pass
        assert not frame.ended and writer.stats().committed == 0
    assert graph.nodes() == 0
    gpu.fill(address, 12, SIZE, streams[-1])
    frame.commit()
    assert gpu.read(take(reader.next(timeout=5), 1).data, SIZE) == bytes([12]) * SIZE


def test_a_frame_that_is_forgotten_inside_a_capture(gpu, writer):
    stream = gpu.stream()
    handle = sluice.Stream.from_handle(stream, gpu.device)
    with gpu.capture(stream) as graph:
        frame = writer.frame(stream=handle)
        slots = {frame.slot}
        del frame
        with pytest.raises(RuntimeError, match="the body's"):
            with writer.frame(stream=handle) as frame:
                slots.add(frame.slot)
                raise RuntimeError("the body's")
        gc.collect()
        assert len(slots) == 2 and not slots & free_slots(writer)
    assert graph.nodes() == 0
    wait_until(lambda: slots <= free_slots(writer))
    assert writer.stats().cancelled >= 2


def test_a_slot_that_cannot_be_waited_for_in_a_capture(gpu, writer):
    fills, captures = gpu.stream(), gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(fills, gpu.device)) as frame:
        with gpu.capture(captures) as graph:
            with pytest.raises(sluice.CaptureError, match="before the capture begins"):
                frame.__dlpack__(stream=captures)
        assert graph.nodes() == 0


def test_while_another_thread_captures_on_a_blocking_stream(gpu, writer, reader):
    """The default stream is shut then; frames that it uses begin and end all the same, with others too."""
    captures, other = gpu.stream(blocking=True), gpu.stream()
    default = sluice.Stream.default(gpu.device)
    with gpu.capture(captures) as graph:
        for number in range(6):
            with writer.frame(stream=default) as frame:
                if number % 2:
                    frame.used_on(sluice.Stream.from_handle(other, gpu.device))
            with reader.next(timeout=5, stream=default) as frame:
                assert frame.sequence == number + 1
                if number % 2:
                    frame.used_on(sluice.Stream.from_handle(other, gpu.device))
    assert graph.nodes() == 0
    wait_until(lambda: len(free_slots(writer)) == 3)


# ---- PyTorch, of which a double has what Sluice asks for ----

TORCH = """
import sys
sys.path.insert(0, {here!r})
import gc, dl, gpu_kit
gpu_kit.find()
torch = dl.install_torch({options})
import sluice
gpu = gpu_kit.Gpu()
writer = sluice.Writer("cam", shape=64, device="cuda:0", slots=4, max_slots=4, policy="wait", wait=5)
reader = sluice.Reader("cam")
def publish(value):
    with writer.frame() as frame:
        torch.stream = stream = gpu.stream()
        tensor = frame.torch()
        gpu.fill(tensor.data, value, tensor.nbytes, stream)
    gpu.synchronize(stream)
    torch.stream = 0
    return tensor
def free():
    frames = []
    while (frame := writer.try_frame()) is not None:
        frames.append(frame)
    return {{frame.slot for frame in frames}}
"""


@pytest.fixture
def with_torch(gpu, run):
    if not gpu.fake:
        pytest.skip("the double of PyTorch is for the fake driver: python/tests/gpu has the real one")

    def with_torch(code, **options):
        given = ", ".join(f"{name}={value}" for name, value in options.items())
        return run(TORCH.format(here=str(pathlib.Path(__file__).parent), options=given) + code)

    return with_torch


@pytest.mark.parametrize("exchange", [True, False])
def test_torch(with_torch, exchange):
    with_torch(f"""
publish(9)
for each in (lambda frame: frame.torch(), lambda frame: frame["data"].torch(), lambda frame: frame.torch("data")):
    frame = reader.next(timeout=5)
    torch.stream = gpu.stream()
    tensor = each(frame)
    assert type(tensor) is torch.Tensor and tensor.data == frame[0].address and tensor.shape == (64,)
    assert gpu.read(tensor.data, 64) == bytes([9]) * 64
    assert frame.torch(copy=True) == ("a copy of", tensor.data)
    slot, gate = frame.slot, gpu.gate(torch.stream)
    frame.release()
    del tensor, frame
    publish(9)
    for _ in range(5):
        assert slot not in free()
    gate.open()
    while slot not in free():
        pass
assert (torch.exchanged > 0) == {exchange}
""", exchange=exchange)


def test_torch_that_has_used_no_gpu_yet(with_torch):
    with_torch("""
publish(9)
frame = reader.next(timeout=5)
assert frame.torch().data == frame[0].address
frame.release()
""", up=False)


def test_the_current_streams_of_frameworks(with_torch):
    """Where nobody names a stream, those are used that the frameworks work on."""
    with_torch("""
publish(9)
frame = reader.next(timeout=5)
torch.stream = gpu.stream()
assert frame.__cuda_array_interface__["stream"] is None
slot, gate = frame.slot, gpu.gate(torch.stream)
frame.release()
torch.stream = 0
publish(1)
for _ in range(5):
    assert slot not in free()
gate.open()
while slot not in free():
    pass
""")


@pytest.mark.parametrize("exchange", [True, False])
def test_views(with_torch, exchange):
    with_torch("""
views, stale = {}, {}
for number in range(30):
    with writer.frame() as begun:
        view = begun.view()
        assert stale.setdefault(begun.slot, view) is view
    frame = reader.next(timeout=5)
    view = frame.view()
    assert views.setdefault(frame.slot, view) is view is frame.view("data") and view.data == frame[0].address
    frame.release()
assert len(views) <= reader.slots == 4
first = views[frame.slot]
for end in (lambda: writer.reformat(shape=32), reader.close, writer.close):
    gpu.read(first.data, 64)
    end()
    if not reader.closed:
        for _ in range(8):
            with writer.frame() as begun:
                assert begun.view() is not stale.get(begun.slot) and begun.view().shape == (32,)
            frame = reader.next(timeout=5)
            assert frame.view().shape == (32,) and frame.view() is frame.view()
            frame.release()
gpu.read(first.data, 64)
del first, views, stale, view
""", exchange=exchange)


def test_a_view_counts_as_use(with_torch):
    with_torch("""
publish(9)
with reader.next(timeout=5) as frame:
    torch.stream = gpu.stream()
    frame.view()
    slot, gate = frame.slot, gpu.gate(torch.stream)
torch.stream = 0
publish(1)
for _ in range(5):
    assert slot not in free()
gate.open()
while slot not in free():
    pass
try:
    reader.next(timeout=5).view(kind="jax")
except ValueError:
    pass
else:
    raise SystemExit("jax has views")
""")


def test_views_are_let_go(with_torch):
    """Those of a generation before, and all of them when reader and writer close: nothing stays mapped."""
    with_torch("""
import ctypes, time
gpu.library.fake_things.restype = type("Things", (ctypes.Structure,), {"_fields_": [("all", ctypes.c_long * 11)]})
def mappings():
    gc.collect()
    return gpu.library.fake_things().all[5]
def turn():
    with writer.frame() as frame:
        frame.view()
    with reader.next(timeout=5) as frame:
        frame.view()
turn()
before = mappings()
assert before > 0
for size in (128, 32, 64):
    writer.reformat(shape=size)
    for _ in range(9):
        turn()
    assert mappings() == before, (mappings(), before)
frame, begun = reader.latest() or None, writer.frame()
reader.close()
writer.close()
begun = None
end = time.monotonic() + 5
while mappings() and time.monotonic() < end:
    time.sleep(0.01)
assert mappings() == 0
""")


# ---- deaths, leaks ----

def test_a_killed_writers_frame_stays(gpu, start):
    child = start("write_on_gpu", "cam", 200)
    child.expect("open")
    with sluice.Reader("cam", wait=10) as reader:
        frame = reader.next(timeout=10)
        taken = take(frame, 1)
        child.kill()
        assert gpu.read(taken.data, SIZE) == bytes([200]) * SIZE
        with sluice.Writer("cam", shape=SIZE, device=gpu.device) as writer:
            publish(gpu, writer, 3)
            again = reader.next(timeout=10)
            while not again.new_session:  # what the dead one has left
                again.release()
                again = reader.next(timeout=10)
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
    wait_until(lambda: len(free_slots(writer)) == 3, 20)


def test_an_illegal_address(gpu, run):
    if not gpu.fake:
        pytest.skip("it would take the GPU's context from the other tests")
    run("""
import ctypes, os, sluice
writer = sluice.Writer("cam", shape=64, device="cuda:0")
reader = sluice.Reader("cam")
with writer.frame():
    pass
frame = reader.next(timeout=5)
ctypes.CDLL(os.environ["SLUICE_CUDA_DRIVER"]).fake_lose(0, 700)
try:
    while True:
        writer.frame(stream=sluice.Stream.default("cuda:0")).commit()
except sluice.DriverError as error:
    assert "stored into a frame that it may only read" in str(error), error
os._exit(0)
""")


@pytest.mark.limit(300)
def test_nothing_leaks(gpu, writer, reader, scale):
    import ctypes
    import resource
    streams = [gpu.stream(), gpu.stream()]
    handles = [sluice.Stream.from_handle(stream, gpu.device) for stream in streams]

    def turn(number):
        with writer.frame(stream=handles[0]) as frame:
            taken = take(frame, streams[number % 2])
            taken.drop()
        with reader.next(timeout=5) as frame:
            assert frame.sequence
            take(frame, streams[0]), take(frame, 1), Taken(frame[0].__dlpack__(stream=streams[1]))
            frame.__dlpack__(stream=1)  # nobody consumes it

    def things():
        if not gpu.fake:
            return None
        found = (ctypes.c_long * 11)()
        gpu.library.fake_things.restype = type("Things", (ctypes.Structure,),
                                               {"_fields_": [("all", ctypes.c_long * 11)]})
        found = list(gpu.library.fake_things().all)
        return found

    for number in range(200):
        turn(number)
    gpu.synchronize(streams[0])
    before, memory = things(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(int(3000 * scale)):
        turn(number)
    gpu.synchronize(streams[0])
    assert things() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < memory + 4096  # KiB
