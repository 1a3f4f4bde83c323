# SPDX-License-Identifier: MIT
"""Reads "camera", writes "bright": a CuPy kernel from slot to slot, on a stream of its own."""
import cupy

import sluice

brighten = cupy.ElementwiseKernel("uint8 x", "uint8 y", "y = x > 127 ? 255 : 2 * x", "brighten")


def main():
    reader, count = sluice.Reader("camera", wait=30), 0
    size = reader.format["image"]
    with sluice.Writer("bright", sluice.Image("rgb24", size.width, size.height), device="cuda:0") as writer:
        with cupy.cuda.Stream(non_blocking=True):
            for frame in reader:
                with writer.frame(like=frame) as out:
                    brighten(frame.cupy(), out.cupy())
                count += 1
    print(count, "frames")


if __name__ == "__main__":
    main()
