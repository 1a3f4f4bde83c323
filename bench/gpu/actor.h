/* SPDX-License-Identifier: MIT
 *
 * What stage.c asks of actor.c beside what is in stage.h.
 */
#ifndef BENCH_GPU_ACTOR_H
#define BENCH_GPU_ACTOR_H

#include "stage.h"

/* Before there are actors: the socket between the first two. */
bool actor_sockets(void);

/* In an actor, before each job. */
void actor_begin(int index);

/* Sleeps, at most so long, while the word is `seen`. */
void sleep_on(atomic_uint *word, uint32_t seen, int64_t ns);
void wake(atomic_uint *word);

#endif
