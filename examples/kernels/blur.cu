// A blur in two passes, across and down:    sluice run blur.cu camera out --set radius=8
#include <sluice.cuh>

static __device__ float4 mean(const sluice_in &in, int x, int y, int dx, int dy, int radius)
{
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = -radius; i <= radius; i++)
        sum += load(in, x + i * dx, y + i * dy);
    return sum / (2 * radius + 1);
}

__global__ void across(sluice_out out, sluice_in in, int radius /* = 4 (0..64) */)
{
    SLUICE_PIXEL(out, x, y);
    store(out, x, y, mean(in, x, y, 1, 0, radius));
}

__global__ void down(sluice_out out, sluice_in in, int radius /* = 4 (0..64) */)
{
    SLUICE_PIXEL(out, x, y);
    store(out, x, y, mean(in, x, y, 0, 1, radius));
}
