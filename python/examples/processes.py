# SPDX-License-Identifier: MIT
"""One process makes frames, two others read all of them."""
import multiprocessing

import numpy as np

import sluice


def work(channel, ready, results):
    with sluice.Reader(channel, mode="in_order", wait=10) as reader:
        ready.release()
        total = 0
        for frame in reader:
            total += int(frame.numpy().sum())
    results.put(total)


def main():
    context = multiprocessing.get_context("spawn")    # never "fork"
    ready, results = context.Semaphore(0), context.Queue()
    workers = [context.Process(target=work, args=("numbers", ready, results)) for _ in range(2)]
    with sluice.Writer("numbers", shape=(100,), dtype="int64", policy="wait", wait=10) as writer:
        for worker in workers:
            worker.start()
        for _ in workers:
            ready.acquire()
        for number in range(1000):
            writer.send(np.full(100, number))
    print([results.get() for _ in workers])
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
