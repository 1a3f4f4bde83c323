# SPDX-License-Identifier: MIT
"""Work of a stream that goes several ways at once, and comes together again."""
import contextlib

from ._sluice import Stream, current_stream


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
        """A stream of its own, this thread's current one until the branch is left."""
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
                stream.close()
            except Exception as one:  # the others are joined all the same
                failure = failure or one
        self.began.close()
        if failure is not None and error is None:
            raise failure
        if failure is not None:
            failure.__context__ = None  # it is the body's that is seen
            while error.__context__ is not None:
                error = error.__context__
            error.__context__ = failure
        return False


def parallel(stream=None):
    """Work that goes several ways at once: each `with ways.branch():` is on a stream of its own, behind what `stream` was given
    before, and what `stream` is given afterwards comes behind all of them, whatever the body raised. The CPU waits for nothing.
    `stream`: this thread's current one if None; TypeError without one."""
    return _Parallel(stream)
