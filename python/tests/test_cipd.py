# SPDX-License-Identifier: MIT
"""What channels of cuda-link's protocol have besides: the parameters of Reader and Writer, and what cipd_info() knows."""
import os
import pathlib
import re
import threading
import time
import types

import numpy as np
import pytest

import sluice
from eventually import wait_until
from test_gil import others_run, shown

CHANNEL = f"sluice-test-{os.getpid()}-cipd"
NAME = f"cipd:{CHANNEL}"
SHAPE = (4, 6, 4)
HEADER = pathlib.Path(__file__).parents[2] / "include" / "sluice" / "cipd.h"
FLAG, SWITCH = ([3, "yes", 1], TypeError), ([3, "on", 0], TypeError)
TIME = ([-2, 1 << 63], ValueError)
READER = {"undeclared": (["rgb", "RGBA"], ValueError), "pair": (["alpha"], ValueError), "copy": FLAG, "reconnect": SWITCH,
          "ahead": SWITCH, "wait_spin_ns": TIME, "wait_ns": ([-1, 1 << 64], ValueError), "stall_ns": TIME}
WRITER = {"block": FLAG, "graph": SWITCH, "order": (["argb"], ValueError), "mono_alpha": FLAG,
          "flags": ([-1, 1 << 32], ValueError), "barrier": SWITCH, "holds_barrier": FLAG, "settle_frames": ([-1, 1 << 32], ValueError),
          "strict_device": FLAG, "priority": SWITCH, "doorbell": SWITCH, "barrier_stale_ns": ([-1], ValueError),
          "barrier_name": (["a\0b"], ValueError), "close_grace_ns": TIME}
WORDS = {"undeclared", "order", "pair", "barrier_name"}


@pytest.fixture
def write(gpu):
    """Opens writers, which the test's end closes."""
    writers = []

    def write(shape=SHAPE, name=NAME, format=None, **cipd):
        kind = {"format": format} if format else {"shape": shape}
        writers.append(sluice.Writer(name, device=gpu.device, cipd=cipd, **kind))
        return writers[-1]

    yield write
    gpu.open_gates()
    for writer in writers:
        writer.close()


def send(writer, *values):
    for value in values:
        writer.send(np.full(writer.format["data"].shape, value, np.uint8))


