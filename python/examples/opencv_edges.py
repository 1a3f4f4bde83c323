# SPDX-License-Identifier: MIT
"""Reads "camera", writes its edges to "edges"; OpenCV reads and writes the slots themselves."""
import cv2

import sluice


def main():
    reader = sluice.Reader("camera", wait=10)
    size = reader.format["image"]
    with sluice.Writer("edges", sluice.Image("gray", size.width, size.height)) as writer:
        for frame in reader:
            picture = frame.numpy(pixel_format="bgr24")
            gray = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
            with writer.frame(like=frame) as out:
                edges = out.numpy()
                result = cv2.Canny(gray, 80, 160, edges=edges)
                assert result is edges         # written in place, not into a new array


if __name__ == "__main__":
    main()
