// SPDX-License-Identifier: MIT
//
// Conversions on a GPU. dev/convert-ptx compiles it, behind pixels.cuh and job.cuh, to convert.ptx, which is part of
// the library: nothing is compiled where it runs. The kernels with a source in their name are faster for that one.

/* ---- reading ---- */

__device__ __forceinline__ bool red_first(const sl_pixels &p)
{
    return p.at[0].first < p.at[2].first;
}

// A source gives the numbers of a pixel as they are stored, but alpha as a component. A filter adds them up, times
// alpha if colours are multiplied by it, and they become components then; `cover` is the sum of what they were
// multiplied by.

struct any_source {
    const sl_pixels &p;
    __device__ __forceinline__ explicit any_source(const sl_pixels &of) : p(of) {}
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const { return sl_fetch(&p, x, y); }
    __device__ __forceinline__ sl_rgba components(sl_rgba c, float) const { return c; }
};

// RGBA or BGRA in bytes, at addresses that are multiples of 4. Red is the first byte until the end.
struct rgba_source {
    const sl_pixels &p;
    const float alpha, none;
    __device__ __forceinline__ explicit rgba_source(const sl_pixels &of)
        : p(of), alpha(of.opaque ? 0 : of.unmul[3]), none(of.opaque ? 1 : of.unadd[3])
    {
    }
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const
    {
        const uchar4 v = *reinterpret_cast<const uchar4 *>(p.at[1].first - 1 + y * p.at[1].pitch + 4 * x);
        sl_rgba c = { static_cast<float>(v.x), static_cast<float>(v.y), static_cast<float>(v.z), v.w * alpha + none };
        return c;
    }
    __device__ __forceinline__ sl_rgba components(sl_rgba c, float cover) const
    {
        const float first = red_first(p) ? c.r : c.b, third = red_first(p) ? c.b : c.r;
        c.r = first * p.unmul[0] + cover * p.unadd[0];
        c.g = c.g * p.unmul[1] + cover * p.unadd[1];
        c.b = third * p.unmul[2] + cover * p.unadd[2];
        return c;
    }
};

// NV12 whose pairs are at even addresses. Its numbers are Y, U and V.
struct nv12_source {
    const sl_pixels &p;
    __device__ __forceinline__ explicit nv12_source(const sl_pixels &of) : p(of) {}
    static __device__ __forceinline__ float2 mix(float2 a, float2 b, float part)
    {
        return make_float2(a.x + part * (b.x - a.x), a.y + part * (b.y - a.y));
    }
    __device__ __forceinline__ float2 pair(int x, int y) const
    {
        const uchar2 v = *reinterpret_cast<const uchar2 *>(p.at[1].first + y * p.at[1].pitch + 2 * x);
        return make_float2(v.x, v.y);
    }
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const
    {
        const int repeat = p.site == SL_SITE_REPEAT;
        const sl_between h = sl_chroma_between(x, 1, p.site != SL_SITE_CENTRE, repeat, p.width >> 1);
        const sl_between v = sl_chroma_between(y, 1, p.site == SL_SITE_TOP_LEFT, repeat, p.height >> 1);
        const float2 uv = mix(mix(pair(h.first, v.first), pair(h.second, v.first), h.part),
                              mix(pair(h.first, v.second), pair(h.second, v.second), h.part), v.part);
        sl_rgba c = { static_cast<float>(p.at[0].first[y * p.at[0].pitch + x]), uv.x, uv.y, 1 };
        return c;
    }
    __device__ __forceinline__ sl_rgba components(sl_rgba c, float) const { return sl_from_yuv(&p, c.r, c.g, c.b); }
};

/* ---- one pixel of the target ---- */

__device__ __forceinline__ sl_taps taps_of(const sl_axis &axis, int pixel, int resize)
{
    if (resize == SL_TRIANGLE)
        return sl_taps_at(&axis, pixel);
    sl_taps one = { sl_nearest(&axis, pixel), 1, 0 };
    return one;
}

// Sums with weights, the colours' times alpha as far as `multiplied` says: 0 or 1.
struct sum_of {
    sl_rgba sum;
    float weights;
};
__device__ __forceinline__ void add(sum_of &to, float weight, sl_rgba c, float multiplied)
{
    const float colours = weight * (1 - multiplied + multiplied * c.a);
    to.sum.r += colours * c.r;
    to.sum.g += colours * c.g;
    to.sum.b += colours * c.b;
    to.sum.a += weight * c.a;
    to.weights += weight;
}

