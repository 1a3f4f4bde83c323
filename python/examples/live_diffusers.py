# SPDX-License-Identifier: MIT
"""Paints the frames of the channel `camera` with a pipeline of diffusers on a GPU: live_diffusers.py MODEL"""
import sys

import torch
from diffusers import AutoPipelineForImage2Image

from sluice.live import Live, diffusers


def main(model):
    pipe = AutoPipelineForImage2Image.from_pretrained(model, torch_dtype=torch.float16).to("cuda")
    with Live(input={"channel": "camera", "range": (0, 1)}, output="painted", device="cuda:0", size=(512, 512), dtype="float16",
              params={"prompt": "a cat", "strength": 0.5, "seed": 2}) as live:
        diffusers.run(pipe, live, num_inference_steps=2, guidance_scale=0.0)


if __name__ == "__main__":
    main(sys.argv[1])
