# SPDX-License-Identifier: MIT
"""Three ways to change what a reader got: into a tensor of one's own, on a copy, and in place, where the writer allows it."""
import torch

import sluice


def main():
    with sluice.Writer("ramp", shape=(4,), dtype="float32", device="cuda:0", writable=True) as writer:
        reader = sluice.Reader("ramp")
        changer = sluice.Reader("ramp", writable=True)
        writer.send(torch.arange(4.0, device="cuda"))

        with reader.next(timeout=5) as frame:
            print((frame.torch() * 2).tolist())           # a new tensor, as most operations make
            print(frame.torch(copy=True).add_(1).tolist())

        with changer.next(timeout=5) as frame:
            frame.torch().neg_()                          # the slot itself: all readers see it
            print(frame.torch().tolist())


if __name__ == "__main__":
    main()
