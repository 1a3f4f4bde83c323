# SPDX-License-Identifier: MIT
"""PyTorch's own way to send a CUDA tensor to another process: a queue of torch.multiprocessing.

    torch_peer.py BYTES copy|in-place handoff SECONDS

The arguments and the output are those of peer.h, but the frame lies on the GPU, so bench/gpu/run has the row. The queue
is a SimpleQueue, which has no thread between put and get. The reader has the frame when get() has returned
(`taken`) and when its GPU's work on it has ended (`read`). It answers, and then the writer makes the next frame.
With BENCH_WAITS set, it imports PyTorch and waits for a line on stdin before it begins.
copy: the frame is copied into a new tensor; in-place: it is made in a tensor that is used again.
"""
import mmap
import os
import struct
import sys

import peer
from peer import MIN_FRAMES, LAST, READ, TAKEN, WARM_UP, now


def find_gpu(torch):
    """Called after the fork: CUDA cannot start in a child of a process that uses it."""
    if not torch.cuda.is_available():
        raise ImportError("this PyTorch has no CUDA, or there is no GPU")


def write(torch, queue, stage, done, size, in_place, seconds):
    find_gpu(torch)
    own = torch.ones(size, dtype=torch.uint8, device="cuda")
    slot = torch.empty_like(own)
    torch.cuda.synchronize()
    samples, sequence, last, until = [], 0, False, None
    while not last:
        sequence += 1
        if sequence == WARM_UP:
            until = now() + int(seconds * 1e9)
        last = sequence >= WARM_UP + MIN_FRAMES and now() >= until
        if last:
            struct.pack_into("q", stage, LAST, sequence)
        if in_place:
            slot.fill_(sequence % 256)
            torch.cuda.synchronize()
        start = now()
        frame = slot if in_place else own.clone()
        queue.put(frame)
        os.eventfd_read(done)
        del frame
        if sequence > WARM_UP:
            samples.append([struct.unpack_from("q", stage, at)[0] - start for at in (TAKEN, READ)])
        if not in_place:
            own.fill_((sequence + 1) % 256)
            torch.cuda.synchronize()
    return samples


def read(torch, queue, stage, done, size, in_place, seconds):
    find_gpu(torch)
    last = False
    torch.cuda.synchronize()
    sequence = 0
    while not last:
        sequence += 1
        frame = queue.get()
        taken = now()
        seen = int(frame[-1])  # waits for the GPU
        struct.pack_into("qq", stage, TAKEN, taken, now())
        if frame.numel() != size or seen != sequence % 256:
            raise ValueError("a frame is not what was written")
        del frame
        last = sequence == struct.unpack_from("q", stage, LAST)[0]
        os.eventfd_write(done, 1)
    return []


def missing(why):
    print(why, file=sys.stderr)
    sys.exit(peer.MISSING)


def main():
    size, way, what, seconds = sys.argv[1:]
    if what != "handoff":
        missing(f"it does no {what}")
    try:
        import torch
        import torch.multiprocessing as multiprocessing
    except ImportError as error:
        missing(str(error))
    if os.environ.get("BENCH_WAITS") and not sys.stdin.readline():
        return
    stage, done = mmap.mmap(-1, mmap.PAGESIZE), os.eventfd(0)
    queue = multiprocessing.get_context("fork").SimpleQueue()
    peer.both((write, read), float(seconds), torch, queue, stage, done, int(size), way == "in-place", float(seconds))


main()
