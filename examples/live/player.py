# SPDX-License-Identifier: MIT
"""Plays pictures into the channels "camera" and "edges": a video, a camera, or a scene that needs no file. host.py starts it.

Both frames of a picture have the metadata {"n": number, "t": time.monotonic_ns() of the commit}. With --flash SECONDS the picture is white
for a few frames that often, and the line "flash N T" on the standard output says when the first of them was committed."""
import argparse
import json
import math
import os
import pathlib
import sys
import threading
import time

import cv2
import numpy as np

import sluice

HERE = pathlib.Path(__file__).resolve().parent
THRESHOLDS = (80, 200)  # Canny's
OPTIONS = {
    "source": {"default": "scene", "help": "what is played: scene, a file, or the number of a camera"},
    "size": {"default": "512x512", "help": "of the pictures that are played"},
    "fps": {"type": float, "default": 60, "help": "how many are played a second; 0: as many as possible"},
    "device": {"default": "host", "help": "where the channels lie that are played: host or cuda:N"},
    "camera": {"default": "camera", "help": "channel of the pictures (camera)"},
    "edges": {"default": "edges", "help": "channel of their edges (edges)"},
    "flash": {"type": float, "default": 0, "metavar": "SECONDS", "help": "time from one white picture to the next; 0: none"},
    "flash-frames": {"type": int, "default": 4, "help": "how many pictures in a row are white"},
}


def stamped(n, channel):
    """The metadata, and the time in it: the last thing that is done before a commit. cuda-link's protocol has none."""
    now = time.monotonic_ns()
    return b"" if channel.name.startswith("cipd:") else json.dumps({"n": n, "t": now}), now


class Pictures:
    """Pictures in host memory, and their edges by OpenCV."""

    def __init__(self, size):
        self.size = size
        self.white = np.full((size[1], size[0], 3), 255, np.uint8)

    def picture(self, seconds):
        raise NotImplementedError

    def write(self, camera, edges, n, seconds, white):
        """-> when they were committed"""
        picture = self.white if white else self.picture(seconds)
        edge = cv2.Canny(cv2.GaussianBlur(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), (5, 5), 0), *THRESHOLDS)
        bgra = cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA)
        meta, committed = stamped(n, camera)
        edges.send(edge, meta=meta or None)  # first, so that whoever has the picture finds its edges
        camera.send(bgra, meta=meta or None)
        return committed


class Video(Pictures):
    """A file that is played again and again, or a camera (its number)."""

    def __init__(self, source, size):
        super().__init__(size)
        self.source, self.file = source, cv2.VideoCapture(source)
        if not self.file.isOpened():
            raise SystemExit(f"player: OpenCV cannot open {source}: give another file, or `scene`")

    def picture(self, seconds):
        done, picture = self.file.read()
        if not done:
            self.file = cv2.VideoCapture(self.source)
            done, picture = self.file.read()
        if not done:
            raise SystemExit(f"player: no more pictures from {self.source}")
        width, height = self.size
        part = min(picture.shape[1] / width, picture.shape[0] / height)  # cover: cut off what is too much
        wide, high = round(width * part), round(height * part)
        left, top = (picture.shape[1] - wide) // 2, (picture.shape[0] - high) // 2
        return cv2.resize(picture[top:top + high, left:left + wide], self.size, interpolation=cv2.INTER_AREA)


class Scene(Pictures):
    """A sky, a ground and three discs that move, as in scene.cu."""

    def __init__(self, size):
        super().__init__(size)
        width, height = size
        self.u, self.v = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
        self.sky = np.stack([0.85 - 0.3 * self.v, 0.45 + 0.3 * self.u, 0.25 + 0.4 * self.v], -1)

    def picture(self, seconds):
        tiles = ((np.floor(12 * (self.u + 0.05 * seconds)) + np.floor(12 * self.v)) % 2 * 0.15)[..., None]
        ground = np.array((0.2, 0.5, 0.25)) + tiles * (0, 1, 1)
        hill = 0.68 + 0.08 * np.sin(6 * (self.u + 0.1 * seconds))
        picture = (np.where((self.v > hill)[..., None], ground, self.sky) * 255).astype(np.uint8)
        for colour, x, y, radius in (((76, 217, 255), 0.5 + 0.35 * math.cos(seconds), 0.3, 0.1),
                                     ((51, 38, 204), 0.3, 0.6 + 0.2 * math.sin(2 * seconds), 0.14),
                                     ((230, 242, 242), 0.7 + 0.15 * math.sin(1.3 * seconds), 0.62, 0.18)):
            cv2.circle(picture, (round(x * self.size[0]), round(y * self.size[1])), round(radius * self.size[0]), colour, -1, cv2.LINE_AA)
        return picture


class GpuScene:
    """The same on a GPU: no picture ever leaves it. The edges are Sobel's."""

    def __init__(self, device):
        self.scene = sluice.Kernels(HERE / "scene.cu", device)
        self.sobel = sluice.Kernels(HERE.parent / "kernels" / "edges.cu", device)

    def write(self, camera, edges, n, seconds, white):
        with camera.frame() as colours, edges.frame() as edge:  # the edges are committed first
            self.scene.scene(colours, seconds, int(white), over=colours)
            self.sobel.edges(edge, colours, 1.0, over=edge)
            meta, committed = stamped(n, camera)
            if meta:
                colours.meta = edge.meta = meta
        return committed


def source_of(options, size):
    if options.source == "scene":
        return Scene(size) if options.device == "host" else GpuScene(options.device)
    return Video(int(options.source) if options.source.isdigit() else options.source, size)


def play(options):
    width, height = map(int, options.size.split("x"))
    source = source_of(options, (width, height))
    with sluice.Writer(options.camera, sluice.Image("bgra", width, height), device=options.device, slots=6) as camera, \
            sluice.Writer(options.edges, sluice.Image("gray", width, height), device=options.device, slots=6) as edges:
        n, began = options.first, time.monotonic()
        due, flash_at, white = began, began + options.flash, 0
        while True:
            now = time.monotonic()
            if options.flash and now >= flash_at:
                flash_at, white = flash_at + options.flash, options.flash_frames
            try:
                committed = source.write(camera, edges, n, now - began, white > 0)
            except sluice.NoFreeSlot:
                continue
            if white == options.flash_frames:
                print(f"flash {n} {committed}", flush=True)
            n, white = n + 1, max(0, white - 1)
            if options.fps:
                due = max(due + 1 / options.fps, time.monotonic() - 1 / options.fps)
                time.sleep(max(0, due - time.monotonic()))


def end_with(stream):
    """Ends this process when the one that started it ends."""
    stream.read()
    os._exit(0)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, about in OPTIONS.items():
        options.add_argument(f"--{name}", **about)
    options.add_argument("--first", type=int, default=1, help="number of the first picture")
    options.add_argument("--child", action="store_true", help="end when the standard input ends")
    options = options.parse_args()
    if options.child:
        threading.Thread(target=end_with, args=(sys.stdin,), daemon=True).start()
    cv2.setNumThreads(1)  # the CPUs are the engine's
    play(options)


if __name__ == "__main__":
    main()