__device__ __forceinline__ sl_rgba mean(const sum_of &of)
{
    const float by = 1 / of.weights;
    sl_rgba c = { by * of.sum.r, by * of.sum.g, by * of.sum.b, by * of.sum.a };
    return c;
}

template <typename Source>
__device__ __forceinline__ sl_rgba finished(const sl_job &job, const Source &source, sl_rgba c)
{
    c = source.components(c, job.multiply ? c.a : 1.0f);
    return job.divide ? sl_divided(c) : c;
}

template <typename Source> __device__ __forceinline__ sl_rgba convert(const sl_job &job, int x, int y)
{
    const Source source(job.from);
    const float multiplied = static_cast<float>(job.multiply);
    sum_of sum = {};
    if (!sl_shows(&job.x, x) || !sl_shows(&job.y, y))
        return job.border;
    const sl_taps columns = taps_of(job.x, x, job.resize), rows = taps_of(job.y, y, job.resize);
#pragma unroll 1
    for (int j = 0; j < rows.count; j++) {
        const int row = sl_source(&job.y, rows.first + j);
        const float down = sl_weight(&job.y, rows, j);
#pragma unroll 1
        for (int i = 0; i < columns.count; i++)
            add(sum, down * sl_weight(&job.x, columns, i), source.fetch(sl_source(&job.x, columns.first + i), row),
                multiplied);
    }
    return finished(job, source, mean(sum));
}

// A thread for each pixel.
template <typename Source> __device__ __forceinline__ void each(const sl_job &job)
{
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (x < job.to.width && y < job.to.height)
        sl_store(&job.to, x, y, convert<Source>(job, x, y));
}
extern "C" __global__ void sl_convert_any(sl_job job)
{
    each<any_source>(job);
}
extern "C" __global__ void sl_convert_rgba(sl_job job)
{
    each<rgba_source>(job);
}

/* ---- resizing between the rows, then between the columns ---- */

// A block of 32 x 8 threads makes as many pixels; each row of threads makes a row of the columns that those depend on,
// at most ROW of them.
enum { WIDE = 32, HIGH = 8, ROW = 192 };

template <typename Source> __device__ __forceinline__ void resize(const sl_job &job)
{
    __shared__ float4 between[HIGH][ROW];
    const int left = static_cast<int>(blockIdx.x) * WIDE, x = left + static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(blockIdx.y) * HIGH + static_cast<int>(threadIdx.y);
    const int last = job.x.at + job.x.size - 1, right = left + WIDE - 1 < last ? left + WIDE - 1 : last;
    const int begin = sl_taps_at(&job.x, left > job.x.at ? left : job.x.at).first;
    float4 *row = between[threadIdx.y];
    const Source source(job.from);
    if (right >= left && right >= job.x.at && y < job.to.height && sl_shows(&job.y, y)) {
        const sl_taps end = sl_taps_at(&job.x, right), taps = sl_taps_at(&job.y, y);
#pragma unroll 1
        for (int i = begin + static_cast<int>(threadIdx.x); i < end.first + end.count; i += WIDE) {
            const int column = sl_source(&job.x, i);
            sum_of sum = {};
#pragma unroll 1
            for (int j = 0; j < taps.count; j++)
                add(sum, sl_weight(&job.y, taps, j), source.fetch(column, sl_source(&job.y, taps.first + j)),
                    static_cast<float>(job.multiply));
            const sl_rgba c = mean(sum);
            row[i - begin] = make_float4(c.r, c.g, c.b, c.a);
        }
    }
    __syncthreads();
    if (x >= job.to.width || y >= job.to.height)
        return;
    sl_rgba c = job.border;
    if (sl_shows(&job.x, x) && sl_shows(&job.y, y)) {
        const sl_taps taps = sl_taps_at(&job.x, x);
        sum_of sum = {};
#pragma unroll 1
        for (int i = 0; i < taps.count; i++) {
            const float4 v = row[taps.first - begin + i];
            const sl_rgba each = { v.x, v.y, v.z, v.w };
            add(sum, sl_weight(&job.x, taps, i), each, 0);
        }
        c = finished(job, source, mean(sum));
    }
    sl_store(&job.to, x, y, c);
}
extern "C" __global__ void sl_resize_rgba(sl_job job)
{
    resize<rgba_source>(job);
}
extern "C" __global__ void sl_resize_nv12(sl_job job)
{
    resize<nv12_source>(job);
}

