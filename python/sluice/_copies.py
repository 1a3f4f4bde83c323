# SPDX-License-Identifier: MIT
"""Copies that frameworks do better, or that only they can do: copies of non-contiguous arrays, and copies between host
memory and a GPU for channels in host memory."""
import sys

from ._sluice import FormatError, Stream, UnsupportedError, current_stream


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
                           "copy it there first")


def plain(array, torch):
    """Returns a contiguous array of the same elements."""
    if not torch:
        import cupy
        return cupy.ascontiguousarray(array)
    return array.detach().resolve_conj().resolve_neg().contiguous()


def may_copy_in(target, array):
    """Raises what can be said against copy_in() before anything is copied."""
    if not _is_torch(target) and _root(target) != "cupy":
        raise UnsupportedError(f"the frame is on \"{array.device}\", and {type(target)} is not: copy_to() goes there with "
                               "PyTorch and CuPy only")
    if tuple(target.shape) != array.shape:
        raise FormatError(f"array '{array.name}' has the shape {array.shape}, the target {tuple(target.shape)}: only the "
                          "same can be copied")


def copy_in(target, array, stream):
    """Copies an array of a frame to a target by means of the target's framework."""
    if stream is None:
        stream = current_stream(array.device)
    elif not isinstance(stream, Stream):
        stream = Stream.wrap(stream)
    if _is_torch(target):
        _copy_torch(target, array, stream)
    else:
        _copy_cupy(target, array, stream)


def _copy_torch(target, array, stream):
    import torch
    if stream is None or array.device == "host":
        target.copy_(array.torch())
        return
    side, current = stream.to_torch(), torch.cuda.current_stream(target.device)
    side.wait_stream(current)
    with torch.cuda.stream(side):
        target.copy_(array.torch())
    current.wait_stream(side)


def _copy_cupy(target, array, stream):
    import cupy
    if array.device == "host":
        target[...] = cupy.asarray(array.numpy())
    elif stream is None:
        target[...] = array.cupy()
    else:
        side, current = stream.to_cupy(), cupy.cuda.get_current_stream()
        side.wait_event(current.record())
        with side:
            target[...] = array.cupy()
        current.wait_event(side.record())
