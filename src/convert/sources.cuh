// SPDX-License-Identifier: MIT
//
// What kernels read, as numbers that can be added up.

// A block has 32 x 8 threads.
enum { WIDE = 32, HIGH = 8 };

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

/* ---- sums ---- */

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
