# SPDX-License-Identifier: MIT
"""gpu_network.py as one CUDA graph: a fixed input, a fixed output, one launch a frame."""
import torch
from gpu_network import network

import sluice


class Captured:
    def __init__(self, height, width):
        self.model = network()
        self.colours = torch.randint(256, (21, 3), device="cuda").to(torch.uint8)
        self.input = torch.zeros((1, 3, height, width), device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):                 # libraries choose their kernels before the capture
                self.run()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.run()

    def run(self):
        classes = self.model(self.input / 255)["out"][0].argmax(0)
        return self.input[0].permute(1, 2, 0).to(torch.uint8) // 2 + self.colours[classes] // 2


@torch.inference_mode()
def main():
    reader, count = sluice.Reader("camera", wait=30), 0
    size = reader.format["image"]
    model = Captured(size.height, size.width)
    with sluice.Writer("overlay", sluice.Image("rgb24", size.width, size.height), device="cuda:0") as writer:
        for frame in reader:
            model.input[0].copy_(frame.torch().permute(2, 0, 1))
            model.graph.replay()
            with writer.frame(like=frame) as out:
                out.torch().copy_(model.output)
            count += 1
    print(count, "frames")


if __name__ == "__main__":
    main()
