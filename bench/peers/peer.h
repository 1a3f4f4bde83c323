/* SPDX-License-Identifier: MIT
 *
 * One job for every peer: a writer process sends frames to a reader process. A peer is one file
 * that fills in this table; peer.c has main(), starts the two processes, measures and prints the
 * times.
 *
 *     PEER BYTES copy|in-place handoff|rate SECONDS
 *
 * It works in the current folder and leaves its sockets there. Exit status 77: this system lacks
 * what the peer needs; standard error says what.
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

    /* Runs before the fork; or NULL. */
    void (*prepare)(size_t bytes);

    /* The writer. send() copies the frame at `own`; with NULL it sends the memory that loan() has just
     * returned. Both wait for a reader that falls behind. */
    void (*writer_open)(size_t bytes);
    void *(*loan)(void);
    void (*send)(const void *own);
    void (*writer_close)(void); /* once the reader has read all; or NULL */

    /* The reader. receive() sleeps until the next frame; release() ends its use, or is NULL. */
    void (*reader_open)(size_t bytes);
    const void *(*receive)(void);
    void (*release)(void);
    void (*reader_close)(void); /* or NULL */
};

extern const struct peer peer;

void *own_memory(size_t bytes);    /* this process's own, touched */
void *shared_memory(size_t bytes); /* for both, before the fork; zeroed and touched */

#endif
