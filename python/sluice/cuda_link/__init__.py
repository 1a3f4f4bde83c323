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
docs/from-cuda-link.md tells what is other, and better.
"""
import importlib
import pathlib
import sys

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

__version__ = "1.12.0"  # of cuda-link: whose names these are

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


def install(name: str = "cuda_link") -> None:
    """From now on importing `name`, and modules of it, gives this module, here and in processes that multiprocessing starts; a
    name other than cuda_link (a copy in another package) here alone. RuntimeError if another was imported already."""
    here, there = sys.modules[__name__], sys.modules.get(name)
    if there is not None and there is not here and STAND_IN not in str(getattr(there, "__path__", "")):
        raise RuntimeError(f"{name} was imported already, from {getattr(there, '__file__', '?')}: call install() before that")
    if name == "cuda_link" and STAND_IN not in sys.path:
        sys.path.insert(0, STAND_IN)  # which multiprocessing hands on
    sys.modules[name] = here
    for each in _MODULES:
        sys.modules[f"{name}.{each}"] = importlib.import_module(f"{__name__}.{each}")
    for alias, each in _ALIASES.items():
        sys.modules[f"{name}.{alias}"] = importlib.import_module(f"{__name__}.{each}")
