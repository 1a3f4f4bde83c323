/* SPDX-License-Identifier: MIT
 *
 * A reader's CPU that sleeps while the writer's GPU works on the frame beyond commit. The writer's
 * own CPU sees by a word of its own when the work has ended; the rest is the reader's waking up.
 */
#ifndef BENCH_GPU_ASLEEP_H
#define BENCH_GPU_ASLEEP_H

#include "stage.h"

#define WORK (3 * INT64_C(1000000)) /* of the GPU, for each frame */

struct cu_stream;

struct sleeper {
    /* The writer: hands a frame over behind the work queued on the stream. */
    void (*writer_open)(void);
    void (*hand)(struct cu_stream *stream, uint32_t round);
    void (*writer_close)(void);
    /* A reader: sleeps until the frame is there. */
    void (*reader_open)(int index);
    void (*take)(uint32_t round);
    void (*reader_close)(void);
};

void asleep(const struct sleeper *sleeper, int index);

#endif
