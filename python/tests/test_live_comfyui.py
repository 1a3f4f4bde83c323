# SPDX-License-Identifier: MIT
"""integrations/comfyui: its nodes, driven by an executor with ComfyUI's caching rule."""
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

import sluice
from comfy_executor import Executor
from comfy_kit import load_nodes
from eventually import wait_until

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def nodes():
    with load_nodes() as module:
        yield module


class Invert:
    OUTPUT_NODE = False
    FUNCTION = "invert"
    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("IMAGE",)}}

    def invert(self, image):
        return (1 - image,)


@pytest.fixture
def executor(nodes):
    return Executor({**nodes.NODE_CLASS_MAPPINGS, "Invert": Invert})


def loop(**settings):
    return {"in": {"class_type": "SluiceIn", "inputs": {"channel": "camera", **settings}},
            "invert": {"class_type": "Invert", "inputs": {"image": ["in", 0]}},
            "out": {"class_type": "SluiceOut", "inputs": {"image": ["invert", 0], "channel": "painted", "metadata": ["in", 3]}}}


def camera(width=8, height=6, **settings):
    return sluice.Writer("camera", {"image": sluice.Image("rgba", width, height, **settings)})


def picture(value, width=8, height=6):
    return np.full((height, width, 4), value, np.uint8)


def test_a_picture_runs_once_and_a_new_one_once_more(executor):
    with camera() as writer:
        writer.send(picture(100), meta={"seed": 7})
        for prompts in range(1, 4):
            results = executor.execute(loop())
            assert executor.runs == {"in": 1, "invert": 1, "out": 1}
        image, mask, frame, metadata = results["in"]
        assert image.shape == (1, 6, 8, 3) and image.dtype == torch.float32 and mask.shape == (1, 6, 8) and frame == 1
        assert torch.allclose(image, torch.tensor(100 / 255)) and torch.allclose(mask, torch.tensor(155 / 255))
        assert json.loads(metadata) == {"seed": 7}
        with sluice.Reader("painted") as reader:
            writer.send(picture(200))
            executor.execute(loop())
            assert executor.runs == {"in": 2, "invert": 2, "out": 2}
            with reader.next(timeout=60) as painted:
                assert painted.numpy()[0, 0].tolist() == [55, 55, 55, 255] and painted.pixel_format == "rgba"


def test_a_thousand_prompts_open_the_channels_once(executor):
    with camera() as writer:
        for number in range(1, 1001):
            writer.send(picture(number % 256), meta={"n": number})
            results = executor.execute(loop())
            assert results["in"][2] == results["out"][0] == number
            executor.execute(loop())
        assert executor.runs == {"in": 1000, "invert": 1000, "out": 1000}
        assert writer.stats().readers_total == 1
    with sluice.Reader("painted") as reader, reader.next(timeout=60) as last:
        assert last.meta_json == {"n": 1000}
        assert last.sequence == 1000 and sluice.info("painted").committed == 1000  # of one session


def test_a_frame_that_comes_between_the_look_and_the_run_does_not_run_twice(nodes, executor):
    """The result is that of the newer frame, under the token of the older one."""
    with camera() as writer:
        writer.send(picture(1))
        seen = executor.classes["SluiceIn"].IS_CHANGED(channel="camera")
        writer.send(picture(2))
        image, _, frame, _ = nodes.SluiceIn().receive("camera")
        assert frame == 2 and torch.allclose(image, torch.tensor(2 / 255))
        assert nodes.SluiceIn.IS_CHANGED(channel="camera") == seen
        assert nodes.SluiceIn().receive("camera")[0] is image
        writer.send(picture(3))
        assert nodes.SluiceIn.IS_CHANGED(channel="camera") != seen
        assert nodes.SluiceIn().receive("camera")[2] == 3


def test_two_nodes_of_a_prompt_show_the_same_frame(nodes):
    with camera() as writer:
        writer.send(picture(1))
        tokens = [nodes.SluiceIn.IS_CHANGED(channel="camera") for _ in range(2)]
        first = nodes.SluiceIn().receive("camera")
        writer.send(picture(2))
        assert nodes.SluiceIn().receive("camera")[2] == first[2] == 1 and tokens[0] == tokens[1]
        assert nodes.SluiceIn.IS_CHANGED(channel="camera") != tokens[0]


