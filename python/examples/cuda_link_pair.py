# SPDX-License-Identifier: MIT
"""A program written for cuda-link: it runs unchanged, by `python -m sluice.cuda_link cuda_link_pair.py`."""
import multiprocessing
import os
import time

import numpy as np
from cuda_link import Exporter, FrameOutcome, FrameSpec, GpuFrame, ImportOutcome, Importer, ImportSpec, get_cuda_runtime

HEIGHT, WIDTH = 64, 96
FRAMES = 5


def export(name, turns):
    cuda = get_cuda_runtime()
    with Exporter.open(FrameSpec(shm_name=name, height=HEIGHT, width=WIDTH, channels=4, dtype="uint8")) as exporter:
        source = cuda.malloc(exporter.data_size)
        for number in range(FRAMES):
            turns.get(timeout=60)
            picture = np.full((HEIGHT, WIDTH, 4), number, np.uint8)
            cuda.memcpy(source, picture.ctypes.data, picture.nbytes, 1)
            exporter.record_source_sync(0)
            assert exporter.export(GpuFrame(ptr=source.value, size=picture.nbytes)) is FrameOutcome.PUBLISHED
        turns.get(timeout=60)
    cuda.free(source)


def main():
    context = multiprocessing.get_context("spawn")
    name, turns = f"pair-{os.getpid()}", context.Queue()
    process = context.Process(target=export, args=(name, turns))
    process.start()
    turns.put("the first")
    with Importer.open(ImportSpec(shm_name=name)) as importer:
        while True:
            result = importer.get_frame_numpy()
            if result.outcome is ImportOutcome.NEW_FRAME:
                print(f"{result.frame.shape} full of {result.frame.min()} to {result.frame.max()}")
                turns.put("the next")
            elif result.outcome is ImportOutcome.SHUTDOWN:
                break
            else:
                time.sleep(0.001)
    process.join()


if __name__ == "__main__":
    main()
