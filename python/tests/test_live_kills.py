# SPDX-License-Identifier: MIT
"""Host and engine are killed again and again: nothing hangs, no picture is torn, and pictures are back."""
import os
import pathlib
import random
import signal
import time

import pytest
import sluice

from child import children
from eventually import STARTS

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def fork():
    """Starts a role, and gives its process."""
    with children(HERE / "live_roles.py", STARTS) as start:
        maker, living = start("start"), []

        def fork(role):
            maker.write(role)
            living.append(int(maker.read()))
            return living[-1]

        yield fork
        for each in living:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                pass


def is_good(frame):
    """Whether the picture is whole, and what its metadata says: of the input, with the control or without."""
    pixels, meta = frame.numpy(), frame.meta_json
    level = int(pixels[0, 0, 0])
    assert (pixels[..., :3] == level).all() and (pixels[..., 3] == 255).all(), "torn"
    if meta is None:  # black, as long as there is no host
        assert level in (0, 55)
        return False
    shown = meta["n"] * 7 % 200
    assert level in (shown, shown + 55), (level, meta)
    return level == shown + 55


def good_picture(reader, session=None):
    """Waits for a picture with control, of another session of the engine than that."""
    while True:
        try:
            with reader.next(STARTS) as frame:
                if is_good(frame) and frame.session != session:
                    return frame.session
        except sluice.Closed:
            pass


@pytest.mark.limit(3000)
@pytest.mark.parametrize("victim", ["engine", "host"])
def test_kills_at_random_moments(fork, victim, scale):
    """200 of each with SLUICE_TEST_SCALE=20. The next picture comes, and shows a frame of the host that lives."""
    chance, running = random.Random(3), {"host": fork("host"), "engine": fork("engine")}
    with sluice.Reader("painted", wait=None) as reader:
        session, slowest = good_picture(reader), 0.0
        for _ in range(max(3, int(10 * scale))):
            time.sleep(chance.random() * 0.02)
            os.kill(running[victim], signal.SIGKILL)
            running[victim] = fork(victim)
            back = time.monotonic()
            found = good_picture(reader, session if victim == "engine" else None)
            slowest = max(slowest, time.monotonic() - back)
            assert (found != session) is (victim == "engine")
            session = found
    print(f"{victim}: back within {slowest:.3f} s")