/* ---- pixels that stay where they are: each thread has 4 columns, which begin at multiples of 16 bytes ---- */

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
    return (red ? r : b) + (g << 8) + ((red ? b : r) << 16) + (0xff000000u - 0x4b400000u * 65793u);
}

// Four pixels of a row, of their Y and of U and V at the two pairs of columns and at those beside them.
__device__ __forceinline__ uint4 row_of(const factors &f, bool red, uchar4 y, const float2 (&uv)[4], float before,
                                        float after)
{
    return make_uint4(word_of(f, red, y.x, nv12_source::mix(uv[1], uv[0], before)),
                      word_of(f, red, y.y, nv12_source::mix(uv[1], uv[2], after)),
                      word_of(f, red, y.z, nv12_source::mix(uv[2], uv[1], before)),
                      word_of(f, red, y.w, nv12_source::mix(uv[2], uv[3], after)));
}

// NV12 to RGBA or BGRA of the full range: two rows a thread.
extern "C" __global__ void sl_same_nv12(sl_job job)
{
    const sl_pixels &from = job.from;
    const nv12_source source(from);
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
    const uchar4 a = *reinterpret_cast<const uchar4 *>(luma);
    const uchar4 b = *reinterpret_cast<const uchar4 *>(luma + from.at[0].pitch);
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
    sum.value = (word & 255) * f.first + (word >> 8 & 255) * f.second + (word >> 16 & 255) * f.third + f.add;
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

/* ---- targets whose pixels share chroma ---- */

// A block of 32 x 8 threads makes 32 x 8 samples of chroma, from the pixels that share them and those around.
enum { LEFT = 1, ACROSS = 2 * WIDE + 3, DOWN = 2 * HIGH + 3 };

__device__ __forceinline__ float shared_weight(int site, int together, int i)
{
    const bool middle = i == 1 || i == 2;
    if (site == SL_SITE_REPEAT)
        return middle ? 0.5f : 0;
    if (together)
        return i == 3 ? 0 : i == 1 ? 0.5f : 0.25f;
    return middle ? 0.375f : 0.125f;
}

template <typename Source> __device__ __forceinline__ void share(const sl_job &job)
{
    __shared__ float u[DOWN][ACROSS + 1], v[DOWN][ACROSS + 1];
    const sl_pixels &to = job.to;
    const int high = HIGH << to.shift_y, above = to.shift_y ? LEFT : 0, down = high + 3 * to.shift_y;
    const int left = static_cast<int>(blockIdx.x) * 2 * WIDE, top = static_cast<int>(blockIdx.y) * high;
    for (int i = static_cast<int>(threadIdx.y * WIDE + threadIdx.x); i < down * ACROSS; i += WIDE * HIGH) {
        const int column = i % ACROSS, row = i / ACROSS, x = left + column - LEFT, y = top + row - above;
        const int cx = x < 0 ? 0 : x < to.width ? x : to.width - 1, cy = y < 0 ? 0 : y < to.height ? y : to.height - 1;
        if (cx - x > 2 || x - cx > 2 || y - cy > 2)
            continue;
        const sl_rgba c = convert<Source>(job, cx, cy);
        u[row][column] = sl_chroma_u(&to, c);
        v[row][column] = sl_chroma_v(&to, c);
        if (cx == x && cy == y && x >= left && x < left + 2 * WIDE && y >= top && y < top + high)
            sl_store_own(&to, x, y, c);
    }
    __syncthreads();
    const int column = 2 * static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y) << to.shift_y;
    if (left + column >= to.width || top + row >= to.height)
        return;
    float sum_u = 0, sum_v = 0;
#pragma unroll 1
    for (int j = 0; j < (to.shift_y ? 4 : 1); j++) {
        const float weight = to.shift_y ? shared_weight(to.site, to.site == SL_SITE_TOP_LEFT, j) : 1;
#pragma unroll 1
        for (int i = 0; i < 4; i++) {
            const float w = weight * shared_weight(to.site, to.site != SL_SITE_CENTRE, i);
            if (w > 0) {
                sum_u += w * u[row + j][column + i];
                sum_v += w * v[row + j][column + i];
            }
        }
    }
    sl_store_chroma(&to, left + column, top + row, sum_u, sum_v);
}
extern "C" __global__ void sl_share_any(sl_job job)
{
    share<any_source>(job);
}
extern "C" __global__ void sl_share_rgba(sl_job job)
{
    share<rgba_source>(job);
}
