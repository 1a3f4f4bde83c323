// A picture over another one, by its alpha:    sluice run blend.cu camera titles out
#include <sluice.cuh>

__global__ void blend(sluice_out out, sluice_in below, sluice_in above, float opacity /* = 1 (0..1) */)
{
    SLUICE_PIXEL(out, x, y);
    float across = (x + 0.5f) * above.width / out.width - 0.5f; // they may have different sizes
    float down = (y + 0.5f) * above.height / out.height - 0.5f;
    float4 a = load(below, x, y), b = sample(above, across, down);
    float4 c = a + (b - a) * (b.w * opacity);
    c.w = a.w;
    store(out, x, y, c);
}
