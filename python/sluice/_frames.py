# SPDX-License-Identifier: MIT
"""What programs rarely ask of frames and arrays: their text, a picture of them, a mapping's methods, JSON, pickling."""
from ._sluice import Array, Error, Frame, WriterFrame


# ---- text ----

def describe(array):
    """"bgr24 640 x 480", "float32 (480, 640)" """
    if array.pixel_format:
        return f"{array.pixel_format} {array.width} x {array.height}"
    return f"{array.dtype} {array.shape}"


def _content(frame):
    """What its arrays are, as long as it has them."""
    try:
        return ": " + ", ".join(f"'{name}' {describe(array)}" for name, array in frame.items())
    except Error:  # it has ended
        return ""


def _frame_text(self):
    end = ", released" if self.released else ""
    return f"<sluice.Frame {self.sequence} in slot {self.slot} of {self.device}{end}{_content(self)}>"


def _writer_frame_text(self):
    end = "" if not self.ended else ", committed" if self.sequence else ", cancelled"
    return f"<sluice.WriterFrame in slot {self.slot} of {self.device}{end}{_content(self)}>"


def _array_text(self):
    pixel_format = f" {self.pixel_format}" if self.pixel_format else ""
    return f"<sluice.Array '{self.name}' {self.dtype}{self.shape}{pixel_format}{' read-only' if self.read_only else ''}>"


# ---- as a picture ----

def _picture_of(array):
    from ._picture import png
    try:
        return png(array)
    except (Error, ModuleNotFoundError):  # it has ended, its GPU is lost, or there is no NumPy: the text is shown
        return None


def _frame_picture(self):
    """What notebooks show: a small PNG of the first array that is a picture, of a copy. None if there is none, or the frame was
    released."""
    try:
        arrays = self.values()
    except Error:
        return None
    return next((made for made in map(_picture_of, arrays) if made), None)


def _array_picture(self):
    """What notebooks show: a small PNG of a copy; None if it is no picture."""
    return _picture_of(self)


# ---- metadata ----

def meta_json(self):
    """what JSON in the metadata says (meta={"pose": [1, 2]} of the writer); None if there is no metadata. Raises ValueError if it is
    not JSON"""
    return parse_json(self.meta, lambda: f"frame {self.sequence}")


def parse_json(meta, whose):
    """`whose`: a function that says whose it is, for an error."""
    if not meta:
        return None
    try:
        return _value_of(meta.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata of {whose()} is not JSON ({len(meta)} bytes that begin with {meta[:20]!r}): read .meta; {error}"
                         ) from None


_kept: list = []  # what reads JSON, from the first use on


def _value_of(text):
    """As json.loads(), in half the time where no white space is around the value."""
    if not _kept:
        import json
        _kept[:] = json.JSONDecoder().scan_once, json.loads
    scan, loads = _kept
    try:
        value, end = scan(text, 0)
    except StopIteration:
        return loads(text)
    return value if end == len(text) else loads(text)


# ---- as a mapping ----

def __iter__(self):
    return iter(self.keys())


def __contains__(self, name):
    return name in self.keys()


def values(self):
    """-> tuple of its Arrays"""
    return tuple(self[name] for name in self.keys())


def items(self):
    """-> tuple of (name, Array)"""
    return tuple((name, self[name]) for name in self.keys())


def __array__(self, dtype=None, copy=None):
    """What NumPy calls: numpy() on host; a TypeError on a GPU."""
    return self[0].__array__(dtype, copy)


def __reduce__(self):
    raise TypeError(f"{self!r} cannot be pickled or copied, as it is memory of a channel: pass what copy() returns, or open the "
                    "channel in the other process")


for _type, _text, _picture in ((Frame, _frame_text, _frame_picture), (WriterFrame, _writer_frame_text, None),
                               (Array, _array_text, _array_picture)):
    setattr(_type, "__repr__", _text)
    if _type is not Array:
        setattr(_type, "meta_json", property(meta_json))
    if _picture:
        _picture.__name__ = "_repr_png_"
        setattr(_type, "_repr_png_", _picture)
    for _function in (__reduce__,) if _type is Array else (__reduce__, __iter__, __contains__, values, items, __array__):
        setattr(_type, _function.__name__, _function)
