# SPDX-License-Identifier: MIT
"""sluice.convert against its definition in double precision, and against other libraries."""
import itertools
import random

import numpy as np
import pytest
import sluice

import convert_reference as reference
import other_converters as others

NAMES = {"gray16": "gray16le", "p010": "p010le", "yuv422p10": "yuv422p10le", "rgba64": "rgba64le", "rgbaf16": "rgbaf16le", "rgbaf32": "rgbaf32le", "grayf32": "grayf32le"}
FITS, FILTERS, FLIPS = ("stretch", "inside", "cover"), ("smooth", "linear", "nearest"), {None: "", "horizontal": "h", "vertical": "v", "both": "hv"}
RANGES, CHROMA = (0, 1, 2), ("left", "centre", "top-left", "repeat")


def fill(picture, seed):
    made = np.random.default_rng(seed)
    for view in picture.components:
        whole = view.dtype.kind == "u"
        most = 1023 if picture.format == "yuv422p10" else np.iinfo(view.dtype).max if whole else 1
        view[...] = made.integers(0, most + 1, view.shape) if whole else made.random(view.shape)


class Frames:
    """Images in frames of channels."""

    def __init__(self):
        self.open, self.number = [], 0

    def image(self, format, width, height, matrix=0, range=0, row_order="top-down", alpha="", align=1):
        self.number += 1
        image = sluice.Image(NAMES.get(format, format), width, height, sluice.Colour(0, 0, matrix, range), row_order, alpha or "unknown")
        writer = sluice.Writer(f"convert-{self.number}", format={"image": image}, pitch_align=align)
        frame = writer.frame()
        self.open += [frame, writer]
        picture = reference.Picture(format, reference.components(format, [p.numpy() for p in frame["image"].planes],
                                                                 row_order == "bottom-up"), matrix, range, alpha)
        picture.sluice = frame
        fill(picture, self.number)
        return picture

    def close(self):
        for frame, writer in zip(self.open[::2], self.open[1::2]):
            frame.cancel()
            writer.close()
        self.open = []


@pytest.fixture
def frames():
    made = Frames()
    yield made
    made.close()


def tensor(dtype, layout, channels, width, height, scale=1.0, bias=0.0, order="RGB"):
    array = np.zeros((channels, height, width) if layout == "CHW" else (height, width, channels), dtype)
    views = [array[c] if layout == "CHW" else array[..., c] for c in range(channels)]
    if order == "BGR":
        views[:3] = views[2::-1]
    picture = reference.Picture("tensor", views, scale=(1 if dtype == "uint8" else scale,) * 4,
                                bias=(0 if dtype == "uint8" else bias,) * 4)
    picture.sluice = array
    return picture


def check(to, frm, flip=None, chroma="left", **settings):
    """Converts with sluice and by the definition, and compares the numbers."""
    how = {name: settings[name] for name in ("crop", "fit", "filter", "border") if name in settings}
    area = sluice.convert(to.sluice, frm.sluice, flip=flip, chroma=chroma, **settings)
    got = [view.astype(np.float64) for view in to.components]
    reference.convert(to, frm, flip=FLIPS[flip], chroma=chroma.replace("-", "_"), **how)
    for view, numbers in zip(to.components, got):
        expected, step = view.astype(np.float64), 64 if to.format == "p010" else 1
        away = np.abs(numbers - expected) / (step if view.dtype.kind == "u" else np.maximum(1, np.abs(expected)))
        most = 1 if view.dtype.kind == "u" else 1e-5 if view.dtype.itemsize == 4 else 1e-3
        assert away.max() <= most, (frm.format, to.format, flip, chroma, settings, away.max())
    return area


def sizes(format, made):
    """A size that the format can have."""
    width, height = made.choice([1, 2, 3, 16, 31, 64, 129]), made.choice([1, 2, 3, 7, 16, 67])
    shared = reference.FORMATS[format][2][-1]
    columns, rows = shared[3:] if len(shared) > 3 else (1, 1)
    return width + width % columns, height + height % rows


