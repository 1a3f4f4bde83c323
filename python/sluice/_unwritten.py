# SPDX-License-Identifier: MIT
"""With SLUICE_DEBUG: a warning for a committed frame that nothing was written to."""
import ctypes
import warnings

from ._sluice import Error, WriterFrame
from ._writer import Writer

_MARK = bytes.fromhex("5aa5c33c9669f00f")
_SAMPLES = 64
_marked: dict[int, str] = {}  # the names of channels, by the ids of frames whose memory has marks


def _memory(frame):
    """The bytes of the first array."""
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
        warnings.warn(f"channel '{name}': nothing was written to the committed frame; did a function fail, or allocate a new array "
                      "for its result (OpenCV does if dst does not fit)? frame.cancel() leaves the frame out", RuntimeWarning, stacklevel=3)
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


_watch()
