# SPDX-License-Identifier: MIT
"""What host.py measures. Motion to photon is measured twice: by the metadata that comes back with each picture, and by a flash, whose step
is found in the received pictures themselves."""
import statistics
import time

import cv2
import numpy as np

from loop import percentiles

GRID = (8, 8)  # what a picture is reduced to for the flash
BEFORE, AFTER = 0.5, 0.5  # s around a flash
CLEAR = 2  # how many times larger a flash's step must be than those between the pictures before it


class Figures:
    def __init__(self, late, flash_s):
        self.late, self.flash_s = late, flash_s
        self.began, self.last = None, 0  # time.monotonic() of the first picture; the highest number
        self.pictures = []  # (received ns, number)
        self.latencies = []  # (which picture, ns): of each input that was shown
        self.small = []  # (received ns, number, a few pixels), of the last seconds: for flashes
        self.flashes, self.found = [], []
        self.missed = self.repeated = self.late_count = self.skipped = 0
        self.parts = [("as it begins", 0)]
        self.kills, self.changes = [], []  # changes: when something else than the input changed the picture
        self.ended = None

    # ---- while it runs ----

    def received(self, frame, meta, now, new, flashes):
        n, latency = int(meta["n"]), now - int(meta["t"])
        if self.ended:
            return
        if self.began is None:
            self.began = time.monotonic()
        if not new:
            self.missed += frame.missed
        if self.pictures:
            step = n - self.pictures[-1][1]
            self.repeated += step == 0 and n >= 0
            self.skipped += step - 1 if 1 < step < 500 else 0  # more: the player was started again
        if n > self.last:  # the first picture of this input; one that is shown again is no later for that
            self.latencies.append((len(self.pictures), latency))
            self.late_count += latency > self.late * 1e9
        for kill in self.kills:
            if "back_s" not in kill and (new if kill["who"] == "engine" else n > kill["n"] + 900):
                kill["back_s"] = round((now - kill["at_ns"]) / 1e9, 3)
        self.pictures.append((now, n))
        self.last = max(self.last, n)
        if flashes:
            # on a GPU numpy() is a copy, which is made after `now`
            self.small.append((now, n, cv2.resize(frame.numpy(), GRID, interpolation=cv2.INTER_AREA).astype(np.float32).ravel()))

    def flash(self, n, committed):
        self.flashes.append((n, committed))

    def segment(self, label):
        self.parts.append((label, len(self.pictures)))
        self.changed()

    def changed(self):
        self.changes.append(time.monotonic_ns())

    def killed(self, who, pid):
        at = 0 if self.began is None else time.monotonic() - self.began
        self.changed()
        self.kills.append({"who": who, "pid": pid, "at_s": round(at, 2), "n": self.last, "at_ns": self.changes[-1]})

    def is_away(self):
        """Whether no picture has come back after a kill."""
        return any("back_s" not in kill for kill in self.kills)

    def end(self):
        self.ended = time.monotonic()

    # ---- afterwards ----

    def is_alone(self, committed):
        """Whether nothing else changed the picture around a flash."""
        return not any(committed - BEFORE * 1e9 < at < committed + (self.flash_s + AFTER) * 1e9 for at in self.changes)

    def find_flash(self, n, committed):
        """Both latencies of one flash, and how many pictures apart they are; None if it cannot be seen."""
        before = [pixels for at, shown, pixels in self.small if shown < n and committed - BEFORE * 1e9 <= at < committed]
        after = [(at, shown, pixels) for at, shown, pixels in self.small if committed < at <= committed + (self.flash_s + AFTER) * 1e9]
        if len(before) < 2 or not after:
            return None

        # a flash is a step from one picture to the next, far above those that the scene makes
        usual = max(float(np.linalg.norm(later - earlier)) for earlier, later in zip(before, before[1:]))
        pictures = [before[-1], *(pixels for _, _, pixels in after)]
        steps = [float(np.linalg.norm(later - earlier)) for earlier, later in zip(pictures, pictures[1:])]
        if max(steps) < CLEAR * max(usual, 1.0):
            return None
        by_flash = next(at for at, step in enumerate(steps) if step > max(steps) / 2)
        by_meta = next((at for at, (_, shown, _) in enumerate(after) if shown >= n), None)
        found = {"flash_ms": (after[by_flash][0] - committed) / 1e6}
        if by_meta is not None:
            found |= {"metadata_ms": (after[by_meta][0] - committed) / 1e6, "pictures_apart": by_flash - by_meta}
        return found

    def all(self):
        times = [at for at, _ in self.pictures]
        seconds = (times[-1] - times[0]) / 1e9 if len(times) > 1 else 0
        alone = [(n, committed) for n, committed in self.flashes if self.is_alone(committed)]
        found = [each for n, committed in alone if (each := self.find_flash(n, committed))]
        figures = {"pictures": len(times), "seconds": round(seconds, 2), "fps": round((len(times) - 1) / seconds, 2) if seconds else 0,
                   "latency_ms": percentiles([latency for _, latency in self.latencies], 1e-6),
                   "gap_ms": percentiles([later - earlier for earlier, later in zip(times, times[1:])], 1e-6),
                   "missed": self.missed, "repeated": self.repeated, "late": self.late_count, "late_from_ms": self.late * 1e3,
                   "inputs_skipped": self.skipped, "parts": self.by_part(),
                   "kills": [{key: value for key, value in kill.items() if key not in ("n", "at_ns")} for kill in self.kills]}
        if self.flashes:
            figures["flash"] = {"shown": len(alone), "found": len(found)}
            if found:
                for name in found[0]:
                    figures["flash"][name] = round(statistics.median(each[name] for each in found if name in each), 3)
                if "pictures_apart" in found[0]:
                    figures["flash"]["pictures_apart"] = max((each.get("pictures_apart", 0) for each in found), key=abs)
        return figures

    def by_part(self):
        """Rate and latency of each part of the time line."""
        ends = [first for _, first in self.parts[1:]] + [len(self.pictures)]
        rows = []
        for (label, first), end in zip(self.parts, ends):
            some = self.pictures[first:end]
            seconds = (some[-1][0] - some[0][0]) / 1e9 if len(some) > 1 else 0
            rows.append({"what": label, "fps": round((len(some) - 1) / seconds, 1) if seconds else 0,
                         "latency_ms": percentiles([latency for at, latency in self.latencies if first <= at < end], 1e-6)})
        return rows


