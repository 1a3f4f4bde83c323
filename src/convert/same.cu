// SPDX-License-Identifier: MIT
//
// Pixels that stay where they are. Each thread has 4 columns, which begin at multiples of 16 bytes.

__device__ __forceinline__ const unsigned char *words_at(const sl_pixels &p, int x, int y)
{
    return p.at[1].first - 1 + y * p.at[1].pitch + 4 * x;
}
__device__ __forceinline__ void put_words(const sl_pixels &p, int x, int y, uint4 v)
{
    *reinterpret_cast<uint4 *>(const_cast<unsigned char *>(words_at(p, x, y))) = v;
}

__device__ __forceinline__ unsigned exchanged(unsigned word, bool exchange, unsigned alpha)
{
    const unsigned other = (word & 0xff00ff00u) | (word >> 16 & 255) | (word & 255) << 16;
    return (exchange ? other : word) | alpha;
}

// RGBA to BGRA and back, with the same range.
extern "C" __global__ void sl_same_rgba(sl_job job)
{
    const int x = 4 * static_cast<int>(blockIdx.x * WIDE + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * HIGH + threadIdx.y);
    if (x >= job.to.width || y >= job.to.height)
        return;
    const bool exchange = red_first(job.to) != red_first(job.from);
    const unsigned alpha = job.to.opaque ? 0xff000000u : 0;
    uint4 v = *reinterpret_cast<const uint4 *>(words_at(job.from, job.x.first + x, job.y.first + y));
    v.x = exchanged(v.x, exchange, alpha);
    v.y = exchanged(v.y, exchange, alpha);
    v.z = exchanged(v.z, exchange, alpha);
    v.w = exchanged(v.w, exchange, alpha);
    put_words(job.to, x, y, v);
}

// A byte of 0 to 1, as the lowest bits of a float, which are those of sl_whole.
__device__ __forceinline__ unsigned byte_bits(float component)
{
    sl_word_float sum;
    sum.value = __saturatef(component) * 255.000255f + 12582912.0f;
    return sum.word;
}

// An opaque pixel, packed from the bits of three components.
__device__ __forceinline__ unsigned opaque(unsigned first, unsigned second, unsigned third)
{
    return first + (second << 8) + (third << 16) + (0xff000000u - 0x4b400000u * 65793u);
}

// Four numbers of a row of a plane.
__device__ __forceinline__ float4 numbers_of(const sl_pixels &p, int i, int x, int y)
{
    const unsigned char *at = number_at(p, i, x, y);
    if (p.sample == SL_F32)
        return *reinterpret_cast<const float4 *>(at);
    const ushort4 v = *reinterpret_cast<const ushort4 *>(at);
    return make_float4(sl_from_half(v.x), sl_from_half(v.y), sl_from_half(v.z), sl_from_half(v.w));
}

__device__ __forceinline__ unsigned word_of(const sl_pixels &p, bool red, float r, float g, float b)
{
    r = r * p.unmul[0] + p.unadd[0];
    g = g * p.unmul[1] + p.unadd[1];
    b = b * p.unmul[2] + p.unadd[2];
    return opaque(byte_bits(red ? r : b), byte_bits(g), byte_bits(red ? b : r));
}

// RGB in planes of floats to RGBA or BGRA of the full range.
extern "C" __global__ void sl_same_planes(sl_job job)
{
    const int left = 4 * static_cast<int>(blockIdx.x * WIDE + threadIdx.x), x = job.x.first + left;
    const int top = static_cast<int>(blockIdx.y * HIGH + threadIdx.y), y = job.y.first + top;
    if (left >= job.to.width || top >= job.to.height)
        return;
    const bool red = red_first(job.to);
    const float4 r = numbers_of(job.from, 0, x, y), g = numbers_of(job.from, 1, x, y),
                 b = numbers_of(job.from, 2, x, y);
    put_words(job.to, left, top,
              make_uint4(word_of(job.from, red, r.x, g.x, b.x), word_of(job.from, red, r.y, g.y, b.y),
                         word_of(job.from, red, r.z, g.z, b.z), word_of(job.from, red, r.w, g.w, b.w)));
}

// A byte of each word, times `mul` plus `add`, as four numbers of a plane.
__device__ __forceinline__ void put_numbers(const sl_pixels &p, int plane, int x, int y, uint4 words, unsigned byte,
                                            float mul, float add)
{
    unsigned char *at = number_at(p, plane, x, y);
    const float4 v = make_float4(byte_of(words.x, byte) * mul + add, byte_of(words.y, byte) * mul + add,
                                 byte_of(words.z, byte) * mul + add, byte_of(words.w, byte) * mul + add);
    if (p.sample == SL_F32) {
        *reinterpret_cast<float4 *>(at) = v;
        return;
    }
    const ushort4 half = { sl_to_half(v.x), sl_to_half(v.y), sl_to_half(v.z), sl_to_half(v.w) };
    *reinterpret_cast<ushort4 *>(at) = half;
}

