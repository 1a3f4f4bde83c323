# SPDX-License-Identifier: MIT
"""Writer: its parameters and inspection. The extension has the calls for each frame."""
import time

from . import _formats, _params, _sluice, _structs
from ._checks import U32, choose, ids, number
from ._final import final
from ._info import cipd_info, writer_stats

POLICIES = ("drop", "wait")


@final
@_sluice._own_methods
class Writer(_sluice._Writer):
    """Opens a channel for writing. A name whose writer was killed is taken over at once.

    format         Image(...), Tensor(shape, dtype), an array to be like, or {name: one of these} for frames of several arrays; or
                   give shape= and dtype= (uint8). Shapes are capacities
    policy, wait   when every slot is taken: "drop" the frame, or "wait" so many seconds for a reader
    slots          to start with; 0: 4. max_slots: grows up to this first; 0: twice `slots`
    readers        places for readers; 0: 64
    writable       readers may ask for writable frames; nothing then protects other readers from them
    lease_timeout  seconds after which a reader that holds a frame and starves the writer is evicted
    device         where slots lie: "host", "cuda:0", "cuda:GPU-..."
    pitch_align    bytes that rows of images are aligned to
    uids, gids     other users and groups that may read; needs SLUICE_DIR
    resize         send() may give arrays of other sizes than the format's, and the channel grows for larger ones; else it refuses
                   them. The number of dimensions is the format's in any case
    graph          send() of the same few arrays, on a GPU, as graphs of the driver's: one launch each; False: call by call
    cipd           for a channel "cipd:NAME": a mapping with the names of C's struct sluice_cipd_writer_params; docs/cuda-link.md

    Raises ExistsError (a FileExistsError) if a live writer has the name, FormatError, ChannelNameError, AccessError, NoMemoryError,
    UnsupportedError for a device that is not there.
    """

    __slots__ = ()

    def __new__(cls, name, format=None, *, shape=None, dtype=None, device="host", policy="drop", wait=1.0, slots=0, max_slots=0,
                readers=0, writable=False, lease_timeout=None, pitch_align=0, uids=(), gids=(), resize=False, graph=True, cipd=None):
        return super().__new__(cls, name, device, choose("policy", policy, POLICIES), wait, number("slots", slots, 0, U32),
                               number("max_slots", max_slots, 0, U32), number("readers", readers, 0, U32), writable,
                               lease_timeout, ids("uids", uids), ids("gids", gids), graph, resize, _formats.entries(format, shape, dtype), pitch_align,
                               _params.values("Writer", _params.WRITER, cipd))

    @classmethod
    def like(cls, name, array, *, device="host", policy="drop", wait=1.0, slots=0, max_slots=0, readers=0, writable=False,
             lease_timeout=None, pitch_align=0, uids=(), gids=(), resize=False, graph=True, cipd=None):
        """-> Writer

        A writer for arrays (or {name: array}) of that shape and data type."""
        return cls(name, array, device=device, policy=policy, wait=wait, slots=slots, max_slots=max_slots, readers=readers,
                   writable=writable, lease_timeout=lease_timeout, pitch_align=pitch_align, uids=uids, gids=gids, resize=resize,
                   graph=graph, cipd=cipd)

    def reformat(self, format=None, *, shape=None, dtype=None, pitch_align=0):
        """Changes the format: a new generation of slots. Raises BusyError while frames are begun."""
        self._reformat(_formats.entries(format, shape, dtype), pitch_align)

    @property
    def format(self):
        """{name: Tensor or Image}: the channel's capacities"""
        return _structs.formats(self._format())

    def wait_for_readers(self, count=1, timeout=None):
        """Waits until at least `count` readers are connected: for a first frame that must not be missed. `timeout` in seconds; None
        waits without a limit. Raises Timeout, and UnsupportedError on a "cipd:" channel, because its protocol does not count
        readers."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._has_readers(count):
            if end is not None and time.monotonic() >= end:
                raise _sluice.Timeout(f"channel '{self.name}' has {self.stats().readers} readers, not {count} yet")
            time.sleep(0.001)

    def stats(self):
        """-> WriterStats"""
        return writer_stats(self._stats())

    def cipd_info(self):
        """-> CipdInfo

        What is known of a "cipd:" channel. Raises UnsupportedError on others."""
        return cipd_info(self._cipd_info())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback, /):
        self.close()
        return False

    def __repr__(self):
        try:
            return f"<sluice.Writer of '{self.name}' on {self.device}: {_formats.described(self.format)}>"
        except _sluice.Error:
            return f"<sluice.Writer of '{self.name}', closed>"

    def __reduce__(self):
        raise TypeError("a Writer cannot be pickled: open it in the process that writes")
