# SPDX-License-Identifier: MIT
import array
import ctypes

import numpy as np
import pytest

import sluice

NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2])


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
