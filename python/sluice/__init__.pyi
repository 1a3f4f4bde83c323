# SPDX-License-Identifier: MIT
"""Types of the package. Shapes are in elements, strides in bytes, time-outs in seconds, times in nanoseconds."""
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from types import TracebackType
from typing import (TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NoReturn, Protocol, SupportsIndex, TypedDict, final,
                    overload)

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    import torch

    _NDArray = numpy.typing.NDArray[Any]

__version__: str

class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _DLPack(Protocol):
    def __dlpack__(self) -> Any: ...

class _ArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Mapping[str, Any]: ...

class _CudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Mapping[str, Any]: ...

_ArrayLike = _Buffer | _DLPack | _ArrayInterface | _CudaArrayInterface | bytes | bytearray | memoryview
_Target = _Buffer | _DLPack | _ArrayInterface | _CudaArrayInterface | bytearray | memoryview
_DType = Any  # "float32", numpy.float32, numpy.dtype, torch.float32, float
_Seconds = float | int
_Meta = _Buffer | bytes | bytearray | memoryview | str | dict[str, Any] | list[Any] | tuple[Any, ...]
_PixelFormat = Literal[
    "rgba", "bgra", "rgb24", "bgr24", "gray", "gray16le", "yuyv422", "uyvy422", "nv12", "yuv420p", "p010le",
    "bayer_rggb8", "bayer_bggr8", "bayer_grbg8", "bayer_gbrg8", "bayer_rggb16le", "bayer_bggr16le", "bayer_grbg16le",
    "bayer_gbrg16le", "rgbaf16le", "rgbaf32le", "yuv444p", "grayf32le", "yuv422p", "yuv422p10le", "rgba64le"]
_RowOrder = Literal["top-down", "bottom-up"]
_Alpha = Literal["unknown", "straight", "premultiplied", "opaque"]

class Colour(NamedTuple):
    primaries: int = 0
    transfer: int = 0
    matrix: int = 0
    range: int = 0

class Tensor(NamedTuple):
    shape: int | tuple[int, ...]
    dtype: _DType = "uint8"

class Image(NamedTuple):
    pixel_format: _PixelFormat
    width: int
    height: int
    colour: Colour | tuple[int, int, int, int] = ...
    row_order: _RowOrder = "top-down"
    alpha: _Alpha = "unknown"

_Spec = Image | Tensor | tuple[Any, _DType] | _ArrayLike
_Format = _Spec | Mapping[str, _Spec]

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _CuPyStream(Protocol):
    ptr: int
    def wait_event(self, event: Any) -> None: ...

_StreamLike = Stream | _CudaStream | _TorchStream | _CuPyStream

@final
class Stream:
    def __new__(cls, device: str = "cuda:0", *, priority: int = 0, blocking: bool = False,
                sync_on_exit: bool = True) -> Stream: ...
    @classmethod
    def default(cls, device: str = "cuda:0") -> Stream: ...
    @classmethod
    def from_handle(cls, handle: int, device: str = "cuda:0", owner: object = None) -> Stream: ...
    @classmethod
    def wrap(cls, stream: _StreamLike, device: str | None = None) -> Stream: ...
    def use(self) -> AbstractContextManager[Stream]: ...
    def same_native(self, other: _StreamLike, /) -> bool: ...
    def wait(self, other: Event | _StreamLike, /) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def record(self, event: Event | None = None) -> Event: ...
    def close(self) -> None: ...
    def to_torch(self) -> torch.cuda.Stream: ...
    def to_cupy(self) -> Any: ...
    @property
    def native(self) -> int: ...
    @property
    def device(self) -> str:
        '''"host" or "cuda:N"'''
    @property
    def closed(self) -> bool: ...
    @property
    def is_default(self) -> bool: ...
    @property
    def is_external(self) -> bool: ...
    @property
    def __cuda_stream__(self) -> Callable[[], tuple[int, int]]: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

