# SPDX-License-Identifier: MIT
"""Waits for conditions, not for times: threads, other processes and the GPU may be slow on a busy machine."""
import time

SECONDS = 60  # for what is there at once on an idle machine
STARTS = 200  # for what another process has to start for: Python and its packages take a busy machine half a minute


def wait_until(condition, seconds=SECONDS):
    """Fails the test if the condition does not become true in time."""
    assert comes_to(lambda: bool(condition()), True, seconds), "it did not happen in time"


def comes_to(read, wanted, seconds=SECONDS):
    """read() once it is `wanted`; else what it was when the time was over."""
    end = time.monotonic() + seconds
    while True:
        late, found = time.monotonic() > end, read()  # looks once more if this process stood still meanwhile
        if found == wanted or late:
            return found
        time.sleep(0.002)
