# SPDX-License-Identifier: MIT
"""The order of a frame: what a shot has, what is sent for it, and what changes between shots."""
import os
import signal
import threading

import numpy as np
import pytest
import sluice
from sluice.live import Live

from eventually import wait_until
from live_hosts import QUIET, SIZE, Host, Lines, level, loop


@pytest.fixture
def host():
    made = Host()
    yield made
    made.close()


@pytest.fixture
def painted():
    """Reads what the loop sends, in order."""
    with sluice.Reader("painted", wait=None, mode="in_order", depth=4) as reader:
        yield reader


def taken(reader):
    """A frame's number and its first byte."""
    with reader.next(60) as frame:
        return frame.meta_json and frame.meta_json["n"], int(frame.numpy()[0, 0, 0])


def test_a_picture_comes_back_with_its_metadata_and_its_time(host, painted):
    with loop() as step:
        host.send(100, extra="kept")
        shot = step()
        assert shot.number == 1 and shot.meta == {"n": 1, "extra": "kept"} and shot.frame_numbers == (1,)
        assert shot.input.shape == (1, 3, *SIZE[::-1]) and shot.input is step.live.input and level(shot) == 100
        assert shot.send(shot.input)
        with painted.next(60) as frame, sluice.Reader("camera") as camera, camera.next(60) as source:
            assert frame.pixel_format == "rgba" and frame.meta == source.meta and frame.capture_ns == source.capture_ns
            assert (frame.numpy() == (100, 100, 100, 255)).all()


def test_the_input_keeps_its_address(host):
    with loop() as step:
        address = step.live.input.ctypes.data
        for _ in range(5):
            host.send()
            shot = step()
            assert shot.input.ctypes.data == address and level(shot) == host.number


def test_what_is_not_sent_is_skipped(host, painted):
    with loop() as step:
        for sends in (True, False, None, True):
            host.send()
            shot = step()
            if sends is not None:
                shot.send(shot.input if sends else None)
            if sends:
                assert taken(painted) == (host.number, host.number)
        step.end()
        assert (step.live.counters.sent, step.live.counters.skipped, step.live.counters.shots) == (2, 2, 4)
        with pytest.raises(RuntimeError, match="sent already"):
            shot.send(shot.input)


def test_metadata_is_of_the_input_that_the_picture_shows(host, painted):
    """An engine that answers two shots later; a skipped shot never came into it."""
    with loop(engine={"delay": 2}) as step:
        inside, got = [], []
        for number in range(1, 8):
            host.send()
            shot = step()
            if number == 4:
                continue
            inside.append(np.array(shot.input))
            assert shot.send(inside[-3] if len(inside) > 2 else np.zeros_like(shot.input)) is (len(inside) > 2)
            if shot.sent:
                got.append(taken(painted))
        assert got == [(1, 1), (2, 2), (3, 3), (5, 5)]
        step.live.changes.put({"engine.delay": 1})
        for expected in (False, True):
            host.send()
            shot = step()
            assert shot.rebuild is not expected and shot.send(shot.input) is expected
        assert taken(painted) == (8, 9)


def test_warm_counts_results_of_its_own(host, painted):
    with loop(engine={"delay": 0, "warm": 3}) as step:
        for number in range(1, 6):
            host.send()
            shot = step()
            assert shot.send(shot.input) is (number > 3)


def test_parameters_change_between_shots_alone(host):
    with loop(params={"seed": 1, "prompt": "a cat"}) as step:
        host.send()
        shot = step()
        assert shot.params == shot.changed == {"seed": 1, "prompt": "a cat"}
        step.live.changes.put({"params.seed": 2})
        step.live.changes.put({"params.seed": 3, "params.style": [1, 2]})
        assert shot.params["seed"] == 1 and step.live.changes.latest()["params.seed"] == 3
        host.send()
        shot = step()
        assert shot.changed == {"seed": 3, "style": [1, 2]} and shot.params == {"prompt": "a cat", **shot.changed}
        assert step.live.changes.values()["params.seed"] == 3
        host.send()
        assert step().changed == {}


def test_metadata_sets_parameters_of_exactly_its_shot(host):
    with loop(params={"seed": 1}) as step:
        for more, seed in (({}, 1), ({"live": {"seed": 7, "cut": True}}, 7), ({}, 1), ({"live": "no"}, 1)):
            host.send(**more)
            shot = step()
            assert shot.params["seed"] == seed and ("cut" in shot.params) is (seed == 7)
        host.send(live={"seed": 8})
        assert step().params["seed"] == 8
        step.live.changes.put({"params.seed": 9, "input.stale": 0.0})
        shot = step()  # the same frame again: the later change wins
        assert not shot.new and shot.params["seed"] == 9