@pytest.mark.parametrize("source", reference.FORMATS)
def test_every_format_to_every_format_by_each_filter_and_fit(frames, source):
    made = random.Random(source)
    for target, filter, fit in itertools.product(reference.FORMATS, FILTERS, FITS):
        frm = frames.image(source, *sizes(source, made), made.choice([0, 1, 6, 9]), made.choice(RANGES),
                           made.choice(["top-down", "bottom-up"]), made.choice(["", "straight", "premultiplied", "opaque"]), made.choice([1, 64]))
        to = frames.image(target, *sizes(target, made), made.choice([0, 1, 6, 9]), made.choice(RANGES),
                          made.choice(["top-down", "bottom-up"]), made.choice(["", "straight", "premultiplied", "opaque"]), made.choice([1, 64]))
        check(to, frm, flip=made.choice(list(FLIPS)), chroma=made.choice(CHROMA), filter=filter, fit=fit, border=(0.25, 0.5, 0.75, 0.5))
        frames.close()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_every_format_to_a_tensor_and_back(frames, dtype, layout):
    made = random.Random(dtype + layout)
    for source in reference.FORMATS:
        width, height = sizes(source, made)
        order, channels = made.choice(["RGB", "BGR"]), made.choice([3, 4])
        frm = frames.image(source, width, height)
        to = tensor(dtype, layout, channels, 40, 22, 0.5, 0.25, order)
        check(to, frm, layout=layout, order=order, scale=0.5, bias=0.25, filter=made.choice(FILTERS))
        back = frames.image(source, width, height)
        check(back, to, layout=layout, order=order, scale=0.5, bias=0.25)
        frames.close()


def test_large_pictures(frames):
    frm, to = frames.image("nv12", 3840, 2160), tensor("float32", "CHW", 3, 512, 512)
    check(to, frm, layout="CHW", fit="inside")
    check(frames.image("rgba", 3840, 2160), frm)


def test_crops(frames):
    made = random.Random(3)
    for source in ("rgba", "nv12", "yuyv422"):
        frm = frames.image(source, 64, 38)
        for _ in range(20):
            x, y = made.randrange(64), made.randrange(38)
            crop = x, y, made.randint(1, 64 - x), made.randint(1, 38 - y)
            check(tensor("float32", "HWC", 3, 17, 13), frm, crop=crop, layout="HWC", flip=made.choice(list(FLIPS)), fit=made.choice(FITS))


def test_black_and_white_of_limited_ranges_are_exact(frames):
    for source, black, white, middle in (("nv12", 16, 235, 128), ("yuv444p", 16, 235, 128), ("p010", 64 * 64, 940 * 64, 512 * 64)):
        for matrix in (1, 6, 9):
            frm, to = frames.image(source, 4, 4, matrix), frames.image("rgb24", 4, 4)
            for value, expected in ((black, 0), (white, 255)):
                frm.components[0][...] = value
                for chroma in frm.components[1:]:
                    chroma[...] = middle
                sluice.convert(to.sluice, frm.sluice)
                assert (to.sluice["image"].numpy() == expected).all()


@pytest.mark.parametrize("scale, bias", [(1, 0), (2, -1), (255, 0), (1 / 0.229, -0.485 / 0.229)])
def test_bytes_to_a_tensor_and_back_are_the_same(scale, bias):
    values = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    tensor, back = np.zeros((3, 16, 16), np.float32), np.zeros_like(values)
    sluice.convert(tensor, values, scale=scale, bias=bias)
    np.testing.assert_allclose(tensor[0], np.arange(256).reshape(16, 16) / 255 * scale + bias, atol=1e-4)
    sluice.convert(back, tensor, scale=scale, bias=bias)
    assert (back == values).all()


def middle_of_light(image, area):
    """Where it is in the source."""
    x, y = (image.sum(axis) @ (np.arange(image.shape[1 - axis]) + 0.5) / image.sum() for axis in (0, 1))
    return area.back(x, y)


@pytest.mark.parametrize("step", range(9))
@pytest.mark.parametrize("size", [(16, 16), (32, 80), (64, 64), (129, 67)])
@pytest.mark.parametrize("filter", ["smooth", "linear"])
def test_a_pixel_keeps_its_place_in_a_larger_picture(filter, size, step):
    """A white pixel, moved by eighths of a pixel: two pixels share its light. At factors below 2 that are no whole numbers, so few
    pixels show the slopes of the filter that even the definition is 0.02 of a pixel away."""
    source, larger = np.zeros((16, 16), np.float32), np.zeros(size[::-1], np.float32)
    source[8, 7:9] = 1 - step / 8, step / 8
    area = sluice.convert(larger, source, filter=filter)
    assert np.allclose(middle_of_light(larger, area), (7.5 + step / 8, 8.5), atol=0.01)


