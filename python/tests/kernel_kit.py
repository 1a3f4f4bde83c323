# SPDX-License-Identifier: MIT
"""For tests of kernels: a source of them. Each test loads it, as another may have reset the device."""
import pytest

import sluice
from stream_kit import device  # noqa: F401

SOURCE = r"""
struct point { float x, y; };

__global__ void scale(float *out, const float *in, float by, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = in[i] * by;
}

__global__ void values(double *out, unsigned char a, long long b, unsigned long long c, bool d, point p, float f)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
        out[4] = p.x + p.y;
        out[5] = f;
    }
}

__global__ void counted(int *runs, int a, unsigned char b, point p, const float *x)
{
    if (blockIdx.x == 0 && threadIdx.x == 0)
        runs[0]++;
}

__global__ void where(int *seen)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    seen[x + 16 * y + 128 * (blockIdx.z * blockDim.z + threadIdx.z)] = 1;
}

__global__ void twice(point *points, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        points[i].x *= 2;
}
"""


def on(device):
    return sluice.Kernels(SOURCE, device=device)


@pytest.fixture
def kernels(device):  # noqa: F811
    with on(device) as loaded:
        yield loaded
