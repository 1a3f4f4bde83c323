/* SPDX-License-Identifier: MIT */
#include "native/protocol/lease.h"

#include "sync/sync.h"
#include "util/hooks.h"

/* A slot's sequence according to slot_seq; 0 while there is no frame to take. */
static uint64_t frame_in(const struct sl_words *words, uint32_t slot)
{
    uint64_t sequence = sl_load(&words->slot_seq[slot], acquire);
    return sequence == SL_MARK ? 0 : sequence;
}

static bool is_ready(const struct sl_words *words, uint32_t slot, uint64_t sequence)
{
    return sl_reached(sl_load(&words->ready[slot], acquire), sequence);
}

static bool is_lost(const struct sl_words *words, uint32_t slot)
{
    return sl_load(&words->ready[slot], acquire) == SL_POISON;
}

/* The words come from another process: an invalid slot number must not cause an access beyond them. */
static bool head_sane(const struct sl_words *words, uint64_t head)
{
    return sl_head_slot(head) < words->ids;
}

/* R1: the newest frame that is ready. Nearly always the head; an older one only while a GPU works on the head. */
static int newest_ready(const struct sl_words *words, uint64_t want, uint64_t *sequence)
{
    uint64_t head = sl_load(words->head, seq_cst);
    uint64_t q = sl_head_sequence(head);
    int best = SL_LEASE_NONE;

    if (q < want || !head_sane(words, head))
        return SL_LEASE_NONE;
    if (is_ready(words, sl_head_slot(head), q)) {
        *sequence = q;
        return (int)sl_head_slot(head);
    }
    if (!is_lost(words, sl_head_slot(head)))
        best = SL_LEASE_SOON;
    if (q == want) /* older frames are not wanted any more */
        return best;
    for (uint32_t s = 0; s < words->ids; s++) {
        q = frame_in(words, s);
        if (q >= want && (best < 0 || q > *sequence) && is_ready(words, s, q)) {
            *sequence = q;
            best = (int)s;
        }
    }
    return best;
}

/* I1: the first frame at or after the cursor. One that is kept for us is found in one pass; with a
 * dropping writer earlier ones may be gone. The pass is not a snapshot: it may miss a frame that is committed
 * during it and find a later one, so frames after the head at its start do not count. */
static int first_from(const struct sl_words *words, uint64_t want, uint64_t *sequence)
{
    uint64_t head = sl_load(words->head, seq_cst), top = sl_head_sequence(head);
    int best = SL_LEASE_NONE;

    if (top < want || !head_sane(words, head))
        return SL_LEASE_NONE;
    for (uint32_t s = 0; s < words->ids; s++) {
        uint64_t q = frame_in(words, s);
        if (q >= want && q <= top && (best < 0 || q < *sequence)) {
            *sequence = q;
            best = (int)s;
            if (q == want)
                break;
        }
    }
    return best < 0 ? SL_LEASE_RETRY : best; /* all were overwritten since head was loaded: there are newer ones */
}

static int next_ready(struct sl_lease *lease, uint64_t want, uint64_t *sequence)
{
    int s = first_from(&lease->words, want, sequence);

    if (s < 0 || is_ready(&lease->words, (uint32_t)s, *sequence))
        return s;
    if (!is_lost(&lease->words, (uint32_t)s) && !lease->over)
        return SL_LEASE_SOON;
    lease->lost += !lease->over; /* otherwise they count together */
    lease->given_up = *sequence;
    return SL_LEASE_RETRY;
}

/* R2 and R3, I2. */
static int hold(struct sl_lease *lease, int s, uint64_t q)
{
    SL_KILL_POINT("before_lease");
    sl_store(&lease->page.lease[s], q, seq_cst); /* R2, I2 */
    SL_KILL_POINT("after_lease");
    if (sl_load(&lease->words.slot_seq[s], seq_cst) == q) /* R3 */
        return s;
    sl_store(&lease->page.lease[s], 0, release); /* R4 */
    lease->retries++;
    /* It was beyond our depth, or it would not have been marked. If another reader holds it, the writer may
     * mark and restore it again and again: so we go on after it. */
    if (lease->mode == SLUICE_IN_ORDER)
        lease->given_up = q;
    return SL_LEASE_RETRY;
}

