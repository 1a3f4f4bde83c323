# SPDX-License-Identifier: MIT
"""Input, control and output side by side: as a video, and as a sheet with a row for each part of a time line."""
import collections
import threading

import cv2
import numpy as np

TILE = 256  # pixels, of a side
KEPT = 90  # pictures of a channel that an output may still ask for
PER_SECOND = 15  # of the video
COLUMNS = ("input", "control", "output")
ORDERS = {"rgba": cv2.COLOR_RGBA2BGR, "bgra": cv2.COLOR_BGRA2BGR, "gray": cv2.COLOR_GRAY2BGR, "rgb24": cv2.COLOR_RGB2BGR}


def tile_of(frame):
    """A frame's picture in the size of a tile, BGR."""
    picture = frame.numpy()
    if frame.pixel_format in ORDERS:
        picture = cv2.cvtColor(picture, ORDERS[frame.pixel_format])
    return cv2.resize(picture, (TILE, TILE), interpolation=cv2.INTER_AREA)


def text(picture, words, at):
    cv2.putText(picture, words, at, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)


class Sheet:
    def __init__(self, options):
        self.record, self.sheet = options.record, options.sheet
        self.lock = threading.Lock()
        self.kept = {name: collections.OrderedDict() for name in ("input", "edges", "control")}
        self.video, self.last, self.rows, self.next_ns = None, None, [], 0

    def is_due(self, now):
        if now < self.next_ns:
            return False
        self.next_ns = max(self.next_ns + 10**9 // PER_SECOND, now)
        return True

    def keeper(self, column):
        """What takes the frames of a channel: it keeps them by their number."""
        def keep(frame, now):
            meta = frame.meta_json
            if isinstance(meta, dict) and "n" in meta:
                tile = tile_of(frame)
                with self.lock:
                    self.kept[column][meta["n"]] = tile
                    while len(self.kept[column]) > KEPT:
                        self.kept[column].popitem(last=False)
        return keep

    def add(self, n, picture, label):
        """An output beside the input that it shows, and the control: as the engine saw it, if it sends that, else as it was played. One
        whose input was not caught is left out."""
        with self.lock:
            shown, control = self.kept["input"].get(n), self.kept["control"].get(n, self.kept["edges"].get(n))
        if shown is None or control is None:
            return
        row = np.hstack([shown, control, picture])
        if shown.min() < 255:  # not during a flash
            self.last = row
        if self.record:
            if self.video is None:
                self.video = cv2.VideoWriter(self.record, cv2.VideoWriter_fourcc(*("mp4v" if self.record.endswith(".mp4") else "MJPG")),
                                             PER_SECOND, (row.shape[1], TILE + 24))
                if not self.video.isOpened():
                    raise SystemExit(f"host: OpenCV cannot write {self.record}: take a name that ends with .avi or .mp4")
            self.video.write(np.vstack([self.strip(label), row]))

    def strip(self, words):
        strip = np.zeros((24, TILE * len(COLUMNS), 3), np.uint8)
        text(strip, words, (6, 17))
        return strip

    def close_row(self, label):
        """The newest output becomes the row of what was in force until now."""
        if self.last is not None:
            self.rows.append((label, self.last))

    def close(self):
        if self.video is not None:
            self.video.release()
        if self.sheet and self.rows:
            header = self.strip("")
            for at, name in enumerate(COLUMNS):
                text(header, name, (6 + at * TILE, 17))
            parts = [header] + [part for label, row in self.rows for part in (self.strip(label), row)]
            if not cv2.imwrite(self.sheet, np.vstack(parts)):
                raise SystemExit(f"host: OpenCV cannot write {self.sheet}: take a name that ends with .png or .jpg")
