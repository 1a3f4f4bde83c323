/* SPDX-License-Identifier: MIT
 *
 * The reader's half of the protocol: which frame comes next, and how it is held so that the writer
 * leaves it alone. A pure state machine over words in memory: no system call, no lock, no clock. Steps
 * are named as in docs/protocol.md and models/lease.pml.
 */
#ifndef SL_CORE_LEASE_H
#define SL_CORE_LEASE_H

#include "wire/wire.h"

struct sl_lease {
    struct sl_words words;
    struct sl_page page;
    uint32_t mode;    /* enum sluice_mode */
    uint32_t every;   /* each n-th frame, 1 or more */
    uint64_t last;    /* newest: sequence taken last; 0: none */
    uint64_t given_up; /* a frame that cannot be had, and all before it: taken back by the writer, or in a
                          memory that never came; 0: none */
    uint64_t skipped; /* frames passed over, less those that `every` asked for */
    uint64_t retries; /* frames that the writer took back under our hands */
    uint64_t lost;    /* in order: frames that their writer's device never finished */
    bool over;        /* it finishes nothing any more: what is not ready never will be */
};

enum {
    SL_LEASE_NONE = -1,  /* nothing to take: sleep until sl_lease_want */
    SL_LEASE_RETRY = -2, /* the writer was faster; look again */
    SL_LEASE_SOON = -3,  /* one is committed, and its writer's device still works on it */
};

/* R1 to R3, I1 to I2: holds the next frame. Returns its slot and *sequence, or one of the above. Then
 * either sl_lease_keep, or sl_lease_end as if nothing had been. */
int sl_lease_take(struct sl_lease *lease, uint64_t *sequence);

/* The same of the next frame that is committed, ready or not (the newest is the head then, whatever is ready
 * behind it); and whether that one is not ready. */
int sl_lease_take_ahead(struct sl_lease *lease, uint64_t *sequence);
bool sl_lease_is_ahead(const struct sl_lease *lease);

/* I3: the frame is taken; the next take gives a later one. */
void sl_lease_keep(struct sl_lease *lease, uint64_t sequence);

/* R6, I5: one release-store of 0. On a GPU one queued write takes its place. */
void sl_lease_end(struct sl_lease *lease, uint32_t slot);

/* The first sequence behind the frame that was kept last; and the first that a take could give. */
uint64_t sl_lease_next(const struct sl_lease *lease);
uint64_t sl_lease_want(const struct sl_lease *lease);

/* What would a take say now to a reader that wants frames from `want` on? SL_LEASE_NONE or SL_LEASE_SOON,
 * else there is something to take. Holds nothing. */
int sl_lease_look(const struct sl_words *words, uint32_t mode, uint64_t want);

/* The slot of the first frame from `want` on that is committed, which is ready or not. Negative if none is found. */
int sl_lease_first(const struct sl_words *words, uint64_t want);

/* Frames from `want` on that are committed and were never finished: when nobody will any more. */
uint32_t sl_lease_unfinished(const struct sl_words *words, uint64_t want);

#endif
