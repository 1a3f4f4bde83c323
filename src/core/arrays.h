/* SPDX-License-Identifier: MIT
 *
 * The program's arrays in send and fetch.
 */
#ifndef SL_CORE_ARRAYS_H
#define SL_CORE_ARRAYS_H

#include "copy/copy.h"

/* The format's index of each array: by name, each once and, if `all`, all of them. */
int sl_arrays_match(const struct sluice_format *format, const char *channel, const struct sluice_array *arrays,
                    uint32_t count, bool all, uint32_t *indices);

/* Begins a job with them. */
int sl_arrays_begin(struct sl_copier *copier, enum sl_copy_way way, const struct sluice_array *arrays, uint32_t count,
                    struct sluice_stream stream, struct sl_copy_job *job);

#endif
