# SPDX-License-Identifier: MIT
"""A channel that is read for one size of picture."""
import time

import sluice


class NothingCame(RuntimeError):
    """No frame in time."""


def newest(channel):
    """The session and sequence of the channel's newest frame, without taking it; None if the channel has no writer."""
    try:
        if channel.startswith("cipd:"):
            found = sluice.cipd_look(channel)
            return (found.version, found.index) if found.state in ("running", "stalled") else None
        found = sluice.info(channel)
        return found.session, found.committed
    except sluice.NotFoundError:
        return None


class Source:
    """ComfyUI keeps a node's result under a token that IS_CHANGED returned before the node ran. By the time it runs, the newest frame may
    be a later one: then the token stays that frame's for as long as it is the newest, and it does not cost a second run."""

    def __init__(self, channel):
        self.channel = channel
        self.reader = sluice.Reader(channel, wait=None, cipd={"undeclared": "bgra"} if channel.startswith("cipd:") else None)
        self.looks = False  # IS_CHANGED is called: not where ComfyUI keeps no results
        self.token = None  # of the last look; None: no writer
        self.picture = None  # what was made of the frame that was taken last
        self.taken = None  # that frame's session and sequence
        self.under = None  # its token

    def is_changed(self):
        """The token of the newest frame, or None: the channel has no writer."""
        self.looks = True
        return self._look()

    def get(self, timeout, may_repeat, read):
        """read(frame) of the newest frame, or what it returned before if that is still the newest. `may_repeat`: also if the channel has
        no writer or no frame any more."""
        if not self.looks:
            self._look()
        if self.picture is not None and self.token == self.under:
            return self.picture
        may_repeat = may_repeat and self.picture is not None
        try:
            with self._next(0 if may_repeat and self.token is None else timeout) as frame:
                self.picture = read(frame)
                self.taken = self._session_of(frame), frame.sequence
        except NothingCame:
            if not may_repeat:
                raise
        self.under = self.token or "{}:{}".format(*self.taken)
        return self.picture

    def _look(self):
        try:
            found = newest(self.channel)
        except sluice.Timeout:  # its writer is stopped, and sends nothing
            found = self.taken
        self.token = found and (self.under if found == self.taken else "{}:{}".format(*found))
        return self.token

    def _session_of(self, frame):
        return self.reader.cipd_info().version if self.channel.startswith("cipd:") else frame.session

    def _next(self, timeout):
        end = time.monotonic() + timeout
        while True:
            try:
                return self.reader.next(timeout=max(0, end - time.monotonic()))
            except sluice.NoWriter:
                self._is_missing(timeout)
            except sluice.Closed:  # a channel that was closed may be opened again
                if time.monotonic() >= end:
                    self._is_missing(timeout)
                time.sleep(0.01)
            except sluice.Timeout:
                raise NothingCame(f"Sluice In: channel '{self.channel}' has a writer, but it sent no frame for {timeout:g} s: make it "
                                  "send one, or raise `timeout`") from None

    def _is_missing(self, timeout):
        others = ", ".join(sorted(sluice.channels())) or "none"
        raise NothingCame(f"Sluice In: channel '{self.channel}' has no writer, also not after {timeout:g} s. Channels with a writer: "
                          f"{others}. Start its writer, or correct `channel`") from None

    def close(self):
        self.picture = None
        self.reader.close()
