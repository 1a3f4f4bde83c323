/* SPDX-License-Identifier: MIT
 *
 * The program's arrays in send and fetch.
 */
#ifndef SL_CHANNEL_ARRAYS_H
#define SL_CHANNEL_ARRAYS_H

#include "copy/copy.h"

/* The format's index of each array: by name, each once and, if `all`, all of them. */
int sl_arrays_match(const struct sluice_format *format, const char *channel, const struct sluice_array *arrays,
                    uint32_t count, bool all, uint32_t *indices);

/* Begins a job with them. */
int sl_arrays_begin(struct sl_copier *copier, enum sl_copy_way way, const struct sluice_array *arrays, uint32_t count,
                    struct sluice_stream stream, struct sl_copy_job *job);

/* ---- send_cache.c ---- */

/* The plan of the last send of one array: the next array with the same description can use it, whatever its address. */
struct sl_send_cache {
    uint32_t generation; /* 0: there is no plan */
    uint32_t index;      /* in the format */
    struct sluice_array given, to;
    uint64_t below, bytes; /* bytes that the array touches: before its first element, and in all */
    uint64_t number;       /* of the plan: never reused */
    struct sl_copy copy;
};

/* Is this one array, with the same description as the last one, in the same generation? */
bool sl_send_cache_is_known(const struct sl_send_cache *cache, uint32_t generation, const struct sluice_array *arrays,
                            uint32_t count);

/* Remembers the plan: the job was begun for `array` alone, and `copy` takes it to `to`. An empty copy, because the
 * array was in the slot already, is not remembered: the next array may be elsewhere. */
void sl_send_cache_remember(struct sl_send_cache *cache, uint32_t generation, uint32_t index,
                            const struct sluice_array *array, const struct sl_copy_job *job,
                            const struct sluice_array *to, const struct sl_copy *copy);

/* Begins the job of an array for which sl_send_cache_is_known. */
int sl_send_cache_begin(const struct sl_send_cache *cache, struct sl_copier *copier, const struct sluice_array *array,
                        struct sluice_stream stream, struct sl_copy_job *job);

/* Is this array's copy known to the copier, and deferred to launch now? If not: */
bool sl_send_cache_repeat(const struct sl_send_cache *cache, const struct sluice_array *array, char *address,
                          struct sl_copy_job *job);

/* Its copy into the slot at `address`, by the plan; sets the job's key. False if the array and the slot share memory:
 * then the caller makes a new plan. */
bool sl_send_cache_plan(const struct sl_send_cache *cache, const struct sluice_array *array, char *address,
                        struct sl_copy_job *job, struct sl_copy *copy);

#endif
