# SPDX-License-Identifier: MIT
"""Recordings of the command, read by Python: frames by number and time, and files that are cut, damaged, or something else."""
import random
import subprocess
import sys

import numpy as np
import pytest

import sluice

FORMAT = {"view": sluice.Image("nv12", 64, 48), "boxes": ((10, 4), "float32"), "points": ((5,), "float32x4")}
FRAMES = 6


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The path of a recording: frame i has the value i, i + 1 boxes, and {"i": i}."""
    folder = tmp_path_factory.mktemp("slr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_DIR", str(folder))
        with sluice.Writer("cam", FORMAT, policy="wait", wait=60) as writer:
            command = subprocess.Popen([sys.executable, "-m", "sluice", "record", "cam", str(folder / "cam.slr"), "-q"])
            writer.wait_for_readers(1, 60)
            for i in range(FRAMES):
                with writer.frame(60, meta={"i": i}, capture_ns=1000 + i) as frame:
                    frame.reshape((i + 1, 4), "boxes")
                    for name in FORMAT:
                        frame.numpy(name)[:] = i
        assert command.wait(60) == 0
    return folder / "cam.slr"


def test_frames_are_as_they_were(recorded):
    with sluice.Recording(recorded) as recording:
        assert (len(recording), recording.channel, recording.complete, recording.damage) == (FRAMES, "cam", True, None)
        assert recording.format == {"view": FORMAT["view"], "boxes": sluice.Tensor((10, 4), "float32"),
                                    "points": sluice.Tensor((5,), "float32x4")}
        for i, frame in enumerate(recording):
            assert (frame.number, frame.sequence, frame.capture_ns, frame.missed) == (i, i + 1, 1000 + i, 0)
            assert frame.meta_json == {"i": i} and frame.new_session == frame.new_format == (i == 0)
            assert frame.keys() == tuple(FORMAT) == tuple(frame) and len(frame) == 3 and "view" in frame
            assert frame.numpy("boxes").shape == (i + 1, 4) and frame["points"].shape == (5, 4)
            assert all((array.numpy() == i).all() and not array.numpy().flags.writeable for _, array in frame.items())
            assert [plane.shape for plane in frame["view"].planes] == [(48, 64), (24, 32, 2)]
            assert (np.asarray(frame[0]) == i).all() and frame.copy().flags.writeable
            frame.verify()
        last = recording[-1].numpy()
    assert (last == FRAMES - 1).all()  # it outlives the recording
    with pytest.raises(sluice.ClosedError):
        recording[0]
    assert "closed" in repr(recording)


def test_frames_by_time_and_in_slices(recorded):
    recording = sluice.Recording(recorded)
    times = recording.times
    assert times[0] == 0 and list(times) == sorted(times) and recording.duration == times[-1] > 0
    for i, time in enumerate(times):
        assert recording.at(time).number == i and recording[i].time == time
    assert recording.at(-5).number == 0 and recording.at(1e9).number == FRAMES - 1
    assert [frame.number for frame in recording[1:-1:2]] == [1, 3]
    assert "6 frames" in repr(recording) and "nv12 64 x 48" in repr(recording)
    for wrong, error in ((FRAMES, IndexError), (-FRAMES - 1, IndexError), (1.5, TypeError), ("view", TypeError)):
        with pytest.raises(error):
            recording[wrong]
    with pytest.raises(KeyError, match="it has 'view'"):
        recording[0]["depth"]
    with pytest.raises(sluice.FormatError, match="nv12"):
        recording[0].numpy(pixel_format="bgr24")


def test_frames_can_be_sent_again(recorded):
    recording = sluice.Recording(recorded)
    format = {"view": recording.format["view"], "boxes": ((6, 4), "float32")}
    with sluice.Writer("again", format) as writer, sluice.Reader("again") as reader:
        writer.send({name: recording[5][name] for name in format}, meta=recording[5].meta)
        with reader.next(timeout=60) as frame:
            assert (frame.numpy("boxes") == 5).all() and frame.meta_json == {"i": 5}


def test_a_recording_that_was_cut_has_its_whole_frames(recorded, tmp_path):
    data, path = recorded.read_bytes(), tmp_path / "cut.slr"
    lengths = set()
    for size in (*range(112, len(data), 997), len(data) - 1):
        path.write_bytes(data[:size])
        recording = sluice.Recording(path)
        assert not recording.complete and all((frame.numpy() == frame.number).all() for frame in recording)
        lengths.add(len(recording))
    assert lengths == set(range(FRAMES + 1))


def test_what_is_no_recording(recorded, tmp_path):
    path = tmp_path / "other.slr"
    for content in (b"", b"text", bytes(200), recorded.read_bytes()[:111]):
        path.write_bytes(content)
        with pytest.raises(sluice.FormatError, match="other.slr"):
            sluice.Recording(path)
    newer = bytearray(recorded.read_bytes())
    newer[8] = 2
    path.write_bytes(newer)
    with pytest.raises(sluice.VersionError, match="version 2"):
        sluice.Recording(path)
    with pytest.raises(FileNotFoundError):
        sluice.Recording(tmp_path / "none.slr")
    with pytest.raises(IsADirectoryError):
        sluice.Recording(tmp_path)


def test_damage_is_found(recorded, tmp_path):
    data, path = bytearray(recorded.read_bytes()), tmp_path / "bad.slr"
    whole = sluice.Recording(recorded)
    second = whole._places[1]
    for at, error in ((second, "block's head"), (second + 33, "description")):
        bad = bytearray(data)
        bad[at] ^= 0xff
        path.write_bytes(bad)
        with pytest.raises(sluice.CorruptError, match=error):
            list(sluice.Recording(path))
    assert len(sluice.Recording(path)) == FRAMES  # the description of a frame is read when the frame is
    bad = bytearray(data)
    bad[second] ^= 0xff
    path.write_bytes(bad)
    recording = sluice.Recording(path, damaged=True)
    assert len(recording) == 1 and "block's head" in recording.damage and (recording[0].numpy() == 0).all()
    bad = bytearray(data)
    bad[whole._places[2] - 1] ^= 1  # the last byte of the second frame's data
    path.write_bytes(bad)
    frame = sluice.Recording(path)[1]
    with pytest.raises(sluice.CorruptError, match="points"):
        frame.verify()


def test_any_damage_is_survived(recorded, tmp_path):
    """Whatever the bytes are: frames, or an exception of ours."""
    data, path, dice = recorded.read_bytes(), tmp_path / "any.slr", random.Random(7)
    for number in range(300):
        bad = bytearray(data)
        for _ in range(dice.choice((1, 5))):
            bad[dice.randrange(len(bad) if number % 2 else 2000)] = dice.randrange(256)
        path.write_bytes(bad[:dice.randrange(len(bad))] if number % 3 == 0 else bad)
        try:
            for frame in sluice.Recording(path, damaged=number % 4 == 0):
                for array in frame.values():
                    array.numpy().sum()
                frame._repr_png_()
        except (sluice.FormatError, sluice.CorruptError, sluice.VersionError):
            pass