@pytest.mark.parametrize("step", range(9))
@pytest.mark.parametrize("size", [(16, 16), (8, 8), (11, 7), (5, 3)])
def test_a_pixel_keeps_its_place_in_a_smaller_picture(size, step):
    """A white square of 8 x 8 pixels of the source, of which each step is an eighth."""
    source, smaller = np.zeros((128, 128), np.float32), np.zeros(size[::-1], np.float32)
    source[60:68, 56 + step:64 + step] = 1
    area = sluice.convert(smaller, source)
    assert np.allclose(middle_of_light(smaller, area), (60 + step, 64), atol=0.08)


def test_the_area_leads_back(frames):
    frm = frames.image("rgba", 100, 50)
    area = sluice.convert(np.zeros((64, 64, 3), np.uint8), frm.sluice, fit="inside")
    assert area == (0, 16, 64, 32, 0, -25, 100 / 64, 100 / 64)
    assert area.back(32, 32) == (50, 25)
    area = sluice.convert(np.zeros((50, 50, 3), np.uint8), frm.sluice, fit="cover", flip="horizontal", crop=(10, 0, 80, 50))
    assert area[:4] == (-15, 0, 80, 50)
    assert area.back(25, 25) == (50, 25) and area.back(0, 0) == (75, 0)


def test_in_place_only_for_pixels_that_stay():
    image = np.arange(90, dtype=np.uint8).reshape(5, 6, 3)
    before = image.copy()
    sluice.convert(image, image)
    assert (image == before).all()
    with pytest.raises(sluice.Error, match="share memory"):
        sluice.convert(image, image, flip="horizontal")


@pytest.mark.parametrize("settings, error, words", [
    (dict(crop=(0, 0, 9, 1)), sluice.Error, "a crop of 9 x 1 at 0, 0 does not lie in a picture of 8 x 6"),
    (dict(fit="stretched"), ValueError, "fit='stretched': it must be one of 'stretch', 'inside', 'cover'"),
    (dict(scale=(1, 0, 1)), sluice.Error, r"scale\[1\] is 0"),
])
def test_what_is_refused_says_why(settings, error, words):
    with pytest.raises(error, match=words):
        sluice.convert(np.zeros((5, 5, 3), np.float32), np.zeros((6, 8, 3), np.uint8), **settings)


def test_what_others_do_is_refused_with_their_names(frames):
    to = np.zeros((4, 4, 3), np.uint8)
    with sluice.Writer("bayer", format={"image": sluice.Image("bayer_rggb8", 4, 4)}) as writer, writer.frame() as frame:
        with pytest.raises(sluice.UnsupportedError, match="OpenCV's cvtColor"):
            sluice.convert(to, frame)
    with pytest.raises(sluice.UnsupportedError, match="torch or CuPy"):
        sluice.convert(to, np.zeros((4, 4, 3), np.float64))
    with pytest.raises(sluice.FormatError, match="may be CHW and HWC: set"):
        sluice.convert(to, np.zeros((3, 4, 3), np.uint8))
    with pytest.raises(sluice.FormatError, match="none of its dimensions has 1, 3 or 4 channels"):
        sluice.convert(to, np.zeros((5, 5, 5), np.uint8))


# ---- other libraries ----

def pictures(seed=1, height=67, width=129):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize("size", [(32, 32), (64, 20), (200, 150), (129, 67)])
def test_smooth_is_pillows_and_torchs(size):
    image, got = pictures(), np.zeros((size[1], size[0], 3), np.uint8)
    sluice.convert(got, image)
    pillow = pytest.importorskip("PIL.Image")
    expected = np.asarray(pillow.fromarray(image).resize(size, pillow.BILINEAR), np.int16)
    assert np.abs(got - expected).max() <= 1


