# SPDX-License-Identifier: MIT
"""A network reads "camera" and publishes "overlay", the pictures with what it found painted over.

    sluice play clip.mp4 camera --device cuda:0 --format rgb24 &
    gpu_network.py &
    sluice view overlay
"""
import torch
from torchvision.models.segmentation import lraspp_mobilenet_v3_large

import sluice


def network():
    torch.manual_seed(1)                       # your own weights go here
    return lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21).eval().cuda()


@torch.inference_mode()
def main():
    model = network()
    colours = torch.randint(256, (21, 3), device="cuda").to(torch.uint8)
    reader, count = sluice.Reader("camera", wait=30), 0
    size = reader.format["image"]
    with sluice.Writer("overlay", sluice.Image("rgb24", size.width, size.height), device="cuda:0") as writer:
        for frame in reader:
            picture = frame.torch()            # (height, width, 3), in the player's slot
            classes = model(picture.permute(2, 0, 1)[None].float() / 255)["out"][0].argmax(0)
            with writer.frame(like=frame) as out:
                torch.add(picture // 2, colours[classes] // 2, out=out.torch())
            count += 1
    print(count, "frames")


if __name__ == "__main__":
    main()
