# SPDX-License-Identifier: MIT
"""Which channels there are, what is known of them, and what changes."""
import struct
import time

from . import _sluice
from ._checks import near
from ._info import _record
from ._structs import FORMAT_BYTES, formats, text

ENTRY = struct.Struct("@65s B 6x 2I")  # struct sluice_registry_entry, and so on
INFO = struct.Struct("@4I 65s 192s 32s 32s Q 8I 7Q 3q")  # up to its format
AFTER = struct.Struct("@16x Q q")  # the format
READER = struct.Struct("@2I 32s 6I Qq 3Q Qq 32s 96s 3Q 2I")
POLICIES, MODES = ("drop", "wait"), ("newest", "in_order")
MEMORY = ("unknown", "host", "cuda", "cuda_ipc")

ChannelEvent = _record(
    "ChannelEvent", "What watch() gives.",
    name="of the channel",
    live="True: it has a writer now; False: it has none any more",
)

ReaderInfo = _record(
    "ReaderInfo", "A reader, as its channel's writer sees it.",
    pid="its process", uid="its user", program="its name",
    mode="\"newest\" or \"in_order\"", depth="in_order: granted", hold="frames it may hold at once", every="each n-th frame",
    writable="True if it may change frames",
    held="frames held now", held_slots="a bit for each slot that it holds", held_ns="age of the oldest of them, in nanoseconds",
    taken="frames", missed="frames it did not get", lag="frames committed after the one taken last",
    latency_ns="nanoseconds from commit to take, of the last frame",
    joined_ns="when it joined, by time.monotonic_ns()",
    path="how frames reach it: \"mapped\", or on another GPU how", copy_reason="why anything is copied; \"\": nothing is",
    latency_total_ns="nanoseconds, of all frames", latency_max_ns="nanoseconds, the longest of the last one to two seconds",
    lease_mean_ns="nanoseconds from take to release, of the last few frames",
    ahead="True if its streams may wait for frames", parked="streams that wait now",
)

ChannelInfo = _record(
    "ChannelInfo", "What is known of a channel.",
    name="of the channel", folder="in which it lies",
    pid="of the writer", uid="of the writer", program="the writer's name",
    device="where its slots lie, as the writer calls it: \"host\", \"cuda:0\"", memory="how frames are shared: \"host\", \"cuda\", ...",
    wire_version="of the protocol",
    session="one life of a writer", generation="1, 2...; changes with the format",
    format="{name: Tensor or Image}: the channel's capacities",
    slots="there are now", max_slots="there may be", policy="\"drop\" or \"wait\"",
    readers="a ReaderInfo for each", max_readers="places for readers", writable="True if readers may ask for writable frames",
    committed="frames", dropped="frames that found no slot", stolen="unread frames of in-order readers that were overwritten",
    bytes="committed", evicted="readers", died="readers that were killed or crashed", refused="connections",
    opened_ns="when it was opened, by time.monotonic_ns()",
    last_commit_ns="when the last frame was committed, by time.monotonic_ns()", now_ns="when it answered, by time.monotonic_ns()",
    name_restored="how often its socket, lock or folder was removed, and the writer put it back",
    name_restored_ns="when it last did, by time.monotonic_ns(); 0: never",
)


def _entries(folder):
    return [(text(name), bool(live), pid) for name, live, _, pid in ENTRY.iter_unpack(_sluice._registry_list(folder))]


def channels(folder=None, /):
    """-> list of str

    The channels of a folder (None: this process's own) that have a writer. Raises AccessError for a folder that cannot be read."""
    return [name for name, live, _ in _entries(folder) if live]


def _reader(values):
    names = ("pid uid program mode depth hold every writable held held_slots held_ns taken missed lag latency_ns joined_ns path "
             "copy_reason latency_total_ns latency_max_ns lease_mean_ns ahead parked")
    found = dict(zip(names.split(), values))
    found.update(program=text(found["program"]), path=text(found["path"]), copy_reason=text(found["copy_reason"]),
                 mode=MODES[found["mode"] % 2], writable=bool(found["writable"]), ahead=bool(found["ahead"]))
    return ReaderInfo(**found)


def info(name, timeout=1.0):
    """-> ChannelInfo

    Asks a channel's writer: its format, counts and readers. This costs the channel nothing per frame. `timeout`: seconds to wait for
    the answer. Raises NotFoundError, Timeout if the writer does not answer (it is stopped), ChannelNameError."""
    if not isinstance(timeout, (int, float)) or not 0 < timeout <= 3600:
        raise ValueError(f"timeout is {timeout!r}: it must be seconds, more than 0 and at most 3,600")
    try:
        data, readers = _sluice._channel_info(name, timeout)
    except _sluice.NotFoundError as error:
        meant = near(name, channels())
        raise _sluice.NotFoundError(f'{error}{f"; did you mean {meant!r}?" if meant else ""}') from None
    names = ("pid uid wire_version name folder program device session generation slots max_slots policy readers max_readers writable "
             "memory committed dropped stolen bytes evicted died refused opened_ns last_commit_ns now_ns")
    found = dict(zip(names.split(), INFO.unpack_from(data)[1:]))
    found["name_restored"], found["name_restored_ns"] = AFTER.unpack_from(data, INFO.size + FORMAT_BYTES)
    found.update({each: text(found[each]) for each in ("name", "folder", "program", "device")})
    found.update(readers=tuple(map(_reader, READER.iter_unpack(readers))), policy=POLICIES[found["policy"] % 2],
                 memory=MEMORY[found["memory"] % 4], writable=bool(found["writable"]),
                 format=formats(data[INFO.size:INFO.size + FORMAT_BYTES]))
    return ChannelInfo(**found)


def watch(folder=None, timeout=None):
    """-> iterator of ChannelEvent

    First each channel of the folder (None: this process's own) that has a writer, then every one that gets a writer or loses it; a
    restart is both. Ends when nothing has changed for `timeout` seconds; None: never. Raises AccessError for a
    folder that cannot be read."""
    return _events(_sluice._watch_open(folder), folder, timeout)


def _events(watching, folder, timeout):
    known = {}
    while True:
        now = {name: pid for name, live, pid in _entries(folder) if live}
        for name in sorted(name for name in known if now.get(name) != known[name]):
            yield ChannelEvent(name, False)
        for name in sorted(name for name in now if now[name] != known.get(name)):
            yield ChannelEvent(name, True)
        known = now
        end = None if timeout is None else time.monotonic() + timeout
        while not _sluice._watch_next(watching):
            if end is not None and time.monotonic() >= end:
                return
