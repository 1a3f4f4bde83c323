# SPDX-License-Identifier: MIT
"""Frames on a GPU as arrays of frameworks: no copy where none is promised, the right bytes everywhere."""
import asyncio

import numpy as np
import pytest

import sluice
from needs import torch
from work import DEVICE, eventually, held, narrow_writer, shown, spin, write

SHAPE = (48, 64)


def values(kind=None):
    return torch.arange(SHAPE[0] * SHAPE[1], dtype=kind or torch.float32, device=DEVICE).reshape(SHAPE)


@pytest.fixture
def pair():
    with sluice.Writer("f", shape=SHAPE, dtype="float32", device=DEVICE) as writer, sluice.Reader("f", hold=3) as reader:
        yield writer, reader


@pytest.fixture
def frame(pair):
    pair[0].send(values())
    yield pair[1].next(timeout=60)


# ---- no copies ----

def test_devices_have_names(pair, frame):
    writer, reader = pair
    assert frame.device == writer.device == reader.device == frame[0].device == DEVICE
    assert frame.__dlpack_device__() == (2, 0)  # kDLCUDA


def test_torch_has_the_slot_itself(frame):
    assert frame.torch().data_ptr() == frame[0].address == torch.from_dlpack(frame).data_ptr()
    assert frame["data"].torch().data_ptr() == frame[0].address
    assert torch.equal(frame.torch(), values()) and frame.torch().device == torch.device(DEVICE)


def test_torch_takes_the_array_interface_which_says_nothing_of_read_only(frame):
    tensor = torch.as_tensor(frame, device=DEVICE)
    assert tensor.data_ptr() == frame[0].address and torch.equal(tensor, values())
    interface = frame.__cuda_array_interface__
    assert interface["version"] == 3 and interface["data"] == (frame[0].address, False)
    assert interface["stream"] != 0


def test_cupy_has_the_slot_itself(cupy, frame):
    for array in (frame.cupy(), cupy.from_dlpack(frame), cupy.asarray(frame), frame["data"].cupy()):
        assert array.data.ptr == frame[0].address and array.shape == SHAPE
        assert (array.get() == values().cpu().numpy()).all()


def test_jax_has_the_slot_itself(jax, frame):
    for array in (frame.jax(), jax.dlpack.from_dlpack(frame)):
        assert (np.asarray(array) == values().cpu().numpy()).all()
        assert array.unsafe_buffer_pointer() == frame[0].address


def test_pointers_stay_for_a_generation(pair):
    writer, reader = pair
    seen = {}
    for number in range(60):
        with writer.frame() as out:
            out.torch().fill_(number)
            assert 0 <= out.slot
        frame = reader.next(timeout=60)
        assert 0 <= frame.slot < reader.slots
        seen.setdefault((frame.generation, frame.slot), set()).add(frame.torch().data_ptr())
        frame.release()
    assert len(seen) > 1 and all(len(addresses) == 1 for addresses in seen.values())


def test_a_slot_that_is_written_is_the_one_that_is_read(pair, cupy):
    writer, reader = pair
    with writer.frame() as out:
        out.torch().fill_(3)
        torch.from_dlpack(out)[1] = 4
        torch.cuda.synchronize()
        out.cupy()[2] = 5
        assert out.torch().data_ptr() == out.cupy().data.ptr == out[0].address
    got = reader.next(timeout=60).torch()[:3, 0].tolist()
    assert got == [3, 4, 5]


def test_jax_fills_a_slot_by_send(pair, jax):
    writer, reader = pair
    writer.send(jax.numpy.full(SHAPE, 7, "float32") * 2)
    assert (reader.next(timeout=60).torch() == 14).all()


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16",
                                  "complex64", "bool"])
def test_every_data_type(name):
    kind = getattr(torch, name)
    source = torch.ones(8, dtype=kind, device=DEVICE)
    with sluice.Writer("t", shape=(8,), dtype=kind, device=DEVICE) as writer, sluice.Reader("t") as reader:
        writer.send(source)
        frame = reader.next(timeout=60)
        assert frame.dtype == name and frame.torch().dtype == kind and torch.equal(frame.torch(), source)


