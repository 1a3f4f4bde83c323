# SPDX-License-Identifier: MIT
import numpy as np
import pytest

import sluice


def shape_of(pixel_format, width=8, height=6):
    with sluice.Writer("i", sluice.Image(pixel_format, width, height)) as writer:
        return writer.frame().shape


def test_shapes_are_those_of_opencv():
    expected = {"bgr24": (6, 8, 3), "rgba": (6, 8, 4), "gray": (6, 8), "gray16le": (6, 8), "yuyv422": (6, 8, 2),
                "nv12": (9, 8), "yuv420p": (9, 8), "p010le": (9, 8), "yuv444p": (18, 8), "bayer_rggb8": (6, 8),
                "rgbaf32le": (6, 8, 4), "yuv422p": (12, 8), "yuv422p10le": (12, 8), "rgba64le": (6, 8, 4), "i420": (9, 8), "BGR24": (6, 8, 3)}
    assert {name: shape_of(name) for name in expected} == expected
    for name in sluice.pixel_formats():
        assert shape_of(name)[-1] in (8, 3, 4, 2)


def test_planes():
    cases = {"nv12": [(6, 8), (3, 4, 2)], "p010le": [(6, 8), (3, 4, 2)], "yuv420p": [(6, 8), (3, 4), (3, 4)],
             "yuv444p": [(6, 8)] * 3, "yuv422p": [(6, 8), (6, 4), (6, 4)], "yuv422p10le": [(6, 8), (6, 4), (6, 4)],
             "bgr24": [(6, 8, 3)]}
    for pixel_format, shapes in cases.items():
        for align in (0, 64):
            with sluice.Writer("i", sluice.Image(pixel_format, 8, 6), pitch_align=align) as writer, \
                    sluice.Reader("i") as reader:
                with writer.frame() as frame:
                    planes = frame.planes
                    assert [plane.shape for plane in planes] == shapes
                    for number, plane in enumerate(planes):
                        plane.numpy()[...] = 10 + number
                got = reader.next()
                for number, plane in enumerate(got.planes):
                    assert (plane.numpy() == 10 + number).all() and (np.from_dlpack(plane) == 10 + number).all()
                    assert plane.read_only and not align or plane.strides[0] % 32 == 0
                if not align:
                    flat = np.concatenate([plane.numpy().ravel() for plane in got.planes])
                    assert (got.numpy().ravel() == flat).all()


def test_tensors_have_no_planes():
    with sluice.Writer("t", shape=4) as writer:
        frame = writer.frame()
        assert frame.planes == () and frame.pixel_format is None and frame[0].width is None


def test_what_an_image_says_of_itself():
    image = sluice.Image("nv12", 8, 6, sluice.Colour(1, 1, 1, 1), "bottom-up", "opaque")
    with sluice.Writer("i", {"view": image}) as writer, sluice.Reader("i") as reader:
        assert writer.format == {"view": image} == reader.format
        writer.send({"view": np.zeros((9, 8), "u1")})
        array = reader.next()["view"]
        assert (array.width, array.height, array.pixel_format) == (8, 6, "nv12")
        assert (array.colour, array.row_order, array.alpha) == ((1, 1, 1, 1), "bottom-up", "opaque")
        assert "nv12" in repr(array) and array.device == "host"


def test_colour_order_is_checked_when_asked():
    with sluice.Writer("i", sluice.Image("rgb24", 8, 6)) as writer, sluice.Reader("i") as reader:
        picture = np.zeros((6, 8, 3), "u1")
        with pytest.raises(sluice.FormatError, match="rgb24.*bgr24"):
            writer.send(picture, pixel_format="bgr24")
        with pytest.raises(sluice.FormatError):
            writer.send(picture, pixel_format="no such")
        writer.send(picture, pixel_format="rgb24")
        frame = reader.next()
        assert frame.numpy(pixel_format="rgb24").shape == (6, 8, 3) == frame["image"].numpy("RGB24").shape
        with pytest.raises(sluice.FormatError, match="rgb24, not bgr24"):
            frame.numpy(pixel_format="bgr24")
        with pytest.raises(ValueError):
            frame.numpy(pixel_format="bgr25")


def test_frames_of_other_sizes():
    with sluice.Writer("i", sluice.Image("nv12", 8, 6), resize=True) as writer, sluice.Reader("i") as reader:
        writer.send(np.full((6, 4), 3, "u1"))  # 4 x 4 pixels
        frame = reader.next()
        assert (frame[0].width, frame[0].height, frame.shape) == (4, 4, (6, 4)) and (frame.numpy() == 3).all()
        frame.release()
        writer.send(np.full((96, 64), 4, "u1"))
        frame = reader.next()
        assert (frame[0].width, frame[0].height) == (64, 64) and frame.generation == 2
        with pytest.raises(sluice.FormatError):
            writer.send(np.zeros((5, 4), "u1"))
