/* SPDX-License-Identifier: MIT
 *
 * <sluice.cuh>, for kernels on a GPU and on "host": pictures, their pixels, dynamic shared memory, and arithmetic with
 * float2, float3 and float4.
 *
 *     #include <sluice.cuh>
 *     __global__ void invert(sluice_out out, sluice_in in)
 *     {
 *         SLUICE_PIXEL(out, x, y); // returns outside the picture
 *         store(out, x, y, 1 - load(in, x, y));
 *     }
 */
#ifndef SLUICE_CUH
#define SLUICE_CUH

/* ---- pictures ---- */

/* struct sl_picture of kernel.h. A pitch is the bytes from a row to the next one below it; it is negative if the rows
 * lie bottom-up in memory. */
struct sluice_in {
    enum { sluice_picture = 4 }; /* for describe.cuh: SLUICE_PARAMETER_IN */
    const void *planes[3];
    long long pitches[3];
    int width, height;
    unsigned format;   /* enum sluice_pixel_format */
    unsigned reserved; /* of sl_colour_word in pixels.cuh, which is ahead of this file */
};

struct sluice_out {
    enum { sluice_picture = 5 };
    void *planes[3];
    long long pitches[3];
    int width, height;
    unsigned format;
    unsigned reserved;
};

/* A row of a plane, as elements of type T. */
template <typename T> __device__ __forceinline__ const T *sluice_row(const sluice_in &picture, int y, int plane = 0)
{
    return reinterpret_cast<const T *>(static_cast<const char *>(picture.planes[plane]) + y * picture.pitches[plane]);
}
template <typename T> __device__ __forceinline__ T *sluice_row(const sluice_out &picture, int y, int plane = 0)
{
    return reinterpret_cast<T *>(static_cast<char *>(picture.planes[plane]) + y * picture.pitches[plane]);
}

/* This thread's pixel. The thread returns if it has none. */
#define SLUICE_PIXEL(picture, x, y) \
    const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); \
    const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y); \
    if (x >= (picture).width || y >= (picture).height) \
    return

/* ---- shared memory ---- */

/* A pointer to the block's dynamic shared memory, as elements of this type. The launch gives its size. */
#ifdef SL_HOST
#define SLUICE_SHARED(type, name) type *const name = static_cast<type *>(sl_shared)
#else
#define SLUICE_SHARED(type, name) \
    extern __shared__ __align__(16) unsigned char sl_shared[]; \
    type *const name = reinterpret_cast<type *>(sl_shared)
#endif

/* ---- vectors ---- */

#define SL_OPERATORS(V, EACH) \
    SL_OPERATOR(V, EACH, +) \
    SL_OPERATOR(V, EACH, -) \
    SL_OPERATOR(V, EACH, *) \
    SL_OPERATOR(V, EACH, /) \
    __device__ __forceinline__ V operator-(V a) \
    { \
        return a * -1.0f; \
    }
#define SL_OPERATOR(V, EACH, op) \
    __device__ __forceinline__ V operator op(V a, V b) \
    { \
        return { EACH(SL_PAIR, op) }; \
    } \
    __device__ __forceinline__ V operator op(V a, float b) \
    { \
        return { EACH(SL_RIGHT, op) }; \
    } \
    __device__ __forceinline__ V operator op(float a, V b) \
    { \
        return { EACH(SL_LEFT, op) }; \
    } \
    __device__ __forceinline__ V &operator op##=(V &a, V b) \
    { \
        return a = a op b; \
    } \
    __device__ __forceinline__ V &operator op##=(V &a, float b) \
    { \
        return a = a op b; \
    }
#define SL_PAIR(m, op)  a.m op b.m
#define SL_RIGHT(m, op) a.m op b
#define SL_LEFT(m, op)  a op b.m
#define SL_EACH2(F, op) F(x, op), F(y, op)
#define SL_EACH3(F, op) F(x, op), F(y, op), F(z, op)
#define SL_EACH4(F, op) F(x, op), F(y, op), F(z, op), F(w, op)
SL_OPERATORS(float2, SL_EACH2)
SL_OPERATORS(float3, SL_EACH3)
SL_OPERATORS(float4, SL_EACH4)
#undef SL_OPERATORS
#undef SL_OPERATOR
#undef SL_PAIR
#undef SL_RIGHT
#undef SL_LEFT
#undef SL_EACH2
#undef SL_EACH3
#undef SL_EACH4