# ---- DLPack's streams ----

def test_streams_that_dlpack_names(frame):
    side = torch.cuda.Stream()
    for stream in (None, 1, 2, side.cuda_stream, -1):
        assert frame.__dlpack__(stream=stream, max_version=(1, 0)) is not None
    with pytest.raises((ValueError, sluice.InvalidError)):
        frame.__dlpack__(stream=0, max_version=(1, 0))
    with pytest.raises((TypeError, ValueError)):
        frame.__dlpack__(stream="1", max_version=(1, 0))


def test_versioned_capsules_are_read_only_for_readers(pair, frame):
    """The flag is in the struct: bit 0 of flags, behind version, manager_ctx and deleter."""
    import ctypes

    def flags(owner):
        capsule = owner.__dlpack__(stream=1, max_version=(1, 0))
        get = ctypes.PyDLL(None).PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        address = get(capsule, b"dltensor_versioned")
        return ctypes.c_uint64.from_address(address + 24).value

    assert flags(frame) & 1
    with pair[0].frame() as out:
        assert not flags(out) & 1
        out.torch().zero_()


# ---- ways out: a copy, a writable reader ----

def test_a_copy_is_ones_own(frame):
    tensor = frame.torch(copy=True)
    assert tensor.data_ptr() != frame[0].address
    tensor += 1
    assert torch.equal(tensor - 1, values()) and torch.equal(frame.torch(), values())


def test_a_copy_of_cupys_is_ones_own(cupy, frame):
    array = frame.cupy(copy=True)
    assert array.data.ptr != frame[0].address
    array += 1
    assert (array.get() - 1 == values().cpu().numpy()).all()


def test_a_writable_reader_may_write():
    with sluice.Writer("w", shape=SHAPE, dtype="float32", device=DEVICE, writable=True) as writer:
        with sluice.Reader("w", writable=True) as reader:
            writer.send(values())
            tensor = reader.next(timeout=60).torch()
            tensor.mul_(2)
            torch.cuda.synchronize()
            assert torch.equal(tensor, values() * 2)


def test_torchs_first_line_says_what_writing_does():
    first = sluice.Frame.torch.__doc__.splitlines()[0]
    assert "read-only" in first and "context" in first


# ---- copies on the host ----

async def fetched(frame):
    return await frame.fetch()


def test_numpy_is_a_copy_of_ones_own_in_pinned_memory(frame):
    first, second = frame.numpy(), frame.numpy()
    assert first.ctypes.data != second.ctypes.data and first.flags.writeable
    assert torch.from_numpy(first).is_pinned() and torch.from_numpy(asyncio.run(fetched(frame))).is_pinned()
    first[0, 0] = -1
    expected = values().cpu().numpy()
    assert (second == expected).all() and (frame.copy() == expected).all()
    frame.release()
    assert (second == expected).all()


def test_pinned_buffers_come_back_to_their_pool(pair):
    """Memory of numpy() is reused when it is not referenced: a hundred thousand arrays take no more than three."""
    writer, reader = pair
    writer.send(values())
    frame = reader.next(timeout=60)
    addresses = {frame.numpy().ctypes.data for _ in range(50)}
    assert len(addresses) <= 3


def test_fetches_go_side_by_side(pair):
    writer, reader = pair
    writer.send(values())

    async def main():
        frame = await reader.next_async(timeout=60)
        return await asyncio.gather(frame.fetch(), frame.fetch("data"))

    for array in asyncio.run(main()):
        assert (array == values().cpu().numpy()).all()


