/* SPDX-License-Identifier: MIT
 *
 * Samples of one quantity, in shared memory, and their percentiles (as bench/rows.py takes them).
 */
#ifndef BENCH_KIT_SAMPLES_H
#define BENCH_KIT_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLES_MAX (1 << 18)

struct samples {
    size_t count;
    int64_t at[SAMPLES_MAX]; /* nanoseconds */
};

static inline bool samples_full(const struct samples *samples)
{
    return samples->count == SAMPLES_MAX;
}

/* Drops the sample if there is no room. */
static inline void samples_add(struct samples *samples, int64_t ns)
{
    if (!samples_full(samples))
        samples->at[samples->count++] = ns;
}

struct percentiles {
    int64_t p50, p95, p99, p999;
};

/* Of at least one sample. Sorts them. */
struct percentiles samples_percentiles(struct samples *samples);

#endif
