# SPDX-License-Identifier: MIT
"""Many frames in both directions, while processes are killed and started again, and while formats and slots change. On a GPU frames
are of 1080p but for a few, and a kernel looks at them where PyTorch is.

SLUICE_CIPD_FRAMES says how many frames of 1080p an exporter sends in one of these tests: 600 on a GPU, some on the fake driver."""
import importlib.util
import os
import random
import time

import pytest

from conftest import Two, ask

SESSIONS = [(slots, height, dtype) for slots, height in ((2, 1080), (3, 1080), (5, 720), (10, 1080)) for dtype in ("float32", "uint8")]
OF_1080P = sum(height == 1080 for _, height, _ in SESSIONS)


class Long(Two):
    def __init__(self, peers, pair, gpu):
        super().__init__(peers, pair)
        self.scale = 40 if gpu.fake else 1
        self.role = "tensors" if not gpu.fake and importlib.util.find_spec("torch") else "import"
        self.number = 0

    def begin(self, slots, height, dtype):
        self.slots = slots
        self.export(f"height={height // self.scale} width={1920 // self.scale} dtype={dtype} num_slots={slots}")

    def burst(self):
        """As many as may come while a reader looks at one: what is then in its slot is what it was."""
        first, self.number = self.number + 1, self.number + self.slots - 1
        return f"burst {first} {self.number}"

    def hand_over(self, frames):
        end = self.number + frames
        while self.number < end:
            self.exporter.write(self.burst())
            said = ask(self.importer, f"watch {self.number}")
            assert said.isdigit() and self.exporter.read() == "PUBLISHED", said

    def kill_exporter(self):
        self.exporter.write(self.burst())
        time.sleep(random.random() / 500)
        self.exporter.kill()
        self.exporter = None

    def kill_importer(self):
        self.exporter.write(self.burst())
        self.importer.write(f"watch {self.number}")
        time.sleep(random.random() / 500)
        self.importer.kill()
        assert self.exporter.read() == "PUBLISHED"

    def connect_anew(self):
        """What a program of cuda-link's has to do when its exporter was killed."""
        assert ask(self.importer, "close") == "closed"
        ask(self.importer, "open")


@pytest.mark.limit(900)
def test_frames_while_processes_are_killed(peers, pair, gpu):
    long = Long(peers, pair, gpu)
    frames = int(os.environ.get("SLUICE_CIPD_FRAMES") or (30 if gpu.fake else 600))
    for turn, session in enumerate(SESSIONS):
        long.begin(*session)
        if not long.importer:
            long.connect(role=long.role)
        elif killed and pair == ("cuda-link", "cuda-link"):
            long.connect_anew()
        long.hand_over(-(-frames // OF_1080P) if session[1] == 1080 else 10)
        killed = turn % 3 == 1
        if killed:
            long.kill_exporter()
            continue
        if turn % 3 == 0 and pair != ("cuda-link", "cuda-link"):  # there the segment's name goes with the importer
            long.kill_importer()
            long.connect(role=long.role)
            long.hand_over(1)
        assert ask(long.exporter, "close") == "closed"
