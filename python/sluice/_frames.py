# SPDX-License-Identifier: MIT
"""What programs rarely ask of frames and arrays: their text, iteration, pickling."""
from ._sluice import Array, Frame, WriterFrame


def _frame_text(self):
    return f"<sluice.Frame {self.sequence} in slot {self.slot}{', released' if self.released else ''}>"


def _writer_frame_text(self):
    end = "" if not self.ended else ", committed" if self.sequence else ", cancelled"
    return f"<sluice.WriterFrame in slot {self.slot}{end}>"


def _array_text(self):
    pixel_format = f" {self.pixel_format}" if self.pixel_format else ""
    return f"<sluice.Array '{self.name}' {self.dtype}{self.shape}{pixel_format}{' read-only' if self.read_only else ''}>"


def __iter__(self):
    return iter(self.keys())


def __contains__(self, name):
    return name in self.keys()


def __array__(self, dtype=None, copy=None):
    """What NumPy calls: numpy() on host; a TypeError on a GPU."""
    return self[0].__array__(dtype, copy)


def __reduce__(self):
    raise TypeError(f"{self!r} cannot be pickled or copied, as it is memory of a channel: pass what copy() returns, or open the "
                    "channel in the other process")


for _type, _text in ((Frame, _frame_text), (WriterFrame, _writer_frame_text), (Array, _array_text)):
    setattr(_type, "__repr__", _text)
    for _function in (__reduce__,) if _type is Array else (__reduce__, __iter__, __contains__, __array__):
        setattr(_type, _function.__name__, _function)
