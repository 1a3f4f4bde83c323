# SPDX-License-Identifier: MIT
"""What PyTorch computes, written into slots: torch_in_place.py [DEVICE]"""
import sys

import torch

import sluice

SHAPE = (3, 120, 160)


def send_a_tensor(writer, picture):
    result = torch.sigmoid(picture)
    writer.send(result)            # one copy, on PyTorch's current stream; `result` may go, or change, at once


def write_in_place(writer, picture):
    with writer.frame() as frame:
        out = frame.torch()        # the slot
        torch.sigmoid(picture, out=out)
        assert out.data_ptr() == frame[0].address


def let_the_last_layer_write(writer, layers, picture):
    with torch.inference_mode(), writer.frame() as frame:
        hidden = layers(picture)
        torch.add(hidden, picture, out=frame.torch())


def copy_a_result(writer, model, picture):
    with torch.inference_mode(), writer.frame() as frame:
        frame.torch().copy_(model(picture))


def main(device="cuda:0"):
    where = "cpu" if device == "host" else device
    picture = torch.ones(SHAPE, device=where)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.ReLU()).to(where)
    with sluice.Writer("pictures", shape=SHAPE, dtype="float32", device=device) as writer, \
            sluice.Reader("pictures") as reader:
        for number, publish in enumerate((lambda: send_a_tensor(writer, picture), lambda: write_in_place(writer, picture),
                                          lambda: let_the_last_layer_write(writer, model, picture),
                                          lambda: copy_a_result(writer, model, picture))):
            publish()
            with reader.next(timeout=10) as frame:
                print(f"frame {number + 1}: {frame.copy().mean():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
