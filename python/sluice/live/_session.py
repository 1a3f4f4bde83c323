# SPDX-License-Identifier: MIT
"""Live: the order of a frame, from the newest input to the picture that is sent."""
import contextlib
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import sluice

from ._all_links import TENSORS, Links
from ._changes import Changes, Watch
from ._config import ConfigError, load
from ._counters import Counters
from ._input import About
from ._osc import Osc
from ._pace import Pace, Unfinished
from ._report import Report
from ._settings import REBUILD, RESTART, Settings, differences, rebased
from ._shot import Shot
from ._tensors import memory_of

log = logging.getLogger("sluice.live")
ROW = 10  # exceptions of the engine, one after another, that end the loop


class Live:
    """Runs an engine on live frames.

        with Live(input="camera", output="painted", size=(512, 512)) as live:
            for shot in live:
                shot.send(engine(shot.input, **shot.params))

    `source` is the path of a YAML file, a dict or Settings, or nothing; keywords are settings, and come before it. `sets`: settings
    as PATH=VALUE. docs/live.md has the order of a frame. Within `with`, and in the loop, `stream` is the current stream.

    An exception in the body of `for` ends the loop, as of any loop. `with shot:` around the engine, or run(), treats it as the
    setting on_error says: the loop goes on, but for 10 exceptions one after another."""

    def __init__(self, source: Any = None, /, *, sets: Sequence[str] = (), **overrides: Any) -> None:
        self._loaded = self.settings = load(source, sets, program=overrides)
        self.changes, self.counters = Changes(), Counters()
        self.device = str(self.settings.device)
        self._memory = memory_of(self.device)
        current = sluice.current_stream(self.device)
        self._owned = current is None
        self.stream = self._memory.stream() if current is None else current
        self._unfinished, self._pace = Unfinished(self.stream, self.counters), Pace(self.changes, self.counters)
        self._within = contextlib.ExitStack()
        self._services: list[Any] | None = None
        self._watch: Watch | None = None
        self._stopping = self._closed = self._previewed = False
        self._number = self._row = self._results = 0
        self._rebuild = False
        self._last: dict[str, Any] | None = None  # parameters of the last shot
        self._of_frame: dict[str, Any] = {}  # and those that the frame's metadata brings
        self._shown: deque[list[About]] = deque(maxlen=65)  # what the last results of the engine were made from
        self._sent: list[About] = []  # what the last picture that was sent shows
        with self._current():
            self._links = Links(self.settings, self.device, self._memory, self.counters)
        self.counters.state = "ready"
        self._publish()

    # ---- what there is ----

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the model's pictures."""
        width, height = self.settings.size
        return int(width), int(height)

    @property
    def dtype(self) -> str:
        return str(self.settings.dtype)

    @property
    def input(self) -> Any:
        """The tensor (1, 3, height, width) in which each shot finds its input: one address for a size. A block has more pictures."""
        return self._links.input.picture.tensor

    @property
    def controls(self) -> tuple[str, ...]:
        return tuple(self._links.controls)

    def _adopt(self, new: Settings) -> None:
        """Other settings, between shots."""
        when, self.settings = differences(self.settings, new), new
        restart = [path for path, how in when.items() if how == RESTART]
        if restart:
            log.warning("%s: takes effect when the program starts again", ", ".join(restart))
        if REBUILD in when.values():
            self._results = 0
            self._shown.clear()
            self._links.output.fine = "ok"
        if any(path in when for path in TENSORS):
            self._unfinished.bound(0)
        self._rebuild = self._links.adopt(new, when) or self._rebuild
        self._publish()

    def _publish(self) -> None:
        flat = {path: value for path, value in self.settings.flat.items() if path != "params"}
        self.changes.publish({**flat, **{f"params.{name}": value for name, value in self.settings.params.items()}})

    # ---- beginning and end ----

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """The loop's stream is this thread's, for Sluice and for the framework of the tensors."""
        if sluice.current_stream(self.device) == self.stream:
            yield
        else:
            with self.stream.use(), self._memory.current(self.stream):
                yield

    def _start(self) -> None:
        """OSC, reports, and the watch of the settings' file, once."""
        if self._services is None:
            self._services = []
            if isinstance(path := self.settings.source[0], (str, os.PathLike)):
                self._watch = Watch(path, self.changes)
                self._services.append(self._watch)
            osc, report = self.settings.osc, self.settings.report
            if osc.listen or osc.send:
                self._services.append(Osc(self))
            if report.line or report.json or report.prometheus:
                self._services.append(Report(self))

    def __enter__(self) -> "Live":
        self._within.enter_context(self._current())
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> Literal[False]:
        if isinstance(error, Exception) and self._row == 0:
            self._record(error)
        self.close()
        return False

    def close(self) -> None:
        """Ends the links, OSC and reports. Leaving `with` does it."""
        if self._closed:
            return
        self._closed = self._stopping = True
        self.counters.state = "stopped"
        for service in self._services or ():
            service.close()
        self._links.close()
        self._within.close()
        if self._owned:
            self._memory.let_go(self.stream)

    def stop(self) -> None:
        """Ends the loop before its next shot. Any thread may call it."""
        self._stopping = True
        self.changes.command("stop")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the loop before its next shot; a second SIGINT ends it at once. SIGHUP reads the file again."""
        def handle(number: int, frame: object) -> None:
            if self._stopping and number == signal.SIGINT:
                raise KeyboardInterrupt
            self._stopping = True

        before = {}
        if threading.current_thread() is threading.main_thread():
            handlers = {signal.SIGINT: handle, signal.SIGTERM: handle, **({signal.SIGHUP: self._watch.ask} if self._watch else {})}
            before = {number: signal.signal(number, handler) for number, handler in handlers.items()
                      if signal.getsignal(number) is not signal.SIG_IGN}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    # ---- the loop ----

    def __iter__(self) -> Iterator[Shot]:
        self._start()
        with self._current(), self._signals():
            while (shot := self._next()) is not None:
                yield shot
                self._finish(shot)
            self._unfinished.bound(0)

    def run(self, engine: Callable[[Shot], Any]) -> None:
        """Calls the engine with each shot, and sends what it returns unless it sent something itself. Its exceptions are treated as
        the setting on_error says."""
        for shot in self:
            with shot:
                picture = engine(shot)
                if shot.sent is None:
                    shot.send(picture)

    def _next(self) -> Shot | None:
        """The next shot, once there is something to show; None when the loop ends."""
        while not self._stopping:
            self._apply(*self.changes.take())
            if self._stopping or not self._pace.may_run(self.settings.max_fps):
                continue
            self._unfinished.bound(self.settings.ahead)
            if self._links.input.take():
                break
            if self.settings.input.on_stale == "pause" and self._links.input.is_stale():
                self.counters.state = "paused"
        if self._stopping:
            self.counters.state = "stopped"
            return None
        return self._shot()

    def _shot(self) -> Shot:
        self._unfinished.begin()
        self._pace.started()
        self._links.take_controls()
        new, frames = self._links.input.new, self._links.input.frames
        meta = frames[-1].meta if frames else None
        if new or not frames:
            live = meta.get("live") if isinstance(meta, dict) else None
            self._of_frame = live if isinstance(live, dict) else {}
        params = {**self.settings.params, **self._of_frame}
        changed = params
        if self._last is not None and not self._rebuild:
            last = self._last
            changed = {} if params == last else {name: value for name, value in params.items() if name not in last or last[name] != value}
        self._number += 1
        self.counters.shots = self._number
        rebuild, self._rebuild, self._last, self._previewed = self._rebuild, False, params, False
        return Shot(self, self._number, dict(params), dict(changed), rebuild, meta, tuple([about.sequence for about in frames]), new)

    def _send(self, picture: Any) -> bool:
        settings, delay = self.settings, self.settings.engine.delay
        self._shown.append(self._links.input.frames)
        self._results += 1
        if self._results <= (delay if settings.engine.warm is None else settings.engine.warm):
            return False
        shown = self._shown[-1 - min(delay, len(self._shown) - 1)]
        range_ = settings.input.range if settings.output.range is None else settings.output.range
        sent = self._links.output.show(picture, shown, range_, self.size, settings.input.fit)
        if sent:
            self.counters.count_sent(sent)
            self._sent = shown
        return sent > 0

    def graph_fallback(self, why: str) -> None:
        """Says that the engine's CUDA graph could not be captured, so that it runs without: the state of the output is
        `ok/graph-fallback` until the next rebuild."""
        self._links.output.fall_back(why)

    def preview(self, image: Any) -> None:
        """Sends this picture, from 0 to 1, as what the network sees of a control, in place of the control's own image."""
        self._show_preview(image, (0.0, 1.0))

    def _show_preview(self, image: Any, range_: tuple[float, float]) -> None:
        if self._links.preview.wanted and not self._previewed and self._number % self.settings.preview.every == 0:
            self._previewed = True
            frames = self._links.input.frames
            self._links.preview.show(image, range_, frames[-1] if frames else None)

    def _finish(self, shot: Shot) -> None:
        of = self.settings.preview.of or next(iter(self._links.controls), "")
        control = self._links.controls.get(of)
        if control and control.taken_at is not None:
            self._show_preview(control.picture.tensor, control.settings["range"])
        shown, self._sent = self._sent, []
        self._unfinished.end([about.commit_ns for about in shown] if shot.sent and shot.new else ())
        if not shot.sent:
            self.counters.skipped += 1
        if not shot.failed:
            self._row = 0
            self.counters.state = "streaming"

    # ---- changes, and what fails ----

    def _apply(self, changes: Mapping[str, Any], commands: Sequence[tuple[Any, ...]]) -> None:
        new = self.settings.replace(changes, "change") if changes else self.settings
        for path in changes:
            self._of_frame.pop(path.removeprefix("params."), None)  # the later one wins
        for name, *_ in commands:
            if name == "stop":
                self._stopping = True
            elif name == "reload":
                new = self._reloaded(new)
            else:
                self._pace.command(name)
        if new is not self.settings:
            self._adopt(new)

    def _reloaded(self, now: Settings) -> Settings:
        """With what has changed in the file since it was read."""
        try:
            old, self._loaded = self._loaded, load(*self._loaded.source)
        except ConfigError as error:
            log.error("the settings stay as they were: %s", error)
            return now
        return rebased(now, old, self._loaded)

    def _record(self, error: Exception) -> None:
        log.error("shot %d: %s: %s", self._number, type(error).__name__, error, exc_info=error if self._row == 0 else None)
        counters = self.counters
        with counters.lock:
            counters.errors += 1
            counters.error, counters.error_at = f"shot {self._number}: {type(error).__name__}: {error}", time.time()
            counters.state = "error"

    def _goes_on(self, error: Exception) -> bool:
        """After an exception of the engine."""
        self._record(error)
        self._row += 1
        return bool(self.settings.on_error == "continue" and self._row < ROW)
