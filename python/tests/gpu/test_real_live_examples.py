# SPDX-License-Identifier: MIT
"""The examples with pipelines of diffusers, whose networks are small ones."""
import signal

import pytest

from live_models import small_pipeline
from test_real_examples import PATIENCE, TEST_PICTURE, Scene

for name in ("diffusers", "transformers", "streamdiffusion"):
    pytest.importorskip(name, reason=f"{name} is not installed")
SETTINGS = """
device: cuda:0
dtype: float16
size: [512, 512]
input: {channel: camera}
output: {channel: painted}
params: {prompt: a cat, seed: 2}
report: {line: 0}
"""


@pytest.mark.parametrize("example", ["live_diffusers.py", "live_streamdiffusion.py"])
def test_frames_are_painted_until_it_is_interrupted(example, tmp_path):
    small_pipeline(tmp_path).save_pretrained(tmp_path / "model")
    (tmp_path / "live.yaml").write_text(SETTINGS)
    more = [tmp_path / "live.yaml"] if example == "live_streamdiffusion.py" else []
    with Scene() as scene:
        running, watching = scene.example(example, tmp_path / "model", *more), scene.watch("painted")
        scene.play(TEST_PICTURE, watching)
        running.send_signal(signal.SIGINT)
        _, log = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0 and "Traceback" not in log, log
        watching.communicate(timeout=PATIENCE)
        picture = scene.picture("painted")
    assert picture.shape == (512, 512, 4) and picture[..., :3].std() > 1
