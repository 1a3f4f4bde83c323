# SPDX-License-Identifier: MIT
"""The same program twice, for docs/from-torch-multiprocessing.md: gpu_from_queue.py queue, or channel"""
import sys
import time

import torch
import torch.multiprocessing as multiprocessing

import sluice


def put_into_queue(queue, done):
    for number in range(20):
        frame = torch.full((1080, 1920, 3), number, dtype=torch.uint8, device="cuda")
        queue.put(frame)
    queue.put(None)
    done.wait()                                # whose memory it is must live until all is read


def get_from_queue(context):
    queue, done = context.Queue(4), context.Event()
    process = context.Process(target=put_into_queue, args=(queue, done))
    process.start()
    total = 0
    while (frame := queue.get()) is not None:
        total += float(frame.sum(dtype=torch.float64))
    done.set()
    process.join()
    return total


def write_to_channel():
    with sluice.Writer("frames", shape=(1080, 1920, 3), device="cuda:0", policy="wait", wait=30) as writer:
        while not writer.stats().readers:
            time.sleep(0.01)
        for number in range(20):
            with writer.frame() as frame:
                frame.torch().fill_(number)    # made in the slot: there is nothing to put


def read_from_channel(context):
    process = context.Process(target=write_to_channel)
    process.start()
    total = 0
    for frame in sluice.Reader("frames", mode="in_order", wait=60):
        total += float(frame.torch().sum(dtype=torch.float64))
    process.join()
    return total


if __name__ == "__main__":
    read = {"queue": get_from_queue, "channel": read_from_channel}[sys.argv[1]]
    print(read(multiprocessing.get_context("spawn")) / 1080 / 1920 / 3)
