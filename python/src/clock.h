/* SPDX-License-Identifier: MIT
 *
 * Waiting in slices, so that Ctrl-C, other threads and close() are noticed in between.
 */
#ifndef SLUICE_PYTHON_CLOCK_H
#define SLUICE_PYTHON_CLOCK_H

#include <time.h>

#include "lease.h"

#define SLICE (SLUICE_MS * 50)

struct patience {
    int64_t began;    /* CLOCK_MONOTONIC */
    int64_t deadline; /* SLUICE_FOREVER: none */
    int64_t slice;    /* of the next wait */
};

static inline int64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SLUICE_S + now.tv_nsec;
}

static inline struct patience patience_new(int64_t timeout_ns)
{
    int64_t now = clock_now();

    return (struct patience){
        .began = now,
        .deadline = timeout_ns > SLUICE_FOREVER - now ? SLUICE_FOREVER : now + timeout_ns,
        .slice = timeout_ns < SLICE ? timeout_ns : SLICE,
    };
}

/* After a wait without result: 1 to wait again, 0 after the time-out, -1 with an exception. Threads that queue for the
 * channel get their turn. */
static inline int patience_next(struct patience *patience, struct channel *channel)
{
    int64_t left = patience->deadline == SLUICE_FOREVER ? SLUICE_FOREVER : patience->deadline - clock_now();

    if (left <= 0)
        return 0;
    patience->slice = left < SLICE ? left : SLICE;
    if (PyErr_CheckSignals() < 0)
        return -1;
    if (channel && atomic_load_explicit(&channel->queue, memory_order_relaxed) > 0) {
        struct timespec turn = { .tv_nsec = 100000 };
        Py_BEGIN_ALLOW_THREADS(void) nanosleep(&turn, NULL);
        Py_END_ALLOW_THREADS
    }
    return 1;
}

#endif
