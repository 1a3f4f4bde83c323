# SPDX-License-Identifier: MIT
"""The extension; the package exports its names."""
from collections.abc import Callable
from typing import Any, Self, TypeVar, final

from typing_extensions import disjoint_base

from . import AccessError as AccessError
from . import Array as Array
from . import CaptureError as CaptureError
from . import Closed as Closed
from . import ClosedError as ClosedError
from . import CorruptError as CorruptError
from . import Error as Error
from . import EventClosedError as EventClosedError
from . import FormatError as FormatError
from . import Frame as Frame
from . import InvalidError as InvalidError
from . import LimitError as LimitError
from . import LostError as LostError
from . import NoFreeSlot as NoFreeSlot
from . import NoTimingError as NoTimingError
from . import NotRecordedError as NotRecordedError
from . import NoWriter as NoWriter
from . import ProtocolError as ProtocolError
from . import Reader, Writer
from . import StaleError as StaleError
from . import Stream
from . import Timeout as Timeout
from . import UnsupportedError as UnsupportedError
from . import VersionError as VersionError
from . import WriterFrame as WriterFrame
from . import WrongDeviceError as WrongDeviceError
from . import current_stream as current_stream
from .cuda_link._exporter_port import FrameOutcome, GpuFrame
from .cuda_link._importer_port import ImportResult

_Class = TypeVar("_Class", bound=type[Any])

def _describe(array: Any, /) -> tuple[str, tuple[int, ...]]: ...
def _pinned() -> tuple[int, int]: ...
def _forget() -> None: ...
def _own_methods(kind: _Class, /) -> _Class: ...

def _device_reset(device: str, /) -> None: ...
def _device_synchronize(device: str, /) -> None: ...
def _event_create(device: str, timing: bool, sleep: bool, /) -> tuple[int, str]: ...
def _event_destroy(handle: int, /) -> None: ...
def _event_elapsed(start: int, stop: int, /) -> float: ...
def _event_query(handle: int, /) -> bool: ...
def _event_record(handle: int, stream: Any, device: str, /) -> None: ...
def _event_synchronize(handle: int, /) -> bool: ...
def _event_wait(handle: int, stream: Any, device: str, /) -> None: ...
def _stream_create(device: str, priority: int, blocking: bool, sync_on_exit: bool, /) -> Stream: ...
def _stream_from_handle(handle: int, device: str, owner: object, /) -> Stream: ...
def _stream_wrap(stream: Any, device: str | None, /) -> Stream: ...
def _use_stream_class(kind: type[Any], /) -> None: ...

@disjoint_base
class _Stream:
    """The base of Stream."""
    @property
    def device(self) -> str: ...
    @property
    def _id(self) -> int: ...
    @property
    def _identity(self) -> int: ...
    @property
    def _kind(self) -> int: ...
    def _captures(self) -> bool: ...
    def _close(self, later: bool, /) -> bool: ...
    def _keeper(self) -> object: ...
    def _native(self) -> int: ...
    def _pop(self, own: bool, /) -> int: ...
    def _push(self, own: bool, /) -> Stream: ...
    def _query(self) -> bool: ...
    def _same_native(self, other: Any, /) -> bool: ...
    def _state(self) -> int: ...
    def _synchronize(self) -> None: ...
    def _wait(self, other: Any, /) -> None: ...

@disjoint_base
class _Reader:
    """The base of sluice.Reader (sluice/_reader.py)."""
    def __new__(cls, *args: Any) -> Self: ...

@disjoint_base
class _Writer:
    """The base of sluice.Writer (sluice/_writer.py)."""
    def __new__(cls, *args: Any) -> Self: ...

@final
class _Fetch:
    """A copy of a frame's array that is under way."""
    def wait(self) -> None:
        """: until the copy is done"""
    def result(self) -> Any:
        """-> numpy.ndarray, once, after that"""

@final
class _Pinned:
    """Pinned memory that a frame was copied into; the array's base."""

@final
class _LinkReader:
    """What sluice.cuda_link.Importer takes frames with."""
    # Calls for a frame return what `result` made of it, `none`, or a number: a result of the library, or 100 once for a new
    # session or format.
    def __new__(cls, reader: Reader, result: Callable[[Any], Any], none: object, timeout_ns: int, spin_ns: int, pageable: bool,
                pipelined: bool, gpu_wait: bool, window: int, threshold: int) -> _LinkReader: ...
    @property
    def frames(self) -> int: ...
    @property
    def latency_ns(self) -> int: ...
    def counts(self) -> dict[str, int]: ...
    def wait(self, ns: int, /) -> bool: ...
    def close(self) -> None: ...

@final
class _LinkWriter:
    """What sluice.cuda_link.Exporter sends frames with."""
    def __new__(cls, writer: Writer, settles: bool, /) -> _LinkWriter: ...
    def send(self, address: int, stream: Any, /) -> int: ...
    def mark(self, stream: Any, /) -> None: ...
    def close(self) -> None: ...

@disjoint_base
class _LinkFrame:
    """What sluice.cuda_link.GpuFrame is made on."""
    ptr: int
    size: int
    producer_stream: int | None
    def __init__(self, ptr: int, size: int, producer_stream: int | None = None) -> None: ...

@disjoint_base
class _LinkExporter:
    """What sluice.cuda_link.Exporter is made on."""
    @property
    def _published(self) -> int: ...
    def export(self, frame: GpuFrame) -> FrameOutcome:
        """Publishes a frame: a copy on the GPU, which is queued; see docs/from-cuda-link.md for the stream.

        SKIPPED_BARRIER while another program holds the activation barrier, SKIPPED_NOT_READY while the stream captures a graph
        (nothing gets into that), or if the GPU has not finished one of the last frames within a second. FAILED if the size is
        not exactly the format's, or the driver fails; the log says why. With strict_device or require_source_sync a ValueError
        for what these forbid."""
    def _usually(self, link: _LinkWriter | None, bytes: int, outcome: FrameOutcome, unnamed: bool, /) -> None: ...

@disjoint_base
class _LinkImporter:
    """What sluice.cuda_link.Importer is made on."""
    def get_frame(self, stream: Any = None) -> ImportResult[Any]:
        """The newest frame as a tensor of PyTorch on the GPU, not copied; it is this one until a call gives another.

        With `stream` (PyTorch's, CuPy's, or a native one as an int) that stream waits for the frame, else the CPU does."""
    def get_frame_cupy(self, stream: Any = None) -> ImportResult[Any]:
        """The same as an array of CuPy. `stream`, or CuPy's current one, waits for the frame."""
    def get_frame_numpy(self) -> ImportResult[Any]:
        """The newest frame in host memory, which the next call writes again. With d2h_pipelined the frame that the call before
        began to copy: the first call says NO_FRAME."""
    def _usually(self, link: _LinkReader | None, /) -> None: ...