def test_a_writer_that_restarts_is_another_input(executor):
    """Its numbers begin again at 1."""
    for value in (10, 20):
        with camera() as writer:
            writer.send(picture(value))
            for _ in range(2):
                image = executor.execute(loop())["in"][0]
            assert torch.allclose(image, torch.tensor(value / 255))
    assert executor.runs["in"] == 2


def error_of(executor):
    with pytest.raises(RuntimeError) as caught:
        executor.execute(loop(timeout=0.01))
    return str(caught.value)


def test_without_a_writer_it_says_so_each_time(executor):
    with sluice.Writer("camera2", shape=(2, 2)), sluice.Writer("other", shape=(2, 2)):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="'camera' has no writer, also not after 0.01 s.*: camera2, other"):
                executor.execute(loop(timeout=0.01))
    with camera() as writer:
        wait_until(lambda: "'camera' has a writer, but it sent no frame for 0.01 s" in error_of(executor))  # once it has found the writer
        writer.send(picture(1))
        executor.execute(loop(timeout=60.0))
    with pytest.raises(RuntimeError, match="no writer"):
        executor.execute(loop(timeout=0.01))


def test_without_a_writer_it_gives_the_last_picture_if_asked_to(executor):
    with pytest.raises(RuntimeError, match="no writer"):
        executor.execute(loop(timeout=0.01, missing="last image"))
    before = executor.runs["in"]
    with camera() as writer:
        writer.send(picture(1))
        image = executor.execute(loop(timeout=60.0, missing="last image"))["in"][0]
    for _ in range(3):
        assert executor.execute(loop(timeout=60.0, missing="last image"))["in"][0] is image
    assert executor.runs["in"] == before + 1
    with camera() as writer:
        writer.send(picture(2))
        assert torch.allclose(executor.execute(loop(timeout=60.0, missing="last image"))["in"][0], torch.tensor(2 / 255))


def test_a_writer_that_was_killed_is_missing(executor, start):
    child = start("write_for_ever", "camera")
    child.read()
    executor.execute(loop(timeout=60.0))
    child.kill()
    wait_until(lambda: "camera" not in sluice.channels())
    with pytest.raises(RuntimeError, match="no writer"):
        for _ in range(2):  # the first may find a frame that came after the one before
            executor.execute(loop(timeout=0.01))


@pytest.mark.parametrize("asked, shape", [((16, 12), (12, 16)), ((4, 0), (3, 4)), ((0, 12), (12, 16)), ((0, 0), (6, 8))])
def test_sizes(nodes, asked, shape):
    with camera() as writer:
        writer.send(picture(128))
        image, mask, _, _ = nodes.SluiceIn().receive("camera", width=asked[0], height=asked[1])
        assert image.shape[1:3] == mask.shape[1:] == shape
        with sluice.Reader("painted", wait=None) as reader:
            nodes.SluiceOut().send(torch.rand(1, 6, 8, 3), "painted", width=asked[0], height=asked[1])
            assert reader.next(timeout=60).shape == (*shape, 4)


def test_fit_leaves_a_border_or_not(nodes):
    with camera(8, 4) as writer:
        writer.send(picture(255, 8, 4))
        means = {fit: float(nodes.SluiceIn().receive("camera", width=8, height=8, fit=fit)[0].mean())
                 for fit in ("cover", "inside", "stretch")}
    assert means == {"cover": 1, "inside": 0.5, "stretch": 1}


@pytest.mark.parametrize("shape, dtype", [((6, 8, 3), "float32"), ((3, 6, 8), "float32"), ((1, 3, 6, 8), "float16"), ((6, 8), "uint8"),
                                          ((6, 8, 4), "uint8")])
def test_tensors_are_pictures_too(nodes, shape, dtype):
    one = 255 if dtype == "uint8" else 1
    with sluice.Writer("camera", shape=shape, dtype=dtype) as writer:
        writer.send(np.full(shape, one, dtype))
        image, mask, _, _ = nodes.SluiceIn().receive("camera")
    assert image.shape == (1, 6, 8, 3) and bool((image == 1).all()) and bool((mask == 0).all())


def test_floats_are_cut_to_what_an_image_holds(nodes):
    with sluice.Writer("camera", shape=(6, 8, 3), dtype="float32") as writer:
        writer.send(np.linspace(-1, 2, 144, dtype=np.float32).reshape(6, 8, 3))
        image = nodes.SluiceIn().receive("camera")[0]
        assert image.min() == 0 and image.max() == 1
    with sluice.Writer("list", shape=(6,), dtype="float32") as writer:
        writer.send(np.zeros(6, np.float32))
        with pytest.raises(ValueError, match=r"shape \(6,\) are no pictures"):
            nodes.SluiceIn().receive("list")