def test_fetch_lets_the_loop_go_on():
    """The loop turns many times between the beginning and the end of one copy, which takes milliseconds."""
    shape = (64 << 20,)  # 256 MiB
    source = torch.arange(shape[0], dtype=torch.int32, device=DEVICE)
    expected, ticks = source.cpu().numpy(), 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def fetch(reader):
        frame = await reader.next_async(timeout=60)
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0)
        before = ticks
        array = await frame.fetch()
        during = ticks - before
        ticking.cancel()
        return array, during

    def attempt():
        writer.send(source)
        array, during = asyncio.run(fetch(reader))
        assert (array == expected).all()
        return during >= 20

    with narrow_writer("big", shape=shape) as writer, sluice.Reader("big") as reader:
        assert shown(attempt), "the loop stood still while a frame was copied"


def test_copy_to_memory_of_any_kind(frame, cupy):
    expected = values().cpu().numpy()
    here, pinned = np.zeros(SHAPE, "f4"), torch.zeros(SHAPE, pin_memory=True)
    there, array = torch.zeros(SHAPE, device=DEVICE), cupy.zeros(SHAPE, "f4")
    for target in (here, pinned, there, array, {"data": torch.zeros(SHAPE, device=DEVICE)}):
        frame.copy_to(target)
        torch.cuda.synchronize()
        got = target["data"] if isinstance(target, dict) else target
        got = got.get() if isinstance(got, cupy.ndarray) else got.cpu().numpy() if isinstance(got, torch.Tensor) else got
        assert (got == expected).all()
    with pytest.raises((sluice.FormatError, sluice.CapacityError, ValueError)):
        frame.copy_to(torch.zeros((2, 2), device=DEVICE))


def test_copy_to_is_behind_what_the_stream_does(frame):
    """A tensor that is still being cleared is filled afterwards, by the current stream, and the CPU does not wait."""
    side = torch.cuda.Stream()
    target = torch.zeros(SHAPE, device=DEVICE)
    torch.cuda.synchronize()

    def attempt():
        with torch.cuda.stream(side):
            spin(30)
            target.zero_()
            frame.copy_to(target)
            return not side.query()

    assert shown(attempt)
    side.synchronize()
    assert torch.equal(target, values())


# ---- send ----

def test_send_takes_tensors_of_any_strides(pair):
    writer, reader = pair
    wide = torch.arange(48 * 128, dtype=torch.float32, device=DEVICE).reshape(48, 128)
    for source in (values(), values().T.contiguous().T, wide[:, ::2], wide[:, 64:], values().flip(0),
                   values()[:, :1].expand(SHAPE)):
        writer.send(source)
        frame = reader.next(timeout=60)
        assert torch.equal(frame.torch(), source), source.stride()
        frame.release()


def test_send_takes_what_any_framework_has(pair, cupy, jax):
    writer, reader = pair
    expected = values().cpu().numpy()
    device_array = cupy.asarray(expected)

    class Interface:
        __cuda_array_interface__ = device_array.__cuda_array_interface__

    for source in (expected, np.asfortranarray(expected), torch.from_numpy(expected), torch.from_numpy(expected).pin_memory(),
                   device_array, cupy.asfortranarray(device_array), Interface(), jax.numpy.asarray(expected),
                   {"data": values()}):
        writer.send(source)
        frame = reader.next(timeout=60)
        assert (frame.numpy() == expected).all(), type(source)
        frame.release()


def test_a_frame_that_was_read_is_sent_on(pair, frame):
    with sluice.Writer.like("on", frame, device=DEVICE) as second, sluice.Reader("on") as reader:
        second.send(frame)
        assert torch.equal(reader.next(timeout=60).torch(), values())


def test_a_tensor_may_be_overwritten_once_it_is_sent(pair):
    writer, reader = pair
    tensor = values()
    for number in range(100):
        tensor.fill_(number)
        writer.send(tensor)
        tensor.fill_(-1)
        frame = reader.next(timeout=60)
        assert (frame.torch() == number).all(), number
        frame.release()


# ---- view() ----

