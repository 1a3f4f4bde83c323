# SPDX-License-Identifier: MIT
import array
import ctypes
import sys
import threading
import time

import numpy as np
import pytest

import sluice
from eventually import SECONDS

IMAGE = sluice.Image("nv12", 4, 4)


def test_a_frame_goes_from_writer_to_reader():
    with sluice.Writer("cam", shape=(4, 6, 3)) as writer, sluice.Reader("cam") as reader:
        with writer.frame(meta=b"first") as frame:
            view = frame.numpy()
            assert view.shape == (4, 6, 3) and view.dtype == np.uint8 and view.flags.writeable
            view[:] = np.arange(72).reshape(4, 6, 3)
            assert frame.sequence == 0 and not frame.ended
        assert frame.ended and frame.sequence == 1
        got = reader.next(timeout=60)
        assert (got.numpy() == np.arange(72).reshape(4, 6, 3)).all()
        assert got.sequence == 1 and got.meta == b"first" and got.slot == frame.slot


def test_formats_that_writers_take():
    cases = [
        (dict(shape=(3, 4)), {"data": sluice.Tensor((3, 4), "uint8")}),
        (dict(shape=7, dtype="float32"), {"data": sluice.Tensor((7,), "float32")}),
        (dict(shape=[2, 2], dtype=np.int16), {"data": sluice.Tensor((2, 2), "int16")}),
        (dict(shape=(2,), dtype=np.dtype("c8")), {"data": sluice.Tensor((2,), "complex64")}),
        (dict(shape=(2,), dtype=float), {"data": sluice.Tensor((2,), "float64")}),
        (dict(shape=(), dtype=bool), {"data": sluice.Tensor((), "bool")}),
        (dict(format=sluice.Tensor((5, 5), "bfloat16")), {"data": sluice.Tensor((5, 5), "bfloat16")}),
        (dict(format=((5,), "int8")), {"data": sluice.Tensor((5,), "int8")}),
        (dict(format=np.zeros((2, 3), "u2")), {"data": sluice.Tensor((2, 3), "uint16")}),
        (dict(format={"rgb": sluice.Image("rgb24", 8, 6), "depth": ((6, 8), "float32"), "k": np.eye(3)}),
         {"rgb": sluice.Image("rgb24", 8, 6), "depth": sluice.Tensor((6, 8), "float32"),
          "k": sluice.Tensor((3, 3), "float64")}),
    ]
    for options, expected in cases:
        with sluice.Writer("f", **options) as writer:
            assert writer.format == expected
            assert sluice.Reader("f").format == expected


def test_like_takes_shape_and_type_of_an_array():
    for more in ({}, {"array": 1}, {"name": "l"}):
        with pytest.raises(TypeError, match="missing .* required positional argument"):
            sluice.Writer.like(**more)
    with sluice.Writer.like(name="l", array=np.zeros(3)) as writer:
        assert writer.name == "l"
    with sluice.Writer.like("l", np.zeros((3, 5), "f2"), policy="wait") as writer:
        assert writer.format == {"data": sluice.Tensor((3, 5), "float16")}
    with sluice.Writer.like("l", {"a": np.zeros(3), "b": array.array("i", [1, 2])}) as writer:
        assert writer.format == {"a": sluice.Tensor((3,), "float64"), "b": sluice.Tensor((2,), "int32")}


def test_an_exception_cancels_and_is_not_masked():
    with sluice.Writer("c", shape=4) as writer, sluice.Reader("c") as reader:
        with pytest.raises(ZeroDivisionError):
            with writer.frame() as frame:
                1 / 0
        assert frame.ended and frame.sequence == 0
        assert reader.latest() is None
        assert writer.stats().cancelled == 1 and writer.stats().committed == 0


def test_commit_and_cancel_by_hand():
    with sluice.Writer("c", shape=4) as writer:
        frame = writer.frame()
        frame.commit()
        for call in (frame.commit, frame.cancel, frame.numpy, lambda: frame["data"], lambda: frame.meta):
            with pytest.raises(sluice.StaleError):
                call()
        with writer.frame() as frame:
            frame.cancel()
        with writer.frame() as frame:
            frame.commit()
        assert writer.stats()[2:5] == (2, 0, 1)


def test_a_forgotten_frame_is_cancelled():
    with sluice.Writer("c", shape=4) as writer:
        for _ in range(100):
            writer.frame()
        assert writer.stats().cancelled == 100


