// The edges of a picture, by Sobel's filter:    sluice run edges.cu camera edges
#include <sluice.cuh>

static __device__ float gray(const sluice_in &in, int x, int y)
{
    float4 c = load(in, x, y);
    return 0.299f * c.x + 0.587f * c.y + 0.114f * c.z;
}

__global__ void edges(sluice_out out, sluice_in in, float gain /* = 1 (0..8) */)
{
    SLUICE_PIXEL(out, x, y);
    float right = gray(in, x + 1, y - 1) + 2 * gray(in, x + 1, y) + gray(in, x + 1, y + 1);
    float left = gray(in, x - 1, y - 1) + 2 * gray(in, x - 1, y) + gray(in, x - 1, y + 1);
    float below = gray(in, x - 1, y + 1) + 2 * gray(in, x, y + 1) + gray(in, x + 1, y + 1);
    float above = gray(in, x - 1, y - 1) + 2 * gray(in, x, y - 1) + gray(in, x + 1, y - 1);
    float edge = gain * (fabsf(right - left) + fabsf(below - above));
    store(out, x, y, make_float4(edge, edge, edge, 1));
}