def test_a_batch_with_a_mask_becomes_frames(nodes):
    with sluice.Reader("painted", mode="in_order", depth=3, wait=None) as reader, torch.inference_mode():
        nodes.SluiceOut().send(torch.zeros(1, 4, 4, 3), "painted")
        reader.next(timeout=60).release()
        images = torch.stack([torch.full((4, 4, 3), value / 255) for value in (1, 2, 3)])
        nodes.SluiceOut().send(images, "painted", mask=torch.full((1, 64, 64), 0.2), metadata='{"seed": 1}')
        for value in (1, 2, 3):
            with reader.next(timeout=60) as frame:
                assert frame.numpy()[0, 0].tolist() == [value, value, value, 204] and frame[0].alpha == "straight"
                assert frame.meta_json == {"seed": 1}


def test_what_is_no_json_is_refused(nodes):
    with pytest.raises(ValueError, match="`metadata` is not JSON"):
        nodes.SluiceOut().send(torch.zeros(1, 4, 4, 3), "painted", metadata="seed=1")
    with camera() as writer:
        for meta, text in ((b"seed=1", '{"text": "seed=1"}'), (b"", "{}"), (b"[1]", "[1]")):
            writer.send(picture(1), meta=meta)
            assert nodes.SluiceIn().receive("camera")[3] == text


def test_a_picture_for_which_no_slot_is_free_is_not_sent(nodes, caplog):
    def send():
        return nodes.SluiceOut().send(torch.zeros(1, 4, 4, 3), "painted", timeout=0.0)[0]

    held = []
    while send():
        reader = sluice.Reader("painted", hold=1)
        held.append((reader, reader.next(timeout=60)))
    assert "Sluice Out:" in caplog.text and "painted" in caplog.text
    held.pop(0)[1].release()  # not that of the newest frame, which stays
    wait_until(send)


def test_channels_are_closed_when_they_are_not_used(nodes):
    assert nodes.nodes.CHANNELS.keep == 30
    with camera() as writer:
        writer.send(picture(1))
        nodes.SluiceIn().receive("camera")
        nodes.SluiceOut().send(torch.zeros(1, 4, 4, 3), "painted")
        nodes.nodes.CHANNELS.close_unused(time.monotonic() + 29)
        assert len(nodes.nodes.CHANNELS.keys()) == 2 and "painted" in sluice.channels()
        with nodes.nodes.CHANNELS.use(("out", "painted", "host"), None):
            nodes.nodes.CHANNELS.close_unused(time.monotonic() + 31)  # all but the one in use
            assert nodes.nodes.CHANNELS.keys() == [("out", "painted", "host")]
        wait_until(lambda: writer.stats().readers == 0)
        nodes.nodes.CHANNELS.close_unused(time.monotonic() + 31)
        assert "painted" not in sluice.channels()


def test_they_are_closed_without_another_prompt(nodes):
    channels, closed = nodes.nodes.Channels(keep=0.02), []

    class Open:
        def close(self):
            closed.append(self)

    with channels.use("key", Open):
        pass
    wait_until(lambda: closed and not channels.keys())


def test_where_comfyui_keeps_no_results_each_run_gets_the_newest(nodes):
    """`--cache-none`: IS_CHANGED is not called."""
    with camera() as writer:
        for number in (1, 2):
            writer.send(picture(number))
            assert nodes.SluiceIn().receive("camera")[2] == nodes.SluiceIn().receive("camera")[2] == number


def test_a_linked_channel_is_not_known_beforehand(nodes):
    value = nodes.SluiceIn.IS_CHANGED(channel=None)
    assert value != value


@pytest.mark.parametrize("cache", ["CLASSIC", "LRU"])
def test_comfyui_itself_runs_them_as_often_as_there_are_pictures(cache):
    """A thousand prompts, of which every other one finds a new picture; the writer is opened once."""
    folder = os.environ.get("SLUICE_COMFYUI")
    if not folder:
        pytest.skip("SLUICE_COMFYUI names no folder of ComfyUI")
    done = subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name("comfy_real.py")), folder, cache],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"runs": [{"SluiceIn": times, "SluiceOut": times} for times in (1, 1, 2, 500)], "sessions": 1, "last": [998, 998 % 256]}
