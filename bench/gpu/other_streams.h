/* SPDX-License-Identifier: MIT
 *
 * Streams without any work for another process: how many of them stand still while other streams
 * wait?
 */
#ifndef BENCH_GPU_OTHER_STREAMS_H
#define BENCH_GPU_OTHER_STREAMS_H

#define OTHER_STREAMS 32

void other_streams_open(void);
void other_streams_close(void);

/* Queues a short kernel and a write on each while other streams wait. Samples of the set "seen": the
 * time until the CPU saw the write; of "stalled": the number of writes that were not seen in time. */
void other_streams_measure(void);

/* Waits for all of them, once no other stream waits. */
void other_streams_settle(void);

#endif
