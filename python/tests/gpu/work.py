# SPDX-License-Identifier: MIT
"""Work for a GPU that takes time, and channels small enough that a slot which is given back too early is written at once."""
import functools
import time

import sluice
from eventually import SECONDS
from needs import torch

DEVICE = "cuda:0"
SIDE = 512  # pixels


@functools.cache
def cycles_of_a_millisecond():
    """At the fastest clock that was seen: spins take at least as long as they say."""
    fastest = 0
    for _ in range(5):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.cuda._sleep(20_000_000)
        stop.record()
        stop.synchronize()
        fastest = max(fastest, 20_000_000 / start.elapsed_time(stop))
    return fastest


def spin(milliseconds):
    """On PyTorch's current stream; the CPU goes on."""
    torch.cuda._sleep(int(milliseconds * cycles_of_a_millisecond()))


def narrow_writer(name, **options):
    """Three slots and no more: one is the newest, one is begun, and the third is the reader's or gone."""
    options = {"shape": (SIDE, SIDE), "dtype": "int32", "device": DEVICE, "slots": 3, "max_slots": 3, **options}
    return sluice.Writer(name, **options)


def write(writer, number):
    """One frame full of a number, on PyTorch's current stream."""
    with writer.frame(timeout=60, meta=b"%d" % number) as frame:
        frame.torch().fill_(number)


def flood(writer, number, times=4):
    """Frames into all slots that are free: whatever was given back too early is overwritten."""
    for _ in range(times):
        frame = writer.try_frame(meta=b"%d" % number)
        if frame is not None:
            with frame:
                frame.torch().fill_(number)


def take(reader, number, **options):
    """That frame; those before it, of a flood, are released. A framework may release frames a little late, as JAX does."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            frame = reader.next(timeout=60, **options)
        except sluice.LimitError:
            if time.monotonic() > until:
                raise
            time.sleep(0.0005)
            continue
        if int(frame.meta) == number:
            return frame
        frame.release()


def begin_in(slot, writer, number):
    """A frame that the writer begins in that very slot, when it is free: a frame in another one is the newest from here on."""
    newest, others = slot, []
    while newest == slot:
        with writer.frame(timeout=60, meta=b"-1") as out:
            newest = out.slot
    while (out := writer.frame(timeout=60, meta=b"%d" % number)).slot != slot:
        others.append(out)
    for other in others:
        other.cancel()
    return out


def eventually(condition, seconds=SECONDS):
    """What the GPU, or another process, does in its own time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def shown(attempt, times=20):
    """True as soon as attempt() is: for what a CPU must be quick for to see it, beside work of a GPU that ends."""
    return any(attempt() for _ in range(times))


def held(reader):
    """How many frames a reader has, of which it has taken all: what the GPU gave back counts until the reader looks."""
    assert reader.latest() is None
    return reader.stats().held
