# SPDX-License-Identifier: MIT
"""NV12, as cameras and decoders give it: one array for OpenCV, or its planes."""
import cv2
import numpy as np

import sluice


def main():
    with sluice.Writer("decoder", sluice.Image("nv12", 64, 48)) as writer, sluice.Reader("decoder") as reader:
        with writer.frame() as frame:
            luma, chroma = (plane.numpy() for plane in frame.planes)
            luma[:] = 200                      # (48, 64)
            chroma[:] = 128                    # (24, 32, 2): U and V

        with reader.next(timeout=1) as frame:
            nv12 = frame.numpy(pixel_format="nv12")   # (72, 64)
            bgr = cv2.cvtColor(nv12, cv2.COLOR_YUV2BGR_NV12)
            print(nv12.shape, bgr.shape, np.ptp(bgr))


if __name__ == "__main__":
    main()
