# SPDX-License-Identifier: MIT
"""OSC, by python-osc: messages that arrive become changes and commands of the loop. What they mean is said by the dialects,
_osc_sluice.py and _osc_streamdiffusion.py. Nothing here calls CUDA."""
import errno
import faulthandler
import json
import logging
import math
import os
import socket
import sys
import threading
from typing import Any, Protocol

from ._changes import Changes
from ._counters import Counters
from ._settings import Settings

LOG = logging.getLogger("sluice.live")
LARGEST = 65536  # bytes of a datagram; python-osc reads 8,192
BUFFER = 4 << 20  # bytes that the kernel is asked to keep; it has its own limit
LEVELS = 8  # of bundles in bundles
REMEMBERED = 100  # addresses that are counted one by one
STOP = 10.0  # seconds that a loop has to end after /stop
TYPES = frozenset(b"ihfdsbrmtTFN")  # of arguments


class Running(Protocol):
    """What OSC and reports need of a live loop."""
    settings: Settings
    changes: Changes
    counters: Counters


class Asked:
    """What one datagram asks for."""

    def __init__(self, live: Running) -> None:
        self.settings = live.settings
        self.counters = live.counters
        self.changes: dict[str, Any] = {}
        self.commands: list[tuple[Any, ...]] = []
        self.replies: list[tuple[Any, ...]] = []  # address, values; to the program that asked
        self.notices: list[tuple[Any, ...]] = []  # to osc.send
        self.in_force = live.changes.values
        self._latest = live.changes.latest()

    def value(self, path: str, default: Any = None) -> Any:
        """A setting as the messages before this one want it."""
        return self.changes.get(path, self._latest.get(path, default))

    def status(self) -> str:
        return json.dumps(self.counters.snapshot())


def several(values: list[Any]) -> Any:
    """The values of a message as a parameter may have them: one, or a list."""
    for value in values:
        if not isinstance(value, (bool, int, float, str)) or isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"must be numbers and texts, not {value!r:.60}")
    if not values:
        raise ValueError("has no value")
    return values[0] if len(values) == 1 else values


def from_json(value: Any) -> Any:
    """What a message's JSON says."""
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number that is taken")

    def depth(part: Any) -> int:
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    if not isinstance(value, str):
        raise ValueError(f"must be JSON, not {value!r:.60}")
    try:
        parsed = json.loads(value, parse_constant=refuse)
        if depth(parsed) > 16:
            raise RecursionError
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    except RecursionError:
        raise ValueError("is JSON with too many lists in lists") from None
    return parsed


class Sender:
    """Sends messages to one address. It is no error that nobody listens there yet."""

    def __init__(self, address: tuple[str, int]) -> None:
        from pythonosc.udp_client import SimpleUDPClient
        try:
            self.address = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0][4][:2]
        except OSError as error:
            raise OSError(error.errno, f"osc.send: {address[0]}: {error.strerror}: write an IP address, or localhost") from None
        self._client = SimpleUDPClient(*self.address)

    def send(self, address: str, *values: Any) -> None:
        try:
            self._client.send_message(address, list(values))
        except Exception as error:  # of the socket, or of a text that cannot be UTF-8
            LOG.debug("osc: %s was not sent to %s:%d: %s", address, *self.address, error)

    def close(self) -> None:
        self._client.close()


