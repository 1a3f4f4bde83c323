# SPDX-License-Identifier: MIT
"""Writes a moving picture, 60 times a second: writer.py [FRAMES]"""
import sys
import time

import numpy as np

import sluice


def main(frames):
    with sluice.Writer("camera", sluice.Image("bgr24", 640, 480)) as writer:
        columns = np.arange(640, dtype=np.uint8)
        for number in range(frames):
            with writer.frame(meta=b"frame %d" % number) as frame:
                picture = frame.numpy()        # (480, 640, 3), in the slot itself
                picture[..., 0] = columns + number
                picture[..., 1:] = 0
            time.sleep(1 / 60)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
