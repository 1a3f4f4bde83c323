# SPDX-License-Identifier: MIT
"""The extension; the package exports its names."""
from collections.abc import Callable
from typing import Any, final

from typing_extensions import disjoint_base

from . import AccessError as AccessError
from . import CaptureError as CaptureError
from . import Closed as Closed
from . import ClosedError as ClosedError
from . import CorruptError as CorruptError
from . import Error as Error
from . import FormatError as FormatError
from . import InvalidError as InvalidError
from . import LostError as LostError
from . import NoFreeSlot as NoFreeSlot
from . import NoWriter as NoWriter
from . import ProtocolError as ProtocolError
from . import StaleError as StaleError
from . import Stream as Stream
from . import Timeout as Timeout
from . import UnsupportedError as UnsupportedError
from . import VersionError as VersionError
from . import WrongDeviceError as WrongDeviceError
from . import current_stream as current_stream
from .cuda_link._exporter_port import FrameOutcome, GpuFrame
from .cuda_link._importer_port import ImportResult

def _describe(array: Any, /) -> tuple[str, tuple[int, ...]]: ...
def _pinned() -> tuple[int, int]: ...
def _forget() -> None: ...

@final
class _LinkReader:
    """Used by sluice.cuda_link. Calls for a frame return what `result` made of it, `none`, or a number: a result of the library,
    or 100 once for a new session or format."""
    def __new__(cls, name: str, device: str | None, result: Callable[[Any], Any], none: object, later: bool, timeout_ns: int,
                spin_ns: int, writable: bool, pageable: bool, pipelined: bool, gpu_wait: bool, window: int,
                threshold: int) -> _LinkReader: ...
    @property
    def frames(self) -> int: ...
    @property
    def latency_ns(self) -> int: ...
    @property
    def pipelined(self) -> bool: ...
    def counts(self) -> dict[str, int]: ...
    def info(self) -> dict[str, Any]: ...
    def retry(self) -> None: ...
    def wait(self, ns: int, /) -> bool: ...
    def close(self) -> None: ...

@final
class _LinkWriter:
    """Used by sluice.cuda_link."""
    def __new__(cls, name: str, device: str, shape: tuple[int, int, int], dtype: str, slots: int, flags: int, block: bool,
                graph: bool, barrier: bool, stale_ns: int, strict: bool, priority: bool, doorbell: bool,
                settles: bool, barrier_name: str) -> _LinkWriter: ...
    def send(self, address: int, stream: Any, /) -> int: ...
    def mark(self, stream: Any, /) -> None: ...
    def info(self) -> dict[str, Any] | None: ...
    def close(self) -> None: ...

@disjoint_base
class _LinkFrame:
    """The base of sluice.cuda_link.GpuFrame."""
    ptr: int
    size: int
    producer_stream: int | None
    def __init__(self, ptr: int, size: int, producer_stream: int | None = None) -> None: ...

@disjoint_base
class _LinkExporter:
    """The base of sluice.cuda_link.Exporter."""
    @property
    def _published(self) -> int: ...
    def export(self, frame: GpuFrame) -> FrameOutcome: ...
    def _usually(self, link: _LinkWriter | None, bytes: int, outcome: FrameOutcome, unnamed: bool, /) -> None: ...

@disjoint_base
class _LinkImporter:
    """The base of sluice.cuda_link.Importer."""
    def get_frame(self, stream: Any = None) -> ImportResult[Any]: ...
    def get_frame_cupy(self, stream: Any = None) -> ImportResult[Any]: ...
    def get_frame_numpy(self) -> ImportResult[Any]: ...
    def _usually(self, link: _LinkReader | None, /) -> None: ...
