# SPDX-License-Identifier: MIT
"""Plays a camera into the channel "camera", until Ctrl-C: camera.py [NUMBER | --pattern]"""
import sys
import time

import cv2
import numpy as np

import sluice


class Pattern:
    """Moving stripes at 30 frames a second, in place of a camera: has the methods of cv2.VideoCapture that main() uses."""
    number = 0

    def get(self, what):
        return {cv2.CAP_PROP_FRAME_WIDTH: 640, cv2.CAP_PROP_FRAME_HEIGHT: 480}[what]

    def grab(self):
        time.sleep(1 / 30)
        self.number += 1
        return True

    def retrieve(self, picture):
        stripes = (np.arange(picture.shape[1]) + 4 * self.number) // 40 % 2
        picture[:] = 255 * stripes[:, None]
        return True, picture


def main(source):
    camera = Pattern() if source == "--pattern" else cv2.VideoCapture(int(source))
    width = int(camera.get(cv2.CAP_PROP_FRAME_WIDTH))
    height = int(camera.get(cv2.CAP_PROP_FRAME_HEIGHT))
    if not width:
        raise SystemExit(f"there is no camera {source}: try --pattern")
    with sluice.Writer("camera", sluice.Image("bgr24", width, height)) as writer:
        while camera.grab():                       # waits for the next picture
            frame = writer.try_frame()
            if frame is None:                      # readers hold every slot: this picture is dropped
                continue
            with frame:                            # leaving the block publishes the frame, an exception does not
                picture = frame.numpy()            # (height, width, 3), in the slot itself
                filled, result = camera.retrieve(picture)
                if not filled or result is not picture:
                    raise SystemExit("the camera gave no picture of the size that it announced")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "0")
    except KeyboardInterrupt:
        pass
