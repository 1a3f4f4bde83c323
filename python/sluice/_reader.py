# SPDX-License-Identifier: MIT
"""Reader: its parameters, inspection and coroutines. The extension has the calls for each frame."""
from . import _formats, _params, _sluice, _structs
from ._checks import U32, choose, ids, number
from ._final import final
from ._info import cipd_info, reader_stats

MODES = ("newest", "in_order")
STAGED = ("never", "if_needed", "always")

_asyncio = None  # sluice._asyncio, once it is needed: asyncio takes long to import


def _coroutines():
    global _asyncio
    if _asyncio is None:
        import importlib
        _asyncio = importlib.import_module("sluice._asyncio")
    return _asyncio


@final
@_sluice._own_methods
class Reader(_sluice._Reader):
    """Reads a channel. `for frame in reader:` takes frames until the writer closes the channel, and goes on when a writer that died
    comes back; it releases each frame itself.

    mode       "newest": each step gives the newest frame; "in_order": every frame, as far as `depth` and the writer's policy allow
    depth      in_order: unread frames that a dropping writer keeps for it; 0: 4
    hold       frames it will hold at once; None: 2, or 1 where the channel has only three slots; "most": as many as the
               writer allows, which stats().hold tells
    every      take each n-th frame
    writable   frames may be changed in place, if the writer allows it
    wait       seconds to wait for a writer; None: open at once, next() waits for one
    spin       seconds to poll for a frame before going to sleep; None: 10 microseconds
    uids       other users whose writers are trusted
    device     where frames are used: "host", "cuda:0"; None: where the channel lies
    ahead      next() on a stream of a GPU may give a frame that is not ready, and the stream waits for it
    ahead_timeout
               seconds that a stream waits for such a frame; then it is lost. None: 2
    staged     for a GPU that is not the channel's: "never" copy frames to it, "if_needed" if it cannot reach them, or "always"
    cipd       for a channel "cipd:NAME": a mapping with the names of C's struct sluice_cipd_reader_params; docs/cuda-link.md

    Raises NotFoundError (a FileNotFoundError), AccessError (a PermissionError), VersionError, LimitError, ChannelNameError. Several
    threads may share one: each gets frames of its own.
    """

    __slots__ = ()

    def __new__(cls, name, *, mode="newest", depth=0, hold=None, every=1, writable=False, wait=0, spin=None, uids=(), device=None,
                ahead=False, ahead_timeout=None, staged="never", cipd=None):
        if isinstance(ahead_timeout, (int, float)) and 0 <= ahead_timeout < 1e-9:
            raise ValueError(f"ahead_timeout is {ahead_timeout!r}: it must be seconds, more than 0, or None")
        first = name, choose("mode", mode, MODES), number("depth", depth, 0, U32)
        if hold is not None:
            hold = U32 if hold == "most" else number("hold", hold, 1, U32 - 1, ', "most", or None for the usual number')
        number("every", every, 1, U32)
        last = (every, writable, wait, spin, ids("uids", uids), device, ahead, ahead_timeout, choose("staged", staged, STAGED),
                _params.values("Reader", _params.READER, cipd))
        if hold is None:
            try:
                return super().__new__(cls, *first, 2, *last)  # `frame = reader.next()` in a loop has two for a moment
            except _sluice.LimitError:
                hold = 1
        return super().__new__(cls, *first, hold, *last)

    @property
    def format(self):
        """{name: Tensor or Image}: the channel's capacities; None before the first writer was met"""
        data = self._format()
        return None if data is None else _structs.formats(data)

    @property
    def slots(self):
        """number of slots of the present generation; 0 before the first writer was met. It grows while the writer makes more"""
        return reader_stats(self._stats())[1]

    def stats(self):
        """-> ReaderStats"""
        return reader_stats(self._stats())[0]

    def cipd_info(self):
        """-> CipdInfo

        What is known of a "cipd:" channel. Raises UnsupportedError on others."""
        return cipd_info(self._cipd_info())

    def next_async(self, timeout=None, *, stream=None):
        """-> awaitable of Frame

        next() for coroutines, `timeout` in seconds. Raises what next() does; a wait that is cancelled takes no frame. Coroutines of
        a thread share its current stream: name yours by `stream`."""
        return _coroutines().next_async(self, timeout, stream)

    def fileno(self):
        """-> int

        A descriptor that is readable when next() would not have to wait. It stays the same when the writer restarts. For
        select, poll, event loops; do not read from it."""
        return self._descriptor()[0]

    def __iter__(self):
        self.name  # raises ClosedError if it is closed
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback, /):
        try:
            self.close()
        except _sluice.Error:
            if kind is None:  # else the body's exception goes on
                raise
        return False

    def __aiter__(self):
        return iter(self)

    def __anext__(self):
        return _coroutines().step(self)

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, traceback, /):
        self.close()

    def __repr__(self):
        try:
            stats, format = self.stats(), self.format
            state = f"{stats.held} held" if stats.connected else f"{stats.held} held, no writer now"
            return f"<sluice.Reader of '{self.name}', {self.mode}, {state}{': ' if format else ''}{_formats.described(format or {})}>"
        except _sluice.Error:
            return "<sluice.Reader, closed>"

    def __reduce__(self):
        raise TypeError("a Reader cannot be pickled: pass the channel's name and open it in the other process")
