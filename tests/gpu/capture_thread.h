/* SPDX-License-Identifier: MIT
 *
 * Another thread captures a kernel on a stream of its own, while the test does what it wants.
 */
#ifndef GPU_CAPTURE_THREAD_H
#define GPU_CAPTURE_THREAD_H

#include <pthread.h>

#include "gpu/kit.h"

struct capture_thread {
    int mode;
    unsigned flags; /* of its stream */
    uint64_t memory;
    pthread_t thread;
    pthread_barrier_t meet;
    int code; /* the result of ending the capture */
    size_t nodes;
};

/* Returns when the capture has begun; previous contents of the struct do not matter. */
void capture_thread_begin(struct capture_thread *capturer, int mode, unsigned flags);

void capture_thread_end(struct capture_thread *capturer);

/* Checks that it ended well, has its one kernel and nothing else, and gave the right result when launched. */
void capture_thread_check(struct capture_thread *capturer, struct sl_cu_stream *stream);

#endif
