# SPDX-License-Identifier: MIT
"""A development aid: names the call, and its thread, that broke the capture of a CUDA graph; docs/live-captures.md. It asks the driver
around each call into a library (from Python 3.12 on), and each millisecond, whether the capture is whole."""
import contextlib
import ctypes
import functools
import re
import sys
import threading
import traceback
import types
from typing import Any, Iterator

import sluice

from ._relaxed import driver

OFFENCE = r"not permitted when stream is capturing|legacy stream depend|STREAM_?CAPTURE_?(UNSUPPORTED|IMPLICIT)|\b90[06]\b"
BROKEN = OFFENCE + r"|previous error during capture|STREAM_?CAPTURE_?INVALIDATED|\b901\b"


def _current() -> list[int]:
    torch, cupy, mine = sys.modules.get("torch"), sys.modules.get("cupy"), sluice.current_stream()
    return [*([torch.cuda.current_stream().cuda_stream] if torch and torch.cuda.is_initialized() else ()),
            *([cupy.cuda.get_current_stream().ptr] if cupy else ()), *([mine.native] if mine else ())]


def _name(call: Any) -> str:
    """Empty for functions in Python, whose own calls are seen, and for Python's library."""
    of = getattr(call, "__objclass__", getattr(call, "__self__", call))
    module = str(getattr(call, "__module__", None) or getattr(of, "__name__" if isinstance(of, types.ModuleType) else "__module__", ""))
    is_python = module.partition(".")[0] in sys.stdlib_module_names and not module.endswith("ctypes")
    name = getattr(call, "__qualname__", None) or getattr(call, "__name__", type(call).__name__)
    return "" if is_python or isinstance(getattr(call, "__func__", call), types.FunctionType) else f"{module}.{name}"


def _threads() -> dict[int, tuple[str, str]]:
    names, frames = {each.ident: f'"{each.name}"' for each in threading.enumerate()}, sys._current_frames()
    return {each: (f"thread {names.get(each, each)}", "".join(traceback.format_stack(frame))) for each, frame in frames.items()}


class watch:
    """`with guard.watch(stream=None):` around the begin and the end of a capture, or inside it. If it breaks, stderr gets what broke
    it; the error goes on. `stream`: the one that captures, of any library, or its address; None: this thread's current one."""

    seen: Any = getattr(sys, "monitoring", None)

    def __init__(self, stream: Any = None) -> None:
        named = (getattr(stream, name) for name in ("cuda_stream", "native", "ptr") if hasattr(stream, name))
        self.thread, self.given, self.handle = threading.get_ident(), next(named, stream), 0
        self.running, self.errors, self.found = dict[int, Any](), dict[int, str](), list[Any]()  # of `found` the first counts
        self.driver, self.context = driver(), ctypes.c_void_p()
        self.stop, self.sampler = threading.Event(), threading.Thread(target=self._sample, name="sluice.live.guard", daemon=True)

    def _status(self, handle: int) -> int:
        status = ctypes.c_int()
        if self.context and handle > 2:  # the others name default streams, which cannot capture
            self.driver.cuCtxPushCurrent_v2(self.context)
            self.driver.cuStreamIsCapturing(ctypes.c_void_p(handle), ctypes.byref(status))
            self.driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        return status.value

    def look(self, own: Any = None, raised: bool = False) -> None:
        """Notes what runs when the capture is first found broken. `own`: the call that this thread has just ended, and its frame;
        raised: it raised what breaks captures, which no call may have shown before."""
        me = threading.get_ident()
        if me == self.thread and not self._status(self.handle):
            self.driver.cuCtxGetCurrent(ctypes.byref(self.context))
            with contextlib.suppress(AttributeError):  # of a library that is being imported
                self.handle = self.given or next(filter(self._status, _current()), 0)
        if self._status(self.handle) == 2 and (not self.found or raised and not self.found[0][0]):  # 2: INVALIDATED
            calls, threads = {**self.running, me: own}.items(), _threads()
            known = {each: (call[0], "".join(traceback.format_stack(call[1]))) for each, call in calls if call and each in threads}
            self.found.insert(0 if raised else len(self.found), (known, threads))

    def _sample(self) -> None:
        while not self.stop.wait(0.001):
            self.look()

    def _on_call(self, ended: bool, code: Any, at: int, call: Any, first: Any) -> None:
        if threading.get_ident() != self.sampler.ident and (name := _name(call)):
            now = name, sys._getframe(1)
            self.look(now if ended else None)
            self.running[threading.get_ident()] = None if ended else now

    def _on_error(self, code: Any, at: int, error: BaseException) -> None:
        if re.search(OFFENCE, str(error), re.I):
            self.look(("an operator", sys._getframe(1)), raised=True)  # x[index] is no call
            self.errors.setdefault(threading.get_ident(), f": {type(error).__name__}: {str(error).splitlines()[0]}")

    def __enter__(self) -> "watch":
        self.look()
        self.sampler.start()
        self.tool = self.seen and next((each for each in range(5, -1, -1) if not self.seen.get_tool(each)), None)
        if self.tool is not None:
            self.seen.use_tool_id(self.tool, "sluice.live.guard")
            begins, ends = (functools.partial(self._on_call, ended) for ended in (False, True))
            for event, on in {"CALL": begins, "C_RETURN": ends, "C_RAISE": ends, "RAISE": self._on_error}.items():
                self.seen.register_callback(self.tool, getattr(self.seen.events, event), on)
            self.seen.set_events(self.tool, self.seen.events.CALL | self.seen.events.RAISE)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.look()
        if self.tool is not None:
            self.seen.set_events(self.tool, 0)
            self.seen.free_tool_id(self.tool)
        self.stop.set()
        self.sampler.join()
        if self.found or error and re.search(BROKEN, str(error), re.I):
            sys.stderr.writelines(self._report(*(self.found or [({}, _threads())])[0]))

    def _report(self, calls: dict[int, tuple[str, str]], threads: dict[int, tuple[str, str]]) -> Iterator[str]:
        yield f"sluice.live.guard: a capture of {threads[self.thread][0]} was broken\n"
        yield "" if calls else "by no call that Python showed: by a thread of a library, or before Python 3.12\n"
        calls = {each: call for each, call in calls.items() if each in self.errors} or calls
        for each, (name, stack) in calls.items():
            yield f"{'perhaps ' * (len(calls) > 1)}by {threads[each][0]}, in {name}{self.errors.get(each, '')}\n{stack}"
        for each in threads.keys() - calls.keys() - {self.thread, self.sampler.ident or 0}:
            yield f"{threads[each][0]} was at\n{threads[each][1]}"


@contextlib.contextmanager
def capture(graph: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
    """`with guard.capture(graph, ...):` is torch.cuda.graph(graph, ...), or a context manager such as sluice.capture(stream), watched."""
    with watch() as watching, graph if hasattr(graph, "__enter__") else sys.modules["torch"].cuda.graph(graph, *arguments, **options) as made:
        watching.look()
        yield made
