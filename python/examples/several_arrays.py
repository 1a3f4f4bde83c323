# SPDX-License-Identifier: MIT
"""A frame of three arrays: a picture, its depth, and boxes whose number changes from frame to frame."""
import numpy as np

import sluice


def main():
    formats = {
        "view": sluice.Image("rgb24", 320, 240),
        "depth": sluice.Tensor((240, 320), "float32"),
        "boxes": sluice.Tensor((100, 4), "float32"),  # at most 100
    }
    with sluice.Writer("robot", formats) as writer, sluice.Reader("robot") as reader:
        found = np.array([[10, 10, 50, 60]], "float32")
        with writer.frame() as frame:
            frame.reshape(found.shape, "boxes")
            frame.numpy("boxes")[:] = found
            frame.numpy("view")[:] = 128
            frame["depth"].numpy()[:] = 1.5

        with reader.next(timeout=1) as frame:
            print(frame.keys(), frame["boxes"].shape, frame.numpy("depth").mean())


if __name__ == "__main__":
    main()
