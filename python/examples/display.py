# SPDX-License-Identifier: MIT
"""Shows a channel in a window until q is pressed, or prints a line for each of N frames: display.py CHANNEL [N]"""
import sys
import time

import cv2

import sluice


def main(channel, lines):
    for frame in sluice.Reader(channel, wait=10):
        age = (time.monotonic_ns() - frame.capture_ns) / 1e6
        text = f"frame {frame.sequence}: {age:.1f} ms old, {frame.missed} missed"
        if lines is None:
            picture = frame.copy()                 # to draw into: the frame itself is read-only
            cv2.putText(picture, text, (10, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.7, 255)
            cv2.imshow(channel, picture)
            if cv2.waitKey(1) == ord("q"):
                break
        else:
            print(text)
            lines -= 1
            if lines == 0:
                break


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
    except KeyboardInterrupt:
        pass
