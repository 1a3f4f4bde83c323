# SPDX-License-Identifier: MIT
"""Graphs: work that is recorded once, and launched as a whole."""
import contextlib

from . import _sluice
from ._final import final
from ._parallel import named_stream
from ._sluice import Error, current_stream
from ._streams import raise_after


class _Capture:
    """Records into a graph the work that its body queues on a stream. In the body that is this thread's current stream."""

    def __init__(self, stream, graph):
        self.stream, self.graph = stream, graph

    def __enter__(self):
        self.stream = self.graph._stream = named_stream(self.stream, "capture")
        _sluice._capture_begin(self.stream)
        try:
            self.stream._push(False)
        except BaseException:
            self._end(0)
            raise
        return self.graph

    def _end(self, graph):
        return _sluice._capture_end(self.stream, graph)

    def __exit__(self, kind, error, trace, /):
        try:
            try:
                self.stream._pop(False)
            finally:
                made = self._end(0 if error else self.graph._id)
        except Error as failure:
            raise_after(failure, error)
            return False
        if error:
            _sluice._graph_destroy(made)
        else:
            self.graph._id = made
        return False


@final
class Graph:
    """Work that was recorded by capture(). Launches of one graph never overlap; those of two may."""

    __module__ = "sluice"
    __slots__ = ("__weakref__", "_id", "_stream")

    def __new__(cls):
        graph = object.__new__(cls)
        graph._id, graph._stream = 0, None
        return graph

    def launch(self, stream=None):
        """Queues the graph's work on a stream of its device (None: this thread's current one, else the one that was captured).
        The CPU does not wait. Raises WrongDeviceError, and RuntimeError for a graph without recorded work."""
        if not self._id:
            raise RuntimeError("nothing was recorded into this graph: with sluice.capture(stream) as graph: ...")
        device = self._stream.device
        if stream is None:
            stream = current_stream(device) or self._stream
        _sluice._graph_launch(self._id, stream, device)

    def again(self, stream=None):
        """-> context manager

        Records again, into this graph. Other arguments, memory and numbers of threads update it; another structure rebuilds
        it. Both affect later launches only. `stream`: if None, the one that was captured last. If the body raises, the graph stays
        as it is. Raises as capture()."""
        return _Capture(self._stream if stream is None else stream, self)

    @property
    def nodes(self):
        """pieces of work: kernels, copies, ..."""
        return self._info()[0]

    @property
    def edges(self):
        """pairs in which one waits for the other"""
        return self._info()[1]

    @property
    def updates(self):
        """captures that changed only arguments"""
        return self._info()[2]

    @property
    def rebuilds(self):
        """captures that changed the structure"""
        return self._info()[3]

    def _info(self):
        return _sluice._graph_info(self._id) if self._id else (0, 0, 0, 0)

    def close(self):
        """Ends it; launches that are queued still run."""
        graph, self._id = self._id, 0
        _sluice._graph_destroy(graph)

    def __del__(self):
        with contextlib.suppress(AttributeError, TypeError):  # at the interpreter's end
            self.close()

    def __repr__(self):
        nodes, edges, updates, rebuilds = self._info()
        return f"<sluice.Graph: {nodes} nodes, {edges} edges, {updates} updates, {rebuilds} rebuilds>"

    def __reduce__(self):
        raise TypeError(f"{self!r} cannot be pickled or copied: it is of this process alone")


def capture(stream=None):
    """-> context manager

    `with sluice.capture(stream) as graph:` records the work that is queued on `stream`; it does not run. So is the work on streams
    that wait for it, until it waits for them. In the body `stream` is this thread's current one (None: records the current one). If
    the body raises, the recorded work is discarded. Calls that need the work to be done, and host arrays, raise CaptureError; a
    stream that was not joined raises InvalidCaptureError. After that all streams can be used again."""
    return _Capture(stream, Graph())
