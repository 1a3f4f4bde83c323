/* SPDX-License-Identifier: MIT
 *
 * When a thread that waits for a copy sleeps, and when it spins. A sleep ends later than a short copy takes, so the end
 * of a copy is estimated from the speed of earlier ones, and the thread spins around that time.
 */
#ifndef SL_COPY_FENCE_WAIT_H
#define SL_COPY_FENCE_WAIT_H

#include <stdbool.h>

#include "util/atomic.h"

/* The speed of recent copies. Any thread may read or update it. */
struct sl_copy_speed {
    sl_word ns_per_mib; /* 0: no copy was measured yet */
};

/* One copy. */
struct sl_copy_timing {
    sl_word queued_ns;
    sl_word mib; /* its size, rounded up; 0: unknown */
};

struct sl_fence_wait {
    int64_t start, spin_from, spin_until, deadline;
    bool slept; /* the last pause was a sleep before spin_from */
};

void sl_copy_timing_start(struct sl_copy_timing *timing, uint64_t bytes);

/* A wait that spins for at least `spin_ns` from now on, or around the copy's estimated end. */
struct sl_fence_wait sl_fence_wait_begin(const struct sl_copy_speed *speed, const struct sl_copy_timing *timing,
                                         int64_t spin_ns, int64_t timeout_ns);

/* Pauses until it is worth checking again: not at all, or for up to half a millisecond. Ends early when *stop changes
 * from 0. */
void sl_fence_wait_pause(struct sl_fence_wait *wait, int64_t now, const sl_word32 *stop);

/* The copy has ended. */
void sl_fence_wait_end(const struct sl_fence_wait *wait, struct sl_copy_speed *speed,
                       const struct sl_copy_timing *timing);

#endif
