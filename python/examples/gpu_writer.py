# SPDX-License-Identifier: MIT
"""Writes a moving picture in a GPU's memory, 60 times a second: gpu_writer.py [FRAMES]"""
import sys
import time

import torch

import sluice


def main(frames):
    with sluice.Writer("camera", sluice.Image("rgb24", 640, 480), device="cuda:0") as writer:
        columns = torch.arange(640, device=writer.device).to(torch.uint8)
        for number in range(frames):
            with writer.frame(meta=b"frame %d" % number) as frame:
                picture = frame.torch()        # (480, 640, 3), the slot itself
                picture[..., 0] = columns + number % 256
                picture[..., 1:] = 0
            time.sleep(1 / 60)                 # committed behind those kernels: nobody has waited for the GPU


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
