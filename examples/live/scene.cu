// The synthetic scene of player.py on a GPU: a sky, a ground, and three discs that move. `white` shows a white picture instead.
#include <sluice.cuh>

static __device__ float inside(float u, float v, float x, float y, float radius)
{
    return hypotf(u - x, v - y) < radius ? 1.0f : 0.0f;
}

static __device__ float4 mixed(float4 a, float4 b, float share)
{
    return make_float4(a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share, a.z + (b.z - a.z) * share, 1);
}

__global__ void scene(sluice_out out, float seconds, int white)
{
    SLUICE_PIXEL(out, x, y);
    float u = (x + 0.5f) / out.width, v = (y + 0.5f) / out.height;
    float4 c = make_float4(0.25f + 0.4f * v, 0.45f + 0.3f * u, 0.85f - 0.3f * v, 1);
    float hill = 0.68f + 0.08f * sinf(6.0f * (u + 0.1f * seconds));
    float tiles = ((int)floorf(12 * (u + 0.05f * seconds)) + (int)floorf(12 * v)) & 1 ? 0.15f : 0.0f;
    c = mixed(c, make_float4(0.25f + tiles, 0.5f + tiles, 0.2f, 1), v > hill ? 1.0f : 0.0f);
    c = mixed(c, make_float4(1, 0.85f, 0.3f, 1), inside(u, v, 0.5f + 0.35f * cosf(seconds), 0.3f, 0.1f));
    c = mixed(c, make_float4(0.8f, 0.15f, 0.2f, 1), inside(u, v, 0.3f, 0.6f + 0.2f * sinf(2 * seconds), 0.14f));
    c = mixed(c, make_float4(0.95f, 0.95f, 0.9f, 1), inside(u, v, 0.7f + 0.15f * sinf(1.3f * seconds), 0.62f, 0.18f));
    store(out, x, y, white ? make_float4(1, 1, 1, 1) : c);
}
