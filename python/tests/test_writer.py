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
NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])


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


def test_send_takes_what_there_is():
    with sluice.Writer("s", shape=(4, 6), dtype="int32") as writer, sluice.Reader("s") as reader:
        base = np.arange(24, dtype="i4").reshape(4, 6)
        wide = np.zeros((8, 12), "i4")
        wide[::2, ::2] = base
        sources = [base, np.asfortranarray(base), base[::-1][::-1], wide[::2, ::2], base.T.copy().T, memoryview(base)]
        for number, source in enumerate(sources, 1):
            assert writer.send(source, meta=b"m", capture_ns=number) == number
            frame = reader.next(timeout=60)
            assert (frame.numpy() == base).all() and frame.meta == b"m" and frame.capture_ns == number
        writer.send(base[::-1, ::-1])
        assert (reader.next(timeout=60).numpy() == base[::-1, ::-1]).all()
        writer.send(np.broadcast_to(np.int32(7), (4, 6)))
        assert (reader.next(timeout=60).numpy() == 7).all()
        assert writer.stats().copied_bytes == (len(sources) + 2) * base.nbytes


def test_send_takes_buffers_dlpack_and_interfaces():
    class Interface:
        def __init__(self, of):
            self.of = of
            self.__array_interface__ = of.__array_interface__

    class Capsule:
        def __init__(self, of):
            self.of = of

        def __dlpack__(self):  # before max_version
            return self.of.__dlpack__()

    class Versioned(Capsule):
        def __dlpack__(self, *, max_version=None):
            assert max_version == (1, 0)
            return self.of.__dlpack__(**({"max_version": max_version} if NUMPY >= (2, 1) else {}))

    values = np.arange(6, dtype="u1")
    with sluice.Writer("s", shape=6) as writer, sluice.Reader("s") as reader:
        for source in (bytes(values), bytearray(values), array.array("B", values), Interface(values), Capsule(values),
                       Versioned(values), reader_array(values), (ctypes.c_uint8 * 6)(*values)):
            writer.send(source)
            assert (reader.next(timeout=60).numpy() == values).all()


def test_send_takes_arrays_of_ctypes_of_any_dimensions():
    source = (ctypes.c_int32 * 3 * 2)((1, 2, 3), (4, 5, 6))  # its buffers have no strides
    with sluice.Writer("s", shape=(2, 3), dtype="int32") as writer, sluice.Reader("s") as reader:
        writer.send(source)
        assert reader.next(timeout=60).numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def reader_array(values):
    """A Frame and its Array are arrays too."""
    with sluice.Writer.like("other", values) as writer:
        reader = sluice.Reader("other")
        writer.send(values)
        return reader.next(timeout=60)[0]


def test_send_of_several_arrays():
    with sluice.Writer("m", {"a": ((2, 2), "float32"), "b": ((3,), "uint8")}) as writer, sluice.Reader("m") as reader:
        writer.send({"b": np.array([1, 2, 3], "u1"), "a": np.ones((2, 2), "f4")})
        frame = reader.next(timeout=60)
        assert frame.keys() == ("a", "b") and list(frame) == ["a", "b"] and len(frame) == 2
        assert "a" in frame and "c" not in frame
        assert (frame["a"].numpy() == 1).all() and frame[1].numpy().tolist() == [1, 2, 3]
        assert (frame.numpy("b") == [1, 2, 3]).all() and frame[-1].name == "b"
        for wrong in ({"a": np.ones((2, 2), "f4")}, {"a": np.ones((2, 2), "f4"), "c": np.zeros(3, "u1")},
                      np.zeros(3, "u1")):
            with pytest.raises(sluice.FormatError):
                writer.send(wrong)


@pytest.mark.parametrize("shape, says", [
    ((3, 48, 64), r"\(48, 64, 3\), not uint8 \(3, 48, 64\): it looks like CHW"), ((64, 48, 3), "width and height look swapped"),
    ((48, 64, 4), "other colour components"), ((48, 64), "without colours"), ((1, 48, 64, 3), "batch of one"),
    ((48 * 64 * 3,), "reshape it"), ((24, 32, 3), "opened with `resize`"), ((480, 640, 3), "opened with `resize`"), ((5,), "reformat"),
])
def test_send_refuses_other_shapes(shape, says):
    image = sluice.Image("rgb24", 64, 48)
    for number, format in enumerate((sluice.Tensor((48, 64, 3)), image)):
        with sluice.Writer(f"g{number}", format) as writer, sluice.Reader(f"g{number}") as reader:
            writer.send(np.full((48, 64, 3), 7, "u1"))
            with pytest.raises(sluice.FormatError) as raised:
                writer.send(np.zeros(shape, "u1"))
            assert "(48, 64, 3)" in str(raised.value) and str(tuple(shape)).replace(",)", ")") in str(raised.value)
            if format is not image or len(shape) == 3 and shape[2] == 3:  # others are no image of that pixel format
                raised.match(says)
            assert writer.stats().committed == 1 and writer.stats().generation == 1
            assert (reader.next(timeout=60).numpy() == 7).all()


