/* SPDX-License-Identifier: MIT
 *
 * One conversion as numbers, for the CPU and for a GPU: where each pixel of the target comes from.
 */
#ifndef SL_CONVERT_JOB_CUH
#define SL_CONVERT_JOB_CUH

#ifndef __cplusplus
#include "convert/pixels.cuh"
#endif

#define SL_POSITION_BITS 40 /* positions are whole numbers of 2^-40 pixels: exact enough for 65,536 of them */

/* One dimension. A pixel of the target shows the source at (pixel - at) * per + from, from the edge of the crop. */
struct sl_axis {
    long long per, from;
    int at, size;     /* the pixels of the target that show the picture */
    int first, count; /* those of the source that may be read */
    int flip;
    float radius, unit; /* of the triangle, in pixels of the source; 1 / radius */
};

enum sl_resize { SL_NEAREST, SL_TRIANGLE };

struct sl_job {
    struct sl_pixels to, from;
    struct sl_axis x, y;
    struct sl_rgba border; /* as it is stored */
    int resize;
    int multiply, divide; /* colours by alpha: after reading, before writing */
    int bordered;         /* the picture does not fill the target */
};

/* The source pixels that a pixel of the target depends on: `count` from `first`, counted in the crop as it is flipped.
 * The one at first + i has the weight 1 - |i - middle| * unit. */
struct sl_taps {
    int first, count;
    float middle;
};
SL_PIXEL struct sl_taps sl_taps_at(const struct sl_axis *axis, int pixel)
{
    const long long half = 1LL << (SL_POSITION_BITS - 1);
    long long position =
        (pixel - axis->at) * axis->per + axis->from - half; /* where a pixel's middle is a whole number */
    int base = (int)(position >> SL_POSITION_BITS);
    float part = (float)(int)((position & (2 * half - 1)) >> (SL_POSITION_BITS - 24)) * (1.0f / (1 << 24));
    int first = base + (int)(part - axis->radius), last = base + (int)(part + axis->radius);
    struct sl_taps taps;
    first = first < 0 ? 0 : first;
    last = last < axis->count ? last : axis->count - 1;
    taps.first = first;
    taps.count = last - first + 1;
    taps.middle = (float)(base - first) + part;
    return taps;
}

SL_PIXEL float sl_weight(const struct sl_axis *axis, struct sl_taps taps, int i)
{
    float away = (float)i - taps.middle;
    away = 1 - (away < 0 ? -away : away) * axis->unit;
    return away > 0 ? away : 0;
}

SL_PIXEL int sl_nearest(const struct sl_axis *axis, int pixel)
{
    int at = (int)(((pixel - axis->at) * axis->per + axis->from) >> SL_POSITION_BITS);
    return at < 0 ? 0 : at < axis->count ? at : axis->count - 1;
}

/* From a place in the flipped crop to one in the picture. */
SL_PIXEL int sl_source(const struct sl_axis *axis, int i)
{
    return axis->first + (axis->flip ? axis->count - 1 - i : i);
}

SL_PIXEL int sl_shows(const struct sl_axis *axis, int pixel)
{
    return pixel >= axis->at && pixel < axis->at + axis->size;
}

SL_PIXEL struct sl_rgba sl_multiplied(struct sl_rgba c)
{
    c.r *= c.a;
    c.g *= c.a;
    c.b *= c.a;
    return c;
}

SL_PIXEL struct sl_rgba sl_divided(struct sl_rgba c)
{
    float by = c.a > 0 ? 1 / c.a : 0;
    c.r *= by;
    c.g *= by;
    c.b *= by;
    return c;
}

#endif
