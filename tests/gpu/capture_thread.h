/* SPDX-License-Identifier: MIT
 *
 * Another thread captures a kernel on a stream of its own, while the test does what it wants.
 */
#ifndef GPU_CAPTURE_THREAD_H
#define GPU_CAPTURE_THREAD_H

#include <pthread.h>

#include "gpu/kit.h"

struct capturer {
    int mode;
    unsigned flags; /* of its stream */
    uint64_t memory;
    pthread_t thread;
    pthread_barrier_t meet;
    int code; /* what ending the capture said */
    size_t nodes;
};

/* Returns when the capture has begun; what is in the struct before does not matter. */
void capturer_begin(struct capturer *capturer, int mode, unsigned flags);

void capturer_end(struct capturer *capturer);

/* It ended well, has its one kernel and nothing else, and did what it should when it was launched. */
void capturer_check(struct capturer *capturer, struct sl_cu_stream *stream);

#endif