def test_view_is_one_tensor_a_slot_and_holds_no_lease(pair):
    writer, reader = pair
    seen = {}
    for number in range(30):
        writer.send(values() + number)
        frame = reader.next(timeout=60)
        view = frame.view()
        assert torch.equal(view, values() + number) and view.data_ptr() == frame[0].address
        assert seen.setdefault((frame.generation, frame.slot), view) is view
        frame.release()
    assert eventually(lambda: held(reader) == 0)  # though all views live


def test_memory_of_a_pool_that_streams_allocate_from(pair, cupy):
    """By cudaMallocAsync: RMM has such memory, and CuPy and PyTorch if they are set to use it."""
    writer, reader = pair
    with cupy.cuda.using_allocator(cupy.cuda.MemoryAsyncPool().malloc):
        for number in range(5):  # what was freed may come again
            array = cupy.full(SHAPE, number, "float32")
            writer.send(array)
            with reader.next(timeout=60) as frame:
                assert (frame.torch() == number).all()
                back = cupy.empty(SHAPE, "float32")
                frame.copy_to(back)
                assert (back.get() == number).all()
            del array, back


def test_view_as_cupys(pair, cupy):
    writer, reader = pair
    writer.send(values())
    frame = reader.next(timeout=60)
    view = frame.view(kind="cupy")
    assert isinstance(view, cupy.ndarray) and view.data.ptr == frame[0].address


def test_views_of_an_old_generation_stay_mapped(pair):
    """A graph that was captured on one may be replayed still: it reads old pixels, and kills no context."""
    writer, reader = pair
    writer.send(values())
    frame = reader.next(timeout=60)
    view, old = frame.view(), frame.generation
    frame.release()
    writer.reformat(shape=(256, 256), dtype="float32")
    with writer.frame() as out:
        out.torch().zero_()
    second = reader.next(timeout=60)
    assert second.generation != old and second.shape == (256, 256)
    view.sum().item()  # would be an illegal address
    torch.cuda.synchronize()


# ---- several arrays ----

def test_arrays_by_name_with_shapes_of_their_own():
    formats = {"view": sluice.Image("rgb24", 32, 16), "boxes": sluice.Tensor((100, 4), "float32")}
    with sluice.Writer("robot", formats, device=DEVICE) as writer, sluice.Reader("robot") as reader:
        for count in (3, 0, 100):
            with writer.frame() as out:
                out.reshape((count, 4), "boxes")
                out.torch("boxes").fill_(count)
                out.torch("view").fill_(9)
            frame = reader.next(timeout=60)
            boxes = frame.torch("boxes")
            assert boxes.shape == (count, 4) and (boxes == count).all() and (frame["view"].torch() == 9).all()
            del boxes
            frame.release()


def test_nv12_has_planes():
    with sluice.Writer("nv", sluice.Image("nv12", 64, 48), device=DEVICE) as writer, sluice.Reader("nv") as reader:
        with writer.frame() as out:
            luma, chroma = (plane.torch() for plane in out.planes)
            luma.fill_(200)
            chroma.fill_(100)
        luma, chroma = (plane.torch() for plane in reader.next(timeout=60).planes)
        assert (luma == 200).all() and (chroma == 100).all() and chroma.shape == (24, 32, 2)


# ---- errors ----

def test_a_frame_of_a_gpu_is_no_buffer(frame):
    with pytest.raises((BufferError, TypeError)):
        memoryview(frame)


def test_ahead_needs_a_stream(pair):
    with sluice.Reader("f", ahead=True) as reader:
        pair[0].send(values())
        with pytest.raises((sluice.InvalidError, ValueError), match="stream"):
            reader.next(timeout=60)


def test_a_full_channel_says_so():
    with narrow_writer("n", slots=4, max_slots=4) as writer, sluice.Reader("n", hold=2) as reader:
        kept = []
        for number in range(2):
            write(writer, number)
            kept.append(reader.next(timeout=60).torch())
        write(writer, 2)
        begun = writer.frame(timeout=60)
        with pytest.raises(sluice.NoFreeSlot):
            writer.frame()
        begun.cancel()
        assert [int(tensor[0, 0]) for tensor in kept] == [0, 1]
