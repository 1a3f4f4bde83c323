# SPDX-License-Identifier: MIT
"""The host program and the filter engine of examples/live, as real processes in host memory."""
import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
import sluice

from eventually import wait_until

cv2 = pytest.importorskip("cv2")
pytest.importorskip("yaml")
pytest.importorskip("pythonosc")
LIVE = pathlib.Path(__file__).parents[2] / "examples" / "live"
TILE, STRIP = 256, 24  # of the sheet


def free_port():
    with socket.socket(type=socket.SOCK_DGRAM) as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def host(folder, *options, engine="filter.py"):
    port = free_port()
    environment = {**os.environ, "SLUICE_DIR": str(folder), "SLUICE_LIVE__OSC__LISTEN": f"127.0.0.1:{port}", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, str(LIVE / "host.py"), "--engine", f"{sys.executable} {LIVE / engine}", "--size", "256x256",
                           "--fps", "10", "--start", "100", "--osc", f"127.0.0.1:{port}", "--json", str(folder / "figures.json"),
                           *options],
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170)
    return done, done.stdout + done.stderr


def rows(path, count):
    """The tiles of a sheet: [(input, control, output)]"""
    sheet = cv2.imread(str(path)).astype(int)
    assert sheet.shape == (STRIP + count * (STRIP + TILE), 3 * TILE, 3)
    found = []
    for at in range(count):
        row = sheet[STRIP + at * (STRIP + TILE) + STRIP:][:TILE]
        found.append(tuple(row[:, column * TILE:(column + 1) * TILE] for column in range(3)))
    return found


def posterised(picture, levels):
    return np.rint(np.rint(picture / 255 * (levels - 1)) / (levels - 1) * 255)


def test_parameters_and_control_act_on_the_input_that_is_shown(tmp_path):
    done, said = host(tmp_path, "--seconds", "9", "--sheet", str(tmp_path / "sheet.png"), "--at", "3", "/live/param/levels 2",
                      "--at", "6", "/live/control/canny/scale 0")
    assert done.returncode == 0, said
    first, fewer, plain = rows(tmp_path / "sheet.png", 3)
    for (shown, control, output), levels in ((first, 4), (fewer, 2)):
        far = cv2.dilate(control.astype(np.uint8), np.ones((5, 5))) == 0
        assert far.any() and (control > 0).any()
        assert np.abs(output - posterised(shown, levels))[far].max() <= 1  # what is beside it is its input
        assert output[control > 128].max() == 0  # the control draws in black
    assert np.abs(plain[2] - posterised(plain[0], 2)).max() <= 1  # and no more where its scale is 0


def test_both_programs_come_back_after_a_kill(tmp_path):
    done, said = host(tmp_path, "--seconds", "3", "--kill", "player@1", "--kill", "engine@2", "--record", str(tmp_path / "run.avi"))
    assert done.returncode == 0, said
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [kill["who"] for kill in figures["kills"] if "back_s" in kill] == ["player", "engine"]
    assert figures["pictures"] > 2 and figures["latency_ms"]["p50"] > 0
    video = cv2.VideoCapture(str(tmp_path / "run.avi"))
    assert video.read()[0] and int(video.get(cv2.CAP_PROP_FRAME_WIDTH)) == 3 * TILE


def test_a_flash_and_the_metadata_agree(tmp_path):
    done, said = host(tmp_path, "--seconds", "14", "--flash", "2.5", "--flash-frames", "10")
    assert done.returncode == 0, said
    flash = json.loads((tmp_path / "figures.json").read_text())["flash"]
    assert flash["found"] >= 1 and abs(flash["pictures_apart"]) <= 1, flash


def test_a_flash_finds_metadata_that_runs_ahead(monkeypatch):
    """The measure itself: pictures that come two later than their metadata says."""
    monkeypatch.syspath_prepend(str(LIVE))
    import report
    figures = report.Figures(0.1, 0.2)
    pixels = {True: np.full(192, 255, np.float32), False: np.full(192, 60, np.float32)}
    rng = np.random.default_rng(1)
    for delay in 0, 2:
        at = 10**9 + np.arange(60) * 2 * 10**7
        figures.small = [(int(when), n, pixels[20 <= n - delay < 30] + rng.random(192).astype(np.float32)) for n, when in enumerate(at)]
        assert figures.find_flash(20, int(at[20]) - 1000)["pictures_apart"] == delay


def test_what_ends_a_receiver_is_kept(monkeypatch):
    """The host program ends with it."""
    monkeypatch.syspath_prepend(str(LIVE))
    import host as program
    with sluice.Writer("painted", shape=4) as writer:
        receiver = program.Receiver("painted", None, lambda frame, now: 1 / 0)
        receiver.start()
        writer.send(np.zeros(4, np.uint8))
        receiver.join()
    assert isinstance(receiver.error, ZeroDivisionError)


def test_a_receiver_goes_on_when_a_frame_was_overwritten(gpu, monkeypatch):
    """A writer of cuda-link's protocol waits for no reader, and the release of a frame says so."""
    monkeypatch.syspath_prepend(str(LIVE))
    import host as program
    taken, sent, name = [], [], f"cipd:painted{os.getpid()}"
    with sluice.Writer(name, shape=(4, 4, 4), device=gpu.device, slots=3) as writer:
        def send():
            writer.send(np.zeros((4, 4, 4), np.uint8))
            sent.append(1)

        def take(frame, now):
            taken.append(frame.sequence)
            later = len(sent) + 5
            wait_until(lambda: len(sent) >= later)

        receiver = program.Receiver(name, None, take)
        receiver.start()
        wait_until(lambda: len(taken) > 2 or not receiver.is_alive() or send())
        receiver.ending = True
        wait_until(lambda: not receiver.is_alive() or send())
    assert receiver.error is None and len(taken) > 2


@pytest.mark.parametrize("options, why", [
    (("--kill", "display@1"), "player@SECONDS"),
    (("--output", "nobody", "--start", "1", "--seconds", "1"), "no picture came within 1 s on nobody"),
])
def test_it_says_what_is_wrong(tmp_path, options, why):
    done, said = host(tmp_path, *options)
    assert done.returncode == 1 and why in said
