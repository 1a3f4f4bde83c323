/* SPDX-License-Identifier: MIT
 *
 * Pixels of every format as RGBA floats, read and written: the one definition, for C, and for CUDA C++ on a GPU and on
 * "host". It is the first part of <sluice.cuh>.
 *
 *     struct sl_pixels p;
 *     sl_pixels_of(&p, planes, pitches, width, height, format, colour); // colour: of sl_colour_word, or 0
 *     struct sl_rgba c = sl_fetch(&p, x, y);                            // each component 0 to 1
 *     sl_store(&p, x, y, c);
 *
 * A description costs a few instructions, unless the format is known when it is compiled: make it once for many pixels.
 */
#ifndef SL_CONVERT_PIXELS_CUH
#define SL_CONVERT_PIXELS_CUH

#ifdef __cplusplus
#define SL_PIXEL __device__ __forceinline__
#ifdef __CUDA_ARCH__
#define SL_PIXEL_CALL inline __device__ __noinline__ /* once in a program, as it is long */
#else
#define SL_PIXEL_CALL SL_PIXEL
#endif

/* The numbers of sluice/format.h. */
enum sluice_pixel_format {
    SLUICE_PIXEL_NONE = 0,
    SLUICE_PIXEL_RGBA = 1,
    SLUICE_PIXEL_BGRA = 2,
    SLUICE_PIXEL_RGB24 = 3,
    SLUICE_PIXEL_BGR24 = 4,
    SLUICE_PIXEL_GRAY8 = 5,
    SLUICE_PIXEL_GRAY16 = 6,
    SLUICE_PIXEL_YUYV = 7,
    SLUICE_PIXEL_UYVY = 8,
    SLUICE_PIXEL_NV12 = 9,
    SLUICE_PIXEL_YUV420P = 10,
    SLUICE_PIXEL_P010 = 11,
    SLUICE_PIXEL_BAYER_RGGB8 = 12,
    SLUICE_PIXEL_BAYER_BGGR8 = 13,
    SLUICE_PIXEL_BAYER_GRBG8 = 14,
    SLUICE_PIXEL_BAYER_GBRG8 = 15,
    SLUICE_PIXEL_BAYER_RGGB16 = 16,
    SLUICE_PIXEL_BAYER_BGGR16 = 17,
    SLUICE_PIXEL_BAYER_GRBG16 = 18,
    SLUICE_PIXEL_BAYER_GBRG16 = 19,
    SLUICE_PIXEL_RGBA_F16 = 20,
    SLUICE_PIXEL_RGBA_F32 = 21,
    SLUICE_PIXEL_YUV444P = 22,
    SLUICE_PIXEL_GRAY_F32 = 23,
    SLUICE_PIXEL_YUV422P = 24,
    SLUICE_PIXEL_YUV422P10 = 25,
    SLUICE_PIXEL_RGBA64 = 26,
};
#else
#define SL_PIXEL      static inline
#define SL_PIXEL_CALL static inline
#include <sluice/format.h>
#endif

struct sl_rgba {
    float r, g, b, a;
};

/* ---- a picture's colour, as one word: sluice_in.reserved ---- */

/* matrix: of struct sluice_colour; range: enum sluice_range; alpha: enum sluice_alpha; 0: not named. */
enum { SL_SITE_LEFT = 0, SL_SITE_CENTRE = 1, SL_SITE_TOP_LEFT = 2, SL_SITE_REPEAT = 3 }; /* where chroma lies */

SL_PIXEL unsigned sl_colour_word(unsigned matrix, unsigned range, unsigned alpha, unsigned site)
{
    return (matrix & 255) | (range & 3) << 8 | (alpha & 3) << 10 | (site & 3) << 12;
}

/* ---- where the components lie ---- */

enum sl_family { SL_RGB, SL_YUV, SL_GRAY, SL_NO_FAMILY /* Bayer, and unknown formats */ };
enum sl_sample { SL_U8, SL_U16, SL_U10 /* the high bits of 16 */, SL_L10 /* the low bits */, SL_F16, SL_F32 };

