# SPDX-License-Identifier: MIT
"""Events: marks in streams, over the handles of the library."""
from . import _sluice
from ._final import final
from ._sluice import Error, EventClosedError, NoTimingError, NotRecordedError, _event_record, _event_wait, current_stream


@final
class Event:
    """A marker in a stream: other streams can wait for it, the CPU can ask or wait, and two of them made with `timing` measure the
    time between. `sleep`: synchronize() takes no CPU while it waits, and is done a little later.

    Raises UnsupportedError where there is no such device."""

    __module__ = "sluice"
    __slots__ = ("_handle", "_id", "_device", "_timing", "__weakref__")

    def __new__(cls, device="cuda:0", timing=False, sleep=False):
        made, name = _sluice._event_create(device, timing, sleep)
        event = object.__new__(cls)
        event._handle = event._id = made  # the one is 0 once it is closed
        event._device, event._timing = name, bool(timing)
        return event

    def record(self, stream=None):
        """Marks the point after the work that a stream was given so far (None: this thread's current Sluice stream; TypeError if it
        has none). Again moves the mark; waits that were queued before keep the old one. Raises WrongDeviceError."""
        _event_record(self._handle or self._open(), self._current() if stream is None else stream, self._device)

    def wait(self, stream=None):
        """What a stream is given from now on waits for the mark. The CPU does not wait: synchronize() does. Raises
        NotRecordedError, WrongDeviceError, CaptureError."""
        try:
            _event_wait(self._handle or self._open(), self._current() if stream is None else stream, self._device)
        except NotRecordedError:
            self._raise_unrecorded()

    def query(self):
        """-> bool: whether the mark has been reached. Raises NotRecordedError, CaptureError."""
        try:
            return _sluice._event_query(self._open())
        except NotRecordedError:
            self._raise_unrecorded()

    def synchronize(self):
        """Waits until the mark has been reached; other threads run meanwhile. Raises NotRecordedError, CaptureError."""
        try:
            _sluice._event_synchronize(self._open())
        except NotRecordedError:
            self._raise_unrecorded()

    def elapsed(self, stop, /):
        """-> float

        Milliseconds from this mark to that of `stop`, by the device's clock. Raises NotReady, NotRecordedError, NoTimingError,
        WrongDeviceError."""
        if type(stop) is not Event:
            raise TypeError(f"{stop!r} is not a sluice.Event")
        start = self._open()
        try:
            return _sluice._event_elapsed(start, stop._open())
        except NotRecordedError:
            (stop if self._is_recorded(start) else self)._raise_unrecorded()
        except NoTimingError:
            (stop if self._timing else self)._raise_untimed()

    def close(self):
        """Ends it; waits that were queued stay. Again does nothing."""
        handle, self._handle = self._handle, 0
        _sluice._event_destroy(handle)

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, kind, error, trace, /):
        self.close()
        return False

    def __del__(self, destroy=_sluice._event_destroy):  # the module may be gone by then
        destroy(self._handle)

    def _open(self):
        if self._handle:
            return self._handle
        raise EventClosedError(f"{self!r} was closed: make another one")

    def _current(self):
        if (stream := current_stream(self._device)) is None:
            raise TypeError(f"on which stream? This thread has no current Sluice stream of \"{self._device}\": give stream=, or enter "
                            "one by `with`")
        return stream

    @staticmethod
    def _is_recorded(handle):
        try:
            _sluice._event_query(handle)
        except NotRecordedError:
            return False
        except Error:
            pass
        return True

    def _raise_unrecorded(self):
        raise NotRecordedError(f"{self!r} was never recorded: mark a point of a stream first, by event.record(stream) or "
                               "stream.record(event)") from None

    def _raise_untimed(self):
        raise NoTimingError(f"{self!r} takes no times: make it by sluice.Event(\"{self._device}\", timing=True)") from None

    @property
    def device(self):
        """"host" or "cuda:N"."""
        return self._device

    @property
    def timing(self):
        """Whether it takes times."""
        return self._timing

    @property
    def closed(self):
        """True once close() was called or `with` was left."""
        return not self._handle

    def __repr__(self):
        return f"<sluice.Event: {self._id:#x} of {self._device}{'' if self._handle else ', closed'}>"

    def __eq__(self, other):
        return self._id == other._id if type(other) is Event else NotImplemented

    def __hash__(self):
        return hash(self._id)

    def __reduce__(self):
        raise TypeError(f"{self!r} cannot be pickled or copied: it is of this process alone")
