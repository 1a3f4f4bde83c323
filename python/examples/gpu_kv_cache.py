# SPDX-License-Identifier: MIT
"""One process computes keys and values of prompts, another goes on from them: named arrays, as long as each prompt is."""
import multiprocessing

import torch

import sluice

LAYERS, HEADS, LONGEST, SIZE = 4, 4, 1024, 64
FORMAT = {
    "keys": sluice.Tensor((LAYERS, HEADS, LONGEST, SIZE), "float16"),  # at most so long
    "values": sluice.Tensor((LAYERS, HEADS, LONGEST, SIZE), "float16"),
    "prompt": sluice.Tensor((LONGEST,), "int64"),
}


def prefill(writer, prompt):
    """A model would compute these, in place: here keys and values are made of the prompt's numbers."""
    with writer.frame(timeout=10, meta=b"request %d" % len(prompt)) as frame:
        for name in ("keys", "values"):
            frame.reshape((LAYERS, HEADS, len(prompt), SIZE), name)
            frame.torch(name).copy_(prompt[:, None] / LONGEST)
        frame.reshape((len(prompt),), "prompt")
        frame.torch("prompt").copy_(prompt)


def decode(results):
    with sluice.Reader("cache", mode="in_order", wait=30) as reader:
        results.put("ready")
        for frame in reader:
            keys, values = frame.torch("keys"), frame.torch("values")
            query = torch.zeros((LAYERS, HEADS, 1, SIZE), dtype=keys.dtype, device=keys.device)
            mean = torch.nn.functional.scaled_dot_product_attention(query, keys, values)
            results.put((frame.meta.decode(), tuple(keys.shape), round(float(mean.float().mean()), 3)))


def main():
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=decode, args=(results,))
    process.start()
    with sluice.Writer("cache", FORMAT, device="cuda:0", policy="wait", wait=30) as writer:
        results.get(timeout=60)
        for tokens in (3, 1024, 100):
            prefill(writer, torch.full((tokens,), 512, device=writer.device))
    for _ in range(3):
        print(*results.get(timeout=60))
    process.join()


if __name__ == "__main__":
    main()
