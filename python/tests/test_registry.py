# SPDX-License-Identifier: MIT
"""sluice.channels(), info(), watch(): what there is, and what changes."""
import os
import threading

import pytest

import sluice
from sluice._registry import ENTRY, INFO, READER
from sluice._structs import FORMAT_BYTES


def test_the_structs_are_those_of_c():
    with sluice.Writer("cam", shape=4), sluice.Reader("cam"):
        data, readers = sluice._sluice._channel_info("cam", 60)
        assert len(data) == INFO.size + FORMAT_BYTES + 32 and len(readers) == READER.size
        assert len(sluice._sluice._registry_list(None)) == ENTRY.size


def test_info_is_what_the_writer_and_readers_say():
    formats = {"view": sluice.Image("bgr24", 64, 48, sluice.Colour(1, 13, 0, 2), "bottom-up", "opaque"), "depth": ((4, 5), "bfloat16"),
               "one": ((), "bool")}
    with sluice.Writer("cam", formats, slots=5, max_slots=9, readers=7, policy="wait", writable=True) as writer:
        reader = sluice.Reader("cam", mode="in_order", depth=3, hold=2, every=2, writable=True)
        for _ in range(3):
            with writer.frame():
                pass
        frame = reader.next(timeout=60)
        info = sluice.info("cam", timeout=60)
        assert info.format == writer.format == reader.format
        assert info.format["view"] == formats["view"] and info.format["one"] == sluice.Tensor((), "bool")
        assert (info.name, info.pid, info.uid, info.device, info.memory) == ("cam", os.getpid(), os.getuid(), "host", "host")
        assert (info.slots, info.max_slots, info.max_readers, info.policy, info.writable) == (5, 9, 7, "wait", True)
        assert (info.session, info.generation, info.committed) == (frame.session, 1, 3)
        assert info.opened_ns < info.last_commit_ns < info.now_ns and info.folder == os.environ["SLUICE_DIR"]
        one, = info.readers
        assert (one.pid, one.mode, one.depth, one.hold, one.every, one.writable) == (os.getpid(), "in_order", 3, 2, 2, True)
        assert (one.held, one.held_slots, one.taken, one.path) == (1, 1 << frame.slot, 1, "mapped")
        reader.close()
    with pytest.raises(sluice.NotFoundError):
        sluice.info("cam")


def test_info_of_what_is_not_there():
    with sluice.Writer("camera", shape=4):
        with pytest.raises(sluice.NotFoundError, match="did you mean 'camera'"):
            sluice.info("camrea")
        for wrong in ("", "a/b"):
            with pytest.raises(sluice.Error):
                sluice.info(wrong)
        with pytest.raises(TypeError):
            sluice.info(3)
        for wrong in (0, -1, "1", None, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                sluice.info("camera", timeout=wrong)


def test_watch_gives_what_is_there_and_what_changes():
    with sluice.Writer("first", shape=4) as first:
        events = sluice.watch()
        assert next(events) == ("first", True)
        second = sluice.Writer("second", shape=4)
        assert next(events) == sluice.ChannelEvent("second", True)
        threading.Thread(target=second.close).start()
        assert next(events) == ("second", False)
        first.close()
        assert next(events) == ("first", False)
    assert list(sluice.watch(timeout=0.01)) == []


def test_watch_of_a_folder(tmp_path):
    assert list(sluice.watch(str(tmp_path), timeout=0.01)) == [] == sluice.channels(str(tmp_path))
    with pytest.raises(TypeError):
        sluice.watch(3)
