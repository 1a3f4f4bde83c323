# SPDX-License-Identifier: MIT
"""Converts formats as programs write them to what the extension reads."""
import collections.abc
import importlib
import itertools
from collections import namedtuple

from . import _interop, _sluice
from ._checks import choose, near, number

ROW_ORDERS = ("top-down", "bottom-up")
SIDE = 65536  # an image's longest side
ALPHAS = ("unknown", "straight", "premultiplied", "opaque")
PYTHON_TYPES = {"float": "float64", "int": "int64", "complex": "complex128", "bool_": "bool", "half": "float16"}

Colour = namedtuple("Colour", "primaries transfer matrix range", defaults=(0, 0, 0, 0))
Colour.__doc__ = "Colour as ITU-T H.273 numbers it; 0 is unknown, and matrix 255 is RGB. range: 1 limited, 2 full."

Tensor = namedtuple("Tensor", "shape dtype", defaults=("uint8",))
Tensor.__doc__ = "An array of a format: its capacity, and its data type as text or as NumPy has it."


_Fields = namedtuple("_Fields", "pixel_format width height colour row_order alpha")


class Image(_Fields):
    """An image of a format: pixel_format is "bgr24", "rgb24", "nv12", ... (see pixel_formats()). Raises FormatError for an unknown
    one, with a name near it."""

    __slots__ = ()

    def __new__(_cls, pixel_format, width, height, colour=Colour(), row_order="top-down", alpha="unknown"):
        check_pixel_format(pixel_format)
        choose("row_order", row_order, ROW_ORDERS)
        choose("alpha", alpha, ALPHAS)
        return super().__new__(_cls, pixel_format, number("width", width, 1, SIDE),
                               number("height", height, 1, SIDE), _colour(colour), row_order, alpha)


def _colour(value):
    try:
        made = Colour._make(value)
        wrong = not all(isinstance(each, int) and 0 <= each <= 255 for each in made)
    except TypeError:
        wrong = True
    if wrong:
        raise TypeError(f"colour is {value!r}: it must be Colour(primaries, transfer, matrix, range), each 0 to 255")
    return made


# ---- pixel formats ----

# What other libraries call them.
SYNONYMS = {"bgr": "bgr24", "bgr8": "bgr24", "rgb": "rgb24", "rgb8": "rgb24", "rgba8": "rgba", "bgra8": "bgra", "grey": "gray",
            "gray8": "gray", "grey8": "gray", "mono": "gray", "mono8": "gray", "l": "gray", "y8": "gray", "mono16": "gray16le",
            "yuv420": "yuv420p", "yuv": "yuv420p", "yuyv": "yuyv422", "yuy2": "yuyv422", "p010": "p010le",
            "yuv422": "yuv422p", "y42b": "yuv422p", "rgb0": "rgba", "rgbx": "rgba", "bgr0": "bgra", "bgrx": "bgra"}


def pixel_formats():
    """-> tuple of the names of all pixel formats"""
    return tuple(iter(map(_sluice._pixel_format, itertools.count(1)).__next__, None))


def check_pixel_format(name):
    """Raises an exception for what is no pixel format: with the name that was probably meant."""
    if not isinstance(name, str):
        raise TypeError(f"the pixel format is {name!r}: it must be a str such as \"bgr24\"; sluice.pixel_formats() has all")
    if _sluice._pixel_format(name) is None:
        meant = SYNONYMS.get(name.lower()) or near(name, pixel_formats())
        ask = f': did you mean "{meant}"?' if meant else ";"
        raise _sluice.FormatError(f'there is no pixel format "{name}"{ask} sluice.pixel_formats() has all')


def dtype_name(dtype):
    """Returns a name such as "float32" for "float32", numpy.float32, numpy.dtype("f4"), torch.float32 or float."""
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):
        name = PYTHON_TYPES.get(dtype.__name__, dtype.__name__)
    else:
        name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
        if not getattr(dtype, "isnative", True):
            name = dtype.str  # ">f4": not the native byte order, which the name omits
    return name


def numpy_types(name, bits):
    """NumPy's class of arrays, and its data type of this name; bfloat16 and the eight-bit floats are ml_dtypes'."""
    numpy = _interop.load("numpy", "numpy")
    try:
        return numpy.ndarray, numpy.dtype(name)
    except TypeError:
        pass
    try:
        return numpy.ndarray, numpy.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    except (ImportError, AttributeError, TypeError):
        small = "install ml_dtypes, or " if bits <= 16 else ""
    raise _sluice.UnsupportedError(f"NumPy has no data type {name}: {small}take the array through DLPack")


def as_asked(view):
    """The method __array__() of a view. NumPy does not check that it obeyed `copy`: True: a copy; False: none; None: if need be."""
    def __array__(dtype=None, copy=None):
        made = view if dtype is None else view.astype(dtype, "K", "unsafe", True, False)
        if made is not view and copy is False:
            raise ValueError("a frame's array in another data type is a copy, which copy=False forbids")
        return view.copy() if made is view and copy is True else made
    return __array__


def _of_array(array):
    """Returns the Image or Tensor that describes an array of a frame."""
    if array.pixel_format is None:
        return Tensor(*reversed(_sluice._describe(array)))
    return Image(array.pixel_format, array.width, array.height, Colour(*array.colour), array.row_order, array.alpha)


def _sizes(shape):
    sizes = (shape,) if isinstance(shape, str) or not hasattr(shape, "__iter__") else tuple(shape)
    if not all(hasattr(each, "__index__") for each in sizes):
        raise TypeError(f"the shape is {shape!r}: it must be an int, or a tuple of them")
    return sizes


def _entry(name, what):
    if not isinstance(name, str):
        raise TypeError(f"the name of an array must be a str, not {name!r}")
    if isinstance(what, _sluice.Array):
        what = _of_array(what)
    if isinstance(what, Image):
        what = Image(*what)  # checked again: _replace() does not
        return (name, what.pixel_format, what.width, what.height, tuple(what.colour), ROW_ORDERS.index(what.row_order),
                ALPHAS.index(what.alpha))
    if isinstance(what, tuple):  # a Tensor, or a plain (shape, dtype)
        if len(what) != 2:
            raise TypeError(f"array {name!r}: give Tensor(shape, dtype), Image(...), or an array, not {what!r}")
        return name, dtype_name(what[1]), _sizes(what[0])
    if isinstance(what, (str, list)):
        raise TypeError(f"{what!r} is no format: give Image(pixel_format, width, height), Tensor(shape, dtype), an array, or {{name: "
                        "one of these}; or shape= and dtype=")
    dtype, shape = _sluice._describe(what)
    return name, dtype, shape


def entries(what, shape, dtype):
    """Returns the list of tuples that the extension reads."""
    if what is None:
        if shape is None:
            raise TypeError("a format is needed: an Image, a Tensor, {name: one of these}, or shape= and dtype=")
        return [_entry("data", Tensor(shape, "uint8" if dtype is None else dtype))]
    if shape is not None or dtype is not None:
        raise TypeError("give either a format or shape= and dtype=, not both")
    if isinstance(what, _sluice.Frame):
        what = {name: what[name] for name in what}
    if isinstance(what, collections.abc.Mapping):
        return [_entry(name, item) for name, item in what.items()]
    return [_entry("image" if isinstance(what, Image) else "data", what)]


def described(format):
    """A format as text: 'image' bgr24 640 x 480, 'depth' float32 (480, 640)"""
    return ", ".join(f"'{name}' " + (f"{what.pixel_format} {what.width} x {what.height}" if isinstance(what, Image) else
                                     f"{what.dtype} {what.shape}") for name, what in format.items())
