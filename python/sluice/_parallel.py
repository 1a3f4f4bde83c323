# SPDX-License-Identifier: MIT
"""Forks a stream's work to several streams, and joins them."""
import contextlib

from ._sluice import CaptureError, current_stream
from ._streams import Stream, raise_after


class _Parallel:
    def __init__(self, stream):
        self.stream, self.began, self.streams = stream, None, []

    def __enter__(self):
        if self.began is not None:
            raise RuntimeError("this parallel() is entered already, or was: make another one")
        given = current_stream() if self.stream is None else self.stream
        if given is None:
            raise TypeError("parallel() needs a stream: give it one, or enter one: with sluice.Stream(device)")
        self.stream = given if isinstance(given, Stream) else Stream.wrap(given)
        self.began = self.stream.record()
        return self

    @contextlib.contextmanager
    def branch(self):
        """Enters a new stream, which is this thread's current one until the branch is left."""
        if self.began is None or self.began.closed:
            raise RuntimeError("a branch is entered inside its parallel(): with parallel(stream) as ways, ways.branch():")
        stream = Stream(self.stream.device)
        stream.wait(self.began)
        self.streams.append(stream)
        with stream.use():
            yield stream

    def __exit__(self, kind, error, trace):
        failure = None
        for stream in self.streams:
            try:
                self.stream.wait(stream)
                with contextlib.suppress(CaptureError):  # still part of the graph: it is closed after the capture
                    stream.close()
            except Exception as one:  # the others are joined nevertheless
                failure = failure or one
        self.streams.clear()
        self.began.close()
        if failure is not None:
            raise_after(failure, error)
        return False


def parallel(stream=None):
    """Runs work in parallel branches: each `with ways.branch():` has its own stream, ordered after the work queued on `stream`
    before, and work queued on `stream` afterwards is ordered after all branches, whatever the body raised. The CPU does not wait.
    `stream`: this thread's current one if None; TypeError if there is none."""
    return _Parallel(stream)