def test_another_size_is_a_rebuild_and_the_output_follows(host, painted):
    with loop() as step:
        host.send(50)
        shot = step()
        assert not shot.rebuild
        shot.send(shot.input)
        taken(painted)
        step.live.changes.put({"size": (48, 40)})
        shot = step()  # the newest frame again, in the new tensor
        assert shot.rebuild and shot.changed == shot.params and step.live.size == (48, 40)
        assert shot.input is step.live.input and shot.input.shape == (1, 3, 40, 48) and level(shot) == 50
        shot.send(shot.input)
        with painted.next(60) as frame:
            assert (frame[0].width, frame[0].height) == (48, 40) and (frame.numpy()[..., :3] == 50).all()
        host.send(51)
        assert not step().rebuild
        before = step.live.input
        step.live.changes.put({"engine.args": {"steps": 2}})
        host.send(52)
        shot = step()
        assert shot.rebuild and shot.input is before and shot.changed == shot.params


def test_an_engine_without_its_graph_is_reported_until_the_next_rebuild(host, painted):
    with loop() as step, Lines("output") as lines:
        host.send(50)
        shot = step()
        step.live.graph_fallback("CUDA error 901")
        shot.send(shot.input)
        assert step.live.counters.links["output"].state == "ok/graph-fallback"
        assert lines.lines[-1].endswith("painted: ok -> ok/graph-fallback: the engine runs without its CUDA graph: CUDA error 901")
        step.live.changes.put({"size": (48, 40)})
        shot = step()
        shot.send(shot.input)
        assert step.live.counters.links["output"].state == "ok" and lines.changes[-1] == "ok/graph-fallback -> ok"


def test_links_are_replaced_while_it_runs(host, painted):
    second = Host("second")
    with loop(controls={"canny": {"channel": None, "enabled": False}}) as step, sluice.Reader("elsewhere", wait=None) as elsewhere:
        host.send(1)
        step().send(step.live.input)
        assert taken(painted) == (1, 1)
        second.send(2)
        step.live.changes.put({"input.channel": "second", "output.channel": "elsewhere", "controls.canny.channel": "camera",
                               "controls.canny.enabled": True})
        shot = step()
        assert level(shot) == 2 and shot.control("canny").on and shot.control("canny").scale == 1.0
        shot.send(shot.input)
        assert taken(elsewhere) == (1, 2)
        with pytest.raises(sluice.Closed):
            painted.next(60)
        step.live.changes.put({"input.enabled": False, "output.enabled": False})
        shot = step()
        assert (shot.input == -1).all() and not shot.send(shot.input) and shot.meta is None
        assert step.live.counters.links["input"].state == step.live.counters.links["output"].state == "disabled"
    second.close()


def test_an_exception_of_the_engine_is_reported_and_the_loop_goes_on(host, caplog):
    with loop() as step:
        for failing in [True] * 9 + [False] + [True] * 9 + [False]:
            host.send()
            with step() as shot:
                if failing:
                    raise ValueError("it does not paint")
                shot.send(shot.input)
            assert step.live.counters.state == "error" or not failing
        counters = step.live.counters
        assert counters.errors == 18 and counters.error == "shot 19: ValueError: it does not paint" and counters.sent == 2
        assert "shot 19: ValueError: it does not paint" in caplog.messages
        host.send()
        step()
        assert counters.state == "streaming"


@pytest.mark.parametrize("on_error, most", [("continue", 10), ("stop", 1)])
def test_ten_exceptions_in_a_row_end_it(host, on_error, most):
    calls = []

    def engine(shot):
        calls.append(shot.number)
        host.send()
        raise ValueError("never")

    host.send()
    with pytest.raises(ValueError, match="never"), Live(input="camera", size=SIZE, on_error=on_error, **QUIET) as live:
        live.run(engine)
    assert len(calls) == most == live.counters.errors and live.counters.state == "stopped"


def test_an_exception_without_with_ends_the_loop_and_is_reported(host):
    host.send()
    with pytest.raises(ValueError), Live(input="camera", size=SIZE, **QUIET) as live:
        for shot in live:
            raise ValueError("not guarded")
    assert live.counters.error == "shot 1: ValueError: not guarded" and live.counters.errors == 1


