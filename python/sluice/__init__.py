# SPDX-License-Identifier: MIT
"""Hands frames (images, tensors) from one process to others on the same machine without copying them.

    with sluice.Writer("camera", shape=(480, 640, 3)) as writer:      # one program
        with writer.frame() as frame:
            frame.numpy()[:] = image

    for frame in sluice.Reader("camera"):                             # any others
        show(frame.numpy())

NumPy is needed by numpy() and copy() only, and imported then.
"""
import os as _os

from . import _frames, _sluice
from ._convert import Area, convert
from ._devices import reset, synchronize
from ._events import Event
from ._formats import Colour, Image, Tensor, pixel_formats
from ._graphs import Graph, capture
from ._info import CipdInfo, CipdSlot, ReaderStats, WriterStats, cipd_look
from ._kernels import Kernels
from ._parallel import parallel
from ._registry import ChannelEvent, ChannelInfo, ReaderInfo, channels, info, watch
from ._reader import Reader
from ._recorded import RecordedArray, RecordedFrame
from ._recording import Recording
from ._sluice import *  # noqa: F403
from ._sluice import __version__
from ._streams import Stream
from ._writer import Writer

__all__ = sorted({name for name in vars(_sluice) if not name.startswith("_")} | {
    "Area", "ChannelEvent", "ChannelInfo", "CipdInfo", "CipdSlot", "Colour", "Event", "Graph", "Image", "Kernels", "Reader", "ReaderInfo",
    "ReaderStats", "RecordedArray", "RecordedFrame", "Recording", "Stream", "Tensor", "Writer", "WriterStats", "capture", "channels",
    "cipd_look", "convert", "info", "parallel", "pixel_formats", "reset", "synchronize", "watch"})

if _os.environ.get("SLUICE_DEBUG"):
    from . import _unwritten  # noqa: F401
