# SPDX-License-Identifier: MIT
"""Copies that frameworks do better, or that only they can do: copies of non-contiguous arrays, and copies between host
memory and a GPU for channels in host memory."""
import sys

from ._sluice import FormatError, UnsupportedError, WrongDeviceError, current_stream
from ._streams import Stream


def _is_torch(array):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _root(array):
    return type(array).__module__.partition(".")[0]


def to_host(array, channel):
    """Copies an array from a GPU, for a channel in host memory."""
    if _is_torch(array):
        return array.detach().resolve_conj().resolve_neg().cpu()
    if hasattr(array, "get"):  # CuPy
        return array.get()
    if _root(array) in ("jax", "jaxlib"):
        import numpy
        return numpy.asarray(array)
    raise UnsupportedError(f"{type(array)} is on a GPU, and channel '{channel}' is in host memory: "
                           "copy it to host memory first")


def plain(array, torch):
    """Returns a contiguous array of the same elements."""
    if not torch:
        import cupy
        with array.device:  # or CuPy takes the current one, which may be another
            return cupy.ascontiguousarray(array)
    return array.detach().resolve_conj().resolve_neg().contiguous()


def copy_of_cupy(array):
    """Returns a copy on the array's own GPU, behind the stream that is the current one there."""
    with array.device:
        return array.copy()


def _device_of(target):
    return f"cuda:{target.device.index if _is_torch(target) else target.device.id}"


def may_copy_in(target, array, stream):
    """Raises what can be said against copy_in() before anything is copied."""
    if not _is_torch(target) and _root(target) != "cupy":
        raise UnsupportedError(f"the frame is on \"{array.device}\", and {type(target)} is not: of targets on other devices "
                               "copy_to() supports PyTorch's and CuPy's")
    if tuple(target.shape) != array.shape:
        raise FormatError(f"array '{array.name}' has the shape {array.shape}, and the target {tuple(target.shape)}: "
                          "they must be the same")
    stream = _stream_of(stream, array)
    if stream is not None and array.device == "host" and stream.device != _device_of(target):
        raise WrongDeviceError(f"the target is on \"{_device_of(target)}\", and the stream on \"{stream.device}\": "
                               "pass a stream of the target's GPU")


def _stream_of(given, array):
    """Returns that on which the copy is, of a GPU; None for the framework's current one."""
    stream = current_stream(array.device) if given is None else given if isinstance(given, Stream) else Stream.wrap(given)
    return None if stream is None or stream.device == "host" else stream


def copy_in(target, array, stream):
    """Copies an array of a frame to a target by means of the target's framework."""
    stream = _stream_of(stream, array)
    if _is_torch(target):
        _copy_torch(target, array, stream)
    else:
        _copy_cupy(target, array, stream)


def _copy_torch(target, array, stream):
    import torch
    if stream is None:
        target.copy_(array.torch())
        return
    side, current = stream.to_torch(), torch.cuda.current_stream(target.device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        target.copy_(array.torch())
    current.wait_stream(side)


def _copy_cupy(target, array, stream):
    import cupy
    on_host = array.device == "host"

    def copy():
        target[...] = cupy.asarray(array.numpy()) if on_host else array.cupy()

    # CuPy's copies are on the device that is current. A stream is of the frame's, if that is on a GPU.
    with target.device if on_host else cupy.cuda.Device(int(array.device.partition(":")[2])):
        if stream is None:
            copy()
            return
        side, current = stream.to_cupy(), cupy.cuda.get_current_stream()
        side.wait_event(current.record())
        with side:
            copy()
        current.wait_event(side.record())
