/* SPDX-License-Identifier: MIT
 *
 * Who keeps what alive, without Python: a channel (the library's reader or writer) lives until its
 * Python object and its last lease are gone, a lease until its frame and the last array of it are.
 * Counts are atomic, so any thread may drop one at any time, with or without the GIL.
 */
#ifndef SLUICE_PYTHON_LEASE_H
#define SLUICE_PYTHON_LEASE_H

#include "state.h"

struct lease;

struct channel {
    _Atomic uint32_t references;
    _Atomic bool closed;     /* by its Python object */
    _Atomic uint32_t queue;  /* threads that wait for `lock` */
    PyThread_type_lock lock; /* what the library allows to one thread at a time */
    long process;
    sluice_reader *reader; /* one of the two */
    sluice_writer *writer;
    _Atomic(struct lease *)
        left; /* begun frames that ended without a word while the lock was held */
    char name[SLUICE_MAX_NAME + 16];
};

struct lease {
    _Atomic uint32_t references;
    _Atomic bool ended; /* writer: committed or cancelled; its arrays are stale */
    struct channel *channel;
    struct lease *next; /* in channel->left */
    sluice_pin
        *pin; /* writer: keeps the memory of stale arrays mapped; NULL: there is no array yet */
    struct sluice_frame frame;
};

struct channel *channel_new(const char *name);
void channel_drop(struct channel *channel);

/* Only one thread at a time between the two. -1 with an exception in a forked child. */
int channel_enter(const struct state *state, struct channel *channel);
void channel_leave(struct channel *channel);

/* A lease on nothing yet; NULL with an exception. */
struct lease *lease_new(struct channel *channel);

static inline struct lease *lease_keep(struct lease *lease)
{
    atomic_fetch_add_explicit(&lease->references, 1, memory_order_relaxed);
    return lease;
}

/* The last one ends it: a reader's frame is released, a writer's that is still begun cancelled.
 * Returns the result of that, 0 for any but the last. Never blocks; needs no GIL. */
int lease_drop(struct lease *lease);

/* Before the first array of a writer's frame is made. -1 with an exception. */
int lease_pin(const struct state *state, struct lease *lease);

/* Frees one whose acquire or begin failed. */
void lease_discard(struct lease *lease);

#endif
