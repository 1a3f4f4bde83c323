# SPDX-License-Identifier: MIT
"""Forks a stream's work to several streams, and joins them."""
import contextlib

from . import _sluice
from ._sluice import current_stream
from ._streams import Stream, raise_after


def named_stream(given, what):
    """`given` as a Stream; this thread's current one if it is None."""
    stream = current_stream() if given is None else given
    if stream is None:
        raise TypeError(f"{what}() needs a stream: give it one, or enter one: with sluice.Stream(device)")
    return stream if isinstance(stream, Stream) else Stream.wrap(stream)


class _Parallel:
    def __init__(self, stream):
        self.stream, self.streams = stream, None

    def __enter__(self):
        if self.streams is not None:
            raise RuntimeError("this parallel() is entered already, or was: make another one")
        self.stream, self.streams, self.inside = named_stream(self.stream, "parallel"), [], True
        return self

    @contextlib.contextmanager
    def branch(self):
        """Enters a stream of its own, which is this thread's current one until the branch is left."""
        if self.streams is None or not self.inside:
            raise RuntimeError("a branch is entered inside its parallel(): with parallel(stream) as ways, ways.branch():")
        stream = _sluice._branch_fork(self.stream)
        self.streams.append(stream)
        with stream.use():
            yield stream

    def __exit__(self, kind, error, trace):
        failure, self.inside = None, False
        for stream in self.streams:
            try:
                if not stream.closed:
                    _sluice._branch_join(stream, self.stream)
            except Exception as one:  # the others are joined nevertheless
                failure = failure or one
            stream._close(True)
        self.streams.clear()
        if failure is not None:
            raise_after(failure, error)
        return False


def parallel(stream=None):
    """Runs work in parallel branches: each `with ways.branch():` has its own stream, ordered after the work queued on `stream`
    before it, and work queued on `stream` afterwards is ordered after all branches, whatever the body raised. The CPU does not wait.
    The streams are lent by the device, at most 32 at once. `stream`: this thread's current one if None; TypeError if there is
    none."""
    return _Parallel(stream)
