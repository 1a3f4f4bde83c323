# SPDX-License-Identifier: MIT
"""The loop on a GPU: tensors and slots there, no wait of the CPU but one. Without CuPy and PyTorch, a stand-in of CuPy is used."""
import numpy as np
import pytest
import sluice

import live_cupy
from live_hosts import SIZE, Host, loop


@pytest.fixture
def cupy(gpu):
    if not gpu.fake:
        pytest.skip("the tests of python/tests/gpu use the real CuPy and PyTorch")
    with live_cupy.installed(gpu) as cupy:
        yield cupy


def level(shot):
    values = shot.input.get()
    assert np.ptp(values) < 1e-5
    return round((float(values.flat[0]) + 1) / 2 * 255)


@pytest.mark.parametrize("where", ["cuda:0", "host"])
def test_a_picture_goes_there_and_back(cupy, where):
    """Also of producers in host memory: their images are uploaded."""
    host, edges = Host("camera", device=where), Host("edges", format="gray", device=where)
    with loop(device="cuda:0", controls={"canny": {"channel": "edges", "scale": 0.5, "stale": 600}}) as step, \
            sluice.Reader("painted", wait=None) as painted:
        address = step.live.input.address
        for number in range(1, 6):
            edges.send(51)
            host.send(40 * number)
            shot = step()
            assert sluice.current_stream("cuda:0") == step.live.stream and cupy.cuda.get_current_stream().ptr == step.live.stream.native
            assert shot.input.address == address and level(shot) == 40 * number
            canny = shot.control("canny")
            assert canny.on and canny.scale.get() == np.float32(0.5) and np.allclose(canny.image.get(), 0.2)
            assert shot.send(shot.input)
            with painted.next(60) as frame:
                assert frame.device == "cuda:0" and frame.meta_json["n"] == number
                assert (frame.numpy() == (*[40 * number] * 3, 255)).all()
        step.live.changes.put({"controls.canny.enabled": False})
        host.send(1)
        shot = step()
        assert shot.control("canny").scale.get() == 0 and not shot.control("canny").on
    assert sluice.current_stream("cuda:0") is None
    host.close()
    edges.close()


@pytest.mark.parametrize("ahead", [1, 3])
def test_the_cpu_goes_ahead_by_so_many_shots(cupy, gpu, ahead):
    """The engine's work does not end: the loop takes as many shots as it may, and then waits for the first of them."""
    import threading
    host = Host("camera", device="cuda:0")
    with loop(device="cuda:0", ahead=ahead) as step:
        host.send(1)
        step()
        step.live.changes.put({"input.stale": 0.0})  # it is shown again and again
        gate = gpu.gate(step.live.stream.native)
        for _ in range(ahead):
            step()
        opened = []

        def open_gate():
            opened.append(step.live.counters.shots)
            gate.open()

        timer = threading.Timer(0.2, open_gate)
        timer.start()
        shot = step()
        timer.join()
        assert opened == [ahead + 1] and shot.number == ahead + 2
        assert step.live.counters.engine.count >= 1
    host.close()


def test_a_control_is_taken_while_the_gpu_still_holds_the_one_before(cupy, gpu):
    """Its frames end behind the engine's work. A control that sends more of them than there are shots stays on, and is the partner."""
    host, edges = Host("camera", device="cuda:0"), Host("edges", format="gray", device="cuda:0")
    with loop(device="cuda:0", ahead=3, controls={"canny": {"channel": "edges", "pair": "number", "scale": 0.5, "stale": 600}}) as step:
        edges.send()
        host.send()
        assert step().control("canny").on
        gate, other = gpu.gate(step.live.stream.native), sluice.Stream("cuda:0")
        for number in range(2, 4):
            with other.use():
                edges.send(number=number)
                host.send(number=number)
            assert step().control("canny").on and step.live.counters.links["canny"].state == "ok"
            assert step.live.counters.links["canny"].unpaired == 0
        gate.open()
        other.close()
    host.close()
    edges.close()


def test_a_size_is_changed_between_shots(cupy):
    host = Host("camera", device="cuda:0")
    with loop(device="cuda:0") as step, sluice.Reader("painted", wait=None) as painted:
        host.send(80)
        shot = step()
        shot.send(shot.input)
        step.live.changes.put({"size": (48, 40)})
        shot = step()
        assert shot.rebuild and shot.input.shape == (1, 3, 40, 48) and level(shot) == 80
        shot.send(shot.input)
        with painted.next(60) as frame:
            while frame.shape != (40, 48, 4):
                frame = painted.next(60)
            assert (frame.numpy()[..., :3] == 80).all()
    host.close()


def test_frames_of_cuda_link_come_and_go(cupy, gpu):
    """Four bytes without a declared order are BGRA; the output declares BGRA."""
    import os
    name = f"live{os.getpid()}"
    with sluice.Writer(f"cipd:{name}", shape=(*SIZE[::-1], 4), device="cuda:0", slots=3) as writer, \
            loop(device="cuda:0", input={"channel": f"cipd:{name}", "stale": 600}, output=f"cipd:{name}out") as step, \
            sluice.Reader(f"cipd:{name}out", wait=None, device="cuda:0") as painted:
        writer.send(np.full((*SIZE[::-1], 4), (10, 20, 30, 255), np.uint8))
        shot = step()
        red, green, blue = (round((float(each) + 1) / 2 * 255) for each in shot.input.get()[0, :, 0, 0])
        assert (red, green, blue) == (30, 20, 10)
        assert shot.send(shot.input)
        with painted.next(60) as frame:
            assert frame.pixel_format == "bgra" and (frame.numpy() == (10, 20, 30, 255)).all()


def test_the_stream_of_the_program_is_kept(cupy):
    with sluice.Stream("cuda:0") as mine:
        with loop(device="cuda:0", input={"channel": "camera", "stale": 0.0}) as step:
            assert step.live.stream == mine
            step()
        assert not mine.closed and sluice.current_stream("cuda:0") == mine
