# SPDX-License-Identifier: MIT
"""Streams: the class that programs use, over the extension's counted streams."""
import warnings

from . import _sluice
from ._events import Event
from ._final import final
from ._sluice import CaptureError, Error, StaleError

_OWNED, _BORROWED, _DEFAULT = range(3)  # enum sluice_stream_kind
_OPEN, _CLOSED, _RESET = range(3)  # what _state() returns
_INSIDE, _LEFT, _LEFT_AT_ONCE = range(3)  # what _pop() returns


def raise_after(failure, error):
    """Raises what failed at the end of a `with`. If the body raised `error`, that goes on instead, and `failure` joins its context."""
    if error is None:
        raise failure
    failure.__context__ = None
    while error is not failure and error.__context__ is not None:
        error = error.__context__
    if error is not failure:
        error.__context__ = failure


class _Use(tuple):
    """`with stream.use()`: a tuple of the stream, which takes no __init__() to make."""

    __slots__ = ()

    def __enter__(self):
        return self[0]._push(False)

    def __exit__(self, kind, error, trace, /):
        try:
            self[0]._pop(False)
        except Error as failure:
            raise_after(failure, error)
        return False


@final
class Stream(_sluice._Stream):
    """A device's ordered queue of work, made by Sluice. `priority`: lower is sooner. `blocking`: ordered with the device's
    default stream. `sync_on_exit`: False: leaving `with` closes it and waits for nothing.

    `with Stream() as s:` makes it this thread's current stream, on which Sluice puts what is given no other; leaving it waits
    for its work and closes it. A stream of another library, or a default one, is neither waited for nor closed there.

    Raises UnsupportedError where there is no such device."""

    __module__ = "sluice"
    __slots__ = ("__weakref__",)

    def __new__(cls, device="cuda:0", *, priority=0, blocking=False, sync_on_exit=True):
        return _sluice._stream_create(device, priority, blocking, sync_on_exit)

    @classmethod
    def default(cls, device="cuda:0"):
        """-> Stream

        The device's default stream: CUDA's legacy one, native 0, on which PyTorch and CuPy work unless told otherwise."""
        return _sluice._stream_from_handle(0, device, None)

    @classmethod
    def from_handle(cls, handle, device="cuda:0", owner=None):
        """-> Stream

        A native stream by its address (a CUstream as an int; 0 and 1: the default one, 2: this thread's default one), which
        somebody else made and will end. `owner` is kept alive as long as a frame or a Stream needs it. Raises WrongDeviceError if
        it is another device's."""
        if not isinstance(handle, int) or isinstance(handle, bool):
            raise TypeError(f"{handle!r} is not the address of a native stream, which is an int: for an object that stands for a "
                            "stream use Stream.wrap(object)")
        return _sluice._stream_from_handle(handle, device, owner)

    @classmethod
    def wrap(cls, stream, device=None):
        """-> Stream

        A stream of PyTorch, CuPy, cuda.core or any library whose streams have __cuda_stream__. It is kept alive, and never ended
        by Sluice. `device`: the device it must be of (None: what it says itself, else "cuda:0"). Raises TypeError for what is no
        stream, WrongDeviceError for one of another device."""
        return _sluice._stream_wrap(stream, device)

    # ---- as a thread's current stream ----

    def use(self):
        """-> context manager

        Within `with stream.use():` it is this thread's current stream; nothing is waited for or closed at the end. May be entered
        again and again, on any thread."""
        return _Use((self,))

    def __enter__(self):
        return self._push(True)

    def __exit__(self, kind, error, trace, /):
        try:
            left = self._pop(True)
            if left != _INSIDE and self._kind == _OWNED:
                self._finish(left == _LEFT_AT_ONCE)
        except (Error, ResourceWarning) as failure:
            raise_after(failure, error)
        return False

    def _finish(self, at_once):
        """At the end of the outermost `with`: waits, then closes."""
        failed = None
        try:
            if at_once:
                self._refuse_while_capturing()
            else:
                self._synchronize()
        except CaptureError:
            raise  # it stays open, as it has to
        except StaleError:
            pass  # a reset has waited for its work
        except Error as failure:
            failed = failure
        if self._close(True) and failed is None:
            warnings.warn(f"{self!r} is still the current stream of another `with`, on this thread or another: it is closed when "
                          "that is left", ResourceWarning, stacklevel=3)
        if failed is not None:
            raise failed

    # ---- work ----

    def wait(self, other, /):
        """What is queued from now on waits for `other`: an Event, as it was recorded last, or all that a stream (of ours or of
        another library) was given so far. The CPU does not wait. Raises NotRecordedError, WrongDeviceError between a GPU and
        "host", CaptureError."""
        if type(other) is Event:
            other.wait(self)
        else:
            self._wait(other)

    def query(self):
        """-> bool: whether all work queued so far is done. Raises CaptureError."""
        return self._query()

    def synchronize(self):
        """Waits until all work queued so far is done; other threads run meanwhile. Raises CaptureError while the stream captures a
        graph."""
        self._synchronize()

    def record(self, event=None):
        """-> Event

        Marks the point after the work queued so far, in `event` or a new one."""
        if event is None:
            event = Event(self.device)
        elif type(event) is not Event:
            raise TypeError(f"{event!r} is not a sluice.Event")
        event.record(self)
        return event

    def close(self):
        """Ends it at once: queued work still runs, and frames that it works on keep it until they end. One of another library, or a
        default one, is only let go of. Again does nothing. Raises BusyError while it is a thread's current stream, CaptureError
        while it captures a graph."""
        if self._kind == _OWNED:
            self._refuse_while_capturing()
        self._close(False)

    def _refuse_while_capturing(self):
        if self._captures():
            raise CaptureError(f"{self!r} is capturing a graph: it cannot be closed until the capture ends")

    # ---- for other libraries ----

    def same_native(self, other, /):
        """-> bool

        Whether `other`, a Stream or a stream of another library, stands for the same native stream. == asks for less than that:
        two names of one, each with an end of its own, are not equal. Raises StreamClosedError, StaleHandleError, TypeError for what
        is no stream."""
        return self._same_native(other)

    def to_torch(self):
        """-> torch.cuda.Stream

        The same stream for PyTorch. It keeps the native stream alive, also when this is closed."""
        from ._interop import stream_to_torch
        return stream_to_torch(self, self._ordinal(), self._keeper())

    def to_cupy(self):
        """-> cupy.cuda.Stream

        The same stream for CuPy. It keeps the native stream alive, also when this is closed."""
        from ._interop import stream_to_cupy
        return stream_to_cupy(self, self._ordinal(), self._keeper())

    def _ordinal(self):
        return -1 if self.device == "host" else int(self.device.removeprefix("cuda:"))

    @property
    def __cuda_stream__(self):
        """The CUDA stream protocol's; none on "host"."""
        if self.device == "host":
            raise AttributeError("a stream of \"host\" is no CUDA stream: it has no __cuda_stream__")
        return self._cuda_stream

    def _cuda_stream(self):
        """-> (0, native stream), by which other libraries use it."""
        return 0, self._native()

    # ---- what it is ----

    @property
    def native(self):
        """The native stream's address; 0 for a default one, and on "host"."""
        return self._native()

    @property
    def closed(self):
        """True once close() was called or `with` was left."""
        return self._state() == _CLOSED

    @property
    def is_default(self):
        """True for the device's default stream."""
        return self._kind == _DEFAULT

    @property
    def is_external(self):
        """True for a stream that another library made."""
        return self._kind == _BORROWED

    def __repr__(self):
        kind = ("stream", "external stream", "default stream")[self._kind]
        state = ("", ", closed", ", which was reset")[self._state()]
        return f"<sluice.Stream: {kind} {self._id:#x} of {self.device}{state}>"

    def __eq__(self, other):
        return self._identity == other._identity if type(other) is Stream else NotImplemented

    def __hash__(self):
        return self._identity

    def __reduce__(self):
        raise TypeError(f"{self!r} cannot be pickled or copied: it is of this process alone")


_sluice._use_stream_class(Stream)  # what the extension makes where it returns a stream
