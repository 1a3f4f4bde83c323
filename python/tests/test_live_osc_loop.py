# SPDX-License-Identifier: MIT
"""OSC and a real loop, in host memory: when a change takes effect, and that switching a control tears nothing."""
import contextlib
import json
import logging
import random
import re
import threading

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed")
pytest.importorskip("pythonosc", reason="python-osc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")

import sluice  # noqa: E402
from eventually import SECONDS, wait_until  # noqa: E402
from live_kit import Peer, log  # noqa: E402, F401
from sluice.live import Live  # noqa: E402

SIZE, SCALE, TOGGLES = (32, 16), 0.577, 1000


@pytest.fixture
def started(log):  # noqa: F811
    """A loop that listens, once it is entered, and a function for the peer that talks to it."""
    peers = []

    def loop(**wanted):
        return Live(output="painted", size=SIZE, osc={"listen": "127.0.0.1:0", "dialect": "both"}, report={"line": 0.05}, **wanted)

    def peer():
        wait_until(lambda: any("osc: listens" in line for line in log.of(logging.INFO)))
        port = next(int(found[1]) for line in log.of(logging.INFO) if (found := re.match(r"osc: listens at 127\.0\.0\.1:(\d+)", line)))
        peers.append(Peer(port))
        return peers[-1]

    yield loop, peer
    for each in peers:
        each.close()


@contextlib.contextmanager
def host(**levels):
    """Writes pictures of one level into each channel, without a pause, until the end."""
    ended = threading.Event()
    with contextlib.ExitStack() as stack:
        writers = {stack.enter_context(sluice.Writer(name, sluice.Image("rgba", *SIZE))): level for name, level in levels.items()}

        def write():
            while not ended.wait(0.001):
                for writer, level in writers.items():
                    with writer.frame() as frame:
                        np.asarray(frame[0])[:] = level

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def test_the_next_shot_has_the_value(started):
    loop, talk = started
    sent = [("/seed", [7.0], "seed", 7), ("/prompt", ["a dog"], "prompt", "a dog"), ("/guidance_scale", [2], "guidance_scale", 2.0),
            ("/prompt_list", [json.dumps([["x" * 20_000, 1]])], "prompt_list", [["x" * 20_000, 1.0]]),
            ("/fx/zoom/by", [0.5], "fx", {"zoom": {"by": 0.5}}), ("/live/param/strength", [0.25], "strength", 0.25)]
    with loop(input="camera", params={"seed": 2, "strength": 0.5}) as live, host(camera=100):
        peer, shots, expected = talk(), iter(live), {"seed": 2, "strength": 0.5}
        for address, values, name, value in sent:
            shot = next(shots)
            assert shot.params == expected
            peer.send(address, *values)
            assert live.changes.wait(SECONDS)
            assert shot.params == expected  # not within the shot
            expected[name] = value
        assert next(shots).params == expected
        peer.bundle(("/seed", 8), ("/nothing", 1), ("/sdmode", "txt2img"), ("/live/param/strength", 1))
        assert live.changes.wait(SECONDS)
        expected.update(seed=8, sdmode="txt2img", strength=1.0)
        assert next(shots).params == expected
        peer.send("/live/get", "params.prompt")
        assert peer.read("/live/value") == ("/live/value", "params.prompt", "a dog")
        peer.raw(b"junk")
        wait_until(lambda: live.counters.ignored == {"/nothing": 1, "malformed datagrams": 1})
        next(shots)
        peer.send("/get_status")
        assert json.loads(peer.read("/status")[1])["ignored"] == {"/nothing": 1, "malformed datagrams": 1}
        peer.send("/stop")
        assert live.changes.wait(SECONDS)
        assert not list(shots) and live.counters.state == "stopped"


@pytest.mark.limit(900)
def test_a_control_that_is_switched_at_random_moments(started, log):  # noqa: F811
    """Every picture is one of two, and at the end the control acts as strongly as at the beginning."""
    loop, talk = started
    chance = random.Random(3)
    levels = {SCALE: [], 0.0: []}
    with loop(input={"channel": "camera", "stale": 60.0}, controls={"canny": {"channel": "edges", "scale": SCALE, "stale": 60.0}},
              ahead=2) as live, host(camera=40, edges=200):
        peer, shots, ended = talk(), 0, threading.Event()

        def switch():
            on = True
            for _ in range(TOGGLES):
                on = not on
                before = live.counters.shots
                peer.send("/use_controlnet", float(on))
                if chance.random() < 0.8:  # else several within a shot
                    wait_until(lambda: live.counters.shots >= before + chance.randrange(1, 3))
            ended.set()

        with sluice.Reader("painted", mode="in_order", depth=2) as reader:
            thread = threading.Thread(target=switch)
            for shot in live:
                control = shot.control("canny")
                if control.on and not thread.is_alive() and not ended.is_set():
                    thread.start()  # both channels are there
                shot.send(shot.input + control.scale * control.image)
                shots += 1
                if thread.ident:
                    with reader.next(SECONDS) as frame:
                        picture = np.asarray(frame[0])[..., :3]
                        levels[SCALE if control.on else 0.0] += [int(picture.min()), int(picture.max())]
                if ended.is_set() and not live.changes.wait(0):
                    break
            thread.join()
        wait_until(lambda: live.changes.latest()["controls.canny.enabled"])  # the last message has come
        shot = next(iter(live))
        assert shot.control("canny").on and float(shot.control("canny").scale) == pytest.approx(SCALE)
    acts, rests = set(levels[SCALE]), set(levels[0.0])
    assert len(acts) == len(rests) == 1, (acts, rests)
    assert rests == {40} and acts == {40 + round(200 * SCALE / 2)}  # the input is from -1 to 1
    assert len(levels[0.0]) > TOGGLES / 4 and shots > TOGGLES
    lines = [line for line in log.of(logging.INFO) if " fps | " in line]
    assert all("canny" in line and "out ok" in line for line in lines[1:]) and not log.of(logging.ERROR)


def test_paused_it_makes_one_picture_at_a_time(started):
    loop, talk = started
    with loop(input="camera") as live, host(camera=100):
        thread = threading.Thread(target=live.run, args=(lambda shot: shot.input,))
        thread.start()
        peer = talk()
        wait_until(lambda: live.counters.shots > 3)
        peer.send("/pause")
        wait_until(lambda: live.counters.state == "paused")
        before = live.counters.shots
        for i in range(1, 4):
            peer.send("/process_frame")
            wait_until(lambda: live.counters.shots == before + i)
            peer.send("/frame_ack")
        peer.send("/play")
        wait_until(lambda: live.counters.shots > before + 10)
        peer.send("/stop", 1.0)
        thread.join(SECONDS)
        assert not thread.is_alive() and live.counters.state == "stopped"
