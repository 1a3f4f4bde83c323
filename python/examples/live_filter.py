# SPDX-License-Identifier: MIT
"""Sends each frame of the channel "camera" in few colours, as the channel "painted"."""
import numpy as np

from sluice.live import Live


def engine(image, levels):
    return np.round((image + 1) / 2 * (levels - 1)) / (levels - 1) * 2 - 1


def main():
    with Live(input="camera", output="painted", size=(512, 512), params={"levels": 4}) as live:
        for shot in live:                      # the newest frame; ends at Ctrl-C, SIGTERM, live.stop()
            with shot:                         # an exception of the engine is reported, and the loop goes on
                shot.send(engine(shot.input, **shot.params))


if __name__ == "__main__":
    main()
