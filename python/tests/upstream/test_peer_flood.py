# SPDX-License-Identifier: MIT
"""A reader of Sluice's that never pauses, beside a program of cuda-link's that never waits. SLUICE_CIPD_FRAMES says how many
frames: 10,000 on a GPU, some on the fake driver."""
import os
import threading
import time

import numpy
import pytest

import sluice
from conftest import ask

FRAMES = int(os.environ.get("SLUICE_CIPD_FRAMES") or 0)
SLOTS, BURST = 3, 100


def while_it_answers(peer, command, look):
    """look() again and again, from when the command is given until it is answered."""
    answer = []
    thread = threading.Thread(target=lambda: answer.append(ask(peer, command)))
    thread.start()
    while not answer and thread.is_alive():
        look()
    thread.join()
    return answer[0] if answer else "nothing"


class Spin:
    """Takes and counts what is new; a frame that the writer has overwritten meanwhile is reported as lost."""

    def __init__(self, reader):
        self.reader, self.taken, self.first, self.last = reader, 0, 0, 0

    def look(self, use=lambda frame: None):
        try:
            frame = self.reader.latest()
            if frame is None:
                return
            assert frame.sequence > self.last, f"{frame.sequence} behind {self.last}"
            self.first, self.last, self.taken = self.first or frame.sequence, frame.sequence, self.taken + 1
            use(frame)
            frame.release()
        except sluice.LostError:
            pass

    def reach(self, number):
        end = time.monotonic() + 30
        while self.last < number:
            self.look()
            assert time.monotonic() < end, f"{self.last} of {number}"


@pytest.mark.limit(900)
def test_a_flood_without_a_handshake(gpu, peers, native):
    """A frame that can be copied and released is whole."""
    exporter, whole = peers.start("cuda-link", "export"), []
    assert ask(exporter, f"open height=512 width=512 num_slots=2") == "open"
    spin = Spin(native(sluice.Reader))

    def use(frame):
        found = numpy.frombuffer(frame.copy().tobytes(), "uint8")  # raises if it is known to be torn
        frame.release()  # as does this
        assert (found == found[0]).all(), f"frame {frame.sequence} is of {sorted(set(found.tolist()))}"
        whole.append(int(found[0]))

    frames = FRAMES or (400 if gpu.fake else 10000)
    for first in range(1, frames + 1, BURST):
        last = min(first + BURST - 1, frames)
        assert while_it_answers(exporter, f"burst {first} {last}", lambda: spin.look(use)) == "PUBLISHED"
    spin.reach(frames)
    stats = spin.reader.stats()
    assert whole and spin.taken >= len(whole) and stats.sessions == 1


@pytest.mark.limit(900)
def test_a_spin_beside_publish_frame(gpu, peers, native):
    """Python clears a number before it stores it: that is no other session, and no frame comes twice."""
    exporter, other = peers.start("cuda-link", "export"), peers.start("cuda-link", "publish")
    assert ask(exporter, f"open height=8 width=8 num_slots={SLOTS}") == "open"
    spin = Spin(native(sluice.Reader))
    for number in range(1, SLOTS + 1):  # every slot has had a frame, whose work has ended
        assert ask(exporter, f"send {number}") == "PUBLISHED"
    spin.reach(SLOTS)
    said = ask(other, "open")
    if said != "open":
        pytest.skip(said)
    frames = FRAMES * 1000 or (200_000 if gpu.fake else 1_000_000)  # dev/gpu-check: ten million
    assert while_it_answers(other, f"publish {SLOTS + 1} {frames}", spin.look) == "PUBLISHED"
    spin.reach(frames)
    stats = spin.reader.stats()
    assert (stats.sessions, stats.missed) == (1, frames - spin.first + 1 - spin.taken)
    assert spin.taken > SLOTS
