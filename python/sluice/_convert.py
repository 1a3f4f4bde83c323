# SPDX-License-Identifier: MIT
"""sluice.convert: one picture to another in one pass."""
import functools
from collections import namedtuple

from . import _sluice

FITS = ("stretch", "inside", "cover")
FILTERS = ("smooth", "linear", "nearest")
FLIPS = {None: 0, "": 0, "horizontal": 1, "vertical": 2, "both": 3}
CHROMA = ("left", "centre", "top-left", "repeat")
LAYOUTS = (None, "CHW", "HWC")
ORDERS = ("RGB", "BGR")
GPU = (2, 13)  # of DLPack: CUDA, and its managed memory


_Fields = namedtuple("_Fields", "x y width height from_x from_y per_x per_y")


class Area(_Fields):
    """Where the picture lies in the target, in its pixels, and the way back: the target's point x, y shows the source's
    from_x + x * per_x, from_y + y * per_y."""
    __slots__ = ()

    def back(self, x, y):
        """The point of the source that a point of the target shows. Numbers, or arrays of them."""
        return self.from_x + x * self.per_x, self.from_y + y * self.per_y


Area.__module__ = "sluice"


def _device(*arrays):
    for array in arrays:
        if type(array).__module__ == "sluice" and isinstance(device := array.device, str):
            return device
    for array in arrays:
        device = getattr(array, "device", None)
        if hasattr(array, "__dlpack_device__") and not isinstance(device, str):
            kind, number = array.__dlpack_device__()
            return f"cuda:{number}" if kind in GPU else "host"
        if hasattr(array, "__cuda_array_interface__"):
            return "cuda:0"
    return "host"


def _choice(name, value, values):
    try:
        return values[value] if isinstance(values, dict) else values.index(value)
    except (KeyError, ValueError, TypeError):
        raise ValueError(f"{name}={value!r}: it must be one of {', '.join(map(repr, values))}") from None


def _four(name, value, rest):
    """A number for each channel, from one or several."""
    if isinstance(value, (int, float)):
        return (float(value),) * 4
    numbers = [float(each) for each in value]
    if not 1 <= len(numbers) <= 4:
        raise ValueError(f"{name}={value!r}: it must be a number, or one for each channel")
    return tuple(numbers + [float(rest)] * (4 - len(numbers)))


def _arguments(crop, fit, filter, flip, border, scale, bias, layout, order, chroma):
    """As the extension takes them. Loops convert with the same ones again and again: those are kept."""
    numbers = (_choice("fit", fit, FITS), _choice("filter", filter, FILTERS), _choice("flip", flip, FLIPS),
               _choice("chroma", chroma, CHROMA), _choice("layout", layout, LAYOUTS), _choice("order", order, ORDERS))
    crop = (0, 0, 0, 0) if crop is None else tuple(map(int, crop))
    if len(crop) != 4 or min(crop) < 0:
        raise ValueError(f"crop={crop!r}: it must be (x, y, width, height)")
    border = (border,) * 3 if isinstance(border, (int, float)) else border
    return numbers, crop, _four("border", border, 1), _four("scale", scale, 1), _four("bias", bias, 0)


_kept = functools.lru_cache(64)(_arguments)


def convert(to, frame, *, crop=None, fit="stretch", filter="smooth", flip=None, border=0.0, scale=1.0, bias=0.0, layout=None,
            order="RGB", chroma="left", stream=None):
    """Converts the picture of `frame` to that of `to` in one pass, and returns where it lies there. On a GPU it is queued on a stream,
    as a launch of a kernel is.

    Each is a frame, an array of one, or an array of NumPy, PyTorch, CuPy or any DLPack: as a tensor of uint8, float16 or float32 with
    1, 3 or 4 channels. `crop`: (x, y, width, height) of the source; then `flip`. `fit`: "inside" leaves a `border` (R, G, B[, A], 0 to
    1), "cover" cuts off. `filter`: "smooth" (torch's antialias=True), "linear" (OpenCV's) or "nearest". A float tensor's element
    is component * `scale` + `bias`, with components 0 to 1: those of `to`, or of `frame` if `to` is no float tensor. Each is a number,
    or one for each channel. `layout` of a tensor, where its shape does not tell: "CHW" or "HWC"; `order`: "RGB" or "BGR". `chroma`:
    where formats that share it have it.

    Raises UnsupportedError for what other libraries do, and says which; FormatError for a shape that is no picture."""
    given = crop, fit, filter, flip, border, scale, bias, layout, order, chroma
    try:
        how = _kept(*given)
    except TypeError:  # a list has no hash; or it is wrong, and says so now
        how = _arguments(*given)
    return tuple.__new__(Area, _sluice._convert(_device(to, frame), to, frame, stream, *how))


convert.__module__ = "sluice"
