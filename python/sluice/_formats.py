# SPDX-License-Identifier: MIT
"""Converts formats as programs write them to what the extension reads."""
import collections.abc
import importlib
from collections import namedtuple

from . import _interop, _sluice

ROW_ORDERS = ("top-down", "bottom-up")
ALPHAS = ("unknown", "straight", "premultiplied", "opaque")
PYTHON_TYPES = {"float": "float64", "int": "int64", "complex": "complex128", "bool_": "bool", "half": "float16"}

Colour = namedtuple("Colour", "primaries transfer matrix range", defaults=(0, 0, 0, 0))
Colour.__doc__ = "Colour as ITU-T H.273 numbers it; 0 is unknown, and matrix 255 is RGB. range: 1 limited, 2 full."

Tensor = namedtuple("Tensor", "shape dtype", defaults=("uint8",))
Tensor.__doc__ = "An array of a format: its capacity, and its data type as text or as NumPy has it."

Image = namedtuple("Image", "pixel_format width height colour row_order alpha",
                   defaults=(Colour(), "top-down", "unknown"))
Image.__doc__ = """An image of a format: pixel_format is "bgr24", "rgb24", "nv12", ... (see pixel_formats())."""


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


def _index(values, value, what):
    try:
        return values.index(value)
    except ValueError:
        raise ValueError(f"{what} is {value!r}: it must be one of {', '.join(map(repr, values))}") from None


def _sizes(shape):
    return (shape,) if hasattr(shape, "__index__") else tuple(shape)


def _entry(name, what):
    if not isinstance(name, str):
        raise TypeError(f"the name of an array must be a str, not {name!r}")
    if isinstance(what, _sluice.Array):
        what = _of_array(what)
    if isinstance(what, Image):
        return (name, what.pixel_format, what.width, what.height, tuple(what.colour),
                _index(ROW_ORDERS, what.row_order, "row_order"), _index(ALPHAS, what.alpha, "alpha"))
    if isinstance(what, tuple):  # a Tensor, or a plain (shape, dtype)
        if len(what) != 2:
            raise TypeError(f"array {name!r}: give Tensor(shape, dtype), Image(...), or an array, not {what!r}")
        return name, dtype_name(what[1]), _sizes(what[0])
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


def of_entries(entries):
    """{name: Tensor or Image}: what such tuples describe."""
    return {name: _of_entry(*rest) for name, *rest in entries}


def _of_entry(kind, *rest):
    if len(rest) == 1:
        return Tensor(rest[0], kind)
    width, height, colour, row_order, alpha, _, _ = rest
    return Image(kind, width, height, Colour(*colour), ROW_ORDERS[row_order], ALPHAS[alpha])