class Osc:
    """The socket that is listened at, the one that is sent to, and their threads, as live.settings.osc says, until close(). OSError for
    an address that cannot be had, ImportError without python-osc."""

    def __init__(self, live: Running) -> None:
        wanted, self._live = live.settings.osc, live
        try:
            import pythonosc  # noqa: F401
        except ImportError:
            raise ImportError("osc needs the package python-osc: pip install python-osc, or remove osc.listen and osc.send") from None
        from ._osc_sluice import understand
        from ._osc_streamdiffusion import StreamDiffusionDialect, Telemetry
        self.sender = Sender(wanted.send) if wanted.send else None
        self._watchdog: threading.Timer | None = None
        self._server = _listen(wanted.listen, self.receive) if wanted.listen else None
        self.port: int | None = self._server.server_address[1] if self._server else None
        dialects = {"streamdiffusion": StreamDiffusionDialect().understand, "sluice": understand}
        self._dialects = [each for name, each in dialects.items() if wanted.dialect in (name, "both")]
        self._telemetry = Telemetry(live, self.sender) if self.sender and wanted.dialect != "sluice" else None
        if self._server:
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="sluice osc", daemon=True)
            self._thread.start()
            LOG.info("osc: listens at %s:%d, dialect %s", wanted.listen[0], self.port, wanted.dialect)

    def close(self) -> None:
        if self._watchdog:
            self._watchdog.cancel()
        if self._server:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
        if self._telemetry:
            self._telemetry.close()
        if self.sender:
            self.sender.close()

    def receive(self, datagram: bytes, asker: tuple[Any, ...]) -> None:
        """Takes a datagram as one: all that it changes, it changes before the same shot."""
        asked = Asked(self._live)
        try:
            messages = _messages(datagram)
        except Exception as error:  # python-osc raises whatever it meets
            self._ignore("malformed datagrams", f"{len(datagram)} bytes from {asker[0]}:{asker[1]}: {error}")
            return
        for message in messages:
            try:
                if not any(understand(message.address, list(message), asked) for understand in self._dialects):
                    raise ValueError("unknown address")
            except Exception as error:
                self._ignore(message.address, str(error) or type(error).__name__)
        self._live.changes.put(asked.changes, asked.commands)
        if ("stop",) in asked.commands:
            self._watch()
        for reply in asked.replies:
            self._reply(reply, asker)
            if reply[0] == "/status" and self.sender and self.sender.address != asker[:2]:
                asked.notices.append(reply)  # StreamDiffusionTD asks from another port than it listens at
        for notice in asked.notices:
            if self.sender:
                self.sender.send(*notice)

    def _reply(self, reply: tuple[Any, ...], asker: tuple[Any, ...]) -> None:
        from pythonosc.osc_message_builder import build_msg
        assert self._server
        try:
            self._server.socket.sendto(build_msg(reply[0], list(reply[1:])).dgram, asker)
        except OSError as error:  # longer than a datagram, or nobody is there any more
            LOG.debug("osc: %s was not sent to %s:%d: %s", reply[0], *asker[:2], error)

    def _ignore(self, address: str, why: str) -> None:
        name = "".join(each if each.isprintable() else "?" for each in address[:80])
        counters = self._live.counters
        with counters.lock:
            if name not in counters.ignored and len(counters.ignored) >= REMEMBERED:
                name, why = "others", f"{name}: {why}"
            counters.ignored[name] = times = counters.ignored.get(name, 0) + 1
        if times == 1:
            LOG.warning("osc: %s: %s; ignored, and counted in the status from now on", name, why)

    def _watch(self) -> None:
        if not self._watchdog:
            self._watchdog = threading.Timer(STOP, self._hung)
            self._watchdog.daemon = True
            self._watchdog.start()

    def _hung(self) -> None:
        if self._live.counters.state != "stopped":
            LOG.critical("osc: the loop has not ended %g s after /stop; the process ends now, with what its threads did:", STOP)
            faulthandler.dump_traceback(sys.__stderr__ or 2)
            os._exit(1)


def cannot_listen(setting: str, address: tuple[str, int], ss: str, error: OSError) -> OSError:
    """The error, with the setting and the fix. `ss`: options for the command ss, which shows which program uses the port."""
    host, port = address
    fix = "write an address of this machine"
    if error.errno == errno.EADDRINUSE:
        fix = f"end the program that has it (ss {ss} 'sport = :{port}' names it), or set {setting} to another port"
    return OSError(error.errno, f"{setting}: {host}:{port}: {error.strerror}: {fix}")


def _listen(address: tuple[str, int], receive: Any) -> Any:
    """python-osc's server, which hands over each datagram as it is."""
    from pythonosc.dispatcher import Dispatcher
    from pythonosc.osc_server import OSCUDPServer

    class _Server(OSCUDPServer):
        max_packet_size = LARGEST

        def server_bind(self) -> None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            super().server_bind()

        def verify_request(self, request: Any, client_address: Any) -> bool:
            return True  # python-osc drops in silence what does not begin as OSC

        def finish_request(self, request: Any, client_address: Any) -> None:
            receive(request[0], client_address)

        def handle_error(self, request: Any, client_address: Any) -> None:
            LOG.exception("osc: a datagram from %s:%d", *client_address[:2])

    try:
        return _Server(address, Dispatcher())
    except OSError as error:
        raise cannot_listen("osc.listen", address, "-lunp", error) from None


def _messages(datagram: bytes) -> list[Any]:
    from pythonosc.osc_packet import OscPacket
    _check(datagram, LEVELS)
    return [timed.message for timed in OscPacket(datagram).messages]


def _check(packet: bytes, levels: int) -> None:
    """Raises ValueError for a packet that python-osc never finishes reading (sizes below 0), or silently skips (unknown types)."""
    if packet.startswith(b"/"):
        _, end, rest = packet.partition(b"\0")
        tags = rest[-(len(packet) - len(rest)) % 4:].partition(b"\0")[0]
        if not end or not TYPES.issuperset(tags[1:]):
            raise ValueError("an argument of a type that is not taken" if end else "an address without end")
        return
    if not packet.startswith(b"#bundle\0") or len(packet) < 16 or not levels:
        raise ValueError("too many bundles in bundles" if not levels else "neither a message nor a bundle")
    at = 16
    while at < len(packet):
        size, at = int.from_bytes(packet[at: at + 4], "big", signed=True), at + 4
        if not 0 < size <= len(packet) - at:
            raise ValueError(f"a bundle's element of {size} bytes, where {max(0, len(packet) - at)} are left")
        _check(packet[at: at + size], levels - 1)
        at += size