def test_no_free_slot_names_the_holder():
    with sluice.Writer("n", shape=4, slots=3, max_slots=3) as writer:
        begun = [writer.frame() for _ in range(3)]
        with pytest.raises(sluice.NoFreeSlot, match="3 being written"):
            writer.frame()
        assert writer.try_frame() is None
        assert writer.stats().dropped == 2
        begun[0].commit()
        begun[1].commit()
        reader = sluice.Reader("n")
        held = reader.next()
        begun.pop().cancel()
        keep = writer.frame()
        with pytest.raises(sluice.NoFreeSlot):
            while True:  # the head and the held one are all there is
                begun.append(writer.frame())
        assert held and keep


def test_waiting_is_in_seconds_and_counts_one_drop():
    with sluice.Writer("w", shape=4, slots=3, max_slots=3, policy="wait", wait=0.2) as writer:
        begun = [writer.frame() for _ in range(3)]
        for call in (writer.frame, lambda: writer.frame(timeout=0.2), lambda: writer.send(np.zeros(4, "u1"))):
            started, dropped = time.monotonic(), writer.stats().dropped
            with pytest.raises(sluice.NoFreeSlot):
                call()
            assert 0.15 < time.monotonic() - started < SECONDS
            assert writer.stats().dropped == dropped + 1
        assert writer.try_frame() is None
        timer = threading.Timer(0.1, begun[0].cancel)
        timer.start()
        with writer.frame(timeout=60):
            pass
        timer.join()


def test_shapes_of_single_frames():
    with sluice.Writer("r", {"boxes": ((100, 4), "float32"), "view": sluice.Image("bgr24", 8, 6)}) as writer, \
            sluice.Reader("r") as reader:
        with writer.frame() as frame:
            frame.reshape((3, 4), "boxes")
            frame.resize(6, 8, "view")
            assert frame.numpy("boxes").shape == (3, 4) and frame.numpy("view").shape == (8, 6, 3)
        got = reader.next()
        assert got["boxes"].shape == (3, 4) and got["view"].shape == (8, 6, 3) and got["view"].width == 6
        with writer.frame() as frame:
            assert frame.shape == (100, 4)
            with pytest.raises(sluice.CapacityError):
                frame.reshape((101, 4))
            with pytest.raises(sluice.FormatError):
                frame.reshape((400,))
            with pytest.raises(sluice.FormatError):
                frame.resize(2, 2)
            frame.reshape((0, 4))
        assert reader.next().numpy().size == 0


def test_reformat():
    with sluice.Writer("r", shape=4) as writer, sluice.Reader("r", mode="in_order", hold=3) as reader:
        writer.send(bytes(4))
        begun = writer.frame()
        with pytest.raises(sluice.BusyError):
            writer.reformat(shape=(2, 2), dtype="float32")
        begun.commit()
        writer.reformat(shape=(2, 2), dtype="float32")
        with writer.frame() as frame:
            frame.numpy()[:] = 0.5
        assert [f.dtype for f in (reader.next(), reader.next(), reader.next())] == ["uint8", "uint8", "float32"]


def test_metadata_and_times():
    with sluice.Writer("t", shape=4) as writer, sluice.Reader("t") as reader, \
            sluice.Writer("u", shape=4) as second, sluice.Reader("u") as end:
        before = time.monotonic_ns()
        with writer.frame() as frame:
            assert before <= frame.capture_ns <= time.monotonic_ns() and frame.meta == b""
            frame.capture_ns = 12345
            frame.capture_clock = 3
            frame.meta = bytearray(b"x" * 4096)
        got = reader.next()
        assert (got.capture_ns, got.capture_clock, got.meta) == (12345, 3, b"x" * 4096)
        assert before <= got.commit_ns <= time.monotonic_ns()
        with second.frame(like=got):
            pass
        second_got = end.next()
        assert (second_got.capture_ns, second_got.capture_clock, second_got.meta) == (12345, 3, b"x" * 4096)
        second_got.release()
        second.send(bytes(4), like=got, meta=b"own")
        third = end.next()
        assert (third.capture_ns, third.capture_clock, third.meta) == (12345, 3, b"own")
        with pytest.raises(ValueError, match="4096"):
            writer.frame(meta=bytes(4097))
        got.release()
        with pytest.raises(sluice.StaleError):
            second.frame(like=got)
        with pytest.raises(TypeError):
            second.frame(like=b"")
        assert writer.stats().cancelled == 1
        with second.frame() as frame:
            for wrong, error in ((-1, ValueError), (2**32, ValueError), (2**64, OverflowError), ("1", TypeError)):
                with pytest.raises(error):
                    frame.capture_clock = wrong
            assert frame.capture_clock == 0


