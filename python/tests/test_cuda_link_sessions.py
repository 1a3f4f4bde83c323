# SPDX-License-Identifier: MIT
"""sluice.cuda_link between processes: producers that start, stop and change, and invalid segments."""
import pathlib
import subprocess
import sys

import pytest

from cuda_link_kit import SHAPE, a_link, actors, is_frame, says

import sluice.cuda_link as cuda_link


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


# ---- the tests' own programs ----

def test_programs_act_in_several_tests_unless_they_were_killed_or_know_other_settings(gpu, monkeypatch):
    def resting():
        return {actor.process.pid for actor in actors.resting}

    with a_link() as link:
        link.exporter(), link.importer()
    there = resting()
    assert len(there) >= 2
    with a_link() as link:
        exporter, importer, flooding = link.exporter(), link.importer(), link.importer(name=link.name + "-2")
        assert {exporter.child.process.pid, importer.child.process.pid} <= there
        exporter.export(1)
        is_frame(importer.until("get"), 1)
        exporter.kill()
        flooding.child.write("doorbell 20000")
    assert importer.child.process.pid in resting()
    assert not {exporter.child.process.pid, flooding.child.process.pid} & resting()
    monkeypatch.setenv("CUDALINK_LIB_STRICT_DEVICE", "0")
    with a_link() as link:
        assert link.importer().child.process.pid not in there


# ---- sessions ----

def test_a_producer_that_is_not_there_yet(link):
    importer = link.importer()
    assert not importer.stats()["ready"]
    for _ in range(3):
        says(importer.get(), "RECONNECTING")
    assert importer.retry() == "asked"
    exporter = link.exporter()
    exporter.export(1)
    importer.retry()
    is_frame(importer.until("get"), 1)