int sl_lease_take(struct sl_lease *lease, uint64_t *sequence)
{
    uint64_t want = sl_lease_want(lease), q = 0;
    bool in_order = lease->mode == SLUICE_IN_ORDER;
    int s = in_order ? next_ready(lease, want, &q) : newest_ready(&lease->words, want, &q); /* R1, I1 */

    lease->retries += s == SL_LEASE_RETRY;
    if (s >= 0 && (s = hold(lease, s, q)) >= 0)
        *sequence = q;
    return s;
}

/* R1 without readiness: the head. */
static int newest(const struct sl_words *words, uint64_t want, uint64_t *sequence)
{
    uint64_t head = sl_load(words->head, seq_cst);

    if (sl_head_sequence(head) < want || !head_sane(words, head))
        return SL_LEASE_NONE;
    *sequence = sl_head_sequence(head);
    return (int)sl_head_slot(head);
}

static int committed(const struct sl_lease *lease, uint64_t *sequence)
{
    uint64_t want = sl_lease_want(lease);

    return lease->mode == SLUICE_IN_ORDER ? first_from(&lease->words, want, sequence)
                                          : newest(&lease->words, want, sequence);
}

bool sl_lease_is_ahead(const struct sl_lease *lease)
{
    uint64_t q = 0;
    int s = committed(lease, &q);

    return s >= 0 && !is_ready(&lease->words, (uint32_t)s, q) && !is_lost(&lease->words, (uint32_t)s);
}

int sl_lease_take_ahead(struct sl_lease *lease, uint64_t *sequence)
{
    uint64_t q = 0;
    int s = committed(lease, &q);

    lease->retries += s == SL_LEASE_RETRY;
    if (s >= 0 && is_lost(&lease->words, (uint32_t)s))
        return SL_LEASE_NONE;
    if (s >= 0 && (s = hold(lease, s, q)) >= 0)
        *sequence = q;
    return s;
}

void sl_lease_keep(struct sl_lease *lease, uint64_t sequence)
{
    bool in_order = lease->mode == SLUICE_IN_ORDER;
    uint64_t want = sl_lease_next(lease);

    if (in_order) /* I3: never before the lease */
        sl_store(lease->page.cursor, sequence + lease->every, release);
    if (in_order || lease->last != 0 || lease->awaited)
        lease->skipped += sequence - want;
    lease->last = sequence;
}

void sl_lease_end(struct sl_lease *lease, uint32_t slot)
{
    sl_store(&lease->page.lease[slot], 0, release); /* R6, I5 */
}

uint64_t sl_lease_next(const struct sl_lease *lease)
{
    if (lease->mode == SLUICE_IN_ORDER)
        return sl_load(lease->page.cursor, relaxed);
    return lease->last ? lease->last + lease->every : 1;
}

uint64_t sl_lease_want(const struct sl_lease *lease)
{
    uint64_t next = sl_lease_next(lease);
    return next > lease->given_up ? next : lease->given_up + 1;
}

int sl_lease_look(const struct sl_words *words, uint32_t mode, uint64_t want)
{
    uint64_t q = 0;
    /* Both load head seq_cst, like the store of `want` before it: else we and the writer might miss each other's store.
     */
    int s = mode == SLUICE_IN_ORDER ? first_from(words, want, &q) : newest_ready(words, want, &q);

    if (s >= 0 && mode == SLUICE_IN_ORDER && !is_ready(words, (uint32_t)s, q) && !is_lost(words, (uint32_t)s))
        return SL_LEASE_SOON;
    return s;
}

int sl_lease_first(const struct sl_words *words, uint64_t want)
{
    uint64_t q = 0;

    return first_from(words, want, &q);
}

uint32_t sl_lease_unfinished(const struct sl_words *words, uint64_t want)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < words->ids; s++) {
        uint64_t q = frame_in(words, s);
        count += q >= want && q != 0 && !is_ready(words, s, q);
    }
    return count;
}
