# SPDX-License-Identifier: MIT
"""Buffers, DLPack, array interfaces and data types; with hypothesis, of any shape and strides."""
import ctypes
import math

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sluice
from any_arrays import DTYPES, any_array

ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
             "float8_e3m4", "float8_e4m3", "float8_e8m0fnu"]


NUMPY_2 = int(np.__version__.partition(".")[0]) > 1


def takes_dlpack(dtype):
    """NumPy before 1.25 knows DLPack without bool."""
    return dtype != "bool" or tuple(int(part) for part in np.__version__.split(".")[:2]) >= (1, 25)


def round_trip(array, name="rt"):
    with sluice.Writer.like(name, array) as writer, sluice.Reader(name) as reader:
        writer.send(array)
        return reader.next(timeout=60)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_data_type_by_every_way(dtype):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    frame = round_trip(values)
    assert frame.dtype == dtype and frame[0].dtype == dtype
    ways = [frame.numpy(), np.asarray(frame), np.asarray(frame[0]), np.asarray(frame.view())]
    if takes_dlpack(dtype):
        ways.append(np.from_dlpack(frame))
    for way in ways:
        assert way.dtype == values.dtype and (way == values).all()
    interface = frame.__array_interface__
    assert interface["typestr"] == values.__array_interface__["typestr"] and interface["shape"] == (3, 4)
    assert memoryview(frame).format in (memoryview(values).format, "q", "Q") and memoryview(frame).itemsize == values.itemsize


@pytest.mark.parametrize("dtype", ML_DTYPES)
def test_types_of_ml_dtypes(dtype):
    values = np.arange(1, 9).astype(getattr(ml_dtypes, dtype))
    frame = round_trip(values)
    assert frame.dtype == dtype
    got = frame.numpy()
    assert got.dtype == values.dtype and (got == values).all() and got.__array_interface__["data"][0] == frame[0].address
    with pytest.raises(BufferError):
        memoryview(frame)
    with pytest.raises(AttributeError, match="DLPack"):  # so that others look for another way
        frame.__array_interface__
    for thing in (frame, frame[0]):
        got = np.asarray(thing)
        assert got.dtype == values.dtype and (got == values).all() and got.__array_interface__["data"][0] == frame[0].address
        for own in (np.array(thing), np.array(thing, dtype="f4")):
            assert own.flags.writeable and (own == values.astype(own.dtype)).all()
        if NUMPY_2:
            with pytest.raises(ValueError, match="copy"):
                np.array(thing, dtype="f4", copy=False)


NO_ML_DTYPES = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, sluice
for dtype in {types}:
    with sluice.Writer("w", shape=3, dtype=dtype) as writer, sluice.Reader("w") as reader:
        with writer.frame():
            pass
        frame = reader.next(timeout=20)
        for call in (lambda: np.asarray(frame), lambda: np.array(frame[0]), frame.numpy, frame.copy):
            try:
                call()
            except sluice.UnsupportedError as error:
                assert dtype in str(error) and "install ml_dtypes" in str(error) and "DLPack" in str(error), error
            else:
                raise AssertionError(dtype)
