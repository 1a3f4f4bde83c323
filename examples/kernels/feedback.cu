// Trails that grow and turn slowly:    sluice run feedback.cu camera out --set fade=0.9
#include <sluice.cuh>

__global__ void feedback(sluice_out out, sluice_in in, sluice_in last, float time, float fade /* = 0.95 (0..1) */,
                         float zoom /* = 1.02 (0.5..2) */)
{
    SLUICE_PIXEL(out, x, y);
    float angle = 0.02f * sinf(time), u = (x - 0.5f * out.width) / zoom, v = (y - 0.5f * out.height) / zoom;
    float4 trail = fade * sample(last, 0.5f * out.width + u * cosf(angle) - v * sinf(angle),
                                 0.5f * out.height + u * sinf(angle) + v * cosf(angle));
    float4 c = load(in, x, y);
    store(out, x, y, make_float4(fmaxf(c.x, trail.x), fmaxf(c.y, trail.y), fmaxf(c.z, trail.z), 1));
}