// RGBA or BGRA, or gray in bytes, to RGB in planes of floats.
extern "C" __global__ void sl_same_to_planes(sl_job job)
{
    const sl_pixels &from = job.from, &to = job.to;
    const int left = 4 * static_cast<int>(blockIdx.x * WIDE + threadIdx.x), x = job.x.first + left;
    const int top = static_cast<int>(blockIdx.y * HIGH + threadIdx.y), y = job.y.first + top;
    const bool gray = from.family == SL_GRAY;
    if (left >= to.width || top >= to.height)
        return;
    uint4 words;
    if (gray) {
        const unsigned v = *reinterpret_cast<const unsigned *>(from.at[0].first + y * from.at[0].pitch + x);
        words = make_uint4(v, v >> 8, v >> 16, v >> 24);
    } else {
        words = *reinterpret_cast<const uint4 *>(words_at(from, x, y));
    }
    for (int i = 0; i < 3; i++) {
        const float mul = gray ? from.unmul[0] : from.unmul[i], add = gray ? from.unadd[0] : from.unadd[i];
        const unsigned byte = gray ? 0 : red_first(from) ? i : 2 - i;
        put_numbers(to, i, left, top, words, byte, mul * to.mul[i], add * to.mul[i] + to.add[i]);
    }
}

// NV12 as factors of Y, U, V and 1.
struct factors {
    float y, rv, gu, gv, bu, r, g, b;
};
__device__ __forceinline__ factors factors_of(const sl_pixels &p)
{
    factors f;
    f.y = p.unmul[0];
    f.rv = p.rv * p.unmul[2];
    f.gu = -p.gu * p.unmul[1];
    f.gv = -p.gv * p.unmul[2];
    f.bu = p.bu * p.unmul[1];
    f.r = p.unadd[0] - p.add[2] * f.rv;
    f.g = p.unadd[0] - p.add[1] * f.gu - p.add[2] * f.gv;
    f.b = p.unadd[0] - p.add[1] * f.bu;
    return f;
}

__device__ __forceinline__ unsigned word_of(const factors &f, bool red, float y, float2 uv)
{
    const unsigned r = byte_bits(y * f.y + f.r + uv.y * f.rv), b = byte_bits(y * f.y + f.b + uv.x * f.bu);
    const unsigned g = byte_bits(y * f.y + f.g + uv.x * f.gu + uv.y * f.gv);
    return opaque(red ? r : b, g, red ? b : r);
}

// Four pixels of a row, of their Y and of U and V at the two pairs of columns and at those beside them.
__device__ __forceinline__ uint4 row_of(const factors &f, bool red, unsigned y, const float2 (&uv)[4], float before,
                                        float after)
{
    return make_uint4(word_of(f, red, byte_of(y, 0), nv12_source::mix(uv[1], uv[0], before)),
                      word_of(f, red, byte_of(y, 1), nv12_source::mix(uv[1], uv[2], after)),
                      word_of(f, red, byte_of(y, 2), nv12_source::mix(uv[2], uv[1], before)),
                      word_of(f, red, byte_of(y, 3), nv12_source::mix(uv[2], uv[3], after)));
}

// NV12 to RGBA or BGRA of the full range: two rows a thread.
extern "C" __global__ void sl_same_nv12(sl_job job)
{
    const sl_pixels &from = job.from;
    const nv12_source source(job);
    const int left = 4 * static_cast<int>(blockIdx.x * WIDE + threadIdx.x), x = job.x.first + left;
    const int top = 2 * static_cast<int>(blockIdx.y * HIGH + threadIdx.y), y = job.y.first + top;
    if (left >= job.to.width || top >= job.to.height)
        return;
    const bool repeat = from.site == SL_SITE_REPEAT, together = from.site == SL_SITE_TOP_LEFT;
    const float above = repeat || together ? 0 : 0.25f, below = repeat ? 0 : together ? 0.5f : 0.25f;
    const float before = from.site == SL_SITE_CENTRE ? 0.25f : 0, after = repeat ? 0 : 0.5f - before;
    const int i = x / 2, j = y / 2, width = from.width / 2, height = from.height / 2;
    float2 first[4], second[4];
    for (int k = 0; k < 4; k++) {
        const int column = i + k - 1 < 0 ? 0 : i + k - 1 < width ? i + k - 1 : width - 1;
        const float2 here = source.pair(column, j);
        first[k] = nv12_source::mix(here, source.pair(column, j > 0 ? j - 1 : 0), above);
        second[k] = nv12_source::mix(here, source.pair(column, j + 1 < height ? j + 1 : j), below);
    }
    const factors f = factors_of(from);
    const unsigned char *luma = from.at[0].first + y * from.at[0].pitch + x;
    const unsigned a = *reinterpret_cast<const unsigned *>(luma);
    const unsigned b = *reinterpret_cast<const unsigned *>(luma + from.at[0].pitch);
    put_words(job.to, left, top, row_of(f, red_first(job.to), a, first, before, after));
    put_words(job.to, left, top + 1, row_of(f, red_first(job.to), b, second, before, after));
}

