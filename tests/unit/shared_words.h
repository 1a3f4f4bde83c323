/* SPDX-License-Identifier: MIT
 *
 * A channel's shared words in plain memory, for tests of ring and lease.
 */
#ifndef UNIT_SHARED_WORDS_H
#define UNIT_SHARED_WORDS_H

#include <string.h>

#include "harness/test.h"
#include "native/protocol/lease.h"
#include "native/protocol/ring.h"
#include "sync/sync.h"

enum { WORDS_IDS = 8, WORDS_READERS = 4 };

/* The words that both sides share; `ring` is the writer's. */
struct shared_words {
    sl_word head, slot_seq[WORDS_IDS], ready[WORDS_IDS];
    sl_word32 slot_memory[WORDS_IDS];
    struct {
        sl_word lease[WORDS_IDS], lease_ns[WORDS_IDS], cursor, want, want_fd, taken, missed, last, latency_ns;
        sl_word32 bell, evicted;
    } pages[WORDS_READERS];
    struct sl_ring ring;
    struct sl_reader_slot readers[WORDS_READERS];
};

static inline struct sl_words shared_words_of(struct shared_words *w)
{
    return (struct sl_words){
        .head = &w->head, .slot_seq = w->slot_seq, .ready = w->ready, .slot_memory = w->slot_memory, .ids = WORDS_IDS
    };
}

static inline struct sl_page page_of(struct shared_words *w, int i)
{
    return (struct sl_page){
        .lease = w->pages[i].lease,
        .lease_ns = w->pages[i].lease_ns,
        .cursor = &w->pages[i].cursor,
        .want = &w->pages[i].want,
        .want_fd = &w->pages[i].want_fd,
        .bell = &w->pages[i].bell,
        .evicted = &w->pages[i].evicted,
        .taken = &w->pages[i].taken,
        .missed = &w->pages[i].missed,
        .last = &w->pages[i].last,
        .latency_ns = &w->pages[i].latency_ns,
    };
}

/* A writer with `slots` idle slots, and a reader of each mode: 0 newest, 1 in order with depth 2. */
static inline void shared_words_open(struct shared_words *w, uint32_t slots)
{
    memset(w, 0, sizeof *w);
    w->ring.words = shared_words_of(w);
    for (uint32_t s = 0; s < slots; s++)
        w->ring.slots[s].state = SL_SLOT_IDLE;
    w->ring.used = slots;
    for (int i = 0; i < WORDS_READERS; i++) {
        w->readers[i] = (struct sl_reader_slot){
            .page = page_of(w, i), .mode = i % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST, .depth = 2, .wake_fd = -1
        };
        w->pages[i].cursor = 1;
    }
}

/* Takes a slot as begin does, which must succeed. */
static inline uint32_t shared_words_take(struct shared_words *w, uint32_t readers, enum sl_keep keep)
{
    int slot = sl_ring_take(&w->ring, w->readers, readers, keep, NULL);
    CHECK(slot >= 0);
    return (uint32_t)slot;
}

/* Publishes as commit does: ready first. */
static inline void shared_words_publish(struct shared_words *w, uint32_t slot, uint64_t sequence)
{
    sl_store(&w->ready[slot], sequence, release);
    sl_ring_publish(&w->ring, slot, sequence);
}

static inline uint32_t shared_words_commit(struct shared_words *w, uint64_t sequence)
{
    uint32_t slot = shared_words_take(w, 0, SL_KEEP_LEASED);
    shared_words_publish(w, slot, sequence);
    return slot;
}

#endif
