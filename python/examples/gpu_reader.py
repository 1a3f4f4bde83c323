# SPDX-License-Identifier: MIT
"""Shows what gpu_writer.py writes, until it ends."""
import sluice


def main():
    for frame in sluice.Reader("camera", wait=30):
        picture = frame.torch()                # the writer's memory: no copy, and for reading only
        brightest = int(picture.max())
        print(f"frame {frame.sequence}, {frame.missed} missed, {frame.meta.decode()}: {brightest} on {frame.device}")


if __name__ == "__main__":
    main()
