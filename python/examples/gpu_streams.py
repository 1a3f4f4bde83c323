# SPDX-License-Identifier: MIT
"""Work on streams of one's own, and what Sluice has to be told about them."""
import torch

import sluice


def main():
    with sluice.Writer("s", shape=(1024,), dtype="float32", device="cuda:0") as writer, sluice.Reader("s") as reader:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):                     # PyTorch's current stream is all that is needed
            with writer.frame() as frame:
                frame.torch().fill_(1)

        frame = reader.next(timeout=5)
        tensor = frame.torch()                            # taken on the default stream
        with torch.cuda.stream(side):
            total = tensor.sum()                          # and used on another
        frame.used_on(side)                               # so say it
        frame.release()                                   # behind both
        side.synchronize()

        with sluice.Stream("cuda:0") as stream:           # for all that this thread does with frames
            with torch.cuda.stream(stream.to_torch()):
                writer.send(torch.full((1024,), 2.0, device="cuda"))
            frame = reader.next(timeout=5)
            with torch.cuda.stream(stream.to_torch()):
                second = frame.torch().sum()
        print(float(total), float(second))


if __name__ == "__main__":
    main()
