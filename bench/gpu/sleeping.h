/* SPDX-License-Identifier: MIT
 *
 * A reader's CPU sleeps while the writer's GPU still works on a committed frame. The writer's CPU sees
 * by a word when that work has ended; the sample is the time from then until the reader is awake.
 */
#ifndef BENCH_GPU_SLEEPING_H
#define BENCH_GPU_SLEEPING_H

#include "stage.h"

#define WORK (3 * INT64_C(1000000)) /* GPU work for each frame */

struct cu_stream;

struct sleeper {
    /* The writer: hands over a frame that is ready after the work queued on the stream. */
    void (*writer_open)(void);
    void (*hand)(struct cu_stream *stream, uint32_t round);
    void (*writer_close)(void);
    /* A reader: sleeps until the frame is there. */
    void (*reader_open)(int index);
    void (*take)(uint32_t round);
    void (*reader_close)(void);
};

void measure_sleeping(const struct sleeper *sleeper, int index);

#endif
