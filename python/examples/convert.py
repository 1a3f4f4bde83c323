# SPDX-License-Identifier: MIT
"""A frame as a model wants it, in one pass, and the way back to the frame."""
import numpy as np

import sluice

with sluice.Writer("camera", format={"image": sluice.Image("nv12", 1920, 1080)}) as writer, writer.frame() as frame:
    sluice.convert(frame, np.full((1080, 1920, 3), 128, np.uint8))  # gray
    tensor = np.empty((3, 512, 512), np.float32)
    area = sluice.convert(tensor, frame, fit="inside", scale=2, bias=-1)  # -1 to 1, as many models want it
    print(area.back(256, 256))  # which point of the frame the middle of the tensor shows
    boxes = np.array([[128.0, 144, 384, 368], [0, 112, 32, 400]])  # left, top, right, bottom in the tensor
    left, top = area.back(boxes[:, 0], boxes[:, 1])
    right, bottom = area.back(boxes[:, 2], boxes[:, 3])
    print(np.stack([left, top, right, bottom], 1))  # on the frame
