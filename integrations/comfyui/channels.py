# SPDX-License-Identifier: MIT
"""Channels stay open from one prompt to the next. One that is not used for a while is closed."""
import contextlib
import threading
import time

KEEP = 30.0  # s


class _Entry:
    def __init__(self, opened):
        self.opened = opened
        self.lock = threading.Lock()  # one prompt at a time uses it
        self.users = 0
        self.used = time.monotonic()


class Channels:
    """What is open, by key: whatever open_() returned, which has close()."""

    def __init__(self, keep=KEEP):
        self.keep = keep
        self._entries = {}
        self._lock = threading.Lock()
        self._timer = None

    @contextlib.contextmanager
    def use(self, key, open_):
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(open_())
            entry.users += 1
        try:
            with entry.lock:
                yield entry.opened
        finally:
            with self._lock:
                entry.users -= 1
                entry.used = time.monotonic()
                self._look_later()

    def keys(self):
        with self._lock:
            return list(self._entries)

    def close(self, which):
        """Closes those for whose key which(key) is true, and that nothing uses now."""
        with self._lock:
            self._close(lambda key, _: which(key))

    def close_unused(self, now=None):
        now = time.monotonic() if now is None else now
        with self._lock:
            self._close(lambda _, entry: now - entry.used >= self.keep)

    def _close(self, which):
        for key, entry in list(self._entries.items()):
            if not entry.users and which(key, entry):
                del self._entries[key]
                entry.opened.close()

    def _look_later(self):
        """With the lock: looks again when the first of them may be due."""
        if self._timer is None and self._entries:
            self._timer = threading.Timer(self.keep / 2, self._look)
            self._timer.daemon = True
            self._timer.start()

    def _look(self):
        self.close_unused()
        with self._lock:
            self._timer = None
            self._look_later()