def test_a_producer_that_shuts_and_comes_back_otherwise(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    before = is_frame(importer.until("get"), 1)
    assert exporter.close() == "closed"
    says(importer.get(), "SHUTDOWN")
    says(importer.get(), "RECONNECTING")
    exporter = link.exporter(8, 2, 2, dtype="float32", slots=2)
    exporter.export(2)
    told = is_frame(importer.until("get"), 2, shape=[8, 2, 2], dtype="torch.float32")
    assert told["id"] != before["id"]
    exporter.export(3)
    is_frame(importer.until("numpy"), 3, shape=[8, 2, 2], dtype="float32")
    exporter.export(4)
    is_frame(importer.until("cupy"), 4, shape=[8, 2, 2])
    assert importer.stats()["num_slots"] == 2


@pytest.mark.parametrize("method", ["get", "numpy", "cupy"])
def test_a_producer_that_is_killed_and_started_anew(link, method):
    """The first call that sees the new one says RECONNECTING; no frame is lost for it, none of the old session comes."""
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    before = is_frame(importer.until(method), 1)
    exporter.kill()
    assert importer.ask(method)["outcome"] in ("NO_FRAME", "RECONNECTING")  # whether its death was seen yet
    exporter = link.exporter()
    exporter.export(2)
    told = is_frame(importer.until(method), 2)
    assert set(told["before"]) <= {"RECONNECTING", "NO_FRAME"}
    assert method == "numpy" or told["id"] != before["id"]
    assert importer.stats()["reconnects"] <= 1


def test_another_session_is_told_once_and_its_frame_is_not_lost(link):
    """Where nothing was seen between the two."""
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    for value in (2, 3):
        exporter.kill()
        exporter = link.exporter(2, 2 + value, 1)
        exporter.export(value)
        told = is_frame(importer.until("get"), value, shape=[2, 2 + value, 1])
        assert told["before"].count("RECONNECTING") == 1 and set(told["before"]) <= {"RECONNECTING", "NO_FRAME"}


@pytest.mark.parametrize("method", ["get", "cupy"])
def test_what_was_made_of_slots_ends_with_their_session(link, method):
    """Each slot was given before, and nothing was seen between the two sessions."""
    exporter, importer = link.exporter(slots=2), link.importer()
    for value in (1, 2):
        exporter.export(value)
        is_frame(importer.until(method), value)
    exporter.kill()
    exporter = link.exporter(2, 5, 1, slots=2)
    for value in (3, 4):
        exporter.export(value)
        is_frame(importer.until(method), value, shape=[2, 5, 1])


def test_without_reconnecting_it_ends_with_its_producer(link):
    refused = link.importer
    exporter = link.exporter()
    importer = refused("for_testing")
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    exporter.close()
    says(importer.get(), "SHUTDOWN")
    for _ in range(2):
        says(importer.get(), "RECONNECTING")
    assert not importer.stats()["ready"] and importer.stats()["frame_count"] == 1


def test_without_a_producer_and_without_reconnecting_there_is_no_importer(link, run):
    out = run(f"""
import sluice.cuda_link as cuda_link
try:
    cuda_link.Importer.open(cuda_link.ImportSpec({link.name!r}), policy=cuda_link.ImportPolicy.for_testing())
except FileNotFoundError as error:
    print("no file")
""")
    assert out == "no file\n"


def test_the_class_of_importers_follows_the_channel_once_it_connects(link):
    """As 1.12's does. It may be there before the channel, and another producer may come."""
    importer = cuda_link.CUDAIPCImporter(link.name)
    assert not importer.is_ready() and importer.get_frame_numpy() is None
    importer.connect()
    assert not importer.is_ready()
    for value in (1, 2):
        exporter = link.exporter()
        exporter.export(value)
        while (frame := importer.get_frame_numpy()) is None:
            pass
        assert (frame == value).all() and importer.is_ready()
        exporter.close()
        while importer.is_ready():
            assert importer.get_frame_numpy() is None
    importer.close()


def test_the_end_is_the_end(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    assert importer.close() == exporter.close() == "closed"
    says(importer.get(), "RECONNECTING")
    assert exporter.export(1) == "FAILED"
    assert importer.stats()["frame_count"] == 1 and exporter.stats()["closed"]


def test_frames_are_what_the_channel_says_not_what_the_program_expects(link):
    exporter = link.exporter()
    importer = link.importer(shape=[512, 512, 4], dtype="float32")
    exporter.export(1)
    is_frame(importer.until("numpy"), 1, shape=SHAPE, dtype="uint8")


# ---- segments that are none ----

ALIENS = """
import os, pathlib, sys, time
import sluice.cuda_link as cuda_link

name, path = sys.argv[1], pathlib.Path("/dev/shm", sys.argv[1])
layout = cuda_link.SHMLayout(3)


def segment(kind, bits, size, slots=3):
    bytes_ = cuda_link.SHMLayout(slots).build_buffer()
    bytes_[20:20 + 384] = bytes([1]) * 384
    cuda_link.Metadata(4, 4, 4, kind, bits, 0, size).pack_into(bytes_, layout)
    cuda_link.publish_frame(bytes_, layout, 1, 1.0)
    return bytes_


for text, expected in [(b"x" * 500, ValueError), (segment(1, 32, 256), ValueError), (segment(1, 8, 256), RuntimeError),
                       (segment(1, 8, 64), RuntimeError), (segment(1, 8, 64, 11), ValueError),
                       (layout.build_buffer(), RuntimeError)]:
    path.write_bytes(bytes(text))
    with cuda_link.Importer.open(cuda_link.ImportSpec(name)) as importer:
        for _ in range(3):
            assert importer.get_frame_numpy().outcome is cuda_link.ImportOutcome.RECONNECTING
        assert not importer.is_ready()
    try:
        cuda_link.Importer.open(cuda_link.ImportSpec(name), policy=cuda_link.ImportPolicy.for_testing())
    except expected as error:
        assert isinstance(error, cuda_link.CudaLinkError), error
    else:
        raise SystemExit(f"it opened {bytes(text)[:30]}")
path.unlink()
print("done")
"""


@pytest.mark.linux("file of a section")
def test_what_is_no_segment_is_not_read(link):
    done = subprocess.run([sys.executable, "-c", ALIENS, link.name], capture_output=True, text=True, timeout=500)
    assert done.stdout == "done\n", done.stderr


def test_an_importer_gets_over_a_segment_that_is_none(link):
    path = pathlib.Path("/dev/shm", link.name)
    path.write_bytes(b"x" * 500)
    importer = link.importer()
    says(importer.get(), "RECONNECTING")
    path.unlink()
    exporter = link.exporter()
    exporter.export(1)
    importer.retry()
    is_frame(importer.until("get"), 1)
