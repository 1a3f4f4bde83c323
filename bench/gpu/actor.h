/* SPDX-License-Identifier: MIT
 *
 * What stage.c needs of actor.c, besides stage.h.
 */
#ifndef BENCH_GPU_ACTOR_H
#define BENCH_GPU_ACTOR_H

#include "stage.h"

/* Opens the socket between the first two actors, before they start. */
bool actor_sockets(void);

/* Runs in an actor before each job. */
void actor_begin(int index);

#endif
