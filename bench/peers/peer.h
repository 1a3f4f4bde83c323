/* SPDX-License-Identifier: MIT
 *
 * One job for every peer: a writer process hands frames to a reader process. A peer is one file
 * that fills in this table; peer.c has main(), starts the two processes, takes the times and prints
 * them.
 *
 *     PEER BYTES copy|in-place handoff|rate SECONDS
 *
 * It works in the current folder, and leaves its sockets there. Exit status 77: this system lacks
 * what the peer needs, as said on standard error.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "kit/failure.h"

#define SLOTS 4 /* of each peer whose number of slots can be set */

struct peer {
    /* Whether a frame can be made where the reader will find it. */
    bool in_place;

    /* Before there are two processes; or NULL. */
    void (*prepare)(size_t bytes);

    /* The writer. With `own` hand() copies a frame from the program's memory; without it hands over
     * what lend() gave, which is called once before. Both wait for the reader when it is behind. */
    void (*writer_open)(size_t bytes);
    void *(*lend)(void);
    void (*hand)(const void *own);
    void (*writer_close)(void); /* when the reader has read all; or NULL */

    /* The reader. take() sleeps until it has the next frame; give() ends its use, or is NULL. */
    void (*reader_open)(size_t bytes);
    const void *(*take)(void);
    void (*give)(void);
    void (*reader_close)(void); /* or NULL */
};

extern const struct peer peer;

void *kit_memory(size_t bytes);        /* of the process's own, touched */
void *kit_shared_memory(size_t bytes); /* for both, before the fork; zeroed and touched */

#endif
