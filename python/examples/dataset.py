# SPDX-License-Identifier: MIT
"""A stream of frames for a PyTorch DataLoader, or anything else that starts workers and iterates."""
import sluice

try:
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError:
    IterableDataset, get_worker_info = object, lambda: None


class Frames(IterableDataset):
    """Each worker opens the channel for itself, when it first needs it: a Reader cannot be pickled."""

    def __init__(self, channel, count):
        self.channel = channel
        self.count = count

    def __iter__(self):
        with sluice.Reader(self.channel, mode="in_order", wait=10) as reader:
            for _, frame in zip(range(self.count), reader):
                yield frame.copy()             # batches are made later: they need arrays of their own


class Share(Frames):
    """The same for workers that share the work: each leaves out what is another's, which copies nothing."""

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        with sluice.Reader(self.channel, mode="in_order", wait=10) as reader:
            for frame in reader:
                if frame.sequence % workers == worker:
                    yield frame.copy()
                if frame.sequence >= self.count:
                    break


def main():
    import threading
    import time

    def write():
        with sluice.Writer("training", shape=(3, 8, 8), dtype="float32", policy="wait", wait=10) as writer:
            while not writer.stats().readers:
                time.sleep(0.01)
            for number in range(8):
                with writer.frame() as frame:
                    frame.numpy()[:] = number

    thread = threading.Thread(target=write)
    thread.start()
    for picture in Frames("training", 8):
        print(picture.shape, picture[0, 0, 0])
    thread.join()


if __name__ == "__main__":
    main()
