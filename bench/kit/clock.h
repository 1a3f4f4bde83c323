/* SPDX-License-Identifier: MIT
 *
 * The clock that all benches measure with; it is the same in every process.
 */
#ifndef BENCH_KIT_CLOCK_H
#define BENCH_KIT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define KIT_US INT64_C(1000)
#define KIT_MS INT64_C(1000000)
#define KIT_S  INT64_C(1000000000)

static inline int64_t clock_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * KIT_S + at.tv_nsec;
}

/* Keeps the CPU busy until then. */
static inline void spin_until(int64_t time)
{
    while (clock_ns() < time)
        continue;
}

static inline void spin_for(int64_t ns)
{
    spin_until(clock_ns() + ns);
}

#endif
