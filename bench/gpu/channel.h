/* SPDX-License-Identifier: MIT
 *
 * gpu-sluice's channel: frames as the job requests, in the memory of GPU 0. Each process has one end.
 */
#ifndef BENCH_GPU_CHANNEL_H
#define BENCH_GPU_CHANNEL_H

#include <sluice/sluice.h>

#include "driver.h"
#include "rounds.h"

#define CHANNEL_SLOTS 4
#define CHANNEL_WAIT  (5 * SLUICE_S)

/* The channel's end in this process, and a stream of its GPU: GPU 0, or GPU 1 for a reader of a job
 * with `far`. */
extern sluice_writer *writer;
extern sluice_reader *reader;
extern struct sluice_stream stream;
extern struct cu_stream *native;

/* Ends the process with the library's sentence if the result is not 0. */
void check(int result, const char *what);

void channel_write(uint32_t slots);
void channel_read(uint32_t hold, bool ahead);
void channel_close(void);

struct sluice_stream channel_stream(void);
struct sluice_stream channel_wrap(struct cu_stream *of);
struct cu_stream *channel_native(struct sluice_stream of);

/* An array of the channel's format over memory of this program. */
struct sluice_array channel_array(void *memory);

/* One frame at a time: begun and committed; acquired; released. No work is queued for it. */
extern struct sluice_frame channel_frame;
void channel_put(void);
void channel_take(void);
void channel_give(void);

/* Puts a frame whenever the reader has taken the one before, until it sets stage->last. */
void channel_put_frames(void);

/* The jobs. */
void sluice_handoff(int index);
void sluice_commit(int index);
void sluice_acquire(int index);
void sluice_fetch(int index);
void sluice_far(int index);
void sluice_pipeline(int index);
void sluice_parked(int index);
void sluice_sleeping(int index);
void sluice_soak(int index);

/* Those of kernels, without a channel: sluice_kernels.c. */
void sluice_conversions(int index);
void sluice_launches(int index);
void sluice_graphs(int index);
void sluice_recapture(int index);
void sluice_staged(int index);
void sluice_forks(int index);
void sluice_load(int index);

#endif