@pytest.mark.parametrize("size", [(32, 32), (64, 20), (200, 150), (129, 67)])
def test_smooth_and_nearest_are_torchs(size):
    torch = pytest.importorskip("torch")
    image = pictures()
    tensor, got = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255, np.zeros((3, size[1], size[0]), np.float32)
    for filter, how in (("smooth", dict(mode="bilinear", antialias=True)), ("nearest", dict(mode="nearest-exact"))):
        sluice.convert(got, image, filter=filter)
        expected = torch.nn.functional.interpolate(tensor, size[::-1], **how)[0].numpy()
        assert np.abs(got - expected).max() <= 1e-4


@pytest.mark.parametrize("size", [(32, 32), (64, 20), (200, 150), (129, 67)])
def test_linear_is_opencvs(size):
    cv2 = pytest.importorskip("cv2")
    image, got = pictures(), np.zeros((size[1], size[0], 3), np.uint8)
    sluice.convert(got, image, filter="linear")
    assert np.abs(got - cv2.resize(image, size, interpolation=cv2.INTER_LINEAR).astype(np.int16)).max() <= 1


def test_nv12_is_opencvs(frames):
    cv2 = pytest.importorskip("cv2")
    frm, got = frames.image("nv12", 128, 66), np.zeros((66, 128, 3), np.uint8)
    frm.components[0][...] = frm.components[0] % 220 + 16  # OpenCV does not go below black
    sluice.convert(got, frm.sluice, order="BGR", chroma="repeat")
    expected = cv2.cvtColor(frm.sluice["image"].numpy(), cv2.COLOR_YUV2BGR_NV12)
    assert np.abs(got - expected.astype(np.int16)).max() <= 2


# ---- zimg, libyuv, swscale ----

COLOURS = [(matrix, full) for matrix in (1, 6, 9) for full in (0, 1)]


def video(full, *shapes):
    """Numbers within the range."""
    made = np.random.default_rng(2)
    return [made.integers(*((0, 256) if full else (16, 236)), shape, np.uint8) for shape in shapes]


def to_rgb(frames, format, planes, matrix, full, chroma):
    height, width = planes[0].shape
    source, got = frames.image(format, width, height, matrix, 2 if full else 1), np.zeros((height, width, 3), np.uint8)
    for component, plane in zip(source.components, planes):
        component[...] = plane
    sluice.convert(got, source.sluice, chroma=chroma)
    return got.astype(np.int16)


@pytest.mark.parametrize("matrix, full", COLOURS)
@pytest.mark.parametrize("format, small", [("yuv420p", (33, 64)), ("yuv444p", (66, 128))])
def test_zimg_gives_the_same(frames, format, small, matrix, full):
    zimg = others.Zimg()
    planes = video(full, (66, 128), small, small)
    assert np.abs(to_rgb(frames, format, planes, matrix, full, "left") - zimg.to_rgb(planes, matrix, full)).max() <= 1


@pytest.mark.parametrize("matrix, full", COLOURS)
def test_swscale_gives_the_same(frames, matrix, full):
    swscale = others.Swscale()
    planes = video(full, (66, 128), (66, 128), (66, 128))
    assert np.abs(to_rgb(frames, "yuv444p", planes, matrix, full, "left") - swscale.to_rgb(planes, matrix, full)).max() <= 1


@pytest.mark.parametrize("matrix, full", COLOURS)
def test_libyuv_gives_the_same(frames, matrix, full):
    yuv = others.Yuv()
    y, u, v = video(full, (66, 128), (33, 64), (33, 64))
    away = np.abs(to_rgb(frames, "nv12", (y, u, v), matrix, full, "repeat") -
                  yuv.to_rgb([y, np.stack([u, v], -1).reshape(33, 128)], matrix, full))
    # its factor of blue is 2 at most: BT.709 and BT.2020 of the limited range have 2.11 and 2.14
    assert away[..., :2 if matrix != 6 and not full else 3].max() <= 2


def test_libyuv_gives_the_same_nv12(frames):
    yuv = others.Yuv()
    source, to = frames.image("bgra", 128, 66, alpha="opaque"), frames.image("nv12", 128, 66, 6, 1)
    sluice.convert(to.sluice, source.sluice, chroma="repeat")
    y, uv = yuv.to_nv12(np.ascontiguousarray(source.sluice["image"].numpy()))
    for component, expected in zip(to.components, (y, uv[:, ::2], uv[:, 1::2])):
        assert np.abs(component - expected.astype(np.int16)).max() <= 2
