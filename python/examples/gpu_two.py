# SPDX-License-Identifier: MIT
"""One GPU makes frames, another reads them in place, or copies of them if it cannot reach the first one's memory."""
import multiprocessing

import torch

import sluice


def work(ready, results):
    reader = sluice.Reader("far", device="cuda:1", staged="if_needed", mode="in_order", wait=30)
    ready.set()
    total = torch.zeros((), dtype=torch.float64, device="cuda:1")
    for frame in reader:
        total += frame.torch().sum()           # a tensor on cuda:1
    results.put(float(total))


def main():
    context = multiprocessing.get_context("spawn")
    ready, results = context.Event(), context.Queue()
    process = context.Process(target=work, args=(ready, results))
    process.start()
    with sluice.Writer("far", shape=(1024, 1024), dtype="float32", device="cuda:0", policy="wait", wait=30) as writer:
        ready.wait(60)
        for number in range(20):
            with writer.frame() as frame:
                frame.torch().fill_(number)
    print(results.get(timeout=60) / 1024 / 1024)
    process.join()


if __name__ == "__main__":
    main()
