# SPDX-License-Identifier: MIT
"""sluice.convert with PyTorch's tensors on a GPU. ../test_gpu_convert.py has streams and captures with stand-ins."""
import numpy as np
import pytest

import sluice
from needs import torch
from work import DEVICE, spin

WIDTH, HEIGHT = 640, 362
IMAGENET = {"scale": [1 / each for each in (0.229, 0.224, 0.225)],
            "bias": [-mean / each for mean, each in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]}


def pixels(seed=1, height=HEIGHT, width=WIDTH, channels=3):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)).to(DEVICE)


@pytest.fixture
def camera():
    with sluice.Writer("camera", {"image": sluice.Image("nv12", WIDTH, HEIGHT)}, device=DEVICE) as writer:
        yield writer


def write(camera, picture):
    with camera.frame(timeout=60) as frame:
        sluice.convert(frame, picture)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("filter", ["smooth", "linear", "nearest"])
def test_the_gpu_gives_what_the_cpu_gives(camera, dtype, filter):
    """A frame to a tensor: 99.9 of 100 equal, and no element more than a step away."""
    with sluice.Reader("camera") as reader:
        write(camera, pixels())
        with reader.next(timeout=60) as frame, sluice.Writer("host", {"image": sluice.Image("nv12", WIDTH, HEIGHT)}) as writer, \
                writer.frame() as same:
            same.numpy()[...] = frame.copy()
            for settings in ({}, {"fit": "inside", "border": 0.5}, {"fit": "cover", "flip": "both"}, {"crop": (100, 50, 97, 61)}):
                made, expected = torch.zeros((3, 224, 224), dtype=getattr(torch, dtype), device=DEVICE), np.zeros((3, 224, 224), dtype)
                assert sluice.convert(made, frame, filter=filter, **settings) == sluice.convert(expected, same, filter=filter, **settings)
                away = np.abs(made.cpu().numpy().astype(float) - expected.astype(float))
                assert away.max() <= {"uint8": 1, "float16": 1e-3, "float32": 1e-5}[dtype], settings
                assert (away > (0 if dtype == "uint8" else 1e-6)).mean() <= 0.001, settings


@pytest.mark.parametrize("size", [(224, 224), (64, 20), (1000, 400), (HEIGHT, WIDTH)])
def test_smooth_is_torchs_antialias(size):
    picture, made = pixels(), torch.zeros((3, *size), device=DEVICE)
    sluice.convert(made, picture)
    whole = picture.permute(2, 0, 1)[None].float() / 255
    expected = torch.nn.functional.interpolate(whole, size, mode="bilinear", antialias=True)[0]
    assert (made - expected).abs().max() <= 1 / 255
    sluice.convert(made, picture, **IMAGENET)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406], device=DEVICE), torch.tensor([0.229, 0.224, 0.225], device=DEVICE)
    assert (made - (expected - mean[:, None, None]) / deviation[:, None, None]).abs().max() <= 1 / 255 / 0.224


def test_it_runs_on_torchs_stream():
    """Behind its work so far, and before its next."""
    side, picture, made = torch.cuda.Stream(), pixels(), torch.zeros((3, 64, 64), device=DEVICE)
    torch.cuda.synchronize()
    seen = []
    with torch.cuda.stream(side):
        for number in range(100):
            spin(0.2)
            picture.fill_(number)
            sluice.convert(made, picture, scale=255)
            seen.append(made[0, 0, 0].clone())
            made.zero_()
    torch.cuda.synchronize()
    assert [round(float(each)) for each in seen] == list(range(100))


def test_it_is_ordered_with_torch_on_another_stream():
    stream, picture, made = sluice.Stream(DEVICE), pixels(), torch.zeros((3, 64, 64), device=DEVICE)
    torch.cuda.synchronize()
    for number in range(100):
        spin(0.2)
        picture.fill_(number)
        sluice.convert(made, picture, scale=255, stream=stream)
        assert round(float(made[0, 0, 0])) == number


def test_a_tensor_that_is_dropped_right_after():
    stream, made = sluice.Stream(DEVICE), torch.zeros((100, 3, 64, 64), device=DEVICE)
    torch.cuda.synchronize()
    for number in range(100):
        picture = torch.full((HEIGHT, WIDTH, 3), number, dtype=torch.uint8, device=DEVICE)
        with torch.cuda.stream(stream.to_torch()):
            spin(0.2)
        sluice.convert(made[number], picture, scale=255, stream=stream)
        del picture
        torch.full((HEIGHT, WIDTH, 3), 255, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize()
    assert [round(float(each)) for each in made[:, 0, 0, 0]] == list(range(100))


def test_a_frame_to_a_tensor_in_torchs_graph(camera):
    """Replays read the slot again: with one slot begun at a time, what the writer has put there since."""
    made = torch.zeros((3, 64, 64), device=DEVICE)
    frame = camera.frame(timeout=60)
    sluice.convert(frame, pixels())  # the first call loads the code
    sluice.convert(made, frame)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sluice.convert(made, frame, scale=255)
        made.round_()
    for number in (0, 50, 128, 255):
        sluice.convert(frame, torch.full((HEIGHT, WIDTH, 3), number, dtype=torch.uint8, device=DEVICE))
        graph.replay()
        assert ((made - number).abs() <= 1).all(), number
    frame.cancel()


def test_half_floats_batches_and_channels_last(camera):
    """A tensor that is 1CHW, and one whose channels lie last in memory, by its view as 1HWC."""
    picture = pixels()
    one, last = torch.zeros((1, 3, 64, 80), dtype=torch.float16, device=DEVICE), \
        torch.zeros((1, 3, 64, 80), dtype=torch.float16, device=DEVICE).to(memory_format=torch.channels_last)
    sluice.convert(one, picture)
    sluice.convert(last.permute(0, 2, 3, 1), picture)
    assert (one == last).all() and one.float().std() > 0.01
