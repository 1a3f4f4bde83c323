# SPDX-License-Identifier: MIT
"""The exceptions, one for each result of the library. The extension calls make() with the library's own table, so there is no second
one. An exception of Python with the same meaning is a base of ours."""

# Where the name that follows from the result's would be a built-in's, or where Python has a word for it.
NAMES = {"NO_SLOT": "NoFreeSlot", "E_NAME": "ChannelNameError", "E_PERMISSION": "AccessError", "E_SYSTEM": "SystemCallError",
         "E_CAPTURING": "CaptureError", "E_CAPTURE": "InvalidCaptureError"}
BASES = {
    "TIMEOUT": TimeoutError, "NO_WRITER": TimeoutError, "NOT_READY": BlockingIOError, "CLOSED": EOFError, "AGAIN": TimeoutError,
    "E_INVALID": ValueError, "E_HANDLE": ValueError, "E_STALE": ValueError, "E_NAME": ValueError, "E_FORMAT": ValueError,
    "E_CAPACITY": BufferError, "E_NOT_FOUND": FileNotFoundError, "E_EXISTS": FileExistsError, "E_PERMISSION": PermissionError,
    "E_VERSION": ConnectionError, "E_PROTOCOL": ConnectionError, "E_NO_MEMORY": MemoryError, "E_NO_DESCRIPTORS": OSError,
    "E_SYSTEM": OSError, "E_UNSUPPORTED": NotImplementedError, "E_LOST": RuntimeError, "E_FORKED": RuntimeError,
    "E_BUSY": RuntimeError,
}
FIELDS = {"E_COMPILE": {"log": ""}}  # all that the compiler wrote


class Error(Exception):
    """The base of all exceptions of Sluice. `result` is the library's number."""


def _class(name, bases, doc, **fields):
    return type(name, bases, {"__module__": "sluice", "__doc__": doc, **fields})


def make(table):
    """The classes for lines of name, number and text, in their order, but for OK; then those that C names itself: Error, StreamClosedError,
    EventClosedError and StaleHandleError."""
    made = {}
    for name, number, text in (line.split(" ", 2) for line in table.splitlines()[1:]):
        number = int(number)
        own = NAMES.get(name) or name.removeprefix("E_").title().replace("_", "") + ("Error" if number < 0 else "")
        bases = (Error, BASES[name]) if name in BASES else (Error,)
        if name == "E_CLOSED":  # also used after its end
            bases = (made["E_STALE"],)
        if name == "E_CAPTURE":
            bases = (made["E_CAPTURING"],)
        made[name] = _class(own, bases, text, result=number, **FIELDS.get(name, {}))
    closed, stale = (made["E_CLOSED"], RuntimeError), (made["E_STALE"], RuntimeError)
    return (*made.values(), Error,
            _class("StreamClosedError", closed, "a stream was used after it was closed"),
            _class("EventClosedError", closed, "an event was used after it was closed"),
            _class("StaleHandleError", stale, "a stream or an event was used after its device was reset"))


Error.__module__ = "sluice"
