# SPDX-License-Identifier: MIT
"""A live loop, input to output through one tensor, beside which a test captures; and the host program on its other side.

    live_loop.py host DEVICE    prints "seen N", N frames checked so far, at each line that comes in; or what is wrong with one"""
import contextlib
import sys
import threading

import numpy as np

import sluice
import sluice.live

CAMERA_SIZES = (64, 48), (128, 96), (32, 24)
LIVE_SIZES = (64, 48), (96, 64)
OF_A_CAMERA, OF_A_LIVE = 40, 60  # frames until the one and the other is closed and opened again in another size


def colour(number):
    """Of the whole picture: RGBA."""
    return [number % 251, (number * 3) % 251, (number * 7) % 251, 255]


# ---- the host program ----

def write_camera(device, stop):
    """Frames of one colour each; again and again the channel is closed and opened, in another size, or changes its size."""
    number = 0
    while not stop.is_set():
        width, height = CAMERA_SIZES[number // OF_A_CAMERA % len(CAMERA_SIZES)]
        with sluice.Writer("camera", {"image": sluice.Image("rgba", width, height)}, device=device) as writer:
            for number in range(number + 1, number + 1 + OF_A_CAMERA):
                picture = np.broadcast_to(np.array(colour(number), "u1"), (height, width, 4)).copy()
                while not stop.is_set():
                    with contextlib.suppress(sluice.NoFreeSlot):
                        writer.send(picture, meta={"n": number})
                        break


def problem_of(frame):
    """What is wrong with a painted frame, or None. It is black while the loop has no input."""
    number = frame.meta_json["n"] if frame.meta else None
    wanted = colour(number) if frame.meta else [0, 0, 0, 255]
    away = np.abs(frame.copy().astype(int) - np.array(wanted)).max()
    return f"frame {number} is {away} away from its colour {wanted}, shape {frame.shape}" if away else None


def host(device):
    stop, seen, wrong = threading.Event(), 0, None

    def read_painted():
        nonlocal seen, wrong
        while not stop.is_set():
            try:
                with sluice.Reader("painted", mode="in_order", wait=0.2) as reader:
                    while not stop.is_set():
                        with reader.next(timeout=0.2) as frame:
                            wrong = wrong or problem_of(frame)
                            seen += bool(frame.meta)
            except (sluice.Closed, sluice.NotFoundError, TimeoutError):
                pass  # the loop opens it again
            except Exception as error:
                wrong = repr(error)

    threads = [threading.Thread(target=write_camera, args=(device, stop)), threading.Thread(target=read_painted)]
    for thread in threads:
        thread.start()
    for _ in sys.stdin:
        print(wrong or f"seen {seen}", flush=True)
    stop.set()
    for thread in threads:
        thread.join()


# ---- the loop ----

class Running(threading.Thread):
    """The loop in a thread of this process, opened again in another size now and then."""

    def __init__(self, device):
        super().__init__(name="live loop")
        self.device, self.ended, self.shots, self.sessions, self.error = device, threading.Event(), 0, 0, None

    def run(self):
        try:
            while not self.ended.is_set():
                self.session(LIVE_SIZES[self.sessions % len(LIVE_SIZES)])
                self.sessions += 1
        except BaseException as error:
            self.error = error

    def session(self, size):
        with sluice.live.Live(input="camera", output="painted", size=size, device=self.device) as live:
            for number, shot in enumerate(live):
                shot.send(shot.input)
                self.shots += 1
                if self.ended.is_set() or number == OF_A_LIVE:
                    return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, trace):
        self.ended.set()
        self.join()
        if self.error and error is None:
            raise self.error


if __name__ == "__main__":
    {"host": host}[sys.argv[1]](*sys.argv[2:])