/* ---- pixels, of any format but Bayer's ---- */

/* Red, green, blue and alpha, 0 to 1 each: gray is red, green and blue alike, a picture without alpha is opaque. YUV is
 * converted by the picture's matrix and range; where none is named, by BT.709 from 720 rows on, else BT.601. */

/* "rgba" of the full range, by far the most frequent, is read and written without a description. */
__device__ __forceinline__ bool sl_is_plain(unsigned format, unsigned colour)
{
    return format == SLUICE_PIXEL_RGBA && (colour >> 8 & 3) != 1 && (colour >> 10 & 3) != 3;
}

/* All others are calls, as compiling each of a kernel's loads takes long. On a GPU the picture is passed by value: its
 * address would move the kernel's parameters into slower memory. */
#ifdef SL_HOST
typedef const sluice_in &sl_in;
typedef const sluice_out &sl_out;
#else
typedef sluice_in sl_in;
typedef sluice_out sl_out;
#endif

inline __device__ __noinline__ float4 sl_load_other(sl_in picture, int x, int y)
{
    sl_pixels pixels;
    unsigned char *const planes[] = {
        static_cast<unsigned char *>(const_cast<void *>(picture.planes[0])),
        static_cast<unsigned char *>(const_cast<void *>(picture.planes[1])),
        static_cast<unsigned char *>(const_cast<void *>(picture.planes[2])),
    };
    sl_pixels_of(&pixels, planes, picture.pitches, picture.width, picture.height, picture.format, picture.reserved);
    sl_rgba c = sl_fetch(&pixels, x, y);
    return make_float4(c.r, c.g, c.b, c.a);
}

inline __device__ __noinline__ void sl_store_other(sl_out picture, int x, int y, float4 c)
{
    sl_pixels pixels;
    unsigned char *const planes[] = {
        static_cast<unsigned char *>(picture.planes[0]),
        static_cast<unsigned char *>(picture.planes[1]),
        static_cast<unsigned char *>(picture.planes[2]),
    };
    sl_pixels_of(&pixels, planes, picture.pitches, picture.width, picture.height, picture.format, picture.reserved);
    sl_rgba rgba = { c.x, c.y, c.z, c.w };
    sl_store(&pixels, x, y, rgba);
}

/* The pixel in column x and row y; outside the picture, the nearest one in it. */
__device__ __forceinline__ float4 load(const sluice_in &picture, int x, int y)
{
    x = x < 0 ? 0 : x < picture.width ? x : picture.width - 1;
    y = y < 0 ? 0 : y < picture.height ? y : picture.height - 1;
    if (!sl_is_plain(picture.format, picture.reserved))
        return sl_load_other(picture, x, y);
    uchar4 c = sluice_row<uchar4>(picture, y)[x];
    return make_float4(c.x, c.y, c.z, c.w) * (1 / 255.0f);
}

/* The same between pixels: at whole numbers it is load(). */
__device__ __forceinline__ float4 sample(const sluice_in &picture, float x, float y)
{
    x = sl_clamp(x, static_cast<float>(picture.width - 1));
    y = sl_clamp(y, static_cast<float>(picture.height - 1));
    int column = static_cast<int>(x), row = static_cast<int>(y);
    float across = x - column, down = y - row;
    float4 above = load(picture, column, row), below = load(picture, column, row + 1);
    above += across * (load(picture, column + 1, row) - above);
    below += across * (load(picture, column + 1, row + 1) - below);
    return above + down * (below - above);
}

/* Writes a pixel; outside the picture it does nothing. Where pixels share their chroma, that of the upper left one
 * counts. */
__device__ __forceinline__ void store(const sluice_out &picture, int x, int y, float4 c)
{
    if (x < 0 || y < 0 || x >= picture.width || y >= picture.height)
        return;
    if (!sl_is_plain(picture.format, picture.reserved)) {
        sl_store_other(picture, x, y, c);
        return;
    }
    unsigned char bytes[4];
    sl_write(SL_U8, bytes, c.x * 255);
    sl_write(SL_U8, bytes + 1, c.y * 255);
    sl_write(SL_U8, bytes + 2, c.z * 255);
    sl_write(SL_U8, bytes + 3, c.w * 255);
    sluice_row<uchar4>(picture, y)[x] = make_uchar4(bytes[0], bytes[1], bytes[2], bytes[3]);
}

#endif
