# SPDX-License-Identifier: MIT
"""sluice.live.streamdiffusion and sluice.live.diffusers on channels in host memory."""
import threading

import numpy as np
import pytest

import sluice
import sluice.live

torch = pytest.importorskip("torch", reason="torch is not installed")
from diffusion_stand_ins import ControlNetImg2ImgPipeline, Img2ImgPipeline, StreamDiffusion, StreamDiffusionWrapper
from sluice.live import Live, diffusers, streamdiffusion

WIDTH, HEIGHT = 16, 8


class Host:
    """The other side: writes the input and the control image, reads the output, and ends the loop."""

    def __init__(self, run):
        self.writers = {name: sluice.Writer(name, {"image": sluice.Image("rgba", WIDTH, HEIGHT)}) for name in ("camera", "edges")}
        self.reader = sluice.Reader("painted", mode="in_order", depth=4, wait=None)
        self.live = self.error = None
        self.closed = False
        self.thread = threading.Thread(target=self._run, args=(run,))

    def _run(self, run):
        try:
            run(self)
        except BaseException as error:
            self.error = error

    def send(self, value, channel="camera", meta=None):
        self.writers[channel].send(np.full((HEIGHT, WIDTH, 4), value, np.uint8), meta=meta)

    def shown(self):
        with self.reader.next(timeout=60) as frame:
            return int(frame.numpy()[0, 0, 0])

    def close(self):
        if self.closed:
            return
        self.closed = True
        if self.live is not None:
            self.live.stop()
        self.send(0)
        self.thread.join(60)
        assert not self.thread.is_alive()
        for each in (*self.writers.values(), self.reader):
            each.close()


@pytest.fixture
def host():
    made = []

    def start(run, **settings):
        """run(live), in a thread; returns once its loop has a Live."""
        there = threading.Event()

        def within(host):
            try:
                with Live({"device": "host", "dtype": "float32", "input": {"channel": "camera", "take": "next", "on_stale": "hold"},
                           "output": {"channel": "painted"}, "size": (WIDTH, HEIGHT), "on_error": "stop", **settings}) as host.live:
                    there.set()
                    run(host.live)
            finally:
                there.set()

        made.append(Host(within))
        made[-1].thread.start()
        assert there.wait(60)
        return made[-1]

    yield start
    for each in made:
        each.close()


def change(live, **params):
    live.changes.put({f"params.{name}": value for name, value in params.items()})


def test_a_picture_goes_through_the_wrapper(host):
    wrapper = StreamDiffusionWrapper()
    there = host(lambda live: streamdiffusion.run(wrapper, live), params={"prompt": "a cat", "seed": 3, "cfg_type": "self"})
    for value in (0, 100, 255):
        there.send(value)
        assert there.shown() == 255 - value
    x = wrapper.stream.inputs[-1]
    assert x.shape == (1, 3, HEIGHT, WIDTH) and x.dtype == torch.float32 and float(x.max()) == 1
    assert wrapper.calls == [{"prompt_list": [("a cat", 1.0)], "seed": 3}]  # cfg_type is an argument of its class


def test_parameters_have_the_wrappers_names(host, caplog):
    wrapper = StreamDiffusionWrapper()
    there = host(lambda live: streamdiffusion.run(wrapper, live), params={"prompt": "a cat"})
    there.send(1)
    there.shown()
    change(there.live, prompt_list=[["a dog", 0.25], ["a cat", 0.75]], seed_list=[[1, 1.0]], t_index_list=[20, 30], delta=0.5, colour=3)
    for value in (2, 3):
        there.send(value)
        there.shown()
    assert wrapper.calls[1:] == [{"prompt_list": [("a dog", 0.25), ("a cat", 0.75)], "seed_list": [(1, 1.0)], "t_index_list": [20, 30],
                                  "delta": 0.5}]
    assert caplog.text.count("params.colour: StreamDiffusionWrapper.update_stream_params takes no such parameter; it takes "
                             "num_inference_steps") == 1


def test_one_control_image_for_all_controlnets(host):
    wrapper = StreamDiffusionWrapper()
    nets = [{"model_id": "canny", "conditioning_scale": 1.0}, {"model_id": "off", "enabled": False},
            {"model_id": "depth", "conditioning_scale": 0.25}]
    there = host(lambda live: streamdiffusion.run(wrapper, live), params={"controlnets": nets},
                 controls={"cn": {"channel": "edges", "scale": 0.5, "stale": 600.0}})
    there.send(51, "edges")
    there.send(1)
    there.shown()
    assert wrapper.calls == [{"controlnet_config": [{"model_id": "canny", "conditioning_scale": 0.5},
                                                    {"model_id": "depth", "conditioning_scale": 0.25}]}]
    assert [index for index, _ in wrapper.images] == [0, 1]
    assert wrapper.images[0][1].data_ptr() == wrapper.images[1][1].data_ptr() and float(wrapper.images[0][1].mean()) == pytest.approx(0.2)
    there.live.changes.put({"controls.cn.enabled": False})
    for value in (2, 3):
        there.send(value)
        there.shown()
    assert [[net["conditioning_scale"] for net in call["controlnet_config"]] for call in wrapper.calls] == [[0.5, 0.25], [0.0, 0.0]]
    there.live.changes.put({"controls.cn.enabled": True})
    for value in (4, 5):
        there.send(value)
        there.shown()
    assert [net["conditioning_scale"] for net in wrapper.calls[2]["controlnet_config"]] == [0.5, 0.25]


