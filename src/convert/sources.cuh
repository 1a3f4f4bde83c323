// SPDX-License-Identifier: MIT
//
// What kernels read, as numbers that can be added up.

// A block has 32 x 8 threads.
enum { WIDE = 32, HIGH = 8 };

/* ---- reading ---- */

// A byte of a word as a float, exactly: it becomes the lowest bits of 2^23, which is then subtracted. A GPU takes
// several times as long to convert an integer.
__device__ __forceinline__ float byte_of(unsigned word, unsigned i)
{
    sl_word_float sum;
#ifdef __CUDA_ARCH__
    sum.word = __byte_perm(word, 0x4b000000u, 0x7440u + i);
#else
    sum.word = 0x4b000000u | (word >> 8 * i & 255);
#endif
    return sum.value - 8388608.0f;
}

__device__ __forceinline__ bool red_first(const sl_pixels &p)
{
    return p.at[0].first < p.at[2].first;
}

// Where a component of a pixel is stored.
__device__ __forceinline__ unsigned char *number_at(const sl_pixels &p, int i, int x, int y)
{
    return p.at[i].first + y * p.at[i].pitch + x * p.at[i].step;
}

// A source gives the numbers of a pixel as they are stored. A filter adds them up, the colours times `cover`: alpha, or
// 1 if colours are not to be multiplied by it. Sums become components at the end.

struct any_source {
    const sl_pixels &p;
    const float multiplied; // 0 or 1
    __device__ __forceinline__ explicit any_source(const sl_job &job)
        : p(job.from), multiplied(static_cast<float>(job.multiply))
    {
    }
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const { return sl_fetch(&p, x, y); }
    __device__ __forceinline__ float cover(sl_rgba c) const { return 1 - multiplied + multiplied * c.a; }
    __device__ __forceinline__ sl_rgba components(sl_rgba c) const { return c; }
};

// RGBA or BGRA in bytes, at addresses that are multiples of 4. Red is the first byte until the end.
struct rgba_source {
    const sl_pixels &p;
    const float multiplied, alpha, none; // a component of alpha is a byte times `alpha`, plus `none`
    __device__ __forceinline__ explicit rgba_source(const sl_job &job)
        : p(job.from), multiplied(static_cast<float>(job.multiply)), alpha(p.opaque ? 0 : p.unmul[3]),
          none(p.opaque ? 1 : p.unadd[3])
    {
    }
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const
    {
        const unsigned v = *reinterpret_cast<const unsigned *>(p.at[1].first - 1 + y * p.at[1].pitch + 4 * x);
        sl_rgba c = { byte_of(v, 0), byte_of(v, 1), byte_of(v, 2), byte_of(v, 3) };
        return c;
    }
    __device__ __forceinline__ float cover(sl_rgba c) const
    {
        return c.a * (multiplied * alpha) + (1 - multiplied + multiplied * none);
    }
    __device__ __forceinline__ sl_rgba components(sl_rgba c) const
    {
        const float first = red_first(p) ? c.r : c.b, third = red_first(p) ? c.b : c.r;
        c.a = c.a * alpha + none;
        const float cover = 1 - multiplied + multiplied * c.a;
        c.r = first * p.unmul[0] + cover * p.unadd[0];
        c.g = c.g * p.unmul[1] + cover * p.unadd[1];
        c.b = third * p.unmul[2] + cover * p.unadd[2];
        return c;
    }
};

// NV12 whose pairs are at even addresses. Its numbers are Y, U and V.
struct nv12_source {
    const sl_pixels &p;
    __device__ __forceinline__ explicit nv12_source(const sl_job &job) : p(job.from) {}
    static __device__ __forceinline__ float2 mix(float2 a, float2 b, float part)
    {
        return make_float2(a.x + part * (b.x - a.x), a.y + part * (b.y - a.y));
    }
    __device__ __forceinline__ float2 pair(int x, int y) const
    {
        const unsigned v = *reinterpret_cast<const unsigned short *>(p.at[1].first + y * p.at[1].pitch + 2 * x);
        return make_float2(byte_of(v, 0), byte_of(v, 1));
    }
    __device__ __forceinline__ sl_rgba fetch(int x, int y) const
    {
        const int repeat = p.site == SL_SITE_REPEAT;
        const sl_between h = sl_chroma_between(x, 1, p.site != SL_SITE_CENTRE, repeat, p.width >> 1);
        const sl_between v = sl_chroma_between(y, 1, p.site == SL_SITE_TOP_LEFT, repeat, p.height >> 1);
        const float2 uv = mix(mix(pair(h.first, v.first), pair(h.second, v.first), h.part),
                              mix(pair(h.first, v.second), pair(h.second, v.second), h.part), v.part);
        sl_rgba c = { byte_of(p.at[0].first[y * p.at[0].pitch + x], 0), uv.x, uv.y, 1 };
        return c;
    }
    __device__ __forceinline__ float cover(sl_rgba) const { return 1; }
    __device__ __forceinline__ sl_rgba components(sl_rgba c) const { return sl_from_yuv(&p, c.r, c.g, c.b); }
};

/* ---- sums ---- */

__device__ __forceinline__ void add(sl_rgba &sum, float weight, float cover, sl_rgba c)
{
    const float colours = weight * cover;
    sum.r += colours * c.r;
    sum.g += colours * c.g;
    sum.b += colours * c.b;
    sum.a += weight * c.a;
}

__device__ __forceinline__ sl_rgba times(float by, sl_rgba c)
{
    sl_rgba product = { by * c.r, by * c.g, by * c.b, by * c.a };
    return product;
}

template <typename Source>
__device__ __forceinline__ sl_rgba finished(const sl_job &job, const Source &source, sl_rgba c)
{
    c = source.components(c);
    return job.divide ? sl_divided(c) : c;
}
