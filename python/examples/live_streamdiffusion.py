# SPDX-License-Identifier: MIT
"""Runs StreamDiffusion on live frames, as a file says: live_streamdiffusion.py MODEL td_config.yaml"""
import sys

import torch
from diffusers import StableDiffusionPipeline
from streamdiffusion import StreamDiffusion

from sluice.live import streamdiffusion


def main(model, settings):
    pipe = StableDiffusionPipeline.from_pretrained(model, torch_dtype=torch.float16).to("cuda")
    stream = StreamDiffusion(pipe, t_index_list=[32], torch_dtype=torch.float16, width=512, height=512)
    streamdiffusion.run(stream, settings)  # or a StreamDiffusionWrapper: with its ControlNets


if __name__ == "__main__":
    main(*sys.argv[1:])
