# SPDX-License-Identifier: MIT
"""Changes that other threads ask for, and that the loop makes between shots."""
import threading
from collections.abc import Iterable, Mapping
from typing import Any


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
