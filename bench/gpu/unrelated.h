/* SPDX-License-Identifier: MIT
 *
 * Streams without any work for another process: how many of them stand still while other streams
 * wait?
 */
#ifndef BENCH_GPU_UNRELATED_H
#define BENCH_GPU_UNRELATED_H

#define UNRELATED 32

void unrelated_open(void);
void unrelated_close(void);

/* Queues a short kernel and a write on each while other streams wait. Samples of the set "seen": the
 * time until the CPU saw the write; of "stalled": the number of writes that were not seen in time. */
void unrelated_measure(void);

/* Waits for all of them, once no other stream waits. */
void unrelated_settle(void);

#endif
