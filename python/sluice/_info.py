# SPDX-License-Identifier: MIT
"""What readers and writers count, and what is known of a channel of cuda-link: named tuples with the names of C's structs."""
import collections
import struct

from . import _sluice
from ._params import ORDERS
from ._structs import dtype_text, text

STATES = ("absent", "unfinished", "running", "stalled", "shut")


def _record(name, doc, /, **fields):
    """A named tuple whose fields have docs."""
    make = collections.namedtuple  # by this name, or mypy looks for a class in this function
    made = make(name, fields, module="sluice")
    made.__doc__ = doc
    for field, text in fields.items():
        getattr(made, field).__doc__ = text
    plain = made.__repr__
    made.__repr__ = lambda self: "sluice." + plain(self)
    return made


ReaderStats = _record(
    "ReaderStats", "What a reader counts.",
    connected="True while a writer is there",
    session="of the writer connected now or last",
    taken="frames",
    missed="frames it did not get",
    retries="frames that the writer overwrote while they were being taken",
    sessions="writers met",
    held="frames held now; on a GPU also those whose release is queued, until the stream has reached it and the reader has asked "
         "for a frame again",
    depth="granted",
    hold="granted: frames it may hold at once",
    lag="frames committed after the one taken last",
    latency_ns="nanoseconds from commit to take, of the frame taken last",
    lost="frames that their writer never finished, or whose memory it freed",
)

WriterStats = _record(
    "WriterStats", "What a writer counts.",
    readers="connected now",
    session="of this writer",
    committed="frames",
    dropped="frames that found no slot",
    cancelled="frames",
    stolen="unread frames overwritten because a reader in order was more than its depth behind",
    bytes="committed",
    copied_bytes="by send",
    waited_ns="nanoseconds, for slots",
    slots="of this generation",
    generation="1, 2...",
    evicted="readers",
    readers_total="that ever joined",
    readers_died="that were killed or crashed",
    refused="connections",
    graph_sends="frames that were sent by a graph (not of a Writer(graph=False))",
    name_restored="how often the channel's socket, lock or folder was removed, and the writer put it back",
    name_lost="1: it could not put it back, and the log says why: new readers do not find the channel",
)

CipdSlot = _record(
    "CipdSlot", "What is known of a slot of a \"cipd:\" channel.",
    memory_open="True if it is mapped here; of cipd_look(): if the segment has a handle of its memory",
    event_open="True if it has an event that is used here; of cipd_look(): a handle of one. False: its frames are finished when "
               "they are published",
    frames="taken from it, or published in it",
    last_wait_ns="nanoseconds that its event was waited for at the last frame",
    address="on the GPU; 0: not mapped",
)

CipdInfo = _record(
    "CipdInfo", "What is known of a \"cipd:\" channel; fields that only a writer or a reader knows are 0 for others.",
    state="\"running\"; \"absent\": no segment, or its writer is known to be dead; \"unfinished\": it is being filled in, or "
          "invalid;\n\"stalled\": no frame for stall_ns, or the segment has lost its name; \"shut\": its writer has closed it",
    name="of the channel, without \"cipd:\"",
    why="a message about a state other than \"running\", else \"\"",
    version="the wire's number of the session",
    index="the wire's count of frames published in it",
    slot_count="slots of this session",
    width="of a frame",
    height="of a frame",
    components="of each pixel",
    flags="as they are on the wire",
    dtype="data type; None as long as there is none",
    frame_bytes="of one frame",
    order="of four uint8, as the reader's parameters decide it: \"rgba\", \"bgra\", \"unknown\"",
    order_declared="True if the wire says so",
    mono_alpha="True if two components are mono and alpha",
    writer_pid="process of the writer; 0: not known, as only Sluice's writers tell",
    segment_bytes="of shared memory",
    by_sluice="True if a writer of Sluice's made this session",
    last_frame_ns="when the last frame was published, by time.monotonic_ns(); 0: not known",
    published="frames, by this writer; a reader has 0, as in all up to left_behind",
    published_bytes="in these frames",
    barrier_skips="frames not published because of an activation barrier",
    failed="frames not published because of a failure",
    graph_frames="frames published by a graph",
    relinked="how often another program unlinked the segment's name, and it was restored",
    holds_barrier="True while this writer holds the activation barrier",
    left_behind="slots whose memory could not be freed in time, at changes of format",
    taken="frames, by this reader; a writer has 0, as in all that follow but slots",
    no_frame="calls for a frame that found none",
    timeouts="frames that were not finished in time",
    reconnects="sessions after the first",
    overruns="frames that the writer may have rewritten while they were held, or before they were ready",
    repeated="copies that were torn, and tried again",
    dropped="frames published and not taken",
    spin_hits="frames whose event was seen while spinning",
    latency_ns="nanoseconds from publish to take, of the frame taken last",
    latency_total_ns="nanoseconds, of all frames taken",
    slots="a CipdSlot for each slot",
)


READER_STATS = struct.Struct("@2I 5Q 2I QqQQ 3I")  # struct sluice_reader_stats, and so on
WRITER_STATS = struct.Struct("@2I 8Q 2I 5Q 2I")
CIPD = struct.Struct("@2I 256s 256s Q 6I 2BH 7I q 6Q 2I 10Q")
CIPD_SLOT = struct.Struct("@2I QqQ 16x")
FLAGS = ("order_declared", "mono_alpha", "by_sluice", "holds_barrier")


def reader_stats(data):
    """(ReaderStats, number of slots)"""
    values = dict(zip("connected session taken missed retries sessions held depth lag clock_offset_ns latency_ns lost slots generation "
                      "hold".split(),
                      READER_STATS.unpack_from(data)[1:]))
    values["connected"] = bool(values["connected"])
    return ReaderStats(**{name: values[name] for name in ReaderStats._fields}), values["slots"]


def writer_stats(data):
    return WriterStats._make(WRITER_STATS.unpack(data)[1:])


def _cipd_slot(data, number):
    memory_open, event_open, *rest = CIPD_SLOT.unpack_from(data, CIPD.size + number * CIPD_SLOT.size)
    return CipdSlot(bool(memory_open), bool(event_open), *rest)


def cipd_info(data):
    """The CipdInfo of a struct sluice_cipd_info."""
    _, state, name, why, *middle = CIPD.unpack_from(data)
    dtype = dtype_text(*middle[7:10]) if middle[3] else None
    middle[7:10] = dtype,
    slots = tuple(_cipd_slot(data, number) for number in range(min(middle[2], 10)))
    made = CipdInfo(STATES[state] if state < len(STATES) else "unknown", text(name), text(why), *middle, slots)
    order = ORDERS[made.order] if made.order < len(ORDERS) else "unknown"
    return made._replace(order=order, **{name: bool(getattr(made, name)) for name in FLAGS})


def cipd_look(name):
    """The same as a reader's cipd_info(), from the segment alone, without a GPU: "cipd:NAME" or NAME. Raises NotFoundError,
    AccessError, ChannelNameError."""
    return cipd_info(_sluice._cipd_look(name))
