# SPDX-License-Identifier: MIT
"""Kernels on arrays of PyTorch and CuPy, and in PyTorch's graphs. ../test_gpu_kernels.py has the same with stand-ins."""
import functools
import threading

import pytest

import sluice
from needs import torch
from work import DEVICE, spin

SOURCE = """
__global__ void add(int *x, const int *by, int more, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] += by[i] + more;
}
"""
COUNT = 1 << 16


@functools.cache
def load():
    return sluice.Kernels(SOURCE, DEVICE)


def zeros():
    return torch.zeros(COUNT, dtype=torch.int32, device=DEVICE)


def test_34_our_kernel_in_pytorchs_graph():
    """Replays see what the inputs have then, and the number that was recorded."""
    fx, total, by = load(), zeros(), zeros()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.zero_()
        fx.add(total, by, 5, COUNT, over=COUNT)
        total.mul_(2)
    for number in range(1, 20):
        by.fill_(number)
        graph.replay()
        assert (total == 2 * (number + 5)).all()


def test_tensors_that_are_dropped_right_after_a_launch_on_another_stream():
    """PyTorch gives their memory to the next tensor at once; the slow stream reads them later."""
    fx, stream = load(), sluice.Stream(DEVICE)
    results = []
    for number in range(200):
        total, by = zeros(), torch.full((COUNT,), number, dtype=torch.int32, device=DEVICE)
        with torch.cuda.stream(stream.to_torch()):
            spin(0.2)
        fx.add(total, by, 1, COUNT, over=COUNT, stream=stream)
        del by
        torch.full((COUNT,), -7, dtype=torch.int32, device=DEVICE)
        results.append(total[::4096].clone())
        del total
    torch.cuda.synchronize()
    assert [number for number, result in enumerate(results) if (result == number + 1).all()] == list(range(200))


def test_arrays_of_cupys_that_are_dropped_right_after_a_launch_on_another_stream(cupy):
    fx, stream = load(), sluice.Stream(DEVICE)
    results = []
    with cupy.cuda.Device(0), cupy.cuda.Stream(non_blocking=True):
        for number in range(200):
            total, by = cupy.zeros(COUNT, "int32"), cupy.full(COUNT, number, "int32")
            with torch.cuda.stream(stream.to_torch()):
                spin(0.2)
            fx.add(total, by, 1, COUNT, over=COUNT, stream=stream)
            del by
            cupy.full(COUNT, -7, "int32")
            results.append(total[::4096].copy())
            del total
        cupy.cuda.Device().synchronize()
        assert [number for number, result in enumerate(results) if (result == number + 1).all()] == list(range(200))


def test_what_a_framework_does_next_is_behind_the_launch():
    """On the framework's stream, though the launch is on another one; and before it the framework's work before."""
    fx, stream, side = load(), sluice.Stream(DEVICE), torch.cuda.Stream()
    total, by = zeros(), zeros()
    torch.cuda.synchronize()
    seen = []
    with torch.cuda.stream(side):
        for number in range(200):
            spin(0.2)
            by.fill_(number)
            total.zero_()
            fx.add(total, by, 0, COUNT, over=COUNT, stream=stream)
            seen.append(total[:1].clone())
    torch.cuda.synchronize()
    assert [int(each) for each in seen] == list(range(200))


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_35_kernels_live_beside_a_capture_of_pytorchs(mode):
    """They are loaded, launched and dropped by another thread."""
    def live():
        for number in range(3):
            with sluice.Kernels(f"#define N {number}\n" + SOURCE, DEVICE, cache=False) as fx, sluice.Stream(DEVICE) as stream:
                host = torch.zeros(COUNT, dtype=torch.int32).numpy()
                fx.add(host, host.copy(), 1, COUNT, over=COUNT, stream=stream)
                assert (host == 1).all()

    graph, total, errors = torch.cuda.CUDAGraph(), zeros(), []

    def run():
        try:
            live()
        except Exception as error:
            errors.append(error)

    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        total.add_(1)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        total.add_(1)
    assert not errors
    graph.replay()
    assert (total == 2).all()
