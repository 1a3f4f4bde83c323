/* SPDX-License-Identifier: MIT */
#include "native/protocol/ring.h"

#include <string.h>

#include "sync/sync.h"
#include "util/hooks.h"

/* Does an in-order reader still need the frame `old`? A cursor only grows, so this may be checked before
 * the mark. It must be: otherwise the reader could see the mark on a frame that it may rely on. */
static bool kept_unread(const struct sl_ring *ring, const struct sl_reader_slot *reader, uint64_t old,
                        enum sl_keep keep)
{
    if (reader->mode != SLUICE_IN_ORDER || old == 0 || keep == SL_KEEP_LEASED)
        return false;
    if (keep == SL_KEEP_DEPTH && ring->head_sequence - old >= reader->depth)
        return false;
    return sl_load(reader->page.cursor, acquire) <= old;
}

static bool any_kept_unread(const struct sl_ring *ring, const struct sl_reader_slot *readers, uint32_t count,
                            uint64_t old, enum sl_keep keep)
{
    for (uint32_t i = 0; i < count; i++)
        if (kept_unread(ring, &readers[i], old, keep))
            return true;
    return false;
}

/* W5: a lease holds a slot only if it equals the slot's sequence (protocol 1.9). */
static bool any_lease(const struct sl_reader_slot *readers, uint32_t count, uint32_t slot, uint64_t old)
{
    if (old == 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (sl_load(&readers[i].page.lease[slot], seq_cst) == old)
            return true;
    return false;
}

/* W1: of the idle slots not yet tried (NULL: none was), the one published least recently; never the head's. */
static int next_candidate(const struct sl_ring *ring, const bool *tried)
{
    int best = -1;
    for (uint32_t s = 0; s < ring->used; s++) {
        const struct sl_ring_slot *slot = &ring->slots[s];
        if (slot->state != SL_SLOT_IDLE || (tried && tried[s]))
            continue;
        if (ring->head_sequence != 0 && s == ring->head_slot)
            continue;
        if (best < 0 || slot->sequence < ring->slots[best].sequence)
            best = (int)s;
    }
    return best;
}

int sl_ring_next(const struct sl_ring *ring)
{
    return next_candidate(ring, NULL);
}

void sl_ring_prefetch(const struct sl_ring *ring, int slot, const struct sl_reader_slot *readers, uint32_t count)
{
    if (slot < 0)
        return;
    __builtin_prefetch((const void *)&ring->words.ready[slot]);
    sl_fetch_to_store(&ring->words.slot_seq[slot]);
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch((const void *)&readers[i].page.lease[slot]);
}

bool sl_ring_is_busy(const struct sl_ring *ring, uint32_t slot)
{
    const struct sl_ring_slot *mine = &ring->slots[slot];

    if (mine->sequence != 0 && !sl_reached(sl_load(&ring->words.ready[slot], acquire), mine->sequence))
        return true;
    return ring->idle && !sl_reached(sl_load(&ring->idle[slot], acquire), mine->given_up);
}

int sl_ring_take(struct sl_ring *ring, const struct sl_reader_slot *readers, uint32_t count, enum sl_keep keep,
                 bool *stolen)
{
    bool tried[SL_MAX_IDS];
    int c;

    memset(tried, 0, ring->used);
    while ((c = next_candidate(ring, tried)) >= 0) { /* W1 */
        uint64_t old = ring->slots[c].sequence;
        tried[c] = true;
        if (sl_ring_is_busy(ring, (uint32_t)c)) /* W2 */
            continue;
        if (any_kept_unread(ring, readers, count, old, keep)) /* W3 */
            continue;
        /* Read before the mark: a reader that sees the mark passes over the frame. */
        bool unread = stolen && any_kept_unread(ring, readers, count, old, SL_KEEP_ALL);
        sl_store(&ring->words.slot_seq[c], SL_MARK, seq_cst); /* W4 */
        SL_KILL_POINT("after_mark");
        if (any_lease(readers, count, (uint32_t)c, old)) {    /* W5 */
            sl_store(&ring->words.slot_seq[c], old, release); /* W6 */
            continue;
        }
        if (stolen)
            *stolen = unread;
        ring->slots[c].state = SL_SLOT_BEGUN;
        ring->slots[c].sequence = 0;
        return c; /* W7 is the caller's */
    }
    return -1;
}

void sl_ring_publish(struct sl_ring *ring, uint32_t slot, uint64_t sequence)
{
    sl_store(&ring->words.slot_seq[slot], sequence, release); /* W8 */
    SL_KILL_POINT("before_head");
    sl_store(ring->words.head, sl_head_pack(sequence, slot), seq_cst); /* W9 */
    ring->slots[slot].sequence = sequence;
    ring->slots[slot].state = SL_SLOT_IDLE;
    ring->head_sequence = sequence;
    ring->head_slot = slot;
}

void sl_ring_cancel(struct sl_ring *ring, uint32_t slot)
{
    sl_store(&ring->words.slot_seq[slot], 0, release);
    ring->slots[slot].sequence = 0;
    ring->slots[slot].state = SL_SLOT_IDLE;
}

bool sl_ring_retire(struct sl_ring *ring, uint32_t slot, const struct sl_reader_slot *readers, uint32_t count,
                    enum sl_keep keep, bool *stolen)
{
    uint64_t old = ring->slots[slot].sequence;

    if (ring->slots[slot].state != SL_SLOT_OLD || (ring->head_sequence != 0 && slot == ring->head_slot))
        return false;
    if (sl_ring_is_busy(ring, slot))
        return false;
    if (any_kept_unread(ring, readers, count, old, keep))
        return false;
    bool unread = stolen && any_kept_unread(ring, readers, count, old, SL_KEEP_ALL);
    sl_store(&ring->words.slot_seq[slot], SL_MARK, seq_cst);
    SL_KILL_POINT("after_retire_mark");
    /* The slot number is moved to another memory: no lease word may be set for it, not even a stale one. */
    for (uint32_t i = 0; i < count; i++) {
        if (sl_load(&readers[i].page.lease[slot], seq_cst) != 0) {
            sl_store(&ring->words.slot_seq[slot], old, release);
            return false;
        }
    }
    if (stolen)
        *stolen = unread;
    sl_store(&ring->words.slot_seq[slot], 0, release);
    ring->slots[slot].state = SL_SLOT_NONE;
    ring->slots[slot].sequence = 0;
    return true;
}
