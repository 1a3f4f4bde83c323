# SPDX-License-Identifier: MIT
"""sluice.live.streamdiffusion with PyPI's streamdiffusion 0.1.1, unmodified: small networks of diffusers with random weights, on the CPU."""
import threading

import numpy as np
import pytest

import sluice
import sluice.live

torch, upstream, transformers, diffusers = (pytest.importorskip(name, reason=f"{name} is not installed")
                                            for name in ("torch", "streamdiffusion", "transformers", "diffusers"))
from live_models import small_pipeline
from sluice.live import Live, streamdiffusion

SIDE = 64


@pytest.fixture
def pipe(tmp_path):
    return small_pipeline(tmp_path)


def test_results_are_those_of_the_class_and_name_the_input_that_they_show(pipe):
    """Two steps in a batch: the first result shows nothing and is not sent, and each later one the input before."""
    def stream():
        return upstream.StreamDiffusion(pipe, [20, 30], torch_dtype=torch.float32, width=SIDE, height=SIDE, cfg_type="none")

    expected, alone = [], stream()
    alone.prepare("a cat", seed=3, generator=torch.Generator())
    values = [0, 255, 128, 64]
    with torch.no_grad():
        for value in values:
            image = torch.full((1, 3, SIDE, SIDE), value / 127.5 - 1)
            made = alone.decode_image(alone.predict_x0_batch(alone.encode_image(image)))
            expected.append((made[0].permute(1, 2, 0) * 127.5 + 128).floor().clamp(0, 255).numpy().astype(int))
    with sluice.Writer("camera", {"image": sluice.Image("rgba", SIDE, SIDE)}) as writer, \
            sluice.Reader("painted", mode="in_order", depth=4, wait=None) as reader, \
            Live(device="host", dtype="float32", size=(SIDE, SIDE), input={"channel": "camera", "take": "next"}, output="painted",
                 engine={"delay": 1}, params={"prompt": "a cat", "seed": 3}, on_error="stop") as live:
        def host():
            for number, value in enumerate(values):
                writer.send(np.full((SIDE, SIDE, 4), value, np.uint8), meta={"n": number})
                while live.counters.shots <= number:
                    threading.Event().wait(0.01)
            for number in range(len(values) - 1):
                with reader.next(timeout=60) as frame:
                    shown.append((frame.meta_json["n"], frame.numpy()[..., :3].astype(int)))
            live.stop()

        shown, thread = [], threading.Thread(target=host)
        thread.start()
        streamdiffusion.run(stream(), live)
        thread.join(60)
    assert [number for number, _ in shown] == [0, 1, 2]
    for (_, picture), wanted in zip(shown, expected[1:]):
        assert np.abs(picture - wanted).max() <= 1
