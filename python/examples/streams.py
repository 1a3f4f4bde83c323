# SPDX-License-Identifier: MIT
"""Streams and events: streams.py [DEVICE]. On "host" (the default) work is done when a call returns."""
import sys

import sluice


def work(number, stream):
    print(f"work {number} on {stream.device}")


def in_order(device):
    with sluice.Stream(device) as first, sluice.Stream(device) as second:
        work(1, first)
        drawn = first.record()       # an Event: the point behind 1
        work(2, first)
        second.wait(drawn)
        work(3, second)              # behind 1, beside 2
    assert first.closed and second.closed


def measured(device):
    with sluice.Stream(device), sluice.Event(device, timing=True) as start, sluice.Event(device, timing=True) as stop:
        start.record()               # on this thread's current stream
        work(4, sluice.current_stream())
        stop.record()
        stop.synchronize()
        return start.elapsed(stop)   # milliseconds


def several_ways(device):
    stream = sluice.Stream(device)
    with sluice.parallel(stream) as ways:
        with ways.branch() as left:  # behind what `stream` was given so far
            work(5, left)
        with ways.branch() as right: # beside `left`
            work(6, right)
    work(7, stream)                  # behind both
    stream.synchronize()


def with_pytorch():
    import torch

    with sluice.Stream("cuda:0") as stream, torch.cuda.stream(stream.to_torch()):
        picture = torch.zeros(1080, 1920, device="cuda")   # on our stream
        done = stream.record()
    theirs = sluice.Stream.wrap(torch.cuda.current_stream())
    theirs.wait(done)
    return picture + 1                                      # on theirs, behind it


def has_pytorch():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "host"
    in_order(device)
    assert measured(device) >= 0
    several_ways(device)
    if device == "cuda:0" and has_pytorch():
        assert float(with_pytorch().mean()) == 1
