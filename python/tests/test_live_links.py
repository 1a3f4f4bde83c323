# SPDX-License-Identifier: MIT
"""How links are: producers that are missing, silent, dead or different, controls that are switched, and what the log says of it."""
import random
import threading

import numpy as np
import pytest
import sluice

from eventually import wait_until
from live_hosts import SIZE, Host, Lines, level, loop


def state(step, link="input"):
    return step.live.counters.links[link].state


def test_a_producer_comes_goes_and_comes_back_in_another_size():
    """No producer, then one, which is silent, dies, and returns: each state is said once, and the engine goes on."""
    with Lines("input") as lines, loop(input={"channel": "camera", "stale": 0.05}) as step, sluice.Reader("painted", wait=None):
        other = Host("decoy")
        shot = step.until(lambda shot: state(step) == "waiting(camera)")
        assert (shot.input == -1).all() and shot.meta is None and shot.frame_numbers == ()
        waited = "input: camera: disabled -> waiting: there is no such channel; there are "
        assert any(line.startswith(waited) and "painted" in line for line in lines.lines)
        host = Host()

        def sends(shot):
            host.send(200)
            return shot.meta is not None

        assert level(step.until(sends)) == 200
        shot = step.until(lambda shot: state(step).startswith("stale("))
        assert level(shot) == 200 and shot.meta == {"n": host.number} and not shot.new
        step.until(lambda shot: step.live.counters.links["input"].repeated > 5)
        reader = step.live._links.input.reader
        host.close()
        step.until(lambda shot: state(step).startswith("reconnecting("))
        assert state(step) == "reconnecting(1)"
        assert reader.closed, "the loop sleeps by a new one: this one would say at once, each time, that it was closed"
        host = Host(size=(64, 40))
        shot = step.until(lambda shot: (host.send(90), shot.new and level(shot) == 90)[1])
        assert step.live.counters.links["input"].reconnects == 1
        changes = [each for each in lines.changes if "lost" not in each]
        assert changes == ["disabled -> waiting", "waiting -> ok", "ok -> stale", "stale -> reconnecting", "reconnecting -> ok"]
        assert any("its writer (pid " in line for line in lines.lines) and any("its writer is gone" in line for line in lines.lines)
        assert any("rgba 64 x 40 on host" in line for line in lines.lines)
        host.close()
        other.close()


@pytest.mark.parametrize("on_stale", ["hold", "black"])
def test_the_input_stands_still_or_is_black(on_stale):
    host = Host()
    with loop(input={"channel": "camera", "stale": 0.05, "on_stale": on_stale}) as step:
        host.send(130)
        assert level(step.until(lambda shot: shot.new)) == 130
        shot = step.until(lambda shot: state(step).startswith("stale"))
        assert level(shot) == (130 if on_stale == "hold" else 0) and (shot.meta is None) is (on_stale == "black")
        host.send(131)
        assert level(step.until(lambda shot: shot.new)) == 131
    host.close()


def test_a_stale_input_pauses_the_loop():
    import threading
    host = Host()
    with loop(input={"channel": "camera", "stale": 0.05, "on_stale": "pause"}) as step:
        host.send(1)
        step().send(None)

        def wait_and_send():
            wait_until(lambda: step.live.counters.state == "paused")
            host.send(2)

        thread = threading.Thread(target=wait_and_send)
        thread.start()
        shot = step()
        assert level(shot) == 2 and shot.number == 2
        thread.join()
        host.send(3)
        step()
        assert step.live.counters.state == "streaming"
    host.close()


def test_a_stale_control_is_off_or_held():
    host, edges = Host(), Host("edges", format="gray")
    both = {"canny": {"channel": "edges", "stale": 0.1, "scale": 0.5}, "held": {"channel": "edges", "stale": 0.1, "on_stale": "hold"}}
    with Lines("canny") as lines, loop(input={"channel": "camera", "stale": 0.0}, controls=both) as step:
        edges.send(255)
        shot = step.until(lambda shot: shot.control("canny").on)
        assert shot.control("canny").scale == 0.5 and (shot.control("canny").image == 1).all()
        shot = step.until(lambda shot: not shot.control("canny").on)
        assert shot.control("canny").scale == 0 and shot.control("held").scale == 1 and shot.control("held").on
        edges.send(51)
        shot = step.until(lambda shot: shot.control("canny").on)
        assert np.allclose(shot.control("canny").image, 0.2) and shot.control("canny").scale == 0.5
        assert lines.changes[:3] == ["disabled -> ok", "ok -> stale", "stale -> ok"]
    host.close()
    edges.close()


