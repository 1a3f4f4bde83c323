/* SPDX-License-Identifier: MIT
 *
 * The writer's half of the protocol: which slot may be taken, and how a frame is published. A pure
 * state machine over words in memory: no system call, no lock, no clock. Steps are named as in
 * docs/protocol.md and models/lease.pml.
 */
#ifndef SL_NATIVE_PROTOCOL_RING_H
#define SL_NATIVE_PROTOCOL_RING_H

#include "native/wire/wire.h"

enum sl_slot_state {
    SL_SLOT_NONE = 0, /* the number belongs to no memory */
    SL_SLOT_IDLE,     /* holds a frame, or nothing; may be taken */
    SL_SLOT_BEGUN,    /* handed out to the program */
    SL_SLOT_OLD,      /* of an older generation: never taken, retired when nobody needs it */
};

struct sl_ring_slot {
    uint64_t sequence; /* of its frame; 0: none. Private copy of slot_seq */
    uint64_t given_up; /* what `idle` must reach before the device is done with cancelled frames */
    uint32_t memory;
    uint8_t state; /* enum sl_slot_state */
};

struct sl_ring {
    struct sl_words words;
    const sl_word *idle;    /* [ids] raised behind the work of cancelled frames; NULL on host */
    uint64_t head_sequence; /* private copy of head */
    uint32_t head_slot;
    uint32_t used; /* numbers from here on never belonged to a memory */
    struct sl_ring_slot slots[SL_MAX_IDS];
};

/* Which frames of in-order readers the writer must not overwrite. */
enum sl_keep {
    SL_KEEP_ALL,    /* a waiting writer: whatever they have not read */
    SL_KEEP_DEPTH,  /* a dropping writer: the newest `depth` frames of what they have not read */
    SL_KEEP_LEASED, /* only what is held: takes the oldest unread frame */
};

/* W1 to W6: takes the idle slot published least recently that no reader needs, and marks it. The caller
 * holds the channel lock, so the table does not change. Returns the slot, or -1. `stolen` (may be NULL) is
 * set when an in-order reader had not read that frame. */
int sl_ring_take(struct sl_ring *ring, const struct sl_reader_slot *readers, uint32_t count, enum sl_keep keep,
                 bool *stolen);

/* The slot that will most likely be taken next; -1: none is idle. */
int sl_ring_next(const struct sl_ring *ring);

/* Prefetches its words (-1: none): other cores and the device have written them. */
void sl_ring_prefetch(const struct sl_ring *ring, int slot, const struct sl_reader_slot *readers, uint32_t count);

/* Is work on this slot in flight, of its last frame or a cancelled one? Also true for a frame that is lost: it is
 * unknown when its work ends. */
bool sl_ring_is_busy(const struct sl_ring *ring, uint32_t slot);

/* W8 and W9, after `ready` was raised behind the work (W7). */
void sl_ring_publish(struct sl_ring *ring, uint32_t slot, uint64_t sequence);

/* Returns a begun slot, now empty: the frame before is gone (protocol 1.4). */
void sl_ring_cancel(struct sl_ring *ring, uint32_t slot);

/* Frees an old slot's number if no reader's word for it is set and no in-order reader needs its frame;
 * never the head's. Under the channel lock. `stolen` as above. */
bool sl_ring_retire(struct sl_ring *ring, uint32_t slot, const struct sl_reader_slot *readers, uint32_t count,
                    enum sl_keep keep, bool *stolen);

#endif