def test_stale_arrays_never_touch_freed_memory():
    with sluice.Writer("m", shape=(512, 512)) as writer:
        with writer.frame() as frame:
            kept = frame.numpy()
            kept[:] = 9
            array = frame[0]
            view = frame.view()
        with pytest.raises(BufferError):
            memoryview(array)
        with pytest.raises(BufferError):
            array.numpy()
        with pytest.raises(ValueError):
            view[0]
        for _ in range(3):
            writer.reformat(shape=(1024, 1024))
            for _ in range(20):
                writer.send(np.zeros((1024, 1024), "u1"))
        assert kept.sum() >= 0  # mapped still; its content is anybody's
    assert kept.sum() >= 0
    kept[:] = 3


def test_closing():
    writer = sluice.Writer("c", shape=4)
    reader = sluice.Reader("c")
    writer.send(bytes(4))
    writer.close()
    writer.close()
    assert writer.closed and "closed" in repr(writer)
    for call in (writer.frame, writer.try_frame, writer.stats, lambda: writer.send(bytes(4)),
                 lambda: writer.reformat(shape=3), lambda: writer.format):
        with pytest.raises((sluice.StaleError, sluice.HandleError, sluice.InvalidError)):
            call()
    assert reader.next().sequence == 1
    with pytest.raises(sluice.Closed):
        reader.next()
    sluice.Writer("c", shape=4).close()


def test_frames_of_a_closed_writer_are_cancelled():
    writer = sluice.Writer("c", shape=4)
    frames = [writer.frame(meta=b"hey") for _ in range(3)]
    writer.close()
    for call in (lambda: frames[0].meta, lambda: setattr(frames[0], "meta", b"x"), frames[0].commit):
        with pytest.raises(sluice.ClosedError, match="'c': this writer is closed"):
            call()
    assert frames[0].ended and frames[1].cancel() is None and frames[1].ended
    with pytest.raises(sluice.ClosedError):
        with frames[2]:
            pass


def test_what_was_written_is_not_asked_of_a_closed_writer(run):
    said = run("""
import sluice
writer = sluice.Writer("c", shape=1000000)
frame = writer.frame()
writer.close()
try:
    frame.commit()
except sluice.ClosedError:
    print("closed")
""", env={"SLUICE_DEBUG": "1"})
    assert said == "closed\n"


def test_a_second_writer_is_refused():
    with sluice.Writer("c", shape=4):
        with pytest.raises(FileExistsError) as caught:
            sluice.Writer("c", shape=4)
        assert isinstance(caught.value, sluice.ExistsError) and caught.value.result == -9


@pytest.mark.parametrize("options", [
    dict(), dict(shape=()) | dict(format=((1,), "u1")), dict(shape=(0,)), dict(shape=(-1,)), dict(shape=(1 << 60, 1 << 60)),
    dict(shape=(1,) * 9), dict(shape=4, dtype="float33"), dict(shape=4, dtype="object"), dict(shape=4, dtype=str),
    dict(shape="4"), dict(shape=4.5), dict(format={}), dict(format={"a b": ((1,), "uint8")}),
    dict(format={1: ((1,), "uint8")}), dict(format={"x" * 32: ((1,), "uint8")}), dict(format=[1, 2]), dict(format=None),
    dict(format=(1, 2, 3)), dict(format=IMAGE._replace(width=0)), dict(format=IMAGE._replace(pixel_format="bgr25")),
    dict(format=sluice.Image("nv12", 5, 5)), dict(format=IMAGE._replace(row_order="up")),
    dict(format=IMAGE._replace(colour=(1, 2))), dict(format=IMAGE._replace(width="4")),
    dict(shape=4, policy="never"), dict(shape=4, wait=-1), dict(shape=4, wait="x"), dict(shape=4, wait=float("nan")),
    dict(shape=4, slots=1), dict(shape=4, slots=99), dict(shape=4, slots=-1), dict(shape=4, readers=99),
    dict(shape=4, device="cuda:77"), dict(shape=4, device="gpu"), dict(shape=4, uids=[-1]), dict(shape=4, uids=range(99)),
    dict(shape=4, gids=3), dict(shape=4, pitch_align=3), dict(shape=4, nonsense=1), dict(shape=4, lease_timeout=-1),
])
def test_wrong_options(options):
    with pytest.raises((sluice.Error, ValueError, TypeError, OverflowError)) as caught:
        sluice.Writer("w", **options)
    assert str(caught.value)
    assert sluice.channels() == []


