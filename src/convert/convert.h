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

/* ---- picture.c: an array as pixels ---- */

/* `role`: "to" or "from", for messages. All that is refused about one array alone is refused here. */
int sl_convert_picture(const struct sluice_array *array, const char *role, const struct sluice_convert *how,
                       struct sl_pixels *pixels);

/* ---- host.c ---- */

/* SLUICE_E_NO_MEMORY. */
int sl_convert_host(const struct sl_job *job);

/* ---- decode.c, encode.c: rows of pixels as R G B A floats, one after the other ---- */

#define SL_CHUNK 256 /* pixels that are converted at a time, so that they stay in the nearest cache */

/* `count` pixels of row y from x on, not flipped. */
void sl_decode(const struct sl_pixels *pixels, int x, int y, int count, float *rgba);

/* Gray, luma and all of RGB: what each pixel has of its own. */
void sl_encode(const struct sl_pixels *pixels, int x, int y, int count, const float *rgba);

/* The chroma of a whole row of pixels, at its places between the columns, as `width >> shift_x` floats each. */
void sl_chroma_row(const struct sl_pixels *pixels, const float *rgba, float *u, float *v);

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