def test_a_frame_that_the_filter_skipped_is_not_sent(host):
    wrapper = StreamDiffusionWrapper()
    there = host(lambda live: streamdiffusion.run(wrapper, live))
    there.send(1)
    assert there.shown() == 254
    wrapper.stream.last_frame_was_skipped = True
    there.send(2)
    while len(wrapper.stream.inputs) < 2:
        threading.Event().wait(0.01)
    wrapper.stream.last_frame_was_skipped = False
    there.send(3)
    assert there.shown() == 252


def test_a_size_that_the_wrapper_was_not_made_for_is_an_error(host):
    wrapper = StreamDiffusionWrapper()
    there = host(lambda live: streamdiffusion.run(wrapper, live), size=(32, 8))
    there.send(1)
    there.thread.join(60)
    assert "size is 32x8, and this StreamDiffusion was made for 16x8" in str(there.error)


def test_another_delay_than_the_batch_has_is_reported(host, caplog):
    wrapper = StreamDiffusionWrapper()
    wrapper.stream.denoising_steps_num = 3
    there = host(lambda live: streamdiffusion.run(wrapper, live))
    there.send(1)
    there.shown()
    assert "engine.delay is 0, and StreamDiffusion answers 2 frames later" in caplog.text


def test_run_takes_size_dtype_and_device_of_the_wrapper():
    """From a configuration, without a Live."""
    wrapper, there = StreamDiffusionWrapper(), Host(lambda _: streamdiffusion.run(
        wrapper, {"input": {"channel": "camera", "take": "next"}, "on_error": "stop"}, output="painted"))
    stop = wrapper.stream.__class__.__call__
    there.thread.start()
    there.send(1)
    assert there.shown() == 254 and wrapper.stream.inputs[0].shape == (1, 3, HEIGHT, WIDTH)

    class Enough(Exception):
        pass

    def end(self, x=None):
        raise Enough

    wrapper.stream.__class__.__call__ = end
    try:
        there.close()
    finally:
        wrapper.stream.__class__.__call__ = stop


def test_the_published_class_has_no_wrapper(host, caplog):
    stream = StreamDiffusion()
    there = host(lambda live: streamdiffusion.run(stream, live), params={"prompt": "a cat", "seed": 3, "num_inference_steps": 20})
    there.send(100)
    assert there.shown() == 155
    assert stream.calls == [("prepare", "a cat", 20, 3)]
    for changed, made in (({"prompt": "a dog"}, [("update_prompt", "a dog")]), ({"delta": 0.5}, []), ({"seed": 4}, [("prepare", "a dog", 20, 4)])):
        del stream.calls[:]
        change(there.live, **changed)
        for value in (1, 2):
            there.send(value)
            there.shown()
        assert stream.calls == made
    assert stream.delta == 0.5


def test_a_pipeline_gets_images_from_0_to_1(host):
    pipe = Img2ImgPipeline()
    there = host(lambda live: diffusers.run(pipe, live, num_inference_steps=2), params={"prompt": "a cat", "strength": 0.5, "seed": 7})
    for value in (0, 100, 255):
        there.send(value)
        assert there.shown() == 255 - value
    calls = pipe.calls
    assert all(tuple(call["image"].shape) == (1, 3, HEIGHT, WIDTH) for call in calls)
    assert calls[0]["prompt"] == "a cat" and calls[0]["output_type"] == "pt" and calls[0]["strength"] == 0.5
    assert {call["generator"].initial_seed() for call in calls} == {7}


def test_controls_of_a_pipeline(host, caplog):
    pipe = ControlNetImg2ImgPipeline()
    there = host(lambda live: diffusers.run(pipe, live), controls={"cn": {"channel": "edges", "scale": 0.5, "stale": 600.0}})
    there.send(255, "edges")
    there.send(1)
    there.shown()
    there.live.changes.put({"controls.cn.enabled": False})
    for value in (2, 3):
        there.send(value)
        there.shown()
    assert [call["controlnet_conditioning_scale"] for call in pipe.calls][0::2] == [0.5, 0.0]
    assert float(pipe.calls[0]["control_image"].min()) == 1


def test_less_than_one_step_is_refused(host, caplog):
    pipe = Img2ImgPipeline()
    there = host(lambda live: diffusers.run(pipe, live, num_inference_steps=2), params={"strength": 0.4})
    there.send(1)
    there.thread.join(60)
    assert "set strength to 0.5 or more" in str(there.error)
    there.close()
    there = host(lambda live: diffusers.run(pipe, live, num_inference_steps=2), params={"strength": 0.5})
    there.send(1)
    there.shown()
    change(there.live, strength=0.4)
    for value in (2, 3):
        there.send(value)
        assert there.shown() == 255 - value
    assert {call["strength"] for call in pipe.calls} == {0.5} and "what was set before stays" in caplog.text


def test_what_is_no_image_to_image_pipeline_is_refused(host):
    class Text:
        def __call__(self, prompt, output_type="pil"):
            raise AssertionError

    there = host(lambda live: diffusers.run(Text(), live))
    there.thread.join(60)
    assert "Text takes no image" in str(there.error)
