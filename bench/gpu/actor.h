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

#endif
