/* SPDX-License-Identifier: MIT
 *
 * The reader's half of the protocol: which frame comes next, and how it is held so that the writer
 * leaves it alone. A pure state machine over words in memory: no system call, no lock, no clock. Steps
 * are named as in docs/protocol.md and models/lease.pml.
 */
#ifndef SL_NATIVE_PROTOCOL_LEASE_H
#define SL_NATIVE_PROTOCOL_LEASE_H

#include "native/wire/wire.h"

struct sl_lease {
    struct sl_words words;
    struct sl_page page;
    uint32_t mode;     /* enum sluice_mode */
    uint32_t every;    /* each n-th frame, 1 or more */
    uint64_t last;     /* newest: sequence taken last; 0: none */
    uint64_t given_up; /* a frame that cannot be taken, nor any before it: overwritten by the writer, or in a
                          memory that never arrived; 0: none */
    uint64_t skipped;  /* frames passed over, not counting those that `every` asked for */
    bool awaited;      /* frames before the first one it takes were passed over, too */
    uint64_t retries;  /* frames that the writer overwrote while they were being taken */
    uint64_t lost;     /* in order: frames that their writer's device never finished */
    bool over;         /* the writer's device has stopped: what is not ready never will be */
};

enum {
    SL_LEASE_NONE = -1,  /* nothing to take: sleep until sl_lease_want */
    SL_LEASE_RETRY = -2, /* the writer was faster; take again */
    SL_LEASE_SOON = -3,  /* one is committed, and its writer's device still works on it */
};

/* R1 to R3, I1 to I2: leases the next frame. Returns its slot and *sequence, or one of the above. Then call
 * either sl_lease_keep, or sl_lease_end to undo it. */
int sl_lease_take(struct sl_lease *lease, uint64_t *sequence);

/* The same for the next committed frame, ready or not (the newest one is then the head's, even if an older one is
 * ready); and whether that frame is not ready. */
int sl_lease_take_ahead(struct sl_lease *lease, uint64_t *sequence);
bool sl_lease_is_ahead(const struct sl_lease *lease);

/* I3: the frame is taken; the next take gives a later one. */
void sl_lease_keep(struct sl_lease *lease, uint64_t sequence);

/* R6, I5: one release-store of 0. On a GPU a queued write does this instead. */
void sl_lease_end(struct sl_lease *lease, uint32_t slot);

/* The first sequence after the frame that was kept last; and the first that a take could give. */
uint64_t sl_lease_next(const struct sl_lease *lease);
uint64_t sl_lease_want(const struct sl_lease *lease);

/* What would a take return now to a reader that wants frames from `want` on? SL_LEASE_NONE or SL_LEASE_SOON,
 * else there is a frame to take. Leases nothing. */
int sl_lease_look(const struct sl_words *words, uint32_t mode, uint64_t want);

/* The slot of the first committed frame from `want` on, ready or not. Negative if there is none. */
int sl_lease_first(const struct sl_words *words, uint64_t want);

/* How many frames from `want` on are committed but not finished: once the writer's device has stopped, they are lost.
 */
uint32_t sl_lease_unfinished(const struct sl_words *words, uint64_t want);

#endif
