# SPDX-License-Identifier: MIT
"""Small PNGs of frames for notebooks, by NumPy alone. They are of a copy: nothing here outlives the call that holds the slot."""
import struct
import zlib

SIDE = 320  # of the PNG at most, in pixels
COPY_MOST = 64 << 20  # bytes that are copied from a GPU for it
LUMA = {"yuyv422": 0, "uyvy422": 1}  # where a pixel's luma is, and its neighbour's chroma is beside it
BAYER = {"rggb": (0, 1, 2, 3), "bggr": (3, 1, 2, 0), "grbg": (1, 0, 3, 2), "gbrg": (2, 0, 3, 1)}  # R G G B in a block of 2 x 2
WEIGHTS = {9: (0.2627, 0.0593), 6: (0.299, 0.114), 1: (0.2126, 0.0722)}  # of red and blue in luma, by the matrix
BT709, BT601, FULL = 1, 6, 2


def png(array):
    """The bytes of a PNG, or None if the array is no picture."""
    if not _is_picture(array) or (array.device != "host" and array.nbytes > COPY_MOST):
        return None
    import numpy
    pixels = _to_8_bits(numpy, _pixels(numpy, array))
    if array.row_order == "bottom-up":
        pixels = pixels[::-1]
    return _encode(numpy.ascontiguousarray(pixels))


def _is_picture(array):
    if array.pixel_format is not None:
        return True
    shape = array.shape
    return array.dtype == "uint8" and min(shape, default=0) > 0 and (
        (len(shape) == 2 and min(shape) >= 8) or (len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) >= 8))


def _pixels(numpy, array):
    """(H, W), (H, W, 3) or (H, W, 4) of a small picture, RGB in any type."""
    name = array.pixel_format or ""
    if name.startswith("bayer"):
        return _bayer(numpy, array.numpy(), BAYER[name[6:10]])
    if name in LUMA or array.planes[1:]:
        return _yuv(numpy, array)
    pixels = _small(array.numpy())
    if name.startswith("bgr"):
        pixels = pixels[..., [2, 1, 0, 3][:pixels.shape[2]]]
    if pixels.ndim == 3 and pixels.shape[2] == 4 and array.alpha != "straight":
        return pixels[..., :3]  # what is not known to be transparency would only hide the picture
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels


def _step(pixels, side=SIDE):
    return max(1, -(-max(pixels.shape[:2]) // side))


def _small(pixels):
    step = _step(pixels)
    return pixels[::step, ::step]


def _to_8_bits(numpy, pixels):
    if pixels.dtype == numpy.uint8:
        return pixels
    if pixels.dtype == numpy.uint16:
        return (pixels >> 8).astype(numpy.uint8)
    values = numpy.nan_to_num(pixels.astype(numpy.float32), nan=0.0, posinf=1.0, neginf=0.0)
    return (values.clip(0, 1) * 255 + 0.5).astype(numpy.uint8)


def _bayer(numpy, mosaic, places):
    """A pixel for each block of 2 x 2, whose first green is taken."""
    mosaic = mosaic[:mosaic.shape[0] // 2 * 2, :mosaic.shape[1] // 2 * 2]
    step = 2 * _step(mosaic, 2 * SIDE)
    red, green, _, blue = (mosaic[place // 2::step, place % 2::step] for place in places)
    return numpy.stack((red, green, blue), axis=2)


def _chroma_422(numpy, packed, luma, rows, columns):
    pair = columns - columns % 2
    return (packed[rows[:, None], columns + 0 * rows[:, None], luma], packed[rows[:, None], pair[None, :], 1 - luma],
            packed[rows[:, None], pair[None, :] + 1, 1 - luma])


def _components(numpy, array):
    """Y, U and V of a small picture, of one size."""
    planes = [plane.numpy() for plane in array.planes]
    step = _step(planes[0])
    rows, columns = numpy.arange(0, planes[0].shape[0], step), numpy.arange(0, planes[0].shape[1], step)
    if array.pixel_format in LUMA:
        columns = columns[columns - columns % 2 + 1 < planes[0].shape[1]]
        return _chroma_422(numpy, planes[0], LUMA[array.pixel_format], rows, columns)
    luma, chroma = planes[0][rows[:, None], columns], planes[1:]
    if len(chroma) == 1:  # U and V beside each other
        chroma = chroma[0][..., 0], chroma[0][..., 1]
    down, across = (planes[0].shape[i] // chroma[0].shape[i] for i in (0, 1))
    return (luma, *(each[(rows // down)[:, None], columns // across] for each in chroma))


def _yuv(numpy, array):
    """RGB as floats from 0 to 1."""
    scale = {"p010le": 256, "yuv422p10le": 4}.get(array.pixel_format, 1)  # of 8 bits
    y, u, v = (each.astype(numpy.float32) / scale for each in _components(numpy, array))
    full = array.colour[3] == FULL
    y = y / 255 if full else (y - 16) / 219
    u, v = ((each - 128) / (255 if full else 224) for each in (u, v))
    red, blue = WEIGHTS.get(array.colour[2]) or WEIGHTS[BT709 if array.height >= 720 else BT601]
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    return numpy.stack((r, (y - red * r - blue * b) / (1 - red - blue), b), axis=2)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _encode(pixels):
    height, width = pixels.shape[:2]
    colour = {2: 0, 3: 2, 4: 6}[pixels.shape[2] if pixels.ndim == 3 else 2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
            + _chunk(b"IDAT", zlib.compress(rows, 6)) + _chunk(b"IEND", b""))
