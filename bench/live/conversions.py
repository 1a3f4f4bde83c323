# SPDX-License-Identifier: MIT
"""GPU time of a loop's conversions to a tensor of 512 x 512, and back to a picture, each beside a copy of as many bytes: half of those that
are read and written. conversions.py OUT [--quick]"""
import json
import pathlib
import sys

import torch

from sluice import convert

AT_ONCE, SAMPLES = 20, 300
GOALS = {"in": 10_000, "out": 5_000}  # ns


def graph_of(call, stream):
    """The call, many times in one graph: so the GPU never waits for a CPU that launches."""
    graph = torch.cuda.CUDAGraph()
    call()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(AT_ONCE):
            call()
    return graph


def time_of(call, stream, samples):
    """-> ns of each sample, sorted"""
    graph, times = graph_of(call, stream), []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for number in range(-20, samples):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        if number >= 0:
            times.append(int(start.elapsed_time(end) * 1e6 / AT_ONCE))
    return sorted(times)


def copy_of(*tensors):
    """A copy that reads and writes as many bytes together."""
    half = sum(tensor.nbytes for tensor in tensors) // 2
    to, source = (torch.zeros(half, dtype=torch.uint8, device="cuda:0") for _ in range(2))
    return lambda: to.copy_(source)


def main(out, samples):
    frame, picture = (torch.zeros((height, width, 4), dtype=torch.uint8, device="cuda:0") for height, width in ((1080, 1920), (512, 512)))
    tensor = torch.zeros((1, 3, 512, 512), dtype=torch.float16, device="cuda:0")
    seen = frame[:, :1080]  # of which "cover" shows a square
    ways = {"in": (lambda: convert(tensor, frame, fit="cover", scale=2, bias=-1, order="BGR"), copy_of(seen, tensor)),
            "same size": (lambda: convert(tensor, picture, scale=2, bias=-1, order="BGR"), copy_of(picture, tensor)),
            "out": (lambda: convert(picture, tensor, scale=2, bias=-1), copy_of(picture, tensor))}
    stream, rows = torch.cuda.Stream(), []
    with torch.cuda.stream(stream):
        for way, (call, copy) in ways.items():
            times, limit = time_of(call, stream, samples), time_of(copy, stream, samples)
            row = {f"p{part}_ns": times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)}
            goal = {"goal_ns": GOALS[way], "met": row["p50_ns"] <= GOALS[way]} if way in GOALS else {}
            rows.append({"bench": "live_convert", "params": {"way": way, "frame": "1080p" if way == "in" else "512x512",
                                                             "tensor": "1x3x512x512 float16"}, **row, "n": len(times),
                         "limit_p50_ns": limit[len(limit) // 2], **goal})
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), 20 if "--quick" in sys.argv else SAMPLES)
