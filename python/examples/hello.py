# SPDX-License-Identifier: MIT
"""The smallest writer and the smallest reader: hello.py write, and in another shell hello.py read"""
import sys
import time

import sluice


def write():
    with sluice.Writer("gray", shape=(480, 640)) as writer:
        for number in range(100):
            with writer.frame() as frame:
                frame.numpy()[:] = number          # in the slot itself
            time.sleep(0.02)


def read():
    for frame in sluice.Reader("gray", wait=10):
        print(frame.sequence, frame.numpy().max())  # no copy, and read-only


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]]()
