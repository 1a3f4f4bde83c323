# SPDX-License-Identifier: MIT
"""Kernels between two channels, in parallel, and as a graph: kernels.py [DEVICE]. The same source runs on "host" and on a GPU."""
import sys

import numpy as np
import sluice

SOURCE = """
__global__ void invert(unsigned char *out, const unsigned char *in, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = 255 - in[i];
}

__global__ void add(float *x, float value, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] += value;
}

__global__ void left(float *x, int count)
{
    if (threadIdx.x < count)
        x[threadIdx.x] = 1;
}

__global__ void right(float *x, int count)
{
    if (threadIdx.x < count)
        x[threadIdx.x] = 2;
}
"""


def filter_frames(fx, reader, writer):
    for frame in reader:
        with writer.frame(like=frame) as out:
            fx.invert(out, frame, frame.nbytes, over=frame.nbytes)


def host_memory(fx):
    values = np.zeros(1000, "float32")
    fx.add(values, 1.5, values.size, over=values)      # copied to the GPU and back; ready when the call returns
    return values.sum()


def side_by_side(fx, stream, a, b):
    with sluice.parallel(stream) as ways:
        with ways.branch():
            fx.left(a, a.shape[0], over=a)
        with ways.branch():
            fx.right(b, b.shape[0], over=b)


def recorded(fx, stream, a):
    with sluice.capture(stream) as graph:
        fx.add(a, 1, a.shape[0], over=a)
        fx.add(a, 2, a.shape[0], over=a)
    graph.launch(stream)
    with graph.again(stream):                          # other arguments: an update
        fx.add(a, 10, a.shape[0], over=a)
        fx.add(a, 20, a.shape[0], over=a)
    graph.launch(stream)
    return graph


def main(device):
    fx = sluice.Kernels(SOURCE, device)
    print(f"host memory: {host_memory(fx):g}")
    with sluice.Writer("numbers", {"a": ((4,), "float32"), "b": ((4,), "float32")}, device=device) as writer, \
            sluice.Reader("numbers") as reader, sluice.Stream(device) as stream:
        with writer.frame(stream=stream) as frame:
            side_by_side(fx, stream, frame["a"], frame["b"])
            graph = recorded(fx, stream, frame["a"])
        with reader.next(timeout=10) as frame:
            print("parallel and recorded:", frame["a"].copy()[0], frame["b"].copy()[0])
        print(f"graph: {graph.nodes} nodes, {graph.updates} update")
    with sluice.Writer("camera", shape=(4, 6), device=device) as camera, sluice.Reader("camera", wait=None) as reader, \
            sluice.Writer("inverted", shape=(4, 6), device=device) as writer, sluice.Reader("inverted") as result:
        camera.send(np.full((4, 6), 5, "uint8"))
        camera.close()
        filter_frames(fx, reader, writer)
        with result.next(timeout=10) as frame:
            print("inverted:", frame.copy()[0, 0])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "host")
