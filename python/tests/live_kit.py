# SPDX-License-Identifier: MIT
"""What OSC and reports of a live loop are tested with: a loop that only keeps what it is asked for, and an OSC peer."""
import logging
import queue
import socket
import threading

import pytest

from eventually import SECONDS


class Loop:
    """The three things that OSC and reports need of a loop, and its thread, which takes changes as the session does."""

    def __init__(self, **wanted):
        from sluice.live._changes import Changes
        from sluice.live._config import load
        from sluice.live._counters import Counters
        self.settings = load({"params": {"prompt": "a cat", "seed": 2, "strength": 0.5, "tiled": False, "style": {"19": 1.0}},
                              "input": "camera", "controls": {"canny": "edges", "depth": "far"}, "output": "painted", **wanted}, environ={})
        self.changes, self.counters = Changes(), Counters()
        self.values = {path: value for path, value in self.settings.flat.items() if path != "params"}
        self.values.update({f"params.{name}": value for name, value in self.settings.params.items()})
        self.changes.publish(self.values)
        self.commands, self.shots = [], []

    def step(self):
        """What the loop does before a shot."""
        changes, commands = self.changes.take()
        self.values.update(changes)
        self.commands += commands
        self.shots.append(changes)
        self.changes.publish(self.values)
        return changes

    def next_step(self):
        assert self.changes.wait(SECONDS), "nothing was asked for"
        return self.step()

    def control(self, name):
        return self.values[f"controls.{name}.enabled"], self.values[f"controls.{name}.scale"]


class Peer:
    """Sends OSC by python-osc, and receives it."""

    def __init__(self, port=None):
        from pythonosc.osc_message import OscMessage
        self._parse = OscMessage
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        self.to = ("127.0.0.1", port)
        self.got = queue.Queue()
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _receive(self):
        while data := self.socket.recv(65536):
            message = self._parse(data)
            self.got.put((message.address, *message))

    def send(self, address, *values):
        from pythonosc.osc_message_builder import build_msg
        self.raw(build_msg(address, list(values)).dgram)

    def bundle(self, *messages):
        from pythonosc.osc_bundle_builder import IMMEDIATELY, OscBundleBuilder
        from pythonosc.osc_message_builder import build_msg
        builder = OscBundleBuilder(IMMEDIATELY)
        for address, *values in messages:
            builder.add_content(build_msg(address, values))
        self.raw(builder.build().dgram)

    def raw(self, data):
        self.socket.sendto(data, self.to)

    def read(self, *addresses):
        """The next message of one of these addresses; others are left out."""
        while True:
            message = self.got.get(timeout=SECONDS)
            if message[0] in addresses:
                return message

    def close(self):
        self.socket.sendto(b"", self.address)
        self._thread.join(SECONDS)
        self.socket.close()


class Log(logging.Handler):
    """The records of sluice.live."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    def of(self, level):
        return [record.getMessage() for record in list(self.records) if record.levelno == level]


@pytest.fixture
def log():
    handler, logger = Log(), logging.getLogger("sluice.live")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)
