/* SPDX-License-Identifier: MIT
 *
 * How long frames wait and leases last, for observers: kept by the reader, stored in its page. Taking
 * reads no clock for it; a release does for at most one lease in 10 ms.
 */
#ifndef SL_NATIVE_READER_TIMING_H
#define SL_NATIVE_READER_TIMING_H

#include "native/wire/wire.h"
#include "os/os.h"

#define SL_TIMING_EVERY  (10 * SLUICE_MS)
#define SL_TIMING_WINDOW SLUICE_S

struct sl_timing {
    /* The acquiring thread's. */
    uint64_t latency_total, longest, longest_before; /* in this window, and in the one before */
    int64_t window_end, next;                        /* the next lease is timed from then on */
    /* The acquiring thread's while `timed` is 0, else that of whoever releases the frame. */
    int64_t since;
    uint64_t mean;
    sl_word timed; /* token of the frame whose lease is timed */
};

static inline void sl_timing_taken(struct sl_timing *timing, const struct sl_page *page, int64_t now, uint64_t latency,
                                   uint64_t token)
{
    if (now >= timing->window_end) {
        timing->longest_before = now - timing->window_end < SL_TIMING_WINDOW ? timing->longest : 0;
        timing->longest = 0;
        timing->window_end = now + SL_TIMING_WINDOW;
    }
    if (latency > timing->longest)
        timing->longest = latency;
    timing->latency_total += latency;
    sl_store(page->latency_total_ns, timing->latency_total, relaxed);
    sl_store(page->latency_max_ns, timing->longest > timing->longest_before ? timing->longest : timing->longest_before,
             relaxed);
    if (now >= timing->next && sl_load(&timing->timed, acquire) == 0) {
        timing->next = now + SL_TIMING_EVERY;
        timing->since = now;
        sl_store(&timing->timed, token, relaxed); /* the frame's own token is stored behind it */
    }
}

static inline void sl_timing_released(struct sl_timing *timing, const struct sl_page *page, uint64_t token)
{
    if (sl_load(&timing->timed, relaxed) != token)
        return;
    uint64_t lease = (uint64_t)(sl_os_now() - timing->since);
    /* The last few count: an eighth each. */
    timing->mean = timing->mean ? timing->mean - timing->mean / 8 + lease / 8 : lease;
    sl_store(page->lease_mean_ns, timing->mean, relaxed);
    sl_store(&timing->timed, 0, release);
}

#endif
