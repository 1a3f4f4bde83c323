# SPDX-License-Identifier: MIT
"""Fewer colours, and the control's edges in black: filter.py [filter.yaml]. It needs nothing but NumPy, and runs in host memory.

Parameter, live: `levels`, 2 to 256 of each colour."""
import numpy as np

import loop


class Engine:
    def __init__(self, live):
        self.set(4)

    def set(self, levels=None):
        if levels is not None:
            if not 2 <= int(levels) <= 256:
                raise ValueError(f"levels: {levels}: it must be 2 to 256")
            self.steps = np.float32(int(levels) - 1)

    def __call__(self, image, control):
        picture = np.rint(image * self.steps) / self.steps
        if control.on:
            picture *= 1 - control.scale * loop.thick(control.image)
        return picture


if __name__ == "__main__":
    loop.main(Engine, "filter.yaml", __doc__)
