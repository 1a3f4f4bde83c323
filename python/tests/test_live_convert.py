# SPDX-License-Identifier: MIT
"""Frames to tensors and back, by the settings of a link, against NumPy."""
import contextlib

import numpy as np
import pytest
import sluice

import convert_reference as reference
from live_hosts import loop

ODD = 37, 23


@contextlib.contextmanager
def converted(format, array, size, dtype="float32", meta=None, **input_):
    """The shot that shows this array, of a channel of this format."""
    with sluice.Writer("camera", format) as writer, \
            loop(input={"channel": "camera", "stale": 600, **input_}, size=size, dtype=dtype, engine={"multiple": 1}) as step, \
            sluice.Reader("painted", wait=None) as painted:
        with writer.frame(meta=meta) as frame:
            frame.numpy()[...] = array
        yield step(), painted


def random(*shape, dtype=np.uint8):
    made = np.random.default_rng(3)
    return made.integers(0, np.iinfo(dtype).max + 1, shape, dtype) if np.dtype(dtype).kind == "u" else made.random(shape).astype(dtype)


@pytest.mark.parametrize("range_", [(-1.0, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_all_bytes_survive_the_way_there_and_back(range_, dtype):
    ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    pixels = np.stack((ramp, ramp.T, ramp[::-1], np.full_like(ramp, 255)), -1)
    with converted(sluice.Image("rgba", 16, 16), pixels, (16, 16), dtype, range=range_) as (shot, painted):
        assert shot.input.dtype == dtype and (shot.input.min(), shot.input.max()) == range_
        shot.send(shot.input)
        with painted.next(60) as frame:
            assert (frame.numpy() == pixels).all()


@pytest.mark.parametrize("format, order", [("rgba", (0, 1, 2)), ("bgra", (2, 1, 0)), ("rgb24", (0, 1, 2)), ("bgr24", (2, 1, 0))])
@pytest.mark.parametrize("range_", [(-1.0, 1.0), (0.0, 1.0), (-2.5, 0.5)])
def test_declared_orders_and_ranges(format, order, range_):
    pixels = random(*ODD[::-1], 4 if format.endswith("a") else 3)
    with converted(sluice.Image(format, *ODD, alpha="opaque"), pixels, ODD, range=range_) as (shot, _):
        low, high = range_
        expected = pixels[..., order].transpose(2, 0, 1) / 255 * (high - low) + low
        assert np.allclose(shot.input[0], expected, atol=1e-6)


@pytest.mark.parametrize("format, most, dtype", [("gray", 255, np.uint8), ("gray16le", 65535, np.uint16), ("grayf32le", 1, np.float32)])
def test_one_channel_is_three_equal_planes(format, most, dtype):
    pixels = random(*ODD[::-1], dtype=dtype)
    with converted(sluice.Image(format, *ODD), pixels, ODD, range=(0.0, 1.0)) as (shot, _):
        assert np.allclose(shot.input[0], np.stack([pixels / most] * 3), atol=1e-5)


@pytest.mark.parametrize("order", ["auto", "rgba", "bgra"])
def test_an_array_that_does_not_say_its_order_has_that_of_the_link(order):
    pixels = random(*ODD[::-1], 4)
    with converted(sluice.Tensor((*ODD[::-1], 4)), pixels, ODD, order=order) as (shot, _):
        expected = pixels[..., (2, 1, 0) if order == "bgra" else (0, 1, 2)].transpose(2, 0, 1)
        assert np.allclose(shot.input[0], expected / 127.5 - 1, atol=1e-6)


def test_floats_are_clamped_and_what_is_no_number_is_black():
    pixels = random(*ODD[::-1], 4, dtype=np.float32)
    pixels[0, :5, 0] = np.nan, np.inf, -np.inf, 7, -7
    with converted(sluice.Image("rgbaf32le", *ODD, alpha="opaque"), pixels, ODD) as (shot, _):
        assert shot.input[0, 0, 0, :5].tolist() == [-1, 1, -1, 1, -1]
        assert np.allclose(shot.input[0, :, 1:], pixels[1:, :, :3].transpose(2, 0, 1) * 2 - 1, atol=1e-6)


@pytest.mark.parametrize("row_order", ["top-down", "bottom-up"])
@pytest.mark.parametrize("flip", ["auto", "none", "vertical"])
def test_rows(row_order, flip):
    pixels = random(*ODD[::-1], 4)
    with converted(sluice.Image("rgba", *ODD, row_order=row_order, alpha="opaque"), pixels, ODD, flip=flip) as (shot, _):
        turned = {"auto": row_order == "bottom-up", "none": False, "vertical": row_order == "top-down"}[flip]
        expected = (pixels[::-1] if turned else pixels)[..., :3].transpose(2, 0, 1) / 127.5 - 1
        assert np.allclose(shot.input[0], expected, atol=1e-6)


@pytest.mark.parametrize("fit", ["stretch", "cover", "contain"])
@pytest.mark.parametrize("filter_", ["auto", "smooth", "linear", "nearest"])
@pytest.mark.parametrize("size", [(16, 16), (64, 40), (20, 33)])
def test_fits_and_filters(fit, filter_, size):
    pixels, fill = random(*ODD[::-1], 4), (0.25, 0.5, 0.75)
    with converted(sluice.Image("rgba", *ODD, alpha="opaque"), pixels, size, fit=fit, filter=filter_, fill=fill) as (shot, _):
        source = reference.Picture("rgb24", [pixels[..., c] for c in range(3)])
        target = np.zeros((3, *size[::-1]))
        to = reference.Picture("tensor", list(target), scale=(2,) * 4, bias=(-1,) * 4)
        reference.convert(to, source, fit={"contain": "inside"}.get(fit, fit), filter={"auto": "smooth"}.get(filter_, filter_), border=(*fill, 1))
        tolerance = 1e-5 if filter_ == "nearest" else 2 / 255
        assert np.abs(shot.input[0] - target).max() <= tolerance


@pytest.mark.parametrize("fit", ["stretch", "cover", "contain"])
def test_the_outputs_size_is_the_inputs_without_its_border(fit):
    with converted(sluice.Image("rgba", 64, 32, alpha="opaque"), 200, (32, 32), fit=fit, fill=(1.0, 0.0, 0.0)) as (shot, painted):
        shot._live.changes.put({"output.size": "input"})
        shot._live._apply(*shot._live.changes.take())
        shot.send(shot.input)
        with painted.next(60) as frame:
            picture = frame.numpy()
            while picture.shape[1] != 64:
                picture = painted.next(60).numpy()
            assert picture.shape == (32, 64, 4)
            shown = picture[:, 16:48] if fit == "cover" else picture
            assert (np.abs(shown[..., :3].astype(int) - 200) <= 1).all()
            assert fit != "cover" or (picture[:, :15, :3] == 0).all()


def test_the_outputs_size_order_and_range_are_what_is_asked_for():
    with converted(sluice.Image("rgba", *ODD), 0, ODD) as (shot, painted):
        shot._live.changes.put({"output.size": (10, 6), "output.format": "bgra", "output.range": (0.0, 2.0)})
        shot._live._apply(*shot._live.changes.take())
        shot.send(np.stack([np.full(ODD[::-1], value, np.float32) for value in (0, 1, 2)]))
        with painted.next(60) as frame:
            assert frame.pixel_format == "bgra" and frame.shape == (6, 10, 4) and (frame.numpy() == (255, 128, 0, 255)).all()


def test_a_picture_that_cannot_be_sent_is_counted():
    with converted(sluice.Image("rgba", *ODD), 0, ODD) as (shot, painted):
        assert not shot.send(np.zeros((2, 5, 7, 9, 11), np.float32))
        link = shot._live.counters.links["output"]
        assert link.state.startswith("FAILED(") and link.lost >= 1


def test_what_is_no_number_is_sent_as_black_and_counted(monkeypatch, caplog):
    from sluice.live import _outputs
    monkeypatch.setattr(_outputs, "NAN_EVERY", 0.0)
    with converted(sluice.Image("rgba", *ODD), 200, ODD, range=(0.0, 1.0)) as (shot, painted):
        live, picture = shot._live, np.ones((1, 3, *ODD[::-1]), np.float32)
        picture[0, 1, :2, :5] = np.nan
        for number in range(3):  # each is searched; what was found is read with the next one
            shot.sent = None
            shot.send(picture if number < 2 else np.ones_like(picture))
            with painted.next(60) as frame:
                black = np.argwhere(frame.numpy()[..., 1] == 0)
                assert len(black) == (10 if number < 2 else 0) and (frame.numpy()[..., 0] == 255).all()
        assert live.counters.links["output"].nan == 20
    assert caplog.messages.count("output: painted: 10 values of a picture are no numbers: they are sent as black") == 1