def test_resize_allows_other_sizes_but_no_other_rank():
    with sluice.Writer.like("g", np.zeros((4, 6), "u1"), resize=True) as writer, sluice.Reader("g") as reader:
        for shape in ((6, 4), (2, 2), (40, 60), (0, 3)):
            writer.send(np.ones(shape, "u1"))
            assert reader.next(timeout=60).shape == shape
        for shape in ((4,), (4, 6, 1), ()):
            with pytest.raises(sluice.FormatError, match="dimension"):
                writer.send(np.ones(shape, "u1"))
        writer.reformat(shape=(4, 6, 1))
        writer.send(np.ones((4, 6, 1), "u1"))


def test_send_names_the_array_that_is_missing():
    with sluice.Writer("m", {"a": ((2,), "uint8"), "b": ((3,), "uint8")}) as writer:
        for arrays, missing in (({"b": bytes(3)}, "'a'"), ({"a": bytes(2)}, "'b'"), (bytes(2), "'b'")):
            with pytest.raises(sluice.FormatError, match=missing + " is missing"):
                writer.send(arrays)


def test_send_that_outgrows_makes_a_generation():
    with sluice.Writer("g", shape=(2, 2), resize=True) as writer, sluice.Reader("g", mode="in_order") as reader:
        writer.send(np.zeros((2, 2), "u1"))
        writer.send(np.ones((100, 200), "u1"))
        assert reader.next().shape == (2, 2)
        frame = reader.next()
        assert frame.shape == (100, 200) and frame.new_format and frame.generation == 2
        writer.send(np.ones((5, 3), "u1"))
        assert reader.next().shape == (5, 3)


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
                     lambda: writer.frame(meta=3), lambda: writer.frame(capture_ns=1.5), lambda: writer.send(),
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


# ---- metadata that is no bytes ----

def test_metadata_from_text_and_json():
    with sluice.Writer("j", shape=4) as writer, sluice.Reader("j") as reader:
        for meta, sent, said in (("\xe9 1", "\xe9 1".encode(), None), ({"pose": [1, 2.5], "t": "\xe9"}, None, {"pose": [1, 2.5], "t": "\xe9"}),
                                 ([1, None, True], b"[1,null,true]", [1, None, True]), ((), b"[]", []), ("", b"", None), (b"", b"", None)):
            writer.send(bytes(4), meta=meta)
            with reader.next(timeout=60) as frame:
                assert sent is None or frame.meta == sent
                if said is not None or not meta:
                    assert frame.meta_json == said
        with writer.frame(meta="first") as frame:
            frame.meta = {"a": 1}
            assert frame.meta_json == {"a": 1} and frame.meta == b'{"a":1}'


@pytest.mark.parametrize("meta, error, says", [
    (3, TypeError, "bytes or a buffer, a str, or a dict"), (object(), TypeError, "a str"), ({"a": np.float32(1)}, TypeError, "item"),
    ({"a": float("nan")}, ValueError, "dict"), ("\ud800", ValueError, "str"), ({"a": "x" * 5000}, ValueError, "4096"),
    (np.zeros(8, "u1")[::2], BufferError, "contiguous"), ({1, 2}, TypeError, "set"),
])
def test_metadata_that_cannot_be(meta, error, says):
    with sluice.Writer("j", shape=4) as writer:
        for call in (lambda: writer.send(bytes(4), meta=meta), lambda: writer.frame(meta=meta)):
            with pytest.raises(error, match=says):
                call()
        assert writer.stats().committed == 0


@pytest.mark.parametrize("meta", [b"text", b"{", b"[" * 4096, b"\xff", b'{"a": 1}x', b"9" * 4096])
def test_metadata_of_others_that_is_no_json(meta):
    with sluice.Writer("j", shape=4) as writer, sluice.Reader("j") as reader:
        writer.send(bytes(4), meta=meta)
        with reader.next(timeout=60) as frame:
            assert frame.meta == meta
            if meta != b"9" * 4096 or sys.get_int_max_str_digits() < 4096 and sys.get_int_max_str_digits():
                with pytest.raises(ValueError, match="frame 1.*JSON"):
                    frame.meta_json


# ---- arguments ----