def test_toggling_a_control_at_random_restores_its_scale(scale):
    """Each picture is one of two: with the control, or without."""
    host, edges, chance = Host(), Host("edges", format="gray"), random.Random(1)
    control = {"channel": "edges", "scale": 0.577, "stale": 600}
    with loop(controls={"canny": control}) as step, sluice.Reader("painted", wait=None) as painted:
        edges.send(255)
        host.send(100)
        addresses, on, toggled = set(), True, 0
        while toggled < int(1000 * scale):
            host.send(100)
            shot = step()
            canny = shot.control("canny")
            addresses.add((shot.input.ctypes.data, canny.image.ctypes.data, canny.scale.ctypes.data))
            assert canny.on is on and canny.scale == np.float32(0.577 if on else 0)
            shot.send(shot.input + canny.scale * canny.image)
            with painted.next(60) as frame:
                assert (frame.numpy()[..., :3] == round(100 + 0.577 * 127.5 if on else 100)).all()
            for _ in range(chance.randrange(4)):
                on, toggled = not on, toggled + 1
                step.live.changes.put({"controls.canny.enabled": on})
        assert len(addresses) == 1 and not shot.rebuild
    host.close()
    edges.close()


@pytest.mark.parametrize("shape", [(4, 4, 4, 4), (4,)])
def test_an_image_that_cannot_be_converted_is_refused_once(shape):
    with Lines("input") as lines, loop() as step, sluice.Writer("camera", shape=shape) as writer:
        writer.send(np.zeros(shape, np.uint8))

        def until_it_is_refused():
            wait_until(lambda: state(step).startswith("format("))
            step.live.changes.put({"input.stale": 0.02})

        threading.Thread(target=until_it_is_refused, daemon=True).start()
        for _ in range(5):
            shot = step()
            writer.send(np.zeros(shape, np.uint8))
        assert state(step).startswith("format(") and (shot.input == -1).all()
        assert lines.changes == ["disabled -> format"]
    with Lines("input") as lines, loop() as step:
        step.live.changes.put({"input.channel": "no/such name", "input.stale": 0.0})
        step()
        assert state(step).startswith("format(") and step.live.counters.shots == 1


def test_a_name_that_another_writer_has_is_tried_again():
    host = Host()
    with sluice.Writer("painted", shape=4), Lines("output") as lines, loop(input={"channel": "camera", "stale": 0.0}) as step:
        host.send()
        shot = step()
        assert not shot.send(shot.input) and state(step, "output") == "not-init"
        other = step.until(lambda shot: True)
        assert other.sent is False and lines.changes == ["disabled -> not-init"]
    with Lines("output") as lines, loop(input={"channel": "camera", "stale": 0.0}) as step:
        assert lines.changes == ["disabled -> ok"]
    with loop(input={"channel": "camera", "stale": 0.0}, output="taken") as step:
        holder = sluice.Writer("later", shape=4)
        step.live.changes.put({"output.channel": "later"})
        step()
        assert state(step, "output") == "not-init"
        holder.close()
        step.until(lambda shot: shot.sent)
        assert state(step, "output") == "ok"
    host.close()


def test_readers_that_hold_every_slot_cost_pictures_and_no_exception():
    host = Host()
    with Lines("output") as lines, loop(output={"channel": "painted", "slots": 2}) as step:
        held, readers = [], [sluice.Reader("painted", wait=5, hold=1) for _ in range(8)]
        lost = step.live.counters.links["output"]
        for reader in readers:
            host.send()
            shot = step()
            if shot.send(shot.input):
                held.append(reader.next(60))
        assert lost.lost == 8 - len(held) > 0 and lost.state == f"lost({lost.lost})" and lines.changes == ["disabled -> ok", "ok -> lost"]
        held.clear()
        for reader in readers:
            reader.close()
    host.close()


def test_blocks_are_of_consecutive_frames():
    host = Host()
    with loop(input={"channel": "camera", "take": "block", "frames": 3, "stale": 600}) as step, \
            sluice.Reader("painted", wait=None, mode="in_order") as painted:
        assert step.live.input.shape == (3, 3, *SIZE[::-1])
        shots = step
        import threading
        thread = threading.Thread(target=lambda: (wait_until(lambda: step.live._links.input.reader.stats().connected),
                                                  [host.send(), wait_until(lambda: step.live.counters.links["input"].frames >= 1),
                                                   host.send(), host.send()]))
        thread.start()
        shot = shots()
        thread.join()
        assert shot.frame_numbers == (1, 2, 3)
        assert [round((float(each[0, 0, 0]) + 1) / 2 * 255) for each in shot.input] == [1, 2, 3]
        shot.send(shot.input)
        numbers = []
        with painted.next(60) as frame:
            numbers.append(frame.meta_json["n"])
        assert step.live.counters.sent == 3 and numbers[0] in (1, 2, 3)
        step.live.changes.put({"input.stale": 0.05})
        host.send()
        shot = shots()  # one frame alone, which stands for the rest
        assert [round((float(each[0, 0, 0]) + 1) / 2 * 255) for each in shot.input] == [4, 4, 4] and not shot.new
    host.close()


def test_spin_is_of_the_inputs_reader_alone(monkeypatch):
    made, reader = {}, sluice.Reader

    def noted(name, **wanted):
        made[name] = wanted["spin"]
        return reader(name, **wanted)

    monkeypatch.setattr(sluice, "Reader", noted)
    with loop(input={"channel": "camera", "spin": 0.02, "stale": 600}, controls={"canny": {"channel": "edges"}}):
        assert made == {"camera": 0.02, "edges": None}
