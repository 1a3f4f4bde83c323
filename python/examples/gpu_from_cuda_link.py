# SPDX-License-Identifier: MIT
"""The two halves of a program of cuda-link's with PyTorch, and the same with Sluice's own calls: gpu_from_cuda_link.py."""
import itertools
import multiprocessing
import sys
import time

import torch

import sluice
import sluice.cuda_link as cuda_link

SHAPE = (1080, 1920, 4)
FRAMES = 20


def until(enough):
    """What frames are full of: numbers that grow, until the other side has had its frames."""
    for number in itertools.count():
        if enough.is_set():
            break
        yield min(number, 255)
        time.sleep(0.02)


def export(enough):
    tensor = torch.zeros(SHAPE, dtype=torch.uint8, device="cuda")
    spec = cuda_link.FrameSpec("gpu-from-cuda-link", height=1080, width=1920)
    with cuda_link.Exporter.open(spec) as exporter:
        for number in until(enough):
            tensor.fill_(number)
            stream = torch.cuda.current_stream().cuda_stream
            exporter.export(cuda_link.GpuFrame(ptr=tensor.data_ptr(), size=tensor.nbytes, producer_stream=stream))


def import_(enough):
    frames = 0
    with cuda_link.Importer.open(cuda_link.ImportSpec("gpu-from-cuda-link")) as importer:
        while True:
            result = importer.get_frame()
            if result.outcome is cuda_link.ImportOutcome.NEW_FRAME:
                print(f"{tuple(result.frame.shape)} on {result.frame.device}: {int(result.frame.max())}")
                frames += 1
                if frames == FRAMES:
                    enough.set()
            elif result.outcome is cuda_link.ImportOutcome.SHUTDOWN:
                break
            else:
                time.sleep(0.001)


def write(enough):
    with sluice.Writer("gpu-from-cuda-link", shape=SHAPE, device="cuda:0") as writer:
        for number in until(enough):
            with writer.frame() as frame:
                frame.torch().fill_(number)    # in the slot itself: there is nothing to export


def read(enough):
    for frames, frame in enumerate(sluice.Reader("gpu-from-cuda-link", wait=30), 1):
        tensor = frame.torch()                 # held: nobody writes to it before the next turn
        print(f"{tuple(tensor.shape)} on {tensor.device}: {int(tensor.max())}")
        if frames == FRAMES:
            enough.set()


def main():
    other = write if "--own" in sys.argv else export
    context = multiprocessing.get_context("spawn")
    enough = context.Event()
    process = context.Process(target=other, args=(enough,))
    process.start()
    (read if other is write else import_)(enough)
    process.join()


if __name__ == "__main__":
    main()
