# SPDX-License-Identifier: MIT
"""The smallest writer: gray images, each a little brighter than the one before."""
import time

import sluice

with sluice.Writer("gray", sluice.Image("gray", 640, 480)) as writer:
    for number in range(250):
        with writer.frame() as frame:
            frame.numpy()[:] = number          # in the slot itself
        time.sleep(0.02)