def fields_of(struct):
    """Of the header: the fields in their order, but its size and what is reserved."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    body = re.search(rf"struct {struct} {{(.*?)}};", text, re.DOTALL)[1]
    names = [name.split()[-1].strip("*") for line in re.sub(r"\[.*?\]", "", body).split(";") if line.strip()
             for name in line.split(",")]
    return [name for name in names if name not in ("size", "reserved")]


# ---- names and values ----

def test_names_are_those_of_c():
    assert list(READER) == fields_of("sluice_cipd_reader_params")
    assert list(WRITER) == fields_of("sluice_cipd_writer_params")
    for kind, struct in ((sluice.CipdInfo, "sluice_cipd_info"), (sluice.CipdSlot, "sluice_cipd_slot_info")):
        assert list(kind._fields) == fields_of(struct)


def refused(owner, error, given, *words):
    """It is so before anything is opened: there is no such channel, and no such GPU."""
    with pytest.raises(error) as caught:
        owner(NAME, cipd=given) if owner is sluice.Reader else owner(NAME, shape=SHAPE, device="cuda:99", cipd=given)
    for word in (owner.__name__, *words):
        assert word in str(caught.value), caught.value


@pytest.mark.parametrize("owner, name", [(sluice.Reader, name) for name in READER] + [(sluice.Writer, name) for name in WRITER])
def test_wrong_values_are_errors_that_name_them(owner, name):
    values, error = (READER if owner is sluice.Reader else WRITER)[name]
    for value in values:
        refused(owner, error, {name: value}, f'"{name}"', repr(value))
    for value in (1.5, [], b"rgba", *(() if name in WORDS else ("1",))):
        refused(owner, TypeError, {name: value}, f'"{name}"', repr(value))
    with pytest.raises(sluice.Error):  # None is the default: it gets as far as the channel
        owner(NAME, cipd={name: None}) if owner is sluice.Reader else owner(NAME, shape=SHAPE, device="cuda:99", cipd={name: None})


@pytest.mark.parametrize("owner, other", [(sluice.Reader, "block"), (sluice.Writer, "undeclared")])
def test_wrong_names_are_errors_that_name_them(owner, other):
    for wrong in ("copies", other, 3, None, b"copy"):
        refused(owner, TypeError, {wrong: True}, repr(wrong), "there are " + ", ".join(READER if owner is sluice.Reader else WRITER))
    for wrong in (3, "copy", b"", ["copy"], ("copy", True), {"copy"}, [("copy", True)]):
        refused(owner, TypeError, wrong, "mapping", repr(wrong))

    class Bad(dict):
        def items(self):
            return [("copy",)]

    with pytest.raises(TypeError):
        owner(NAME, cipd=Bad()) if owner is sluice.Reader else owner(NAME, shape=SHAPE, cipd=Bad())


def test_what_the_library_refuses_it_names():
    for flags in (1, 4, 0x10000):
        with pytest.raises(ValueError, match=f"flags 0x{flags:x}"):
            sluice.Writer(NAME, shape=SHAPE, device="cuda:0", cipd={"flags": flags})


@pytest.mark.linux("channels of Sluice's own")
def test_other_channels_have_none_of_it():
    with pytest.raises(sluice.InvalidError, match="cipd"):
        sluice.Writer("camera", shape=SHAPE, cipd={})
    with sluice.Writer("camera", shape=SHAPE) as writer:
        with pytest.raises(sluice.InvalidError, match="cipd"):
            sluice.Reader("camera", cipd={})
        with sluice.Reader("camera") as reader:
            for each in (reader, writer):
                with pytest.raises(sluice.UnsupportedError):
                    each.cipd_info()
    for each in (reader, writer):
        with pytest.raises(sluice.ClosedError):
            each.cipd_info()


# ---- what they do ----

def test_info_of_both_sides(gpu, write):
    clock = time.perf_counter_ns if os.name == "nt" else time.monotonic_ns  # the other one has Windows' ticks
    writer, began = write(), clock()
    with sluice.Reader(NAME, cipd=types.MappingProxyType({"undeclared": "rgba"})) as reader:
        send(writer, 1)
        reader.next(timeout=60).release()
        send(writer, 2, 3)
        gpu.call("CtxSynchronize")  # else the frame before may be what is finished
        with reader.next(timeout=60):
            found = reader.cipd_info()
        assert found.name == CHANNEL and found.state == "running" and found.why == "" and found.index == 3
        assert (found.height, found.width, found.components, found.frame_bytes) == (4, 6, 4, 96) and found.dtype == "uint8"
        assert (found.taken, found.dropped, found.published) == (2, 1, 0) and found.timeouts == found.overruns == 0
        assert 0 < found.latency_ns < found.latency_total_ns and began < found.last_frame_ns < clock()
        assert found.order == "rgba" and found.order_declared is False and found.by_sluice is True
        assert found.writer_pid == os.getpid() and found.segment_bytes == 4096
        assert found.slot_count == len(found.slots) == 3 and [slot.frames for slot in found.slots] == [1, 0, 1]
        assert all(slot.memory_open is True and slot.event_open is True and slot.address for slot in found.slots)
        assert len({slot.address for slot in found.slots}) == 3
        own = writer.cipd_info()
        assert own.published == 3 and own.published_bytes == 288 and own.taken == 0 and own.version == found.version
        assert [slot.frames for slot in own.slots] == [1, 1, 1] and own.holds_barrier is False
        look = sluice.cipd_look(NAME)
        assert look == sluice.cipd_look(CHANNEL) and (look.index, look.taken, look.published) == (3, 0, 0)
        assert [slot.memory_open for slot in look.slots] == [True] * 3
        writer.close()
        with pytest.raises(sluice.Closed):
            reader.next(timeout=60)
        assert reader.cipd_info().state in ("shut", "absent") and reader.cipd_info().why
    with pytest.raises(sluice.NotFoundError):
        sluice.cipd_look(NAME)


@pytest.mark.parametrize("undeclared, declared, order", [("bgra", None, "bgra"), (None, None, "unknown"), ("rgba", "bgra", "bgra")])
def test_the_order_of_four_bytes(write, undeclared, declared, order):
    writer = write(order=declared)
    send(writer, 1)
    with sluice.Reader(NAME, cipd={"undeclared": undeclared}) as reader:
        kind = next(iter(reader.format.values()))
        assert kind.pixel_format == order if order != "unknown" else isinstance(kind, sluice.Tensor)
        found = reader.cipd_info()
        assert (found.order, found.order_declared, found.flags) == (order, declared is not None, 4 if declared else 0)


@pytest.mark.parametrize("pair, means", [(None, True), ("as_flagged", True), ("mono_alpha", True), ("red_green", False)])
def test_two_components(write, pair, means):
    writer = write((4, 6, 2), mono_alpha=True, flags=0x10)
    send(writer, 1)
    with sluice.Reader(NAME, cipd={"pair": pair}) as reader:
        found = reader.cipd_info()
        assert found.flags == 0x12 and found.mono_alpha is means


def test_copies_are_not_overwritten(write):
    writer = write()
    with sluice.Reader(NAME, cipd={"copy": True}) as reader:
        send(writer, 1)
        with reader.next(timeout=60) as frame:
            assert frame[0].address not in [slot.address for slot in reader.cipd_info().slots]
            send(writer, 2, 3, 4, 5)
            assert (frame.numpy() == 1).all()
        assert reader.cipd_info().overruns == 0


def test_a_reader_that_does_not_reconnect(write):
    writer = write()
    with sluice.Reader(NAME, cipd={"reconnect": False}) as once, sluice.Reader(NAME) as usual:
        send(writer, 1)
        for reader in (once, usual):
            reader.next(timeout=60).release()
        writer.close()
        with pytest.raises(sluice.Closed):
            once.next(timeout=60)
        send(write(), 2)
        wait_until(lambda: next_of(usual))
        with pytest.raises(sluice.Closed):
            once.next(timeout=60)
        assert usual.cipd_info().reconnects == 1 and once.cipd_info().reconnects == 0


def next_of(reader):
    try:
        reader.next(timeout=0.1).release()
    except (sluice.Closed, TimeoutError):
        return False
    return True


def publish_gated(gpu, writer):
    stream = gpu.stream()
    with writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device)):
        gpu.gate(stream)


def test_a_frame_that_is_not_finished_in_time(gpu, write):
    writer = write()
    with sluice.Reader(NAME, cipd={"wait_ns": 50_000_000, "stall_ns": 1_000_000}) as reader:
        send(writer, 1)
        reader.next(timeout=60).release()
        publish_gated(gpu, writer)
        with pytest.raises(sluice.LostError):
            reader.next(timeout=60)
        found = reader.cipd_info()
        assert found.timeouts == 1 and found.state == "stalled" and found.why


@pytest.mark.parametrize("spin, hits", [(-1, 0), (60_000_000_000, 1)])
def test_who_spins_for_a_frame(gpu, write, spin, hits):
    def attempt():
        before = reader.cipd_info().spin_hits
        publish_gated(gpu, writer)
        assert reader.latest() is None  # it has seen it, and it is not finished
        threading.Timer(0.13, gpu.open_gates).start()  # amid a wait: next() waits for 50 ms at a time
        with reader.next(timeout=60) as frame:
            found = reader.cipd_info()  # on a busy machine it may be finished before it was waited for
            return found.slots[frame.slot].last_wait_ns > 0 and found.spin_hits - before == hits

    writer = write()
    with sluice.Reader(NAME, cipd={"wait_spin_ns": spin, "wait_ns": 60_000_000_000}) as reader:
        assert shown(attempt)


def test_a_stream_waits_for_a_frame_that_is_not_ready(gpu, write):
    writer, stream = write(), sluice.Stream(gpu.device)
    with sluice.Reader(NAME, ahead_timeout=60, cipd={"ahead": True}) as reader:
        publish_gated(gpu, writer)
        with pytest.raises(sluice.InvalidError, match="ahead"):
            reader.next(timeout=60)  # as with ahead=True it takes a stream
        with reader.next(timeout=60, stream=stream):
            assert not stream.query()
            gpu.open_gates()
    with sluice.Reader(NAME, ahead=True, cipd={"ahead": False}) as reader:
        send(writer, 1)
        reader.next(timeout=60).release()


def test_a_writer_that_blocks(gpu, write):
    """And other threads run meanwhile."""
    def attempt():
        writer, stream, seen = write(name=f"{NAME}-{len(attempts)}", block=True), gpu.stream(), []
        attempts.append(writer)
        frame = writer.frame(stream=sluice.Stream.from_handle(stream, gpu.device))
        gpu.gate(stream)
        timer = threading.Timer(1.5, lambda: (seen.append(sluice.cipd_look(writer.name).index), gpu.open_gates()))
        timer.start()
        there = others_run(frame.commit)
        timer.join()
        assert seen == [0] and sluice.cipd_look(writer.name).index == 1
        return there

    attempts = []
    assert shown(attempt)


def test_a_writer_that_does_not_block(gpu, write):
    writer = write(block=False)
    publish_gated(gpu, writer)
    assert sluice.cipd_look(NAME).index == 1


@pytest.mark.linux("channels of Sluice's own")
@pytest.mark.parametrize("graph", [True, False])
def test_graphs(gpu, write, graph):
    writer, stream = write(graph=graph), sluice.Stream(gpu.device)
    source = sluice.Writer("source", shape=SHAPE, device=gpu.device)
    with source, sluice.Reader("source") as reader:
        with source.frame():
            pass
        with reader.next(timeout=60, stream=stream) as frame:
            for _ in range(20):
                writer.send(frame, stream=stream)
            stream.synchronize()
    assert (writer.cipd_info().graph_frames > 0) is graph and writer.cipd_info().published == 20


def test_the_barrier(write):
    barrier = f"{CHANNEL}-barrier"
    try:
        holder = write(holds_barrier=True, settle_frames=2, barrier_name=barrier)
        other = write(name=f"{NAME}-other", barrier_name=barrier, barrier_stale_ns=10**13)
        deaf = write(name=f"{NAME}-deaf", barrier_name=barrier, barrier=False)
        assert holder.cipd_info().holds_barrier is True
        with pytest.raises(sluice.NoFreeSlot):
            send(other, 1)
        send(deaf, 1)
        assert (other.cipd_info().barrier_skips, deaf.cipd_info().barrier_skips) == (1, 0)
        stale = write(name=f"{NAME}-stale", barrier_name=barrier, barrier_stale_ns=1)
        send(stale, 1)
        send(holder, 1, 2, 3)
        assert holder.cipd_info().holds_barrier is False
        send(other, 1)
    finally:
        pathlib.Path(f"/dev/shm/{barrier}").unlink(missing_ok=True)


def test_the_end_of_a_writer(write):
    for grace, least in ((400_000_000, 0.4), (-1, 0)):
        writer, began = write(close_grace_ns=grace, priority=False, doorbell=False), time.monotonic()
        writer.close()
        took = time.monotonic() - began
        assert took >= least
    assert took < 0.4 or shown(lambda: quick(write))


def quick(write):
    writer, began = write(close_grace_ns=-1), time.monotonic()
    writer.close()
    return time.monotonic() - began < 0.1