@pytest.mark.parametrize("name", ["", "a/b", "x" * 65, "a\0b", "nope:x", b"x", 3, None, "ä"])
def test_wrong_names(name):
    for make in (lambda: sluice.Writer(name, shape=4), lambda: sluice.Reader(name)):
        with pytest.raises((sluice.ChannelNameError, sluice.NotFoundError, TypeError, ValueError)):
            make()


@pytest.mark.parametrize("wrong", [
    3, None, "text", [1, 2], object(), np.zeros(5, "u1"), np.zeros(4, "f4"), np.array(["a"] * 4),
    np.zeros(4, "M8[s]"), np.zeros(4, ">f4"), np.zeros(4, [("a", "u1")]), np.zeros(4, object), {"x": np.zeros(4, "u1")},
    {}, {3: np.zeros(4, "u1")}, {"data": 3}, np.zeros((1,) * 9, "u1"), {"x" * 40: np.zeros(4, "u1")},
])
def test_send_of_wrong_things(wrong):
    with sluice.Writer("w", shape=4) as writer:
        with pytest.raises((sluice.FormatError, TypeError, ValueError)):
            writer.send(wrong)
        assert writer.stats().committed == 0
        with writer.frame():
            pass


def test_wrong_calls():
    with sluice.Writer("w", shape=4) as writer:
        for call in (lambda: writer.frame(-1), lambda: writer.frame(timeout="x"), lambda: writer.frame(1, 2),
                     lambda: writer.frame(nonsense=1), lambda: writer.frame(1, timeout=1), lambda: writer.frame(meta=object()),
                     lambda: writer.frame(meta=3), lambda: writer.send(),
                     lambda: writer.frame(capture_ns=1.5 if sys.version_info >= (3, 10) else "x"),
                     lambda: writer.send(bytes(4), meta=4), lambda: writer.try_frame(1), lambda: writer.frame().reshape("x"),
                     lambda: writer.frame().reshape((1,) * 9), lambda: writer.frame().resize(-1, 2),
                     lambda: writer.frame()["nope"], lambda: writer.frame()[1], lambda: writer.frame()[-2],
                     lambda: writer.frame()[1.5], lambda: writer.frame().numpy("nope"), lambda: writer.frame().numpy(7),
                     lambda: setattr(writer.frame(), "meta", 3), lambda: delattr(writer.frame(), "meta"),
                     lambda: setattr(writer.frame(), "capture_ns", "x")):
            with pytest.raises((TypeError, ValueError, LookupError, OverflowError, AttributeError)):
                call()
        for call in (lambda: writer.frame(stream=1), lambda: writer.send(bytes(4), stream=0),
                     lambda: writer.try_frame(stream=object())):
            with pytest.raises((TypeError, NotImplementedError), match="no stream|host memory only"):
                call()
        assert writer.stats().committed == 0 and writer.stats().slots == 4


# ---- what a reader got, given on ----