@pytest.mark.parametrize("make, says", [
    (lambda: sluice.Image("bgr", 4, 4), 'did you mean "bgr24"'), (lambda: sluice.Image("RGB", 4, 4), 'did you mean "rgb24"'),
    (lambda: sluice.Image("nv21", 4, 4), 'did you mean "nv12"'), (lambda: sluice.Image("zzz", 4, 4), "sluice.pixel_formats"),
    (lambda: sluice.Image("bgr24", 0, 4), "width is 0"), (lambda: sluice.Image("bgr24", 4, 65537), "height is 65537"),
    (lambda: sluice.Image("bgr24", 4, 4, row_order="up"), "row_order"), (lambda: sluice.Image("bgr24", 4, 4, alpha="none"), "alpha"),
    (lambda: sluice.Writer("w", sluice.Image("bgr24", 4, 4)._replace(pixel_format="bgr")), 'did you mean "bgr24"'),
    (lambda: sluice.Writer("w", shape=4, slots=-1), "slots is -1"), (lambda: sluice.Writer("w", shape=4, uids=[-1]), "uids"),
    (lambda: sluice.Reader("w", hold=0), "hold is 0"), (lambda: sluice.Reader("w", every=0), "every is 0"),
    (lambda: sluice.Reader("w", depth=-1), "depth is -1"),
])
def test_values_are_checked_at_the_call(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize("make, says", [
    (lambda: sluice.Image(3, 4, 4), "pixel format is 3"), (lambda: sluice.Image("bgr24", "4", 4), "width must be an int"),
    (lambda: sluice.Image("bgr24", 4, 4.5), "height must be an int"), (lambda: sluice.Image("bgr24", 4, 4, (1, 2)), "colour is"),
    (lambda: sluice.Image("bgr24", 4, 4, (1, 2, 3, 400)), "colour is"), (lambda: sluice.Writer("w", "bgr24"), "is no format"),
    (lambda: sluice.Writer("w", [4, 4]), "is no format"), (lambda: sluice.Writer("w", shape="4"), "the shape is"),
    (lambda: sluice.Writer("w", shape=4, slots=2.5), "slots must be an int"), (lambda: sluice.Writer("w", shape=4, uids="me"), "uids"),
    (lambda: sluice.Reader("w", hold=1.5), "hold must be an int"), (lambda: sluice.Reader("w", every="2"), "every must be an int"),
])
def test_types_are_checked_at_the_call(make, says):
    with pytest.raises(TypeError, match=says):
        make()


def test_a_hold_that_is_too_large_names_the_limit():
    with sluice.Writer("w", shape=4, slots=4, max_slots=8):
        with pytest.raises(sluice.LimitError, match="hold 20 .* 8 slots allow 6"):
            sluice.Reader("w", hold=20)
        with pytest.raises(sluice.LimitError, match="hold 100 .* two fewer than the channel has slots"):
            sluice.Reader("w", hold=100)


def test_a_time_out_says_whether_there_is_a_writer():
    with sluice.Reader("w", wait=None) as reader:
        with pytest.raises(sluice.NoWriter, match="no writer"):
            reader.next(timeout=0)
        with sluice.Writer("w", shape=4) as writer:
            writer.wait_for_readers(1, 60)
            while True:  # the writer may know of the reader before the reader knows of it
                try:
                    reader.next(timeout=0)
                except sluice.NoWriter:
                    time.sleep(0.001)
                except sluice.Timeout as error:
                    assert "has a writer" in str(error)
                    break


def test_a_pixel_format_that_is_asked_for_has_its_near_name():
    with sluice.Writer("w", sluice.Image("bgr24", 4, 4)) as writer, sluice.Reader("w") as reader:
        with pytest.raises(sluice.FormatError, match='did you mean "bgr24"'):
            writer.send(np.zeros((4, 4, 3), "u1"), pixel_format="bgr")
        writer.send(np.zeros((4, 4, 3), "u1"), pixel_format="BGR24")
        with reader.next(timeout=60) as frame:
            with pytest.raises(sluice.FormatError, match='did you mean "rgb24"'):
                frame.numpy(pixel_format="rgb")


def test_a_failed_read_is_left_out_by_cancel(run):
    """And without that, SLUICE_DEBUG warns at the line of the program."""
    out = run("""
import sys, warnings, sluice
warnings.showwarning = lambda text, kind, file, line, *more: print(file == __file__ if "__file__" in globals() else file, line)
writer = sluice.Writer("w", shape=(48, 64, 3))
def read(array): return False
for turn in range(3):
    with writer.frame() as frame:
        if not read(frame.numpy()):
            frame.cancel()
            break
print(writer.stats().committed, writer.stats().cancelled)
for turn in range(3):
    with writer.frame() as frame:
        if not read(frame.numpy()):
            break
print(writer.stats().committed)
""", env={"SLUICE_DEBUG": "1"})
    first, warned, last = out.splitlines()
    assert (first, last) == ("0 1", "1") and warned.split()[-1] in ("13", "15") and "sluice/" not in warned
