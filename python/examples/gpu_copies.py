# SPDX-License-Identifier: MIT
"""Pictures of the program's own, copied into a channel on a GPU and out of it: gpu_copies.py [DEVICE]"""
import asyncio
import sys

import numpy as np

import sluice


def encode(picture):
    return picture.mean()


def wait_for_copies(reader, picture):
    with reader.next(timeout=10) as frame:
        copy = frame.numpy()       # in pinned memory, writable, this program's for as long as it likes
        frame.copy_to(picture)     # into memory that is there already
    print(f"frame {frame.sequence}: {encode(copy):.1f}, {encode(picture):.1f}")


async def leave_the_loop_alone(reader):
    frame = await reader.next_async(timeout=10)
    copying = asyncio.create_task(frame.fetch())
    await asyncio.sleep(0)         # it has begun
    frame.release()                # the slot is free again once the copy has read it
    print(f"frame {frame.sequence}: {encode(await copying):.1f}")


def send_on(reader, writer):
    with reader.next(timeout=10) as frame:
        writer.send(frame, like=frame)   # all arrays, from GPU to GPU or host


def main(device="cuda:0"):
    picture = np.zeros((480, 640, 3), np.uint8)
    with sluice.Writer("pictures", shape=picture.shape, device=device) as writer, \
            sluice.Writer("again", shape=picture.shape, device="host") as again, \
            sluice.Reader("pictures") as reader, sluice.Reader("again") as reader_again:
        writer.send(np.full_like(picture, 10))
        wait_for_copies(reader, picture)
        writer.send(np.full_like(picture, 20))
        asyncio.run(leave_the_loop_alone(reader))
        writer.send(np.full_like(picture, 30))
        send_on(reader, again)
        wait_for_copies(reader_again, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
