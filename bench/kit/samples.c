/* SPDX-License-Identifier: MIT */
#include "samples.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The nearest rank of sorted samples. */
static int64_t percentile(const struct samples *samples, double share)
{
    size_t index = (size_t)((double)samples->count * share);
    return samples->at[index < samples->count ? index : samples->count - 1];
}

struct percentiles samples_percentiles(struct samples *samples)
{
    qsort(samples->at, samples->count, sizeof samples->at[0], compare);
    return (struct percentiles){
        .p50 = percentile(samples, 0.5),
        .p95 = percentile(samples, 0.95),
        .p99 = percentile(samples, 0.99),
        .p999 = percentile(samples, 0.999),
    };
}
