# SPDX-License-Identifier: MIT
"""For python/bench_gpu.py: an RGBA picture of 1080p becomes a tensor of 3 x 512 x 512 numbers of -1 to 1, by Sluice and by PyTorch's
antialiased interpolation, in one process and in turns; and what the driver takes to copy half the bytes that are read and written.
A sample is the mean of a few behind each other on PyTorch's current stream."""
from python_kit import DEVICE, SHAPE, note, now, with_goal
from rows import row

GROUP = 20
SIDE = 512
SHARE, FASTER = 0.35, 4  # of the copy's speed; than PyTorch: the goals


def ways_of(torch, dtype):
    import sluice

    picture = torch.randint(0, 256, SHAPE, dtype=torch.uint8, device=DEVICE)
    tensor = torch.empty((1, 3, SIDE, SIDE), dtype=getattr(torch, dtype), device=DEVICE)
    half = (picture.numel() + tensor.numel() * tensor.element_size()) // 2
    halves = torch.empty((2, half), dtype=torch.uint8, device=DEVICE)

    def by_sluice():
        sluice.convert(tensor, picture, scale=2, bias=-1)

    def by_torch():
        planes = picture[..., :3].permute(2, 0, 1)[None].to(tensor.dtype)
        small = torch.nn.functional.interpolate(planes, (SIDE, SIDE), mode="bilinear", antialias=True)
        tensor.copy_(small.mul_(2 / 255).sub_(1))

    return {"sluice": by_sluice, "torch": by_torch, "copy": lambda: halves[0].copy_(halves[1])}


def timed(torch, way):
    torch.cuda.synchronize()
    before = now()
    for _ in range(GROUP):
        way()
    torch.cuda.synchronize()
    return (now() - before) // GROUP


def conversions(torch, rounds, report):
    for dtype in ("float32", "float16"):
        note(f"conversions to {dtype}")
        ways = ways_of(torch, dtype)
        samples = {name: [] for name in ways}
        for number in range(-5, rounds):
            for name, way in ways.items():
                took = timed(torch, way)
                if number >= 0:
                    samples[name].append(took)
        rows = {name: row("py_gpu_convert", {"way": name, "to": dtype}, some) for name, some in samples.items()}
        copy = rows["copy"]["p50_ns"]
        with_goal(rows["sluice"], copy, min(copy / SHARE, rows["torch"]["p50_ns"] / FASTER))
        report["rows"] += rows.values()
