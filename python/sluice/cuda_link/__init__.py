# SPDX-License-Identifier: MIT
"""cuda-link's Python interface on Sluice: the same names, the same channels, other programs of cuda-link on the other side.

    import sluice.cuda_link as cuda_link

    with cuda_link.Exporter.open(cuda_link.FrameSpec("ai_output", 512, 512)) as exporter:
        exporter.export(cuda_link.GpuFrame(tensor.data_ptr(), tensor.nbytes, torch.cuda.current_stream().cuda_stream))

    importer = cuda_link.Importer.open(cuda_link.ImportSpec("ai_output"))
    result = importer.get_frame()
    if result.outcome is cuda_link.ImportOutcome.NEW_FRAME:
        use(result.frame)

A program that says `import cuda_link` runs unchanged by `python -m sluice.cuda_link program.py`, or after install().
docs/from-cuda-link.md describes what differs, and what is better.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import pathlib
import sys
import types

from ._exporter_port import CudaPort, ExportPolicy, FrameOutcome, FrameSpec, GpuFrame
from ._importer_port import ImporterCudaPort, ImportOutcome, ImportPolicy, ImportResult, ImportSpec
from ._missing import __getattr__  # noqa: F401
from .cuda_ipc_exporter import CUDAIPCExporter
from .cuda_ipc_importer import CUDAIPCImporter
from .cuda_ipc_wrapper import CTypesCUDAAdapter, CUDARuntimeAPI, get_cuda_runtime
from .cuda_runtime_types import CudaIpcError, CudaLinkError, ProducerTimeoutError, ProtocolError
from .exporter import Exporter
from .importer import CUPY_AVAILABLE, NUMPY_AVAILABLE, TORCH_AVAILABLE, Format, Importer, IPCConnection
from .nvml_observer import NVML_AVAILABLE, NVMLObserver
from .shm_protocol import AcquireResult, DtypeCodec, Metadata, SHMLayout, SlotState, acquire_slot, publish_frame

__version__ = "1.12.0"  # the version of cuda-link whose names these are

__all__ = [
    "AcquireResult",
    "CTypesCUDAAdapter",
    "CUDAIPCExporter",
    "CUDAIPCImporter",
    "CUDARuntimeAPI",
    "CUPY_AVAILABLE",
    "CudaIpcError",
    "CudaLinkError",
    "CudaPort",
    "DtypeCodec",
    "ExportPolicy",
    "Exporter",
    "Format",
    "FrameOutcome",
    "FrameSpec",
    "GpuFrame",
    "IPCConnection",
    "ImportOutcome",
    "ImportPolicy",
    "ImportResult",
    "ImportSpec",
    "Importer",
    "ImporterCudaPort",
    "Metadata",
    "NUMPY_AVAILABLE",
    "NVMLObserver",
    "NVML_AVAILABLE",
    "ProducerTimeoutError",
    "ProtocolError",
    "SHMLayout",
    "SlotState",
    "TORCH_AVAILABLE",
    "acquire_slot",
    "get_cuda_runtime",
    "install",
    "publish_frame",
]

_MODULES = ("_console", "_exporter_port", "_importer_port", "activation_barrier", "cuda_ipc_exporter", "cuda_ipc_importer",
            "cuda_graphs", "cuda_ipc_wrapper", "cuda_runtime_types", "debug_utils", "exporter", "importer", "nvml_observer",
            "shm_protocol")
_ALIASES = {"_cuda_adapters": "cuda_ipc_wrapper", "_env": "_environment"}
STAND_IN = str(pathlib.Path(__file__).parent / "stand_in")  # a folder in which the package cuda_link is this one


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules by their alias names. Python first imports the parent packages of such a name, and sets the module there."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name in self.modules else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self.modules[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state  # the module keeps the spec that it was executed by


_finder = _Finder()


def install(name: str = "cuda_link") -> None:
    """From now on importing `name`, or a submodule of it, returns this module, here and in processes that multiprocessing starts;
    for a name other than cuda_link (a copy in another package) only here. RuntimeError if another module was imported already."""
    here, there = sys.modules[__name__], sys.modules.get(name)
    stands_in = any(STAND_IN in folder for folder in getattr(there, "__path__", ()))
    if there is not None and there is not here and not stands_in:
        raise RuntimeError(f"{name} was imported already, from {getattr(there, '__file__', '?')}: call install() before that")
    if name == "cuda_link" and STAND_IN not in sys.path:
        sys.path.insert(0, STAND_IN)  # multiprocessing passes sys.path on
    if "." not in name:
        sys.modules[name] = here  # replaces the stand-in, which may be the caller
    _finder.modules[name] = __name__
    _finder.modules |= {f"{name}.{each}": f"{__name__}.{each}" for each in _MODULES}
    _finder.modules |= {f"{name}.{alias}": f"{__name__}.{each}" for alias, each in _ALIASES.items()}
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
