# SPDX-License-Identifier: MIT
"""Kernels: a source, or what was compiled, and its kernels as attributes."""
import importlib.util
import os

from . import _sluice
from ._final import final
from ._sluice import CompileError, Error
from ._streams import Stream

FOLDERS = ("cuda_nvrtc/lib", "cu13/lib")  # of the wheels nvidia-cuda-nvrtc-cu12, nvidia-cuda-nvrtc
_told: set[str] = set()


def _find_nvrtc():
    """Shows the library where pip put NVRTC. It looks there as well, and takes none that is newer than the driver."""
    found = importlib.util.find_spec("nvidia")  # a namespace of many wheels; nothing is imported
    for place in found and found.submodule_search_locations or ():
        for path in (os.path.join(place, folder) for folder in FOLDERS):
            if path not in _told and os.path.isdir(path):
                _told.add(path)
                _sluice._nvrtc_folder(path)


def _device(given):
    if given is not None:
        return given
    try:
        return Stream.default("cuda:0").device
    except Error:
        return "host"


def _read(source, name):
    """(bytes, name) of a path, a source, or what was compiled."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), name
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source.encode(), name
    path = os.fspath(source)
    with open(path, "rb") as file:
        return file.read(), os.path.basename(os.fsdecode(path)) if name is None else name


def _words(given, what):
    if isinstance(given, str):
        raise TypeError(f"{what} is {given!r}: it must be a list of str, as [{given!r}]")
    return [str(each) for each in given]


@final
class Kernels:
    """CUDA C++ kernels of a file or a text, compiled for a device: `fx = sluice.Kernels("fx.cu")`, then
    `fx.blur(out, frame, 1.5, over=out)`. Each kernel is an attribute, and an item: `fx["scale<float>"]`.

    `source`: a path; a source as str; PTX, a cubin or a fatbin as bytes. `device`: if None, "cuda:0" if there is a GPU that Sluice
    can use, else "host", where the system's C++ compiler compiles it. `options`: for the compiler. `kernels`: their names; None: all
    that are not templates. `cache`: False: always compile, and do not keep the result. `name`: in messages.

    Raises CompileError: its `log` is the compiler's whole output; UnsupportedError if there is no compiler."""

    __module__ = "sluice"

    def __init__(self, source, device=None, *, options=(), kernels=None, cache=True, name=None):
        image, name = _read(source, name)
        device = _device(device)
        if device != "host":
            _find_nvrtc()
        self._name, self._device, self._kernels = name or "kernels", device, {}
        try:
            self._module = _sluice._module_load(image, device, name, _words(options, "options"), _words(kernels or (), "kernels"), cache)
            self._log = _sluice._compile_log()
        except CompileError as error:
            error.log = _sluice._compile_log()
            raise
        own = {*vars(self), *dir(Kernels)}
        for each in _sluice._module_kernels(self._module):
            self._kernels[each] = kernel = _sluice._module_kernel(self._module, each)
            if each not in own:
                vars(self)[each] = kernel

    def __getitem__(self, name):
        """-> Kernel

        Raises KeyError."""
        if name not in self._kernels:
            self._kernels[name] = _sluice._module_kernel(self._module, name)
        return self._kernels[name]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"sluice.Kernels has no attribute {name!r}")
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self):
        return iter(tuple(self._kernels))

    def __len__(self):
        return len(self._kernels)

    def __dir__(self):
        return sorted({*super().__dir__(), *(each for each in self._kernels if each.isidentifier())})

    def __repr__(self):
        return f"<sluice.Kernels: {self._name} on {self._device}: {', '.join(self._kernels) or 'none by name yet'}>"

    @property
    def device(self):
        '''"host" or "cuda:N"'''
        return self._device

    @property
    def log(self):
        """the compiler's output, such as warnings"""
        return self._log

    def close(self):
        """Ends it and its kernels: a launch then raises ClosedError. Launches that are queued still run."""
        _sluice._module_unload(self._module)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace, /):
        self.close()
        return False

    def __reduce__(self):
        raise TypeError(f"{self!r} cannot be pickled or copied: it is of this process alone")
