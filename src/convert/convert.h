/* SPDX-License-Identifier: MIT
 *
 * Internals of conversions. plan.c turns arrays and settings into numbers (job.cuh), which the CPU (host.c) or a GPU
 * (cuda.c) works off.
 */
#ifndef SL_CONVERT_CONVERT_H
#define SL_CONVERT_CONVERT_H

#include <stdbool.h>

#include <sluice/convert.h>

#include "convert/job.cuh"
#include "device/device.h"

/* ---- behind the public call, which checks its pointers ---- */

int sl_convert(struct sluice_stream stream, const struct sluice_array *to, const struct sluice_array *from,
               const struct sluice_convert *how, struct sluice_area *area);

/* ---- plan.c ---- */

int sl_convert_plan(const struct sluice_array *to, const struct sluice_array *from, const struct sluice_convert *how,
                    struct sl_job *job, struct sluice_area *area);

/* Does each pixel of a row or column stay where it is, but for the crop? */
static inline bool sl_stays(const struct sl_axis *axis)
{
    return axis->per == 1LL << SL_POSITION_BITS && axis->size == axis->count && !axis->flip;
}

/* ---- picture.c: an array as pixels ---- */

/* `role`: "to" or "from", for messages. All that is refused about one array alone is refused here. */
int sl_convert_picture(const struct sluice_array *array, const char *role, const struct sluice_convert *how,
                       struct sl_pixels *pixels);

/* ---- host.c ---- */

/* SLUICE_E_NO_MEMORY. */
int sl_convert_host(const struct sl_job *job);

/* ---- decode.c, encode.c: rows of pixels as floats: all R, then all G, B and A, which are `apart` floats apart ---- */

#define SL_CHUNK 256 /* pixels that are converted at a time, so that they stay in the nearest cache */

static inline bool sl_has_alpha(const struct sl_pixels *p)
{
    return p->count == 4 && !p->opaque;
}

/* Three or four bytes side by side, in this order or with blue first. */
static inline bool sl_is_bytes(const struct sl_pixels *p)
{
    const struct sl_component *at = p->at;
    long long red = at[0].first - at[1].first, blue = at[2].first - at[1].first;

    return p->family == SL_RGB && p->sample == SL_U8 && at[0].step == p->count && red + blue == 0 && red * blue == -1 &&
           (p->count == 3 || at[3].first - at[1].first == 2);
}

/* `count` pixels of row y from x on, not flipped. A is written if they have it. */
void sl_decode(const struct sl_pixels *pixels, int x, int y, int count, float *out, int apart);

/* Gray, luma and all of RGB: what each pixel has of its own. */
void sl_encode(const struct sl_pixels *pixels, int x, int y, int count, const float *in, int apart);

/* The chroma of a whole row of pixels, at its places between the columns, as `width >> shift_x` floats each. */
void sl_chroma_row(const struct sl_pixels *pixels, const float *in, int apart, float *u, float *v);

/* A row of chroma. */
void sl_encode_chroma(const struct sl_pixels *pixels, int row, const float *u, const float *v);

/* What is compiled for several kinds of CPU: SL_WIDE, from meson.build, and what is inlined into that. */
#ifndef SL_WIDE
#define SL_WIDE
#endif
#ifdef __GNUC__
#define SL_INLINE static inline __attribute__((always_inline))
#else
#define SL_INLINE static inline
#endif

/* ---- cuda.c ---- */

int sl_convert_cuda(const struct sl_job *job, struct sluice_stream handle, struct sl_stream *stream);

#endif
