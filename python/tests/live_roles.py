# SPDX-License-Identifier: MIT
"""Host and engine as processes of their own: live_roles.py start. Each line "ROLE" forks one, and its process id comes back; the
packages are loaded once."""
import os
import signal
import sys
import time
import traceback

import numpy as np
from sluice.live import Live

from live_hosts import QUIET, Host

SIZE = 64, 48


def value_of(number):
    """The byte of frame `number`, of the camera."""
    return number * 7 % 200


def host():
    """Sends the camera and its edges with equal numbers until it is killed."""
    camera, edges = Host("camera", SIZE), Host("edges", SIZE, "gray")
    while True:
        camera.send(value_of(camera.number + 1))
        edges.send(value_of(camera.number))
        time.sleep(0.001)


def engine():
    """Sends the input with the control added: 55 of 255 where it acts."""
    control = {"channel": "edges", "pair": "number", "stale": 0.2}
    with Live(input={"channel": "camera", "stale": 0.2}, output="painted", controls={"canny": control}, size=SIZE, **QUIET) as live:
        for shot in live:
            canny = shot.control("canny")
            shot.send(shot.input + canny.scale * np.float32(55 / 127.5))


def start():
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.close(0)
            try:
                {"host": host, "engine": engine}[line.strip()]()
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        print(child, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    start()
