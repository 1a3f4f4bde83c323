# SPDX-License-Identifier: MIT
"""What the other processes of these tests do: gpu_roles.py ROLE ARGUMENT... Most need no framework, and start at once."""
import os
import sys
import time

import numpy as np

import sluice


def say(*words):
    print(*words, flush=True)


def write_for_ever(name, device):
    """Frames of host arrays, each full of its number; the number is in the metadata too."""
    with sluice.Writer(name, shape=(256, 256), dtype="int32", device=device) as writer:
        say("open")
        number = 0
        while True:
            number += 1
            try:
                writer.send(np.full((256, 256), number, "i4"), meta=b"%d" % number)
            except sluice.NoFreeSlot:
                time.sleep(0.0005)


def read_for_ever(name):
    with sluice.Reader(name, wait=60) as reader:
        say("open")
        for frame in reader:
            if not (frame.numpy() == int(frame.meta)).all():
                say("torn")
                return


def hold_two(name):
    """Takes two frames and keeps them."""
    reader = sluice.Reader(name, wait=60, hold=2)
    kept = [reader.next(timeout=60) for _ in range(2)]
    say("holds", len(kept))
    sys.stdin.readline()


def store_into_a_frame(name):
    """As a program does that does not know that a reader's frames are for reading only."""
    import torch

    reader = sluice.Reader(name, wait=60)
    frame = reader.next(timeout=60)
    copied = frame.torch(copy=True).fill_(1)
    say("copied", int(copied.sum()))
    frame.torch().fill_(1)
    try:
        torch.cuda.synchronize()
        say("PyTorch noticed nothing")
    except Exception as error:
        say(type(error).__name__)
    try:
        frame.release()
        for _ in range(3):
            reader.next(timeout=60)
        say("Sluice noticed nothing")
    except sluice.Error as error:
        say(type(error).__name__, str(error).replace("\n", " "))
    os._exit(0)  # PyTorch's own end needs the context


def watch(name, path):
    """Reads to the end; says a line for each frame, and how many there were, and leaves the last one in a file."""
    count = 0
    with sluice.Reader(name, wait=60) as reader:
        for frame in reader:
            count += 1
            last = frame.numpy()
            capture = frame.capture_ns
            say("a frame")
    np.save(path, last)
    say(count, *last.shape, capture > 0)


def read_sums(name, count):
    """The sum of each frame, on the GPU, of frames that another process wrote there."""
    import torch

    sums = []
    with sluice.Reader(name, mode="in_order", wait=60) as reader:
        say("open")
        for _, frame in zip(range(int(count)), reader):
            tensor = frame.torch()
            assert tensor.is_cuda and tensor.data_ptr() == frame[0].address
            sums.append(tensor.sum(dtype=torch.int64))
            del tensor
    say(*(int(each) for each in sums))


def profile(device, cycles):
    """How long the profiler says that two kernels took: one of 20 ms on the default stream, one of 200 ms on ours. `cycles` are of a ms."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with sluice.Stream(device) as stream:
        side = stream.to_torch()
        with torch.cuda.stream(side):
            torch.cuda._sleep(1)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            torch.cuda._sleep(20 * int(cycles))
            with torch.cuda.stream(side):
                torch.cuda._sleep(200 * int(cycles))
            torch.cuda.synchronize()
    say(*sorted(each.time_range.elapsed_us() / 1000 for each in seen.events()
                if str(each.device_type).endswith("CUDA") and "spin" in each.name))


def main():
    globals()[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
