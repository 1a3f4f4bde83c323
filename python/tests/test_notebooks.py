# SPDX-License-Identifier: MIT
"""What a notebook shows of frames, readers and writers, and how it gives frames back."""
import struct
import zlib

import numpy as np
import pytest

import sluice
from sluice._picture import SIDE


def decode(png):
    """(H, W, components) of a PNG without filters."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack_from(">I", png, at + 8 + size)[0]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", body)
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    count = {0: 1, 2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(data), "u1").reshape(height, 1 + width * count)
    assert depth == 8 and (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, count)


def shown(format, fill, **given):
    """The picture of a frame that `fill` filled; nothing is held afterwards."""
    with sluice.Writer("p", format, **given) as writer, sluice.Reader("p") as reader:
        with writer.frame() as frame:
            fill(frame)
        frame = reader.next(timeout=60)
        png = frame._repr_png_()
        frame.release()
        assert reader.stats().held == 0
        return None if png is None else decode(png)


RED = {"rgb24": (200, 20, 30), "bgr24": (30, 20, 200), "rgba": (200, 20, 30, 9), "bgra": (30, 20, 200, 9)}


@pytest.mark.parametrize("name", RED)
def test_colours_are_in_their_order(name):
    def fill(frame):
        frame.numpy()[:] = RED[name]
    picture = shown(sluice.Image(name, 40, 30), fill)
    assert picture.shape == (30, 40, 3) and (picture == (200, 20, 30)).all()
    if len(RED[name]) == 4:
        picture = shown(sluice.Image(name, 40, 30, alpha="straight"), fill)
        assert (picture == (200, 20, 30, 9)).all()


def test_rows_and_padding_are_as_they_should():
    def fill(frame):
        frame.numpy()[:] = np.arange(30)[:, None]
    assert (shown(sluice.Image("gray", 41, 30), fill, pitch_align=64)[..., 0] == np.arange(30)[:, None]).all()
    assert (shown(sluice.Image("gray", 41, 30, row_order="bottom-up"), fill)[::-1, :, 0] == np.arange(30)[:, None]).all()


@pytest.mark.parametrize("name", ["nv12", "yuv420p", "yuv444p", "p010le", "yuyv422", "uyvy422", "yuv422p", "yuv422p10le"])
def test_luma_and_chroma(name):
    """BT.601, limited: Y 81, U 90, V 240 is red."""
    def fill(frame):
        scale = {"p010le": 256, "yuv422p10le": 4}.get(name, 1)
        if name in ("yuyv422", "uyvy422"):
            frame.numpy()[:] = np.array([[81, 90], [81, 240]] * 20, "u1")[:, ::1 if name == "yuyv422" else -1]
            return
        luma, *chroma = frame.planes
        luma.numpy()[:] = 81 * scale
        if len(chroma) == 1:
            chroma[0].numpy()[:] = 90 * scale, 240 * scale
        else:
            chroma[0].numpy()[:], chroma[1].numpy()[:] = 90 * scale, 240 * scale
    picture = shown(sluice.Image(name, 40, 30), fill).astype(int)
    assert picture.shape == (30, 40, 3) and (abs(picture - (254, 0, 0)) <= 2).all()


@pytest.mark.parametrize("name", ["bayer_rggb8", "bayer_bggr8", "bayer_grbg16le", "bayer_gbrg16le"])
def test_mosaics(name):
    def fill(frame):
        scale = 256 if name.endswith("16le") else 1
        for place, colour in enumerate(name[6:10]):
            frame.numpy()[place // 2::2, place % 2::2] = {"r": 200, "g": 20, "b": 30}[colour] * scale
    picture = shown(sluice.Image(name, 40, 30), fill)
    assert picture.shape == (15, 20, 3) and (picture == (200, 20, 30)).all()


def test_floats_are_clipped():
    def fill(frame):
        frame.numpy()[:] = (0.5, 2.0, -1.0, 1)
        frame.numpy()[0, 0] = np.nan
    picture = shown(sluice.Image("rgbaf32le", 10, 10), fill)
    assert (picture[1:] == (128, 255, 0)).all() and (picture[0, 0] == 0).all()


def test_every_pixel_format_has_a_picture_and_large_ones_are_small():
    for name in sluice.pixel_formats():
        picture = shown(sluice.Image(name, 1922, 1082), lambda frame: frame.numpy().fill(1))
        assert max(picture.shape[:2]) <= SIDE and picture.shape[1] > picture.shape[0] > SIDE / 3, name


def test_tensors_that_look_like_pictures_have_one():
    for shape, count in (((30, 40), 1), ((30, 40, 3), 3), ((30, 40, 1), 1), ((30, 40, 4), 3)):
        assert shown(sluice.Tensor(shape), lambda frame: frame.numpy().fill(7)).shape == (30, 40, count)
    for other in (((30, 40), "float32"), ((40,), "uint8"), ((100, 4), "uint8"), ((30, 40, 2), "uint8"), ((), "uint8")):
        assert shown(other, lambda frame: None) is None
    both = {"boxes": ((10, 4), "float32"), "view": sluice.Image("gray", 40, 30)}
    assert shown(both, lambda frame: None).shape == (30, 40, 1)  # the first that is a picture


def test_what_has_ended_is_shown_as_text():
    with sluice.Writer("p", sluice.Image("gray", 40, 30)) as writer, sluice.Reader("p") as reader:
        with writer.frame() as begun:
            assert "gray 40 x 30" in repr(begun)
        assert "committed" in repr(begun)
        frame = reader.next(timeout=60)
        array = frame[0]
        assert "'image' gray 40 x 30" in repr(frame) and array._repr_png_()
        frame.release()
        assert frame._repr_png_() is None and "released" in repr(frame)
        assert array._repr_png_()  # an array that lives has it


def test_reprs_tell_the_format_and_the_state():
    later = sluice.Reader("p", wait=None)
    assert repr(later) == "<sluice.Reader of 'p', newest, 0 held, no writer now>"
    writer = sluice.Writer("p", {"view": sluice.Image("bgr24", 40, 30), "boxes": ((10, 4), "float32")})
    assert repr(writer) == "<sluice.Writer of 'p' on host: 'view' bgr24 40 x 30, 'boxes' float32 (10, 4)>"
    with sluice.Reader("p", mode="in_order") as reader:
        assert repr(reader) == "<sluice.Reader of 'p', in_order, 0 held: 'view' bgr24 40 x 30, 'boxes' float32 (10, 4)>"
    writer.close()
    assert repr(writer) == "<sluice.Writer of 'p', closed>" and repr(reader) == "<sluice.Reader, closed>"


def test_release_all_gives_back_what_a_notebook_still_refers_to():
    with sluice.Writer("p", shape=(30, 40)) as writer, sluice.Reader("p", hold=3) as reader:
        for turn in range(3):
            out = []
            for _ in range(3):
                writer.send(np.full((30, 40), turn, "u1"))
                out.append(reader.next(timeout=60))
            view, array = out[0].view(), out[2].numpy()
            with pytest.raises(sluice.LimitError):
                writer.send(np.zeros((30, 40), "u1"))
                reader.next(timeout=60)
            reader.release_all()
            assert all(frame.released for frame in out) and reader.stats().held == 1  # the one with an array
            with pytest.raises(ValueError):
                view[0, 0]
            with pytest.raises(sluice.StaleError):
                out[1].numpy()
            assert (array == turn).all()
            del array
            assert reader.stats().held == 0
            out[0].release()  # does nothing
            reader.release_all()
    reader.release_all()  # nor does this


def test_release_all_of_an_iterators_frame():
    with sluice.Writer("p", shape=4, policy="wait") as writer, sluice.Reader("p", mode="in_order") as reader:
        for value in range(3):
            writer.send(bytes([value] * 4))
        seen = []
        for frame in reader:
            seen.append(int(frame.numpy()[0]))
            reader.release_all()
            if len(seen) == 3:
                break
        assert seen == [0, 1, 2]


def test_values_and_items():
    with sluice.Writer("p", {"a": ((2,), "uint8"), "b": ((3,), "float32")}) as writer, sluice.Reader("p") as reader:
        with writer.frame() as begun:
            assert [name for name, _ in begun.items()] == ["a", "b"]
        frame = reader.next(timeout=60)
        assert [array.name for array in frame.values()] == ["a", "b"] == [name for name, _ in frame.items()]
        assert {name: array.shape for name, array in dict(frame).items()} == {"a": (2,), "b": (3,)}
        frame.release()
        for call in (frame.values, frame.items):
            with pytest.raises(sluice.StaleError):
                call()