// Sums of bytes of a word: the first and third in one number, and the second.
struct sums {
    unsigned outer, inner;
};
__device__ __forceinline__ void add_word(sums &sum, unsigned word, unsigned weight)
{
    sum.outer += weight * (word & 0xff00ffu);
    sum.inner += weight * (word >> 8 & 255);
}

struct luma {
    float first, second, third, add; // factors of the bytes
};
__device__ __forceinline__ unsigned luma_of(const luma &f, unsigned word)
{
    sl_word_float sum;
    sum.value = byte_of(word, 0) * f.first + byte_of(word, 1) * f.second + byte_of(word, 2) * f.third + f.add;
    sum.value += 12582912.0f;
    return sum.word & 255;
}

__device__ __forceinline__ void put_luma(const sl_pixels &to, int x, int y, const luma &f, uint4 v)
{
    *reinterpret_cast<unsigned *>(to.at[0].first + y * to.at[0].pitch + x) =
        luma_of(f, v.x) | luma_of(f, v.y) << 8 | luma_of(f, v.z) << 16 | luma_of(f, v.w) << 24;
}

// U in the lowest byte, V in the next one.
__device__ __forceinline__ unsigned pair_of(const sl_pixels &to, bool red, sums sum, float unit)
{
    const float first = (sum.outer & 0xffff) * unit, third = (sum.outer >> 16) * unit;
    const sl_rgba c = { red ? first : third, sum.inner * unit, red ? third : first, 1 };
    return static_cast<unsigned>(sl_whole(sl_chroma_u(&to, c) * to.mul[1] + to.add[1], 255) |
                                 sl_whole(sl_chroma_v(&to, c) * to.mul[2] + to.add[2], 255) << 8);
}

// RGBA or BGRA of the full range to NV12: two rows a thread, and those around them for the chroma.
extern "C" __global__ void sl_same_to_nv12(sl_job job)
{
    const sl_pixels &to = job.to, &from = job.from;
    const int x = 4 * static_cast<int>(blockIdx.x * WIDE + threadIdx.x);
    const int y = 2 * static_cast<int>(blockIdx.y * HIGH + threadIdx.y);
    if (x >= to.width || y >= to.height)
        return;
    const bool repeat = to.site == SL_SITE_REPEAT, red = red_first(from);
    const unsigned down[4] = { to.site == SL_SITE_TOP_LEFT || !repeat ? 1u : 0u,
                               repeat                        ? 1u
                               : to.site == SL_SITE_TOP_LEFT ? 2u
                                                             : 3u,
                               repeat || to.site == SL_SITE_TOP_LEFT ? 1u : 3u,
                               repeat || to.site == SL_SITE_TOP_LEFT ? 0u : 1u };
    const unsigned across[4] = { repeat ? 0u : 1u,
                                 repeat                      ? 1u
                                 : to.site == SL_SITE_CENTRE ? 3u
                                                             : 2u,
                                 to.site == SL_SITE_CENTRE ? 3u : 1u, to.site == SL_SITE_CENTRE ? 1u : 0u };
    const float unit =
        1.0f / (255 * (down[0] + down[1] + down[2] + down[3]) * (across[0] + across[1] + across[2] + across[3]));
    const float scale = to.mul[0] / 255;
    const luma f = { scale * (red ? to.kr : to.kb), scale * to.kg, scale * (red ? to.kb : to.kr),
                     to.add[0] + 255 * 1e-6f };
    sums column[6] = {};
    for (int k = 0; k < 4; k++) {
        const int row = y + k - 1 < 0 ? 0 : y + k - 1 < to.height ? y + k - 1 : to.height - 1;
        const unsigned char *at = words_at(from, job.x.first + x, job.y.first + row);
        const uint4 v = *reinterpret_cast<const uint4 *>(at);
        add_word(column[0], *reinterpret_cast<const unsigned *>(x > 0 ? at - 4 : at), down[k]);
        add_word(column[1], v.x, down[k]);
        add_word(column[2], v.y, down[k]);
        add_word(column[3], v.z, down[k]);
        add_word(column[4], v.w, down[k]);
        add_word(column[5], *reinterpret_cast<const unsigned *>(x + 4 < to.width ? at + 16 : at + 12), down[k]);
        if (k == 1 || k == 2)
            put_luma(to, x, y + k - 1, f, v);
    }
    sums own[2] = {};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            own[i].outer += across[k] * column[2 * i + k].outer;
            own[i].inner += across[k] * column[2 * i + k].inner;
        }
    *reinterpret_cast<unsigned *>(to.at[1].first + y / 2 * to.at[1].pitch + x) =
        pair_of(to, red, own[0], unit) | pair_of(to, red, own[1], unit) << 16;
}
