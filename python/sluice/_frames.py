# SPDX-License-Identifier: MIT
"""What programs rarely ask of frames and arrays: their text, iteration, pickling. And, with SLUICE_DEBUG, a warning for a committed
frame that nothing was written to."""
import os
import warnings

from ._sluice import Array, Error, Frame, WriterFrame
from ._writer import Writer


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

# ---- SLUICE_DEBUG: was anything written? ----

_MARK = bytes.fromhex("5aa5c33c9669f00f")
_SAMPLES = 64
_marked: dict[int, str] = {}  # the names of channels, by the ids of frames whose memory has marks


def _memory(frame):
    """The bytes of the first array."""
    import ctypes
    array = frame[0]
    return (ctypes.c_char * array.nbytes).from_address(array.address)


def _places(memory):
    size = max(0, len(memory) - len(_MARK) + 1)
    return range(0, size, max(len(_MARK), size // _SAMPLES + 1))


def _mark(frame, name):
    memory = _memory(frame)
    for place in _places(memory):
        memory[place:place + len(_MARK)] = _MARK
    if _places(memory):
        _marked[id(frame)] = name


def _is_blank(frame):
    try:
        memory = _memory(frame)
    except Error:  # its writer is closed
        return False
    return all(memory[place:place + len(_MARK)] == _MARK for place in _places(memory))


def _check(frame):
    """Before a commit."""
    name = _marked.pop(id(frame), None)
    if name is None or frame.ended or not _is_blank(frame):
        return
    try:
        warnings.warn(f"channel '{name}': nothing was written to the committed frame; did a function allocate a new array for its "
                      "result (OpenCV does if dst does not fit)?", RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # warnings are errors
        frame.cancel()
        raise


def _watch():
    """Makes writers mark the memory of their frames, and commit look for the marks."""
    commit, leave = WriterFrame.commit, WriterFrame.__exit__

    def marking(begin):
        def call(self, *args, **keywords):
            frame = begin(self, *args, **keywords)
            if frame is not None and frame.device == "host":
                _mark(frame, self.name)
            return frame
        return call

    def checking_commit(self):
        _check(self)
        commit(self)

    def checking_leave(self, kind, error, trace, /):
        if kind is None:
            _check(self)
        return leave(self, kind, error, trace)

    Writer.frame, Writer.try_frame = marking(Writer.frame), marking(Writer.try_frame)
    WriterFrame.commit, WriterFrame.__exit__ = checking_commit, checking_leave


if os.environ.get("SLUICE_DEBUG"):
    _watch()
