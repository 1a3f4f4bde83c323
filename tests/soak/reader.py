# SPDX-License-Identifier: MIT
"""A reader in Python for the soak: takes frames until stdin ends, then prints how many.

Every eleventh frame it keeps an array beyond the frame, and every hundredth time it opens the reader anew.
"""
import select
import sys

import sluice


def stop_requested():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def take_some(reader, most):
    taken, kept = 0, None
    while taken < most and not stop_requested():
        try:
            frame = reader.next(timeout=0.1)
        except (sluice.Timeout, sluice.Again, sluice.Closed, sluice.NoWriter):
            continue
        with frame:
            assert int.from_bytes(frame.view()[:8], "little") == frame.sequence
            if taken % 11 == 0:
                kept = memoryview(frame)
        taken += 1
    del kept
    return taken


def main():
    total = 0
    while not stop_requested():
        with sluice.Reader(sys.argv[1], hold=3, wait=10) as reader:
            total += take_some(reader, 100)
    print(total)


main()
