# SPDX-License-Identifier: MIT
"""Streams for other libraries, which may not be there. `keeper` keeps the native stream alive while it is referenced."""
import importlib

PACKAGES = {  # its name, how it is installed, and which forms an array has without it
    "numpy": ("NumPy", "pip install numpy", "view() in host memory or torch()"),
    "torch": ("PyTorch", "pip install torch, by its own page for your driver", "numpy()"),
    "cupy": ("CuPy", "pip install cupy-cuda13x or cupy-cuda12x, as your driver is", "numpy()"),
    "jax": ("JAX", "pip install jax, for a GPU jax[cuda13] or jax[cuda12]", "numpy()"),
}


ROOTS = {"torch": 1, "cupy": 2, "jax": 3, "jaxlib": 3}  # enum framework of the extension
NONE, OTHER = 0, 4


def framework_of(kind):
    """Which framework's arrays a class has: by where it, or a class that it is derived from, was defined."""
    if not hasattr(kind, "__dlpack__") and not hasattr(kind, "__cuda_array_interface__"):
        return NONE
    modules = (getattr(each, "__module__", None) for each in kind.__mro__)
    return next((ROOTS[root] for each in modules if isinstance(each, str) and (root := each.partition(".")[0]) in ROOTS), OTHER)


def _is_on_gpu(thing):
    try:
        if thing.__dlpack_device__()[0] == 2:
            return True
    except Exception:
        pass
    try:
        return thing.__cuda_array_interface__ is not None
    except Exception:
        return False


def encode_meta(meta):
    """The bytes of metadata that has no buffer: of a str in UTF-8, of a dict, list or tuple as JSON."""
    try:
        if isinstance(meta, str):
            return meta.encode()
        if isinstance(meta, (dict, list, tuple)):
            import json
            return json.dumps(meta, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        kind, hint = (TypeError, "; NumPy's become JSON's by .item() and .tolist()") if isinstance(error, TypeError) else (ValueError, "")
        raise kind(f"meta is a {type(meta).__name__} that cannot be text: {error}{hint}") from None
    if _is_on_gpu(meta):
        raise TypeError(f"meta is a {type(meta)!r} in a GPU's memory, which the CPU cannot read: pass bytes (of a tensor of PyTorch: "
                        "bytes(tensor.cpu().numpy()))")
    try:
        memoryview(meta)
    except TypeError:
        raise TypeError(f"meta is a {type(meta)!r}: it must be bytes or a buffer, a str, or a dict, list or tuple that JSON can hold"
                        ) from None
    raise BufferError("the memory of meta is not contiguous: pass bytes(meta)")


def load(package, module, instead=None):
    """A module of a package that programs install if they like: if it is not there, the exception says how."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
    title, how, form = PACKAGES[package]
    instead = instead or f", or take the array in another form, such as {form}"
    raise ModuleNotFoundError(f"{title} is not installed: {how}{instead}", name=package)


def _framework(package):
    return load(package, package, "; other libraries take the stream by its __cuda_stream__()")


def stream_to_torch(stream, ordinal, keeper):
    if ordinal < 0:
        raise _host(stream, "PyTorch")
    torch = _framework("torch")

    if not stream.native:  # ExternalStream(0) would not be the default stream
        external = getattr(torch.cuda, "get_stream_from_external", None)
        return external(0, ordinal) if external else torch.cuda.default_stream(ordinal)
    made = torch.cuda.ExternalStream(stream.native, device=ordinal)
    made._sluice = keeper
    return made


def stream_to_cupy(stream, ordinal, keeper):
    if ordinal < 0:
        raise _host(stream, "CuPy")
    cupy = _framework("cupy")

    if not stream.native:
        return cupy.cuda.Stream.null
    # Not Stream.from_external: by the source of CuPy 14 such a stream destroys the native one, which is Sluice's.
    # ExternalStream's own constructor is bypassed: it only warns that the class is deprecated.
    external = cupy.cuda.ExternalStream
    made = external.__new__(external)
    base = external.__mro__[1]
    (external if base is object else base).__init__(made, stream.native, ordinal)
    made._sluice = keeper
    return made


def _host(stream, library):
    from . import WrongDeviceError

    return WrongDeviceError(f"{stream!r} is on the host, where {library} has no streams")
