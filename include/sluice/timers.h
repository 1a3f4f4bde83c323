/* SPDX-License-Identifier: MIT
 *
 * Timers: how long the stages of this process's calls take. They are off, and then cost one load
 * and a branch a stage, until SLUICE_TIMERS=1 in the environment or sluice_timers_set turns them on. With
 * the variable they are also printed to stderr when the process closes its last writer or reader.
 */
#ifndef SLUICE_TIMERS_H
#define SLUICE_TIMERS_H

#include <sluice/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_TIMER_BUCKETS 32

/* One stage, summed over all channels of the process. */
struct sluice_timer {
    char name[16]; /* "begin", "wait_slot", ... */
    char what[64]; /* a few words about it */
    uint64_t count, total_ns, longest_ns;
    /* How many took 2^k ns or more, but less than 2^(k+1); the first also has those of 0 ns, the last
     * all that took longer. */
    uint64_t buckets[SLUICE_TIMER_BUCKETS];
    uint64_t reserved[4];
};

/* 1: timers run from now on; 0: they stop, and keep what they have.
 * Thread: any.
 * Returns: 0; SLUICE_E_INVALID for another number. */
SLUICE_API int sluice_timers_set(int on);

/* Sets all timers to 0.
 * Thread: any; what ends at this moment may be counted in part.
 * Returns: 0. */
SLUICE_API int sluice_timers_clear(void);

/* Reads them. Up to `capacity` are written (NULL and 0 for none), always in the same order; *count is
 * their number, including stages that never ran. While other threads go on, the numbers of one
 * stage may be from slightly different moments.
 * Thread: any, also in a signal handler.
 * Returns: 0. */
SLUICE_API int sluice_timers(struct sluice_timer *timers, size_t capacity, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
