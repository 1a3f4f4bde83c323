# SPDX-License-Identifier: MIT
"""One CUDA graph a slot: the graph reads the frame where it lies, with no copy into a fixed tensor before."""
import torch

import sluice


def capture(view, out):
    """What is done with each frame. The first time outside the capture, as libraries like it."""
    torch.mean(view, dim=(0, 1), dtype=torch.float32, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mean(view, dim=(0, 1), dtype=torch.float32, out=out)
    return graph


def main():
    mean = torch.zeros(3, device="cuda")
    graphs, generation = {}, None
    for frame in sluice.Reader("camera", wait=30):
        if generation != (frame.session, frame.generation):
            generation = frame.session, frame.generation
            graphs.clear()                     # of a format that is gone, and with their views its memory
        view = frame.view()                    # the same tensor each time that this slot comes
        if frame.slot not in graphs:
            graphs[frame.slot] = capture(view, mean), view
        graph, _ = graphs[frame.slot]
        graph.replay()
        print(f"slot {frame.slot}: {mean.tolist()}")


if __name__ == "__main__":
    main()
