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

/* ---- sent.c ---- */

/* What a send of one array came to: the next that is described alike comes to the same, wherever it lies. */
struct sl_sent {
    uint32_t generation; /* 0: there was none */
    uint32_t index;      /* in the format */
    struct sluice_array given, to;
    uint64_t below, bytes; /* that it touches, before its first element and in all */
    uint64_t number;       /* of what is remembered: others have others */
    struct sl_copy copy;
};

/* Are these one array that is described as the last one was, in the same generation? */
bool sl_sent_is_known(const struct sl_sent *sent, uint32_t generation, const struct sluice_array *arrays, uint32_t count);

/* The job was begun for `array` alone, and `copy` takes it to `to`. A copy of nothing, for the array lay in the slot
 * already, is not remembered: the next one like it may lie elsewhere. */
void sl_sent_remember(struct sl_sent *sent, uint32_t generation, uint32_t index, const struct sluice_array *array,
                      const struct sl_copy_job *job, const struct sluice_array *to, const struct sl_copy *copy);

/* Begins the job of an array that is known. */
int sl_sent_begin(const struct sl_sent *sent, struct sl_copier *copier, const struct sluice_array *array,
                  struct sluice_stream stream, struct sl_copy_job *job);

/* Is that copy held back as it was before? Else: */
bool sl_sent_again(const struct sl_sent *sent, const struct sluice_array *array, char *address, struct sl_copy_job *job);

/* Its copy into the slot at `address`, which the job's key then stands for. False if it shares memory with that, which is
 * looked at more closely. */
bool sl_sent_plan(const struct sl_sent *sent, const struct sluice_array *array, char *address, struct sl_copy_job *job,
                  struct sl_copy *copy);

#endif
