# SPDX-License-Identifier: MIT
"""Shows what writer.py writes, until it ends."""
import sluice


def main():
    for frame in sluice.Reader("camera", wait=10):
        picture = frame.numpy()                # no copy, and read-only
        print(f"frame {frame.sequence}, {frame.missed} missed, {frame.meta.decode()}: blue is {picture[0, 0, 0]}")


if __name__ == "__main__":
    main()