@final
class Event:
    def __new__(cls, device: str = "cuda:0", timing: bool = False, sleep: bool = False) -> Event: ...
    def record(self, stream: _StreamLike | None = None) -> None: ...
    def wait(self, stream: _StreamLike | None = None) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed(self, stop: Event, /) -> float: ...
    def close(self) -> None: ...
    @property
    def device(self) -> str: ...
    @property
    def timing(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Event: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

class _Parallel:
    def __enter__(self) -> _Parallel: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...
    def branch(self) -> AbstractContextManager[Stream]: ...

def parallel(stream: _StreamLike | None = None) -> _Parallel: ...

@final
class Graph:
    def __new__(cls) -> Graph: ...
    def launch(self, stream: _StreamLike | None = None) -> None: ...
    def again(self, stream: _StreamLike | None = None) -> AbstractContextManager[Graph]: ...
    def close(self) -> None: ...
    @property
    def nodes(self) -> int: ...
    @property
    def edges(self) -> int: ...
    @property
    def updates(self) -> int: ...
    @property
    def rebuilds(self) -> int: ...

def capture(stream: _StreamLike | None = None) -> AbstractContextManager[Graph]: ...

class Area(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    from_x: float
    from_y: float
    per_x: float
    per_y: float
    def back(self, x: Any, y: Any) -> tuple[Any, Any]: ...

def convert(to: Any, frame: Any, *, crop: tuple[int, int, int, int] | None = None,
            fit: Literal["stretch", "inside", "cover"] = "stretch", filter: Literal["smooth", "linear", "nearest"] = "smooth",
            flip: Literal["horizontal", "vertical", "both"] | None = None, border: float | Sequence[float] = 0.0,
            scale: float | Sequence[float] = 1.0, bias: float | Sequence[float] = 0.0, layout: Literal["CHW", "HWC"] | None = None,
            order: Literal["RGB", "BGR"] = "RGB", chroma: Literal["left", "centre", "top-left", "repeat"] = "left",
            stream: _StreamLike | None = None) -> Area: ...

_Threads = int | tuple[int, ...] | list[int]

@final
class Kernel:
    """A kernel: `fx.blur(out, frame, 1.5, over=out)` launches it, and returns None. On a GPU it is queued.

    Arguments are given by position. Frames and their arrays, and arrays of PyTorch, CuPy and any library with DLPack or an array
    interface, are used in place; memory of the host (NumPy's, say) is copied to a GPU before the kernel and back behind it, and
    is ready when the call returns. Numbers are converted to the parameter's type; a struct is bytes, a ctypes.Structure, or a
    record of NumPy. A ctypes.c_void_p is an address of the kernel's device, which nothing checks.

    `over`: how many threads, at least: a number, (width, height[, depth]), or an array, whose size it is: an image's width and
    height, the length of an array of one dimension, the last two extents of others, without up to 4 channels. Or `grid`: how many
    blocks; `block`: threads of a block; `shared`: bytes of dynamic shared memory. `stream`: else the thread's current Sluice
    stream, the current one of the framework whose array is used, that of the frame, the device's default stream. If it is not the
    framework's, the launch waits for that one, and that one for the launch.

    Raises TypeError for an argument of another type, OverflowError for a number that the parameter does not hold, InvalidError, a
    ValueError, for memory that does not fit, WrongDeviceError, CaptureError, LimitError; nothing has run then."""
    def __call__(self, /, *arguments: Any, over: _Threads | _Target | _Frame | Array | SupportsIndex | None = None,
                 stream: _StreamLike | None = None, grid: _Threads | None = None, block: _Threads | None = None,
                 shared: int | None = None) -> None: ...
    @property
    def name(self) -> str:
        """its name in the source"""
    @property
    def device(self) -> str:
        '''"host" or "cuda:N"'''
    @property
    def parameters(self) -> tuple[str, ...] | None:
        '''types of its parameters, as text: ("unsigned char *", "const float *", "int"); None if the driver does not tell'''
    @property
    def most_threads(self) -> int:
        """of a block"""
    @property
    def registers(self) -> int:
        """of a thread; 0 on host"""
    @property
    def shared(self) -> int:
        """bytes of shared memory of a block, without those of shared=; 0 on host"""
    @property
    def local(self) -> int:
        """bytes of local memory of a thread; 0 on host"""
    def on(self, stream: _StreamLike, /) -> Kernel:
        """-> Kernel

        The same kernel, whose launches without stream= are on this one."""

@final
class Kernels:
    def __init__(self, source: str | PathLike[str] | bytes | bytearray | memoryview, device: str | None = None, *,
                 options: Sequence[str] = (), kernels: Sequence[str] | None = None, cache: bool = True,
                 name: str | None = None) -> None: ...
    def __getitem__(self, name: str) -> Kernel: ...
    def __getattr__(self, name: str) -> Kernel: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def log(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Kernels: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

def current_stream(device: str | None = None) -> Stream | None:
    """-> Stream or None

    This thread's current stream: of the `with` that was entered last, of this device (None: of any). None where no `with`
    has one."""
def reset(device: str) -> None: ...
def synchronize(device: str) -> None: ...
def cipd_look(name: str) -> CipdInfo: ...
def channels(folder: str | None = None, /) -> list[str]: ...
def info(name: str, timeout: _Seconds = 1.0) -> ChannelInfo: ...
def watch(folder: str | None = None, timeout: _Seconds | None = None) -> Iterator[ChannelEvent]: ...
def pixel_formats() -> tuple[str, ...]: ...

class _Views:
    """What arrays and frames have in common; those of a frame are its first array's."""
    @property
    def device(self) -> str:
        '''where it lies: "host", "cuda:0"'''
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _NDArray:
        """What NumPy calls: numpy() on host; a TypeError on a GPU."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack_device__(self) -> tuple[int, int]:
        '''-> (1, 0): the CPU; (2, N): the GPU "cuda:N"'''
    def __reduce__(self) -> NoReturn: ...

@final
class Array(_Views):
    """One array of a frame, in place. It has the buffer protocol, DLPack and NumPy's array interface; the lease of its
    frame lasts as long as it, or anything made from it, lives."""
    @property
    def name(self) -> str:
        """its name in the frame"""
    @property
    def dtype(self) -> str:
        '''data type as text: "uint8", "float32", "bfloat16", "float32x4"'''
    @property
    def shape(self) -> tuple[int, ...]:
        """extents; of vectors ("float32x4") the lanes are the last one"""
    @property
    def strides(self) -> tuple[int, ...]:
        """bytes from one element to the next, for each extent"""
    @property
    def nbytes(self) -> int:
        """bytes of all elements"""
    @property
    def ndim(self) -> int:
        """number of dimensions"""
    @property
    def read_only(self) -> bool:
        """True if it must not be written"""
    @property
    def address(self) -> int:
        """of the first byte, as an int"""
    @property
    def pixel_format(self) -> _PixelFormat | None:
        """of an image: "bgr24", "nv12", ...; None for others"""
    @property
    def planes(self) -> tuple[Array, ...]:
        """of an image: a tuple of Arrays, e.g. Y (H, W) and UV (H/2, W/2, 2) of nv12; () for others"""
    @property
    def width(self) -> int | None:
        """of an image, in pixels; None for others"""
    @property
    def height(self) -> int | None:
        """of an image, in rows; None for others"""
    @property
    def colour(self) -> tuple[int, int, int, int]:
        """of an image: (primaries, transfer, matrix, range) by ITU-T H.273; 0: unknown"""
    @property
    def row_order(self) -> _RowOrder:
        '''of an image: "top-down" or "bottom-up"'''
    @property
    def alpha(self) -> _Alpha:
        '''of an image: "unknown", "straight", "premultiplied", "opaque"'''
    def _repr_png_(self) -> bytes | None: ...
    def numpy(self, pixel_format: _PixelFormat | None = None) -> _NDArray:
        """-> numpy.ndarray

        The array in place, without a copy. Read-only for readers. The lease lasts as long as it, or anything made from it,
        lives. `pixel_format` is the expected one ("bgr24"): FormatError if the array has another.

        On a GPU it is a copy in pinned memory, writable and its own: see frame.fetch() for event loops. The CPU waits at most
        10 s for a copy from a GPU: Timeout if work queued before it has not finished by then."""
    def copy(self) -> _NDArray:
        """-> numpy.ndarray

        A writable copy of its own; from a GPU as numpy()."""
    def torch(self, copy: bool = False) -> torch.Tensor:
        """Writing to the tensor of a read-only frame kills the program: on a GPU its whole CUDA context (illegal address), on
        host by SIGSEGV. PyTorch has no read-only tensors. Use copy=True, or Reader(writable=True) if the writer allows it.

        -> torch.Tensor

        The array in place. On a GPU it is for work on PyTorch's current stream: the frame ends behind that work. Name further
        streams by used_on()."""
    def cupy(self, copy: bool = False) -> Any:
        """-> cupy.ndarray

        The array in place, on a GPU. CuPy has no read-only arrays. It is the slot's own memory, and nothing keeps a program
        from writing to it: that kills its CUDA context if the frame is read-only, see torch(). On a GPU it is for work on
        CuPy's current stream: the frame ends behind that work. Name further streams by used_on()."""
    def jax(self) -> Any:
        """-> jax.Array

        The array, in place if JAX can, else a copy. On a GPU it is for work on JAX's current stream: the frame ends behind
        that work. Name further streams by used_on()."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3"""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """the CUDA array interface, version 3: of arrays on a GPU. It is the slot's own memory, and nothing keeps a program
        from writing to it: that kills its CUDA context if the frame is read-only, see torch()."""
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """-> capsule

        It is the slot's own memory, and nothing keeps a program from writing to it: that kills its CUDA context if the frame
        is read-only, see torch(). From `max_version` 1.0 on the capsule has a flag for that, which PyTorch and CuPy ignore."""

class _Frame(_Views):
    def values(self) -> tuple[Array, ...]: ...
    def items(self) -> tuple[tuple[str, Array], ...]: ...
    @property
    def shape(self) -> tuple[int, ...]:
        """of the first array"""
    @property
    def dtype(self) -> str:
        """of the first array, as text"""
    @property
    def nbytes(self) -> int:
        """of the first array"""
    @property
    def pixel_format(self) -> _PixelFormat | None:
        """of the first array: "bgr24", "nv12", ...; None if it is not an image"""
    @property
    def planes(self) -> tuple[Array, ...]:
        """of the first array: a tuple of Arrays; () if it is not an image"""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, of the first array"""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """the CUDA array interface, of the first array, on a GPU. It is the slot's own memory, and nothing keeps a program
        from writing to it: that kills its CUDA context if the frame is read-only, see torch()."""
    def numpy(self, name: str | int | None = None, pixel_format: _PixelFormat | None = None) -> _NDArray:
        """-> numpy.ndarray

        An array of the frame (the first one, or `name`) in place, without a copy. Read-only for readers. On a GPU it is a copy
        in pinned memory. See Array.numpy.

        The CPU waits at most 10 s for a copy from a GPU: Timeout if work queued before it has not finished by then."""
    @overload
    def view(self, name: str | int | None = None, *, kind: Literal["torch"]) -> torch.Tensor: ...
    @overload
    def view(self, name: str | int | None = None, *, kind: Literal["cupy"] | None = None) -> Any:
        """-> memoryview | torch.Tensor | cupy.ndarray

        The cheaper form, valid until the frame ends. On host a memoryview, which raises ValueError after that. On a GPU a
        tensor of PyTorch (kind="cupy": an array of CuPy), made once for each slot, array and shape of a generation: it holds
        no lease, and it keeps the slot's memory mapped while it lives, so that a CUDA graph captured with it can be replayed.
        After the end of the frame it shows whatever is in the slot. The CPU waits for nothing. It is the slot's own memory,
        and nothing keeps a program from writing to it: that kills its CUDA context if the frame is read-only, see torch()."""
    def copy(self, name: str | int | None = None) -> _NDArray:
        """-> numpy.ndarray

        A writable copy of an array, which needs no lease.

        The CPU waits at most 10 s for a copy from a GPU: Timeout if work queued before it has not finished by then."""
    def torch(self, name: str | int | None = None, copy: bool = False) -> torch.Tensor:
        """Writing to the tensor of a read-only frame kills the program: on a GPU its whole CUDA context (illegal address), on
        host by SIGSEGV. PyTorch has no read-only tensors. Use copy=True, or Reader(writable=True) if the writer allows it.

        -> torch.Tensor

        An array of the frame in place. On a GPU it is for work on PyTorch's current stream: the frame ends behind that work.
        Name further streams by used_on()."""
    def cupy(self, name: str | int | None = None, copy: bool = False) -> Any:
        """-> cupy.ndarray

        An array of the frame in place, on a GPU. CuPy has no read-only arrays. It is the slot's own memory, and nothing keeps
        a program from writing to it: that kills its CUDA context if the frame is read-only, see torch(). On a GPU it is for
        work on CuPy's current stream: the frame ends behind that work. Name further streams by used_on()."""
    def jax(self, name: str | int | None = None) -> Any:
        """-> jax.Array

        An array of the frame, in place if JAX can, else a copy. On a GPU it is for work on JAX's current stream: the frame
        ends behind that work. Name further streams by used_on()."""
    def used_on(self, *streams: _StreamLike) -> None:
        """Work on these streams uses the frame, too: its end, by release, commit, cancel or the last reference, comes after
        what they have queued by then. After release() it can be called as long as an array made from the frame lives. On host
        it does nothing."""
    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Of the first array. It is the slot's own memory, and nothing keeps a program from writing to it: that kills its CUDA
        context if the frame is read-only, see torch()."""
    def keys(self) -> tuple[str, ...]:
        """-> tuple of the arrays' names"""
    def __getitem__(self, which: str | SupportsIndex, /) -> Array: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...
    @property
    def slot(self) -> int:
        """number of its slot; the slot's memory stays where it is for a generation"""
    @property
    def generation(self) -> int:
        """1, 2... in a session; changes with the format"""

@final
class Frame(_Frame):
    """A frame that a reader holds, in place. Its arrays: frame["depth"], frame[0], or, for the first one, the frame
    itself: numpy(), the buffer protocol, DLPack.

    The lease ends when the frame is released, by release(), `with` or its end, but not while an array made from it lives."""
    @property
    def sequence(self) -> int:
        """1, 2, 3... in the order of commits"""
    @property
    def session(self) -> int:
        """one life of a writer; random, never 0"""
    @property
    def missed(self) -> int:
        """frames that this reader did not get since the one before; in the first frame of a session that began while it waited, all
        earlier ones"""
    @property
    def capture_ns(self) -> int:
        """when the content was captured, in nanoseconds of `capture_clock`"""
    @property
    def capture_clock(self) -> int:
        """0 time.monotonic_ns (the default), 1 time.time_ns, 2 TAI, 3 position in a recording, 255 another"""
    @property
    def commit_ns(self) -> int:
        """when it was committed, in time.monotonic_ns of this process"""
    @property
    def new_session(self) -> bool:
        """True for the first frame that this reader gets of a session: its very first one, and the first after a restart"""
    @property
    def new_format(self) -> bool:
        """True for the first frame that it gets of a format (a generation): also whenever new_session is"""
    @property
    def released(self) -> bool:
        """True once release() was called or `with` was left"""
    @property
    def meta(self) -> bytes:
        """the writer's metadata, as bytes"""
    @property
    def meta_json(self) -> Any: ...
    def _repr_png_(self) -> bytes | None: ...
    def fetch(self, name: str | int | None = None) -> Awaitable[_NDArray]:
        """-> awaitable numpy.ndarray

        A writable copy of an array, as copy(), while the event loop goes on: the copy is queued by this call. The frame may be
        released meanwhile, and the task that waits may be cancelled.

        The CPU waits at most 10 s for a copy from a GPU: Timeout if work queued before it has not finished by then."""
    def copy_to(self, target: _Target | Mapping[str, _Target], name: str | int | None = None, *,
                stream: _StreamLike | None = None) -> None:
        """Copies an array, or several (a mapping of names to targets), into the program's own memory: of NumPy, PyTorch, CuPy,
        or anything with a buffer, DLPack or an array interface, with any strides, also negative ones. In host memory the copy
        is done on return. On a GPU it is queued on `stream`, the thread's Sluice stream, or the current stream of the target's
        framework; it is always ordered with the latter. The frame ends behind it.

        The CPU waits at most 10 s for a copy from a GPU: Timeout if work queued before it has not finished by then. The target
        may still be written to until it has finished.

        Raises CaptureError if such a stream captures a graph: nothing was queued."""
    def release(self) -> None:
        """Ends the lease: at once, or, if arrays made from the frame live, with the last of them. The frame itself cannot be
        used any more. A second call does nothing.

        Raises LostError if the writer took the frame back while it was read; the driver's error if the end cannot be queued
        behind the work on the frame's streams: then the frame ends once that work is done."""
    def __enter__(self) -> Frame: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

@final
class WriterFrame(_Frame):
    """A slot to fill, from writer.frame(): with writer.frame() as f: f.numpy()[:] = image. Leaving `with` commits it; an
    exception, or dropping the last reference, cancels it."""
    @property
    def sequence(self) -> int:
        """0 until commit, then 1, 2, 3..."""
    capture_ns: int
    """when the content was captured; now, unless set. Nanoseconds of `capture_clock`"""
    capture_clock: int
    """0 time.monotonic_ns (the default), 1 time.time_ns, 2 TAI, 3 position in a recording, 255 another"""
    @property
    def meta(self) -> bytes:
        """metadata for readers: up to 4,096 bytes; a str is set in UTF-8, and a dict, list or tuple as JSON"""
    @meta.setter
    def meta(self, value: _Meta) -> None: ...
    @property
    def meta_json(self) -> Any: ...
    @property
    def ended(self) -> bool:
        """True once it was committed or cancelled"""
    def commit(self) -> None:
        """Publishes the frame; leaving `with` does it. Arrays made from it are stale from then on: Python cannot take them
        away, but writing to them changes what readers see.

        On a GPU readers get it behind the work on the streams that used it (see torch(), used_on(), Writer.frame(stream=)).

        Raises StaleError if it was committed or cancelled already, or the writer is closed; LostError, and cancels the frame,
        if one of its streams waited for a frame (ahead=True) that was lost: nothing made from that is published; CaptureError
        while one of its streams captures a graph: nothing was queued, and the frame can be committed after the capture."""
    def cancel(self) -> None:
        """Returns the slot unpublished; an exception in `with` does it. Raises CaptureError as commit()."""
    def reshape(self, shape: int | Sequence[int], name: str | None = None) -> None:
        """Gives an array of this frame another shape of as many dimensions, before numpy() is called.

        Raises CapacityError if it has more bytes than the channel's format."""
    def resize(self, width: int, height: int, name: str | None = None) -> None:
        """The same for an image, in pixels."""
    def __enter__(self) -> WriterFrame: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

class ReaderStats(NamedTuple):
    connected: bool
    session: int
    taken: int
    missed: int
    retries: int
    sessions: int
    held: int
    depth: int
    hold: int
    lag: int
    latency_ns: int
    lost: int

class WriterStats(NamedTuple):
    readers: int
    session: int
    committed: int
    dropped: int
    cancelled: int
    stolen: int
    bytes: int
    copied_bytes: int
    waited_ns: int
    slots: int
    generation: int
    evicted: int
    readers_total: int
    readers_died: int
    refused: int
    graph_sends: int
    name_restored: int
    name_lost: int

class ChannelEvent(NamedTuple):
    name: str
    live: bool

class ReaderInfo(NamedTuple):
    pid: int
    uid: int
    program: str
    mode: Literal["newest", "in_order"]
    depth: int
    hold: int
    every: int
    writable: bool
    held: int
    held_slots: int
    held_ns: int
    taken: int
    missed: int
    lag: int
    latency_ns: int
    joined_ns: int
    path: str
    copy_reason: str
    latency_total_ns: int
    latency_max_ns: int
    lease_mean_ns: int
    ahead: bool
    parked: int

class ChannelInfo(NamedTuple):
    name: str
    folder: str
    pid: int
    uid: int
    program: str
    device: str
    memory: Literal["unknown", "host", "cuda", "cuda_ipc"]
    wire_version: int
    session: int
    generation: int
    format: dict[str, Image | Tensor]
    slots: int
    max_slots: int
    policy: Literal["drop", "wait"]
    readers: tuple[ReaderInfo, ...]
    max_readers: int
    writable: bool
    committed: int
    dropped: int
    stolen: int
    bytes: int
    evicted: int
    died: int
    refused: int
    opened_ns: int
    last_commit_ns: int
    now_ns: int
    name_restored: int
    name_restored_ns: int

class _CipdReader(TypedDict, total=False):
    undeclared: Literal["unknown", "rgba", "bgra"] | None
    pair: Literal["as_flagged", "mono_alpha", "red_green"] | None
    copy: bool | None
    reconnect: bool | None
    ahead: bool | None
    wait_spin_ns: int | None
    wait_ns: int | None
    stall_ns: int | None

class _CipdWriter(TypedDict, total=False):
    block: bool | None
    graph: bool | None
    order: Literal["unknown", "rgba", "bgra"] | None
    mono_alpha: bool | None
    flags: int | None
    barrier: bool | None
    holds_barrier: bool | None
    settle_frames: int | None
    strict_device: bool | None
    priority: bool | None
    doorbell: bool | None
    barrier_stale_ns: int | None
    barrier_name: str | None
    close_grace_ns: int | None

class CipdSlot(NamedTuple):
    memory_open: bool
    event_open: bool
    frames: int
    last_wait_ns: int
    address: int

class CipdInfo(NamedTuple):
    state: Literal["absent", "unfinished", "running", "stalled", "shut"]
    name: str
    why: str
    version: int
    index: int  # type: ignore[assignment]
    slot_count: int
    width: int
    height: int
    components: int
    flags: int
    dtype: str | None
    frame_bytes: int
    order: Literal["unknown", "rgba", "bgra"]
    order_declared: bool
    mono_alpha: bool
    writer_pid: int
    segment_bytes: int
    by_sluice: bool
    last_frame_ns: int
    published: int
    published_bytes: int
    barrier_skips: int
    failed: int
    graph_frames: int
    relinked: int
    holds_barrier: bool
    left_behind: int
    taken: int
    no_frame: int
    timeouts: int
    reconnects: int
    overruns: int
    repeated: int
    dropped: int
    spin_hits: int
    latency_ns: int
    latency_total_ns: int
    slots: tuple[CipdSlot, ...]

@final
class Reader:
    def __new__(cls, name: str, *, mode: Literal["newest", "in_order"] = "newest", depth: int = 0,
                hold: int | Literal["most"] | None = None, every: int = 1, writable: bool = False, wait: _Seconds | None = 0,
                spin: _Seconds | None = None, uids: Sequence[int] = (), device: str | None = None,
                ahead: bool = False, ahead_timeout: _Seconds | None = None,
                staged: Literal["never", "if_needed", "always"] = "never", cipd: _CipdReader | None = None) -> Reader: ...
    @property
    def name(self) -> str:
        """of the channel"""
    @property
    def mode(self) -> Literal["newest", "in_order"]:
        '''"newest" or "in_order"'''
    @property
    def closed(self) -> bool:
        """True once closed"""
    @property
    def device(self) -> str | None:
        """where frames are used: "host", "cuda:0"; None before the first writer was met, unless asked for"""
    @property
    def slots(self) -> int: ...
    @property
    def format(self) -> dict[str, Image | Tensor] | None: ...
    def next(self, timeout: _Seconds | None = None, *, stream: _StreamLike | None = None) -> Frame:
        """-> Frame

        The next frame: the newest one not yet taken, or the next in order. `timeout` in seconds; None waits for ever, also
        while the channel has no writer. `stream`: on a GPU, the one that will use the frame, of Sluice or another library; if
        it is None, the thread's Sluice stream (`with sluice.Stream()`), if there is one, and the current stream of each
        framework that takes an array of the frame. The frame ends behind all of them. A stream of another device than the next
        frame's raises WrongDeviceError.

        Raises Timeout or NoWriter (both are TimeoutErrors) after the time-out; Closed (an EOFError) when the writer has closed
        the channel and all is read; LimitError when the reader holds as many frames as `hold` allows, with their numbers;
        LostError once after the writer evicted this reader."""
    def latest(self, *, stream: _StreamLike | None = None) -> Frame | None:
        """-> Frame | None

        The newest frame if it was not taken yet; never waits. Raises Closed when the writer has closed the channel."""
    def next_async(self, timeout: _Seconds | None = None, *, stream: _StreamLike | None = None) -> Awaitable[Frame]: ...
    def fileno(self) -> int: ...
    def stats(self) -> ReaderStats: ...
    def _format(self) -> bytes | None: ...
    def _retry(self) -> None: ...
    def cipd_info(self) -> CipdInfo: ...
    def release_all(self) -> None:
        """Releases all frames that this reader has given out, also those that a notebook still refers to; they cannot be used any
        more. Frames of which arrays live are held until these end. Does nothing once the reader is closed.

        Raises LostError as Frame.release(), after all are released."""
    def close(self) -> None:
        """Ends the reader. Frames and arrays that live stay readable, and hold their leases, until they die."""
    def __iter__(self) -> Reader: ...
    def __next__(self) -> Frame: ...
    def __aiter__(self) -> Reader: ...
    def __anext__(self) -> Awaitable[Frame]: ...
    def __enter__(self) -> Reader: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...
    async def __aenter__(self) -> Reader: ...
    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None, /) -> None: ...

@final
class Writer:
    def __new__(cls, name: str, format: _Format | None = None, *, shape: int | Sequence[int] | None = None,
                dtype: _DType = None, device: str = "host", policy: Literal["drop", "wait"] = "drop",
                wait: _Seconds | None = 1.0, slots: int = 0, max_slots: int = 0, readers: int = 0,
                writable: bool = False, lease_timeout: _Seconds | None = None, pitch_align: int = 0,
                uids: Sequence[int] = (), gids: Sequence[int] = (), resize: bool = False, graph: bool = True,
                cipd: _CipdWriter | None = None) -> Writer: ...
    @classmethod
    def like(cls, name: str, array: _ArrayLike | Mapping[str, _ArrayLike], *, device: str = "host",
             policy: Literal["drop", "wait"] = "drop", wait: _Seconds | None = 1.0, slots: int = 0, max_slots: int = 0,
             readers: int = 0, writable: bool = False, lease_timeout: _Seconds | None = None, pitch_align: int = 0,
             uids: Sequence[int] = (), gids: Sequence[int] = (), resize: bool = False, graph: bool = True,
             cipd: _CipdWriter | None = None) -> Writer: ...
    @property
    def name(self) -> str:
        """of the channel"""
    @property
    def closed(self) -> bool:
        """True once closed"""
    @property
    def device(self) -> str:
        '''where its slots lie: "host", "cuda:0"'''
    @property
    def format(self) -> dict[str, Image | Tensor]: ...
    def frame(self, timeout: _Seconds | None = None, *, meta: _Meta | None = None, like: Frame | None = None,
              capture_ns: int | None = None, stream: _StreamLike | None = None) -> WriterFrame:
        """-> WriterFrame

        Lends a free slot, for `with`: leaving commits it, an exception cancels it. `timeout` in seconds; None follows the
        policy. `meta`: bytes for readers, up to 4,096, or a str, or a dict, list or tuple, which becomes JSON. `like`: a Frame
        whose times and metadata are copied. `capture_ns`: when the content was captured (now). `stream`: on a GPU, the one
        whose work fills the slot; see Reader.next.

        Raises NoFreeSlot, with the holders of all slots, if none is free in time: the frame counts as dropped."""
    def try_frame(self, *, meta: _Meta | None = None, like: Frame | None = None,
                  capture_ns: int | None = None, stream: _StreamLike | None = None) -> WriterFrame | None:
        """-> WriterFrame | None

        The same, and None instead of NoFreeSlot; never waits."""
    def send(self, array: _ArrayLike | Mapping[str, _ArrayLike], *, meta: _Meta | None = None,
             like: Frame | None = None, capture_ns: int | None = None, pixel_format: _PixelFormat | None = None,
             stream: _StreamLike | None = None) -> int:
        """-> int

        Copies an array, or {name: array}, into a slot and commits it; returns its sequence. Arrays are anything with the
        buffer protocol, DLPack or an array interface, with any strides, of the format's
        shape; Writer(resize=True) allows other sizes, and a larger one makes a new generation. `pixel_format` says what the
        array is: FormatError if the channel's is another.

        Raises NoFreeSlot; FormatError for another data type or shape; TypeError for what is not an array."""
    def reformat(self, format: _Format | None = None, *, shape: int | Sequence[int] | None = None, dtype: _DType = None,
                 pitch_align: int = 0) -> None: ...
    def wait_for_readers(self, count: int = 1, timeout: _Seconds | None = None) -> None: ...
    def stats(self) -> WriterStats: ...
    def _format(self) -> bytes: ...
    def _has_readers(self, count: int, /) -> bool: ...
    def cipd_info(self) -> CipdInfo: ...
    def close(self) -> None:
        """Ends the channel: readers get what they have not read, then Closed. Frames still begun are cancelled."""
    def __enter__(self) -> Writer: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

@final
class RecordedArray:
    device: ClassVar[Literal["host"]]
    read_only: ClassVar[Literal[True]]
    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nbytes: int
    pixel_format: _PixelFormat | None
    width: int | None
    height: int | None
    colour: Colour
    row_order: _RowOrder
    alpha: _Alpha
    @property
    def planes(self) -> tuple[RecordedArray, ...]: ...
    def numpy(self, pixel_format: _PixelFormat | None = None) -> _NDArray: ...
    def copy(self) -> _NDArray: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _NDArray: ...
    def _repr_png_(self) -> bytes | None: ...

@final
class RecordedFrame:
    number: int
    time: float
    sequence: int
    session: int
    missed: int
    capture_ns: int
    capture_clock: int
    commit_ns: int
    generation: int
    new_session: bool
    new_format: bool
    meta: bytes
    @property
    def meta_json(self) -> Any: ...
    def numpy(self, name: str | int | None = None, pixel_format: _PixelFormat | None = None) -> _NDArray: ...
    def copy(self, name: str | int | None = None) -> _NDArray: ...
    def verify(self) -> None: ...
    def keys(self) -> tuple[str, ...]: ...
    def values(self) -> tuple[RecordedArray, ...]: ...
    def items(self) -> tuple[tuple[str, RecordedArray], ...]: ...
    def __getitem__(self, which: str | int, /) -> RecordedArray: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _NDArray: ...
    def _repr_png_(self) -> bytes | None: ...

@final
class Recording:
    channel: str
    created_ns: int
    format: dict[str, Image | Tensor]
    damage: str | None
    def __new__(cls, path: str | PathLike[str], *, damaged: bool = False) -> Recording: ...
    @property
    def path(self) -> str: ...
    @property
    def times(self) -> tuple[float, ...]: ...
    @property
    def duration(self) -> float: ...
    @property
    def complete(self) -> bool: ...
    def at(self, seconds: float) -> RecordedFrame: ...
    @overload
    def __getitem__(self, which: SupportsIndex, /) -> RecordedFrame: ...
    @overload
    def __getitem__(self, which: slice, /) -> list[RecordedFrame]: ...
    def __iter__(self) -> Iterator[RecordedFrame]: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Recording: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None,
                 /) -> Literal[False]: ...

class Error(Exception):
    result: ClassVar[int]

class Timeout(Error, TimeoutError): ...
class NoFreeSlot(Error): ...
class NoWriter(Error, TimeoutError): ...
class NotReady(Error, BlockingIOError): ...
class Closed(Error, EOFError): ...
class Again(Error, TimeoutError): ...
class InvalidError(Error, ValueError): ...
class HandleError(Error, ValueError): ...
class StaleError(Error, ValueError): ...
class ClosedError(StaleError): ...
class StreamClosedError(ClosedError, RuntimeError): ...
class EventClosedError(ClosedError, RuntimeError): ...
class StaleHandleError(StaleError, RuntimeError): ...
class ChannelNameError(Error, ValueError): ...
class FormatError(Error, ValueError): ...
class CapacityError(Error, BufferError): ...
class LimitError(Error): ...
class NotFoundError(Error, FileNotFoundError): ...
class ExistsError(Error, FileExistsError): ...
class AccessError(Error, PermissionError): ...
class VersionError(Error, ConnectionError): ...
class ProtocolError(Error, ConnectionError): ...
class NoMemoryError(Error, MemoryError): ...
class NoDescriptorsError(Error, OSError): ...
class SystemCallError(Error, OSError): ...
class UnsupportedError(Error, NotImplementedError): ...
class LostError(Error, RuntimeError): ...
class ForkedError(Error, RuntimeError): ...
class BusyError(Error, RuntimeError): ...
class CaptureError(Error): ...
class InvalidCaptureError(CaptureError): ...
class CompileError(Error):
    log: str
class OrderError(Error): ...
class WrongDeviceError(Error): ...
class NotRecordedError(Error): ...
class NoTimingError(Error): ...
class DriverError(Error): ...
class CorruptError(Error): ...
