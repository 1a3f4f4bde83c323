# SPDX-License-Identifier: MIT
"""What is asked of a whole device."""
from . import _sluice


def reset(device):
    """Waits for the work of all Streams of a device, then ends them and its Events: their use raises StaleHandleError. Streams of
    other libraries are let go of. Channels and frames stay. Raises CaptureError, with nothing done, while a stream of it captures a
    graph."""
    _sluice._device_reset(device)


def synchronize(device):
    """Waits for the work queued so far on all Streams of a device, on streams of other libraries that Sluice was given, and on its
    default stream. Raises CaptureError while one of them captures a graph."""
    _sluice._device_synchronize(device)
