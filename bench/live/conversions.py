# SPDX-License-Identifier: MIT
"""GPU time of the two conversions of a loop: 1080p to a tensor of 512 x 512, and that back to a picture. conversions.py OUT [--quick]"""
import json
import pathlib
import sys

import torch

import sluice
from sluice import convert

AT_ONCE, SAMPLES = 20, 300
GOALS = {"in": 10_000, "out": 5_000}  # ns


def main(out, samples):
    with sluice.Stream("cuda:0") as stream, sluice.Writer("frames", sluice.Image("bgra", 1920, 1080), device="cuda:0") as writer, \
            sluice.Writer("result", sluice.Image("rgba", 512, 512), device="cuda:0") as result, stream.use(), \
            torch.cuda.stream(stream.to_torch()):
        tensor = torch.zeros((1, 3, 512, 512), dtype=torch.float16, device="cuda:0")
        ways = {"in": lambda frame, picture: convert(tensor, frame, fit="cover", scale=2, bias=-1, stream=stream),
                "out": lambda frame, picture: convert(picture, tensor, scale=2, bias=-1, stream=stream)}
        rows = []
        with writer.frame(stream=stream) as frame, result.frame(stream=stream) as picture:
            for way, call in ways.items():
                times = []
                for _ in range(samples):
                    start, end = sluice.Event("cuda:0", timing=True), sluice.Event("cuda:0", timing=True)
                    start.record(stream)
                    for _ in range(AT_ONCE):
                        call(frame, picture)
                    end.record(stream)
                    end.synchronize()
                    times.append(int(start.elapsed(end) * 1e6 / AT_ONCE))
                times.sort()
                row = {f"p{part}_ns": times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)}
                rows.append({"bench": "live_convert", "params": {"way": way, "frame": "1080p", "tensor": "1x3x512x512 float16"}, **row,
                             "n": len(times), "goal_ns": GOALS[way], "met": row["p50_ns"] <= GOALS[way]})
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), 20 if "--quick" in sys.argv else SAMPLES)
