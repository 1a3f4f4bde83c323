# SPDX-License-Identifier: MIT
"""Asks for a reload when the file of the settings changes, or somebody says so."""
import logging
import os
import select
import threading
from typing import Any

from ._changes import Changes

LOG = logging.getLogger("sluice.live")
EVERY = 1.0  # s between two looks at the file


class Watch:
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
