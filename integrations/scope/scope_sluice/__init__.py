# SPDX-License-Identifier: MIT
"""An input of Scope: the newest frame of a channel, as RGB in host memory. docs/live-scope.md"""
import logging
import sys
from typing import ClassVar

import numpy as np
from scope.core import hookimpl
from scope.core.inputs import InputSource, InputSourceInfo

import sluice

__scope_kind__ = "source"
logger = logging.getLogger(__name__)
NO_FRAME = sluice.Timeout, sluice.NoWriter, sluice.Closed  # now: the reader goes on when there is a writer again


@hookimpl
def register_nodes(register):
    register(SluiceInputSource)


def _extent(format):
    """(width, height) of the first array of a channel's frames; None if it is no picture."""
    first = next(iter(format.values()))
    if isinstance(first, sluice.Image):
        return first.width, first.height
    shape = first.shape[1:] if len(first.shape) == 4 and first.shape[0] == 1 else first.shape
    if len(shape) == 2:
        return shape[1], shape[0]
    if len(shape) == 3:
        return (shape[1], shape[0]) if shape[2] in (1, 3, 4) else (shape[2], shape[1])
    return None


def _frame_extent(array):
    if array.pixel_format:
        return array.width, array.height
    return _extent({"": sluice.Tensor(array.shape)})


class SluiceInputSource(InputSource):
    """A channel of Sluice's, or "cipd:NAME" of a program that uses cuda-link."""
    source_id: ClassVar[str] = "sluice"
    source_name: ClassVar[str] = "Sluice"
    source_description: ClassVar[str] = "Frames of another program on this machine, without a network or a codec."

    def __init__(self):
        self._reader = None

    @classmethod
    def is_available(cls):
        return sys.platform == "linux"

    def list_sources(self, timeout_ms=5000):
        found = []
        for name in sorted(sluice.channels()):
            try:
                info = sluice.info(name, min(max(timeout_ms / 1000, 0.001), 1))
            except (sluice.NotFoundError, sluice.Timeout):  # it ended meanwhile, or is stopped
                continue
            if (size := _extent(info.format)) is not None:
                found.append(InputSourceInfo(f"{name} ({info.program}, {size[0]}x{size[1]})", name,
                                             {"width": size[0], "height": size[1], "device": info.device, "pid": info.pid}))
        return found

    def connect(self, identifier):
        """The first channel if `identifier` is empty. Its writer may come later, and may come back."""
        self.disconnect()
        channels = sorted(sluice.channels())
        if not identifier and not channels:
            logger.error("Sluice: no channel has a writer")
            return False
        name = identifier or channels[0]
        try:
            self._reader = sluice.Reader(name, wait=None, cipd={"undeclared": "bgra"} if name.startswith("cipd:") else None)
        except sluice.Error as error:
            logger.error("Sluice: %s", error)
            return False
        if name not in channels and not name.startswith("cipd:"):
            logger.warning("Sluice: channel '%s' has no writer yet; these have: %s", name, ", ".join(channels) or "none")
        return True

    def receive_frame(self, timeout_ms=100):
        reader = self._reader
        if reader is None:
            return None
        try:
            with reader.next(timeout=timeout_ms / 1000) as frame:
                return _rgb(frame)
        except NO_FRAME:
            return None

    def get_source_resolution(self, identifier, timeout_ms=5000):
        try:
            if identifier.startswith("cipd:"):
                found = sluice.cipd_look(identifier)
                return (found.width, found.height) if found.width and found.height else None
            return _extent(sluice.info(identifier, max(timeout_ms / 1000, 0.001)).format)
        except (sluice.NotFoundError, sluice.Timeout):
            return None

    def disconnect(self):
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def _rgb(frame):
    width, height = _frame_extent(frame[0]) or (0, 0)
    if not width:
        raise ValueError(f"frames of shape {tuple(frame.shape)} are no pictures: (H, W), (H, W, C) or (C, H, W) are")
    if frame.device == "host":
        made = np.empty((height, width, 3), np.uint8)
        sluice.convert(made, frame, layout="HWC")
        return made
    import torch  # Scope has it
    made = torch.empty((height, width, 3), dtype=torch.uint8, device=frame.device)
    sluice.convert(made, frame, layout="HWC")
    return made.cpu().numpy()