"""


def test_without_ml_dtypes_it_is_said_what_to_install(run):
    run(NO_ML_DTYPES.format(types=ML_DTYPES))


def test_types_that_numpy_has_not():
    with sluice.Writer("w", shape=3, dtype="int128") as writer:
        frame = writer.frame()
        for call in (frame.numpy, lambda: np.asarray(frame)):
            with pytest.raises(sluice.UnsupportedError, match="int128: take the array through DLPack"):
                call()


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c8", ">U2"])
def test_foreign_byte_orders_are_refused(dtype):
    """Also as the type of a format: bytes that are copied into its slots would be taken for numbers of this machine."""
    for form in (dict(format=np.zeros(3, dtype)), dict(format=sluice.Tensor((3,), np.dtype(dtype))), dict(shape=3, dtype=np.dtype(dtype))):
        with pytest.raises(sluice.FormatError):
            sluice.Writer("w", **form)
    assert sluice.channels() == []


def test_vectors_have_one_dimension_more():
    with sluice.Writer("v", shape=(5,), dtype="float32x4") as writer, sluice.Reader("v") as reader:
        with writer.frame() as frame:
            assert frame.shape == (5, 4) and frame.dtype == "float32x4"
            frame.numpy()[:] = np.arange(20).reshape(5, 4)
        got = reader.next()
        assert got.numpy().tolist() == np.asarray(got).tolist() == np.arange(20).reshape(5, 4).tolist()


@hypothesis.settings(max_examples=150, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(st.data())
def test_any_shape_strides_and_type(data):
    array = any_array(data)
    dtype = array.dtype.name
    frame = round_trip(array)
    assert frame.shape == array.shape and frame.dtype == dtype
    ways = [frame.numpy(), np.asarray(frame), frame.copy()]
    if takes_dlpack(dtype):
        ways.append(np.from_dlpack(frame))
    for got in ways:
        assert got.dtype == array.dtype and got.shape == array.shape
        np.testing.assert_array_equal(got, array)


@hypothesis.settings(max_examples=100, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(shapes=st.lists(hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=30), min_size=1, max_size=6))
def test_a_channel_takes_frames_of_any_shape(shapes):
    with sluice.Writer("any", shape=(8, 8), resize=True) as writer, sluice.Reader("any") as reader:
        for number, shape in enumerate(shapes):
            array = np.full(shape, number, "u1")
            writer.send(array)
            with reader.next(timeout=60) as frame:
                got = frame.numpy()
                assert got.shape == shape and (got == number).all()
                del got


@hypothesis.settings(max_examples=100, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(meta=st.binary(max_size=4096), capture=st.integers(-2**63, 2**63 - 1), clock=st.sampled_from([0, 1, 3, 255]))
def test_metadata_and_times_come_as_they_went(meta, capture, clock):
    with sluice.Writer("meta", shape=1) as writer, sluice.Reader("meta") as reader:
        with writer.frame(meta=meta, capture_ns=capture) as begun:
            begun.capture_clock = clock
        frame = reader.next()
        assert frame.meta == meta and frame.capture_clock == clock
        assert frame.capture_ns == (max(capture, 0) if clock == 0 else capture)  # this machine's clock is never negative


@hypothesis.settings(max_examples=200, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(thing=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=9),
                                     lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) |
                                     st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3), max_leaves=6))
def test_nonsense_raises_what_it_should(thing):
    expected = (sluice.Error, TypeError, ValueError, OverflowError)
    for call in (lambda: sluice.Writer("x", thing), lambda: sluice.Writer("x", shape=thing),
                 lambda: sluice.Writer("x", shape=1, dtype=thing), lambda: sluice.Writer(thing, shape=1)):
        try:
            call().close()
        except expected:
            pass
    with sluice.Writer("y", shape=4) as writer:
        try:
            writer.send(thing)
        except expected:
            pass
        try:
            writer.frame(meta=thing).cancel()
        except expected:
            pass
        with writer.frame(timeout=60):
            pass


class Odd:
    """A mapping, as far as its methods tell, whose items are what they are."""

    def __init__(self, *items):
        self.list = items

    def __getitem__(self, name):
        raise KeyError(name)

    def items(self):
        return self.list


def test_mappings_whose_items_are_no_pairs():
    array = np.arange(4, dtype="u1")
    with sluice.Writer("odd", shape=4) as writer, sluice.Reader("odd") as reader:
        assert writer.send(Odd(("data", array))) == 1
        with reader.next(timeout=60) as frame:
            for wrong in (1, None, (), ("data",), ("data", array, 0), ["data", array], "xy"):
                for call in (writer.send, frame.copy_to):
                    with pytest.raises(TypeError, match="must give pairs"):
                        call(Odd(wrong))
            frame.copy_to(Odd((0, got := np.zeros(4, "u1"))))
            assert (got == array).all()
        assert writer.stats().committed == 1


def test_buffers_of_every_flag():
    frame = round_trip(np.arange(6, dtype="u2").reshape(2, 3))
    view = memoryview(frame)
    assert (view.shape, view.strides, view.format, view.readonly, view.c_contiguous) == ((2, 3), (6, 2), "H", True, True)
    assert bytes(frame) == np.arange(6, dtype="u2").tobytes()
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_char.from_buffer(frame)
    with sluice.Writer("w", shape=8) as writer:
        frame = writer.frame()
        ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(frame)), 5, 8)
        assert frame.numpy().tolist() == [5] * 8
        frame.view()[2] = 9
        assert frame.numpy()[2] == 9


def test_padded_rows():
    image = sluice.Image("bgr24", 10, 4)
    with sluice.Writer("p", image, pitch_align=64) as writer, sluice.Reader("p") as reader:
        picture = np.arange(120, dtype="u1").reshape(4, 10, 3)
        writer.send(picture)
        frame = reader.next()
        assert frame[0].strides == (64, 3, 1)
        for got in (frame.numpy(), np.asarray(frame), np.from_dlpack(frame), frame.copy()):
            assert (got == picture).all()
        assert frame.numpy().__array_interface__["data"][0] == frame[0].address
        assert frame.__array_interface__["strides"] == (64, 3, 1)
        with pytest.raises(BufferError):
            bytes_of = np.frombuffer(frame, "u1")  # it has gaps
            assert bytes_of is None
        assert bytes(memoryview(frame)) == picture.tobytes()


def test_dlpack_says_what_it_is():
    frame = round_trip(np.zeros((2, 3), "f4"))
    assert frame.__dlpack_device__() == (1, 0) == frame[0].__dlpack_device__()
    assert '"dltensor_versioned"' in repr(frame.__dlpack__(max_version=(1, 1)))
    assert '"dltensor"' in repr(frame.__dlpack__()) and '"dltensor"' in repr(frame.__dlpack__(max_version=(0, 8)))
    for wrong in (dict(stream=1), dict(dl_device=(2, 0))):
        with pytest.raises(BufferError):
            frame.__dlpack__(**wrong)
    for wrong in (dict(dl_device=3), dict(max_version="x"), dict(max_version=3)):
        with pytest.raises(TypeError):
            frame.__dlpack__(**wrong)


def test_big_frames():
    size = 64 << 20
    with sluice.Writer("big", shape=size) as writer, sluice.Reader("big") as reader:
        with writer.frame() as frame:
            frame.numpy()[::4096] = 1
        assert int(reader.next().numpy()[::4096].sum()) == size // 4096 and math.log2(size) == 26
