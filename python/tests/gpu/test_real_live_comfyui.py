# SPDX-License-Identifier: MIT
"""ComfyUI's nodes on a GPU: what lies there stays there. ../test_live_comfyui.py has the rest."""
import pytest

import sluice
from comfy_kit import load_nodes
from needs import torch
from work import DEVICE


@pytest.fixture
def nodes():
    with load_nodes() as module:
        yield module


def send(writer, value):
    with writer.frame(timeout=60) as frame:
        sluice.convert(frame, torch.full((6, 8, 4), value, device=DEVICE), layout="HWC")


def test_pictures_of_a_channel_on_a_gpu_stay_there(nodes):
    with sluice.Writer("camera", {"image": sluice.Image("rgba", 8, 6)}, device=DEVICE) as writer:
        send(writer, 0.2)
        token = nodes.SluiceIn.IS_CHANGED(channel="camera")
        image, mask, frame, _ = nodes.SluiceIn().receive("camera", timeout=60.0)
        assert image.device == mask.device == torch.device(DEVICE) and frame == 1
        assert torch.allclose(image, image.new_tensor(0.2)) and torch.allclose(mask, mask.new_tensor(0.8))
        assert nodes.SluiceIn.IS_CHANGED(channel="camera") == token
        assert nodes.SluiceIn().receive("camera", timeout=60.0, device="cpu")[0].device == torch.device("cpu")
        nodes.SluiceOut().send(image, "painted")
        assert sluice.info("painted").device == DEVICE
        with sluice.Reader("painted") as reader, reader.next(timeout=60) as painted:
            assert painted.copy()[0, 0].tolist() == [51, 51, 51, 255]
        nodes.SluiceOut().send(image.cpu(), "painted")
        assert sluice.info("painted").device == "host"


def test_cipd_channels_have_bgra_and_no_second_run(nodes):
    nodes.SluiceOut().send(torch.tensor([1.0, 0.6, 0.2]).expand(1, 6, 8, 3), "cipd:painted")
    assert sluice.cipd_look("cipd:painted").order == "bgra"
    tokens = []
    for _ in range(2):
        tokens.append(nodes.SluiceIn.IS_CHANGED(channel="cipd:painted"))
        image, _, frame, _ = nodes.SluiceIn().receive("cipd:painted", timeout=60.0)
        assert torch.allclose(image[0, 0, 0].cpu(), torch.tensor([1.0, 0.6, 0.2]), atol=1 / 255)
    assert tokens[0] == tokens[1]
    nodes.SluiceOut().send(torch.zeros(1, 6, 8, 3, device=DEVICE), "cipd:painted")
    assert nodes.SluiceIn.IS_CHANGED(channel="cipd:painted") != tokens[0]
    assert nodes.SluiceIn().receive("cipd:painted", timeout=60.0)[2] == frame + 1
