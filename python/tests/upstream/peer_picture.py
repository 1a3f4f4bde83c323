# SPDX-License-Identifier: MIT
"""The content of frame `number` in these tests."""
import numpy


def picture(size, number):
    """Two frames are alike nowhere."""
    return ((numpy.arange(size) * 7 + number) % 251).astype("uint8")
