# SPDX-License-Identifier: MIT
"""Changes that other threads ask for, and that the loop makes between shots."""
import os
import select
import threading
from collections.abc import Iterable, Mapping
from typing import Any

EVERY = 1.0  # s between two looks at the file of the settings


class Changes:
    """A mailbox between OSC, reloads and metadata on one side, and the loop on the other. Any thread may call anything."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._changes: dict[str, Any] = {}
        self._commands: list[tuple[Any, ...]] = []
        self._taken: dict[str, Any] = {}  # and not published yet
        self._values: dict[str, Any] = {}

    def put(self, changes: Mapping[str, Any], commands: Iterable[tuple[Any, ...]] = ()) -> None:
        """Asks for these values of settings, by path (`params.seed`, `controls.canny.scale`), all before the same shot, and for
        commands with them. The last value of a path wins. They must have been checked."""
        with self._lock:
            for path, value in changes.items():
                self._changes.pop(path, None)  # the later one goes to the end
                self._changes[path] = value
            self._commands.extend(commands)
            self._arrived.notify_all()

    def command(self, name: str, *args: Any) -> None:
        """Asks for something to be done once: stop, pause, play, process_frame, frame_ack, reload."""
        self.put({}, [(name, *args)])

    def take(self) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
        """The changes and commands since the last call."""
        if not self._changes and not self._commands:
            return {}, []
        with self._lock:
            taken = self._changes, self._commands
            self._taken.update(self._changes)
            self._changes, self._commands = {}, []
            return taken

    def wait(self, seconds: float) -> bool:
        """Waits until there is something to take; False if there is nothing after `seconds`."""
        with self._lock:
            return self._arrived.wait_for(lambda: bool(self._changes or self._commands), seconds)

    def publish(self, values: Mapping[str, Any]) -> None:
        """Makes the values that are in force now known to those that read them back. Called after each take() that had changes."""
        with self._lock:
            self._values, self._taken = dict(values), {}

    def values(self) -> dict[str, Any]:
        """The settings in force, by path; parameters as params.NAME."""
        with self._lock:
            return dict(self._values)

    def latest(self) -> dict[str, Any]:
        """values() with what was asked for since: what the next change is relative to."""
        with self._lock:
            return {**self._values, **self._taken, **self._changes}


class Watch:
    """Asks for a reload when the file of the settings changes, or somebody says so."""

    def __init__(self, path: "str | os.PathLike[str]", changes: Changes) -> None:
        self._path, self._changes = os.fspath(path), changes
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._last = self._look()
        self._thread = threading.Thread(target=self._run, name="sluice reload", daemon=True)
        self._thread.start()

    def ask(self, *_: Any) -> None:
        """Reloads whether or not the file has changed. A handler of a signal may call it: it takes no lock."""
        try:
            os.write(self._write, b"r")
        except BlockingIOError:
            pass  # it has been asked for often enough

    def close(self) -> None:
        if self._thread.is_alive():
            self._write, write = -1, self._write
            os.close(write)
            self._thread.join()
            os.close(self._read)

    def _look(self) -> tuple[int, ...] | None:
        try:
            state = os.stat(self._path)
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size, state.st_ino

    def _run(self) -> None:
        while True:
            ready = select.select([self._read], [], [], EVERY)[0]
            asked = os.read(self._read, 4096) if ready else b""
            if ready and not asked:
                return
            now = self._look()
            if asked or now not in (None, self._last):  # between two files of this name there is none
                self._changes.command("reload")
            self._last = now or self._last