def table(figures):
    """The figures as text."""
    lines = [f"{'fps':>7} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}  "]
    for row in [{**figures, "what": "all"}, *(figures["parts"] if len(figures["parts"]) > 1 else [])]:
        latency = row["latency_ms"] or dict.fromkeys(("p50", "p95", "p99"), float("nan"))
        lines.append(f"{row['fps']:7.1f} {latency['p50']:8.1f} {latency['p95']:8.1f} {latency['p99']:8.1f}  {row['what']}")
    lines.append("{pictures} pictures: {missed} missed, {repeated} repeated, {late} late (over {late_from_ms:.0f} ms); {inputs_skipped} "
                 "inputs were not taken, because a newer one was there".format(**figures))
    if flash := figures.get("flash"):
        lines.append(f"motion to photon: {flash['found']} of {flash['shown']} flashes found" + (
            f"; by flash {flash['flash_ms']:.1f} ms" if flash["found"] else ": this engine does not show them") + (
            f"; by metadata {flash['metadata_ms']:.1f} ms, {abs(flash['pictures_apart'])} pictures apart at most" if "metadata_ms" in flash
            else ""))
    for kill in figures["kills"]:
        back = f"back after {kill['back_s']:.2f} s" if "back_s" in kill else "NOT BACK"
        lines.append(f"killed the {kill['who']} (pid {kill['pid']}) at {kill['at_s']:.1f} s: {back}")
    return "\n".join(lines)