def test_run_sends_what_the_engine_returns(host, painted):
    answers = [np.full((3, *SIZE[::-1]), 1.0, np.float32), None, np.full((*SIZE[::-1], 3), 7, np.uint8)]

    def engine(shot):
        host.send()
        if shot.number == 2:
            got.append(taken(painted))
        if shot.number == 3:
            live.stop()
        return answers[shot.number - 1]

    got = []
    host.send()
    with Live(input="camera", output="painted", size=SIZE, **QUIET) as live:
        live.run(engine)
        assert [*got, taken(painted)] == [(1, 255), (3, 7)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_loop_between_shots(host, number):
    def mine(number, frame):
        raise AssertionError("this one was to be called outside the loop only")

    before = signal.signal(number, mine)
    shots = []
    try:
        with Live(input="camera", size=SIZE, **QUIET) as live:
            host.send()
            for shot in live:
                os.kill(os.getpid(), number)
                shots.append(shot.send(shot.input))
            assert signal.getsignal(number) == mine and live.counters.state == "stopped"
    finally:
        signal.signal(number, before)
    assert len(shots) == 1


def test_another_thread_stops_a_loop_that_waits():
    with Live(input={"channel": "nobody", "stale": 600}, size=SIZE, **QUIET) as live:
        threading.Timer(0.05, live.stop).start()
        assert list(live) == []


def test_paused_it_makes_the_shots_that_are_asked_for(host, painted):
    with loop() as step:
        host.send()
        shot = step()
        shot.send(shot.input)
        changes, counters = step.live.changes, step.live.counters
        changes.command("pause")

        def ask():
            wait_until(lambda: counters.state == "paused")
            host.send(77)
            changes.put({"params.seed": 5}, [("process_frame",)])
            wait_until(lambda: counters.shots == 2)
            changes.command("process_frame")
            changes.command("frame_ack")
            wait_until(lambda: counters.shots == 3)
            changes.command("play")

        asking = threading.Thread(target=ask)
        asking.start()
        shot = step()
        assert level(shot) == 77 and shot.params == {"seed": 5}
        changes.put({"input.stale": 0.0})
        assert step().number == 3 and step().number == 4
        asking.join()


def test_a_changed_file_is_adopted_and_a_broken_one_changes_nothing(host, tmp_path, caplog):
    pytest.importorskip("yaml")
    path = tmp_path / "live.yaml"

    def write(params, size="[32, 24]"):
        path.write_text(f"input: {{channel: camera, stale: 600s}}\nsize: {size}\nreport: {{line: 0}}\nparams: {params}\n")

    write("{seed: 1, strength: 0.5}")
    with Live(str(path), output="painted") as live:
        shots = iter(live)
        host.send()
        assert next(shots).params == {"seed": 1, "strength": 0.5}
        live.changes.put({"params.strength": 0.9})
        write("{seed: 2, strength: 0.5, new: 1}")
        live.changes.command("reload")
        host.send()
        assert next(shots).params == {"seed": 2, "strength": 0.9, "new": 1}, "what OSC set stays unless the file changes it"
        write("{seed: 3", "[7, 7]")
        live.changes.command("reload")
        host.send()
        assert next(shots).params["seed"] == 2 and live.size == (32, 24) and "live.yaml:" in caplog.text
        write("{seed: 4}", "[64, 64]")
        live.changes.command("reload")
        host.send()
        shot = next(shots)
        assert shot.rebuild and live.size == (64, 64) and shot.params == {"seed": 4}
        shots.close()


def test_settings_are_checked_at_the_start():
    from sluice.live._config import ConfigError
    with pytest.raises(ConfigError, match="multiple"):
        Live(size=(33, 24))
    with pytest.raises(ValueError, match="bfloat16"):
        Live(size=SIZE, dtype="bfloat16")
    with Live(size=SIZE, controls={"canny": "edges"}, **QUIET) as live, pytest.raises(KeyError, match="there are canny"):
        next(iter(live)).control("depth")


def test_a_preview_is_what_the_network_sees(host):
    edges = Host("edges", format="gray")
    with loop(controls={"canny": "edges"}, preview={"channel": "seen", "enabled": True, "every": 2}) as step, \
            sluice.Reader("seen", wait=None, mode="in_order") as seen:
        for number in range(1, 6):
            edges.send(10 * number)
            host.send()
            shot = step()
            if number == 4:
                step.live.preview(np.full_like(shot.input, 0.5))
            if number in (3, 5):  # one behind the shot that it is of
                assert taken(seen) == ((2, 20) if number == 3 else (4, 128))
        assert step.live.counters.links["preview"].frames == 2
    edges.close()