struct sl_component {
    unsigned char *first;
    long long pitch, step; /* bytes from one row, one column to the next */
};

/* Components are R G B A, Y U V or gray. A stored number is `component * mul + add`, that of chroma `chroma * mul +
 * add` with chroma -0.5 to 0.5. */
struct sl_pixels {
    struct sl_component at[4];
    float mul[4], add[4];
    float unmul[4], unadd[4]; /* the inverse: component = number * unmul + unadd */
    float kr, kg, kb;         /* luma is kr * R + kg * G + kb * B */
    float rv, gu, gv, bu;     /* R is luma + rv * V, G is luma - gu * U - gv * V, B is luma + bu * U */
    int width, height;
    int family, sample, count;  /* enum sl_family, enum sl_sample; of components */
    int shift_x, shift_y, site; /* chroma: columns and rows >> shift */
    int opaque;                 /* alpha is 1, whatever is stored */
};

/* ---- numbers ---- */

union sl_word_float {
    unsigned word;
    float value;
};

#ifdef __CUDA_ARCH__
SL_PIXEL float sl_from_half(unsigned short half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}
SL_PIXEL unsigned short sl_to_half(float value)
{
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
#else
SL_PIXEL float sl_from_half(unsigned short half)
{
    union sl_word_float to, scale;
    to.word = (half & 0x7fffu) << 13;
    scale.word = (127 + 112) << 23;
    to.value *= scale.value; /* the exponent's other bias; also right for subnormal numbers */
    to.word |= ((half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0) | (half & 0x8000u) << 16;
    return to.value;
}
SL_PIXEL unsigned short sl_to_half(float value)
{
    union sl_word_float from, small, magic;
    from.value = value;
    unsigned sign = from.word >> 16 & 0x8000u, size = from.word & 0x7fffffffu;
    magic.value = 0.5f; /* whose last bit is a half's smallest number: adding it rounds to that */
    small.word = size;
    small.value += magic.value;
    unsigned normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    unsigned half = size < 113u << 23 ? small.word - magic.word : normal;
    half = size >= 143u << 23 ? 0x7c00u : half;
    half = size > 255u << 23 ? 0x7e00u : half;
    return (unsigned short)(sign | half);
}
#endif

SL_PIXEL float sl_clamp(float value, float most)
{
    value = value > 0 ? value : 0; /* NaN is 0 */
    return value < most ? value : most;
}

/* The nearest whole number of 0 to `most`, at most 65535; NaN is 0. Sums that should end at a half come out on either
 * side of it, by another millionth on each kind of device; all go up. A float of 1.5 * 2^23 and more has whole numbers
 * in its lowest bits, and floats have the order of their bits: there it takes no comparison of floats, nor a
 * conversion. */
SL_PIXEL int sl_whole(float value, int most)
{
    union sl_word_float sum;
    sum.value = value + (float)most * 1e-6f + 12582912.0f;
    int zero = 0x4b400000, bits = (int)sum.word;
    bits = bits > 0x7f800000 ? zero : bits;
    bits = bits > zero ? bits : zero;
    bits = bits < zero + most ? bits : zero + most;
    return bits - zero;
}

SL_PIXEL float sl_read(int sample, const unsigned char *at)
{
    switch (sample) {
    case SL_U8: return (float)*at;
    case SL_L10:
    case SL_U16: return (float)*(const unsigned short *)at;
    case SL_U10: return (float)(*(const unsigned short *)at >> 6);
    case SL_F16: return sl_from_half(*(const unsigned short *)at);
    default: return *(const float *)at;
    }
}

SL_PIXEL_CALL void sl_write(int sample, unsigned char *at, float value)
{
    switch (sample) {
    case SL_U8: *at = (unsigned char)sl_whole(value, 255); break;
    case SL_U16: *(unsigned short *)at = (unsigned short)sl_whole(value, 65535); break;
    case SL_U10: *(unsigned short *)at = (unsigned short)(sl_whole(value, 1023) << 6); break;
    case SL_L10: *(unsigned short *)at = (unsigned short)sl_whole(value, 1023); break;
    case SL_F16: *(unsigned short *)at = sl_to_half(value); break;
    default: *(float *)at = value;
    }
}

/* ---- descriptions ---- */

SL_PIXEL void sl_component_at(struct sl_pixels *p, int i, unsigned char *plane, long long pitch, int offset, int step)
{
    p->at[i].first = plane + offset;
    p->at[i].pitch = pitch;
    p->at[i].step = step;
}

SL_PIXEL void sl_packed(struct sl_pixels *p, unsigned char *const *planes, const long long *pitches, int count, int red,
                        int bytes)
{
    p->family = count == 1 ? SL_GRAY : SL_RGB;
    p->count = count;
    for (int i = 0; i < count; i++) {
        int place = i == 3 ? 3 : red ? 2 - i : i;
        sl_component_at(p, i, planes[0], pitches[0], place * bytes, count * bytes);
    }
}

SL_PIXEL void sl_planar(struct sl_pixels *p, unsigned char *const *planes, const long long *pitches, int shift_x,
                        int shift_y, int bytes)
{
    p->family = SL_YUV;
    p->count = 3;
    p->shift_x = shift_x;
    p->shift_y = shift_y;
    for (int i = 0; i < 3; i++)
        sl_component_at(p, i, planes[i], pitches[i], 0, bytes);
}

/* Y in one plane, U and V in pairs in another. */
SL_PIXEL void sl_paired(struct sl_pixels *p, unsigned char *const *planes, const long long *pitches, int bytes)
{
    p->family = SL_YUV;
    p->count = 3;
    p->shift_x = p->shift_y = 1;
    sl_component_at(p, 0, planes[0], pitches[0], 0, bytes);
    sl_component_at(p, 1, planes[1], pitches[1], 0, 2 * bytes);
    sl_component_at(p, 2, planes[1], pitches[1], bytes, 2 * bytes);
}

SL_PIXEL void sl_yuv422(struct sl_pixels *p, unsigned char *plane, long long pitch, int luma, int chroma)
{
    p->family = SL_YUV;
    p->count = 3;
    p->shift_x = 1;
    sl_component_at(p, 0, plane, pitch, luma, 2);
    sl_component_at(p, 1, plane, pitch, chroma, 4);
    sl_component_at(p, 2, plane, pitch, chroma + 2, 4);
}

SL_PIXEL void sl_components_of(struct sl_pixels *p, unsigned char *const *planes, const long long *pitches,
                               unsigned format)
{
    p->sample = SL_U8;
    switch (format) {
    case SLUICE_PIXEL_RGBA: sl_packed(p, planes, pitches, 4, 0, 1); break;
    case SLUICE_PIXEL_BGRA: sl_packed(p, planes, pitches, 4, 2, 1); break;
    case SLUICE_PIXEL_RGB24: sl_packed(p, planes, pitches, 3, 0, 1); break;
    case SLUICE_PIXEL_BGR24: sl_packed(p, planes, pitches, 3, 2, 1); break;
    case SLUICE_PIXEL_GRAY8: sl_packed(p, planes, pitches, 1, 0, 1); break;
    case SLUICE_PIXEL_GRAY16: sl_packed(p, planes, pitches, 1, 0, 2), p->sample = SL_U16; break;
    case SLUICE_PIXEL_GRAY_F32: sl_packed(p, planes, pitches, 1, 0, 4), p->sample = SL_F32; break;
    case SLUICE_PIXEL_RGBA64: sl_packed(p, planes, pitches, 4, 0, 2), p->sample = SL_U16; break;
    case SLUICE_PIXEL_RGBA_F16: sl_packed(p, planes, pitches, 4, 0, 2), p->sample = SL_F16; break;
    case SLUICE_PIXEL_RGBA_F32: sl_packed(p, planes, pitches, 4, 0, 4), p->sample = SL_F32; break;
    case SLUICE_PIXEL_YUV444P: sl_planar(p, planes, pitches, 0, 0, 1); break;
    case SLUICE_PIXEL_YUV422P: sl_planar(p, planes, pitches, 1, 0, 1); break;
    case SLUICE_PIXEL_YUV422P10: sl_planar(p, planes, pitches, 1, 0, 2), p->sample = SL_L10; break;
    case SLUICE_PIXEL_YUV420P: sl_planar(p, planes, pitches, 1, 1, 1); break;
    case SLUICE_PIXEL_NV12: sl_paired(p, planes, pitches, 1); break;
    case SLUICE_PIXEL_P010: sl_paired(p, planes, pitches, 2), p->sample = SL_U10; break;
    case SLUICE_PIXEL_YUYV: sl_yuv422(p, planes[0], pitches[0], 0, 1); break;
    case SLUICE_PIXEL_UYVY: sl_yuv422(p, planes[0], pitches[0], 1, 0); break;
    default: p->family = SL_NO_FAMILY;
    }
}

/* What is named nowhere: BT.709 from 720 rows on, else BT.601; YUV has the limited range. */
SL_PIXEL unsigned sl_matrix_of(unsigned named, int height)
{
    return named ? named : height >= 720 ? 1 : 6;
}

SL_PIXEL void sl_set_weights(struct sl_pixels *p, float kr, float kb)
{
    p->kr = kr;
    p->kg = 1 - kr - kb;
    p->kb = kb;
    p->rv = 2 * (1 - kr);
    p->bu = 2 * (1 - kb);
    p->gv = 2 * kr * (1 - kr) / (1 - kr - kb);
    p->gu = 2 * kb * (1 - kb) / (1 - kr - kb);
}

SL_PIXEL void sl_set_matrix(struct sl_pixels *p, unsigned matrix)
{
    switch (matrix) {
    case 1: sl_set_weights(p, 0.2126f, 0.0722f); break;
    case 4: sl_set_weights(p, 0.30f, 0.11f); break;
    case 7: sl_set_weights(p, 0.212f, 0.087f); break;
    case 9:
    case 10: sl_set_weights(p, 0.2627f, 0.0593f); break;
    default: sl_set_weights(p, 0.299f, 0.114f);
    }
}

/* In "RGB" a YUV picture stores G B R. */
SL_PIXEL void sl_make_gbr(struct sl_pixels *p)
{
    struct sl_component g = p->at[0], b = p->at[1];
    p->at[0] = p->at[2];
    p->at[1] = g;
    p->at[2] = b;
    p->family = SL_RGB;
}

SL_PIXEL void sl_set_scale(struct sl_pixels *p, int i, float mul, float add)
{
    p->mul[i] = mul;
    p->add[i] = add;
    p->unmul[i] = 1 / mul;
    p->unadd[i] = -add / mul;
}

/* Limited is 16 to 235, chroma 16 to 240, of 8 bits; of more bits so many times it. */
SL_PIXEL void sl_set_range(struct sl_pixels *p, int limited)
{
    int ten = p->sample == SL_U10 || p->sample == SL_L10;
    float unit = ten ? 4.0f : p->sample == SL_U16 ? 256.0f : 1.0f;
    float most = p->sample == SL_U8 ? 255.0f : ten ? 1023.0f : p->sample == SL_U16 ? 65535.0f : 1.0f;
    limited = limited && p->sample <= SL_L10;
    for (int i = 0; i < 4; i++) {
        int chroma = p->family == SL_YUV && i > 0;
        float add = chroma ? 128 * unit : limited && i < 3 ? 16 * unit : 0;
        sl_set_scale(p, i, limited && i < 3 ? (chroma ? 224 : 219) * unit : most, add);
    }
}

/* Fills in the description of a picture, whose planes and pitches are those of sluice_in. */
SL_PIXEL void sl_pixels_of(struct sl_pixels *p, unsigned char *const *planes, const long long *pitches, int width,
                           int height, unsigned format, unsigned colour)
{
    unsigned matrix = sl_matrix_of(colour & 255, height), range = colour >> 8 & 3, alpha = colour >> 10 & 3;
    p->width = width;
    p->height = height;
    p->shift_x = p->shift_y = 0;
    p->site = (int)(colour >> 12 & 3);
    p->opaque = alpha == 3;
    sl_components_of(p, planes, pitches, format);
    int limited = range == 1 || (range == 0 && p->family == SL_YUV);
    sl_set_matrix(p, matrix);
    if (matrix == 255 && p->family == SL_YUV && p->shift_x == 0)
        sl_make_gbr(p);
    sl_set_range(p, limited);
}

/* ---- reading ---- */

SL_PIXEL float sl_number(const struct sl_pixels *p, int i, int x, int y)
{
    const struct sl_component *at = &p->at[i];
    return sl_read(p->sample, at->first + y * at->pitch + x * at->step);
}

/* Where a pixel's chroma lies between the first of two samples and the second, which are apart by one or, at an edge,
 * the same. `size`: how many samples there are. */
struct sl_between {
    int first, second;
    float part; /* of the second */
};
SL_PIXEL struct sl_between sl_chroma_between(int pixel, int shift, int together, int repeat, int size)
{
    struct sl_between at;
    int odd = pixel & shift;
    at.first = at.second = pixel >> shift;
    at.part = 0;
    if (!shift || repeat)
        return at;
    if (together) { /* a sample and every other pixel have the same place */
        at.second += odd;
        at.part = 0.5f * (float)odd;
    } else { /* it lies between two pixels */
        at.first -= !odd;
        at.second += odd;
        at.part = odd ? 0.25f : 0.75f;
    }
    at.first = at.first < 0 ? 0 : at.first;
    at.second = at.second < size ? at.second : size - 1;
    return at;
}

SL_PIXEL float sl_chroma(const struct sl_pixels *p, int i, struct sl_between h, struct sl_between v)
{
    float a = sl_number(p, i, h.first, v.first), b = a;
    if (p->shift_x)
        a += h.part * (sl_number(p, i, h.second, v.first) - a);
    if (!p->shift_y)
        return a;
    b = sl_number(p, i, h.first, v.second);
    b += h.part * (sl_number(p, i, h.second, v.second) - b);
    return a + v.part * (b - a);
}

SL_PIXEL struct sl_rgba sl_from_yuv(const struct sl_pixels *p, float y, float u, float v)
{
    struct sl_rgba c;
    y = y * p->unmul[0] + p->unadd[0];
    u = (u - p->add[1]) * p->unmul[1];
    v = (v - p->add[2]) * p->unmul[2];
    c.r = y + p->rv * v;
    c.g = y - p->gu * u - p->gv * v;
    c.b = y + p->bu * u;
    c.a = 1;
    return c;
}

/* The pixel at x, y, which lies in the picture: 0 to 1 each. Alpha is not applied. */
SL_PIXEL struct sl_rgba sl_fetch(const struct sl_pixels *p, int x, int y)
{
    struct sl_rgba c = { 0, 0, 0, 1 };
    if (p->family == SL_YUV) {
        struct sl_between h = sl_chroma_between(x, p->shift_x, p->site != SL_SITE_CENTRE, p->site == SL_SITE_REPEAT,
                                                p->width >> p->shift_x);
        struct sl_between v = sl_chroma_between(y, p->shift_y, p->site == SL_SITE_TOP_LEFT, p->site == SL_SITE_REPEAT,
                                                p->height >> p->shift_y);
        return sl_from_yuv(p, sl_number(p, 0, x, y), sl_chroma(p, 1, h, v), sl_chroma(p, 2, h, v));
    }
    if (p->family == SL_NO_FAMILY)
        return c;
    c.r = c.g = c.b = sl_number(p, 0, x, y) * p->unmul[0] + p->unadd[0];
    if (p->family == SL_GRAY)
        return c;
    c.g = sl_number(p, 1, x, y) * p->unmul[1] + p->unadd[1];
    c.b = sl_number(p, 2, x, y) * p->unmul[2] + p->unadd[2];
    if (p->count == 4 && !p->opaque)
        c.a = sl_number(p, 3, x, y) * p->unmul[3] + p->unadd[3];
    return c;
}

/* The same where x and y may lie outside: edges repeat. */
SL_PIXEL struct sl_rgba sl_fetch_inside(const struct sl_pixels *p, int x, int y)
{
    x = x < 0 ? 0 : x < p->width ? x : p->width - 1;
    y = y < 0 ? 0 : y < p->height ? y : p->height - 1;
    return sl_fetch(p, x, y);
}

SL_PIXEL struct sl_rgba sl_mix(struct sl_rgba a, struct sl_rgba b, float part)
{
    a.r += part * (b.r - a.r);
    a.g += part * (b.g - a.g);
    a.b += part * (b.b - a.b);
    a.a += part * (b.a - a.a);
    return a;
}

/* Between pixels: at whole numbers it is the pixel of that column and row. Edges repeat. */
SL_PIXEL struct sl_rgba sl_fetch_between(const struct sl_pixels *p, float x, float y)
{
    x = sl_clamp(x, (float)(p->width - 1));
    y = sl_clamp(y, (float)(p->height - 1));
    int column = (int)x, row = (int)y;
    float part = x - (float)column;
    struct sl_rgba above = sl_mix(sl_fetch(p, column, row), sl_fetch_inside(p, column + 1, row), part);
    struct sl_rgba below = sl_mix(sl_fetch_inside(p, column, row + 1), sl_fetch_inside(p, column + 1, row + 1), part);
    return sl_mix(above, below, y - (float)row);
}

/* ---- writing ---- */

SL_PIXEL void sl_put_number(const struct sl_pixels *p, int i, int x, int y, float component)
{
    const struct sl_component *at = &p->at[i];
    sl_write(p->sample, at->first + y * at->pitch + x * at->step, component * p->mul[i] + p->add[i]);
}

SL_PIXEL float sl_luma(const struct sl_pixels *p, struct sl_rgba c)
{
    return p->kr * c.r + p->kg * c.g + p->kb * c.b;
}
SL_PIXEL float sl_chroma_u(const struct sl_pixels *p, struct sl_rgba c)
{
    return (c.b - sl_luma(p, c)) / p->bu;
}
SL_PIXEL float sl_chroma_v(const struct sl_pixels *p, struct sl_rgba c)
{
    return (c.r - sl_luma(p, c)) / p->rv;
}

/* Luma and gray, and all of RGB: what each pixel has of its own. */
SL_PIXEL void sl_store_own(const struct sl_pixels *p, int x, int y, struct sl_rgba c)
{
    if (p->family == SL_NO_FAMILY)
        return;
    if (p->family != SL_RGB) {
        sl_put_number(p, 0, x, y, sl_luma(p, c));
        return;
    }
    sl_put_number(p, 0, x, y, c.r);
    sl_put_number(p, 1, x, y, c.g);
    sl_put_number(p, 2, x, y, c.b);
    if (p->count == 4)
        sl_put_number(p, 3, x, y, p->opaque ? 1 : c.a);
}

/* The chroma at x >> shift_x, y >> shift_y. */
SL_PIXEL void sl_store_chroma(const struct sl_pixels *p, int x, int y, float u, float v)
{
    sl_put_number(p, 1, x >> p->shift_x, y >> p->shift_y, u);
    sl_put_number(p, 2, x >> p->shift_x, y >> p->shift_y, v);
}

/* One pixel. Where several share their chroma, it becomes that of the first. */
SL_PIXEL void sl_store(const struct sl_pixels *p, int x, int y, struct sl_rgba c)
{
    sl_store_own(p, x, y, c);
    if (p->family == SL_YUV && (x >> p->shift_x) << p->shift_x == x && (y >> p->shift_y) << p->shift_y == y)
        sl_store_chroma(p, x, y, sl_chroma_u(p, c), sl_chroma_v(p, c));
}

#endif