def test_like_and_send_take_frames_whole():
    formats = {"view": sluice.Image("bgr24", 10, 4, sluice.Colour(1, 13, 0, 2)), "depth": ((4, 10), "float32"),
               "half": ((3,), "bfloat16"), "points": ((5,), "float32x4")}
    with sluice.Writer("in", formats, pitch_align=64) as writer, sluice.Reader("in") as reader:
        with writer.frame(meta=b"m", capture_ns=9) as frame:
            frame.numpy("view")[:] = np.arange(120).reshape(4, 10, 3)
            frame.numpy("depth")[:] = 0.5
            frame.numpy("points")[:] = 7
        got = reader.next(timeout=60)
        with sluice.Writer.like("out", got) as on, sluice.Reader("out") as end:
            assert on.format == writer.format and list(on.format) == ["view", "depth", "half", "points"]
            on.send(got, like=got)
            frame = end.next(timeout=60)
            assert (frame.meta, frame.capture_ns) == (b"m", 9)
            assert (frame.numpy("view") == got.numpy("view")).all() and frame["view"].pixel_format == "bgr24"
            assert (frame.numpy("depth") == 0.5).all() and (frame.numpy("points") == 7).all()
            assert frame["view"].strides != got["view"].strides
        with sluice.Writer.like("one", got["view"]) as one:
            assert one.format == {"data": formats["view"]}
        with sluice.Writer("other", sluice.Image("rgb24", 10, 4)) as other:
            with pytest.raises(sluice.FormatError, match="rgb24.*bgr24"):
                other.send(got["view"])  # the order of colours is known
        with sluice.Writer("tensor", shape=(4, 10, 3)) as tensor, sluice.Reader("tensor") as end:
            tensor.send(got["view"])  # to a tensor it is an array as any
            assert (end.next(timeout=60).numpy() == got.numpy("view")).all()
        got.release()
        for call in (lambda: writer.send(got), lambda: sluice.Writer.like("x", got)):
            with pytest.raises(sluice.StaleError):
                call()
        assert sluice.channels() == ["in"]


def test_planar_images_are_given_on_with_other_padding():
    with sluice.Writer("in", sluice.Image("nv12", 10, 4), pitch_align=64) as writer, sluice.Reader("in") as reader, \
            sluice.Writer("out", sluice.Image("nv12", 10, 4)) as on, sluice.Reader("out") as end:
        with writer.frame() as frame:
            for number, plane in enumerate(frame.planes):
                plane.numpy()[...] = np.arange(plane.nbytes, dtype="u1").reshape(plane.shape) + 100 * number
        got = reader.next(timeout=60)
        on.send(got)
        frame = end.next(timeout=60)
        for have, want in zip(frame.planes, got.planes):
            assert (have.numpy() == want.numpy()).all()


def test_mappings_of_any_kind():
    import types
    arrays = types.MappingProxyType({"a": np.ones((2, 2), "f4"), "b": np.zeros(3, "u1")})
    with sluice.Writer.like("m", arrays) as writer:
        assert writer.format == {"a": sluice.Tensor((2, 2), "float32"), "b": sluice.Tensor((3,), "uint8")}
        assert writer.send(arrays) == 1


# ---- devices ----

class OnADevice:
    """An array as CuPy has them: DLPack with device type 2, CUDA."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        import ctypes

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32),
                        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                        ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

        self.shape = (ctypes.c_int64 * 1)(4)
        self.tensor = Tensor(0x1000, 2, 0, 1, 1, 8, 1, ctypes.addressof(self.shape), None, 0, None, None)
        new = ctypes.PyDLL(None).PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dltensor"
        return new(ctypes.addressof(self.tensor), self.name, None)


def test_what_is_on_a_device_is_refused_by_name():
    for make in (lambda: sluice.Writer("g", shape=4, device="cuda:77"), lambda: sluice.Reader("g", device="gpu")):
        with pytest.raises(NotImplementedError, match="cuda:77|gpu") as caught:
            make()
        assert isinstance(caught.value, sluice.UnsupportedError)
    with sluice.Writer("g", shape=4, device="host") as writer, sluice.Reader("g", device="host") as reader:
        with pytest.raises(sluice.UnsupportedError, match="on a GPU.*host memory.*copy it to host memory first"):
            writer.send(OnADevice())
        with sluice.Writer.like("h", OnADevice()) as other:  # which only asks what it is
            assert other.format == {"data": sluice.Tensor((4,), "uint8")}
        writer.send(bytes(4))
        frame = reader.next(timeout=60)
        assert frame[0].device == "host" and frame.__dlpack_device__() == (1, 0)
        with pytest.raises(BufferError, match="does not copy it to another device"):
            frame.__dlpack__(dl_device=(2, 0))


def test_a_writer_waits_for_readers():
    with sluice.Writer("cam", shape=(4,)) as writer:
        writer.wait_for_readers(0)
        with pytest.raises(sluice.Timeout, match="has 0 readers, not 1 yet"):
            writer.wait_for_readers(timeout=0)
        readers = []
        opener = threading.Thread(target=lambda: readers.extend(sluice.Reader("cam") for _ in range(2)))
        opener.start()
        writer.wait_for_readers(2, timeout=60)
        opener.join()
        assert writer.stats().readers == 2
        for reader in readers:
            reader.close()
