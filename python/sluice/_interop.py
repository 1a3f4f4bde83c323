# SPDX-License-Identifier: MIT
"""Streams for other libraries. `keeper` keeps the native stream alive as long as it is kept."""


def stream_to_torch(stream, ordinal, keeper):
    if ordinal < 0:
        raise _host(stream, "PyTorch")
    import torch

    if not stream.native:  # ExternalStream(0) would be another stream than the default one
        external = getattr(torch.cuda, "get_stream_from_external", None)
        return external(0, ordinal) if external else torch.cuda.default_stream(ordinal)
    made = torch.cuda.ExternalStream(stream.native, device=ordinal)
    made._sluice = keeper
    return made


def stream_to_cupy(stream, ordinal, keeper):
    if ordinal < 0:
        raise _host(stream, "CuPy")
    import cupy

    if not stream.native:
        return cupy.cuda.Stream.null
    # Not Stream.from_external: as CuPy 14 reads, its streams end the native one with themselves, though it is ours.
    # And past the constructor of ExternalStream, which is there to warn that the class goes.
    external = cupy.cuda.ExternalStream
    made = external.__new__(external)
    base = external.__mro__[1]
    (external if base is object else base).__init__(made, stream.native, ordinal)
    made._sluice = keeper
    return made


def _host(stream, library):
    from . import WrongDeviceError

    return WrongDeviceError(f"{stream!r} is on the host, where {library} has no streams")
