/* SPDX-License-Identifier: MIT
 *
 * Streams that have nothing to do with those that wait for another process: how many of them stand
 * still meanwhile?
 */
#ifndef BENCH_GPU_UNRELATED_H
#define BENCH_GPU_UNRELATED_H

#define UNRELATED 32

void unrelated_open(void);
void unrelated_close(void);

/* Gives each a short kernel and a write, while others are parked. Samples of the set "seen": how
 * long until the CPU saw the write; of "stalled": how many were not seen in time. */
void unrelated_measure(void);

/* Once nobody is parked any more: until all of them are done. */
void unrelated_settle(void);

#endif
