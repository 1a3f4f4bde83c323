# SPDX-License-Identifier: MIT
"""The smallest reader, of what hello_writer.py writes."""
import sluice

for frame in sluice.Reader("gray", wait=10):
    print(frame.sequence, frame.numpy().max())  # no copy, and read-only
