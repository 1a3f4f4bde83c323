# SPDX-License-Identifier: MIT
"""Records every frame of a channel, until Ctrl-C or for some seconds: recorder.py CHANNEL FILE.mp4 [SECONDS]"""
import sys

import cv2

import sluice

RATE = 30  # frames a second: a file that OpenCV writes has one rate for all


def main(channel, file, seconds):
    reader = sluice.Reader(channel, mode="in_order", wait=10)
    image = reader.format["image"]
    video = cv2.VideoWriter(file, cv2.VideoWriter_fourcc(*"mp4v"), RATE, (image.width, image.height),
                            isColor=image.pixel_format == "bgr24")
    frames = missed = 0
    try:
        for frame in reader:
            video.write(frame.numpy())
            frames += 1
            missed += frame.missed
            if frames == seconds * RATE:
                break
    except KeyboardInterrupt:
        pass
    video.release()
    print(f"{frames} frames in {file}, {missed} missed")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0)
