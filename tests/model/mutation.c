/* SPDX-License-Identifier: MIT
 *
 * Mutations of the code, one at a time, at its accesses to shared words.
 */
#include <stdatomic.h>

#include "model/world.h"

static bool in(const void *word, const sl_word *array, int count)
{
    return (const sl_word *)word >= array && (const sl_word *)word < array + count;
}

static void relax(struct explore_access *access, bool which)
{
    if (which)
        access->order = memory_order_relaxed;
}

/* The lease is withheld until the cursor has moved. */
static void cursor_first(struct explore_access *access, int r)
{
    if (r < 0 || !access->is_store)
        return;
    if (in(access->word, w.lease_words[r], MOST_SLOTS) && access->value) {
        w.withheld_at[r] = access->word;
        w.withheld[r] = access->value;
        access->skip = true;
    } else if (access->word == &w.cursor[r] && w.withheld_at[r]) {
        sl_word *lease = w.withheld_at[r];
        uint64_t q = w.withheld[r];
        w.withheld_at[r] = NULL;
        access->skip = true;
        sl_store(&w.cursor[r], access->value, seq_cst);
        sl_store(lease, q, seq_cst);
    }
}

void mutate(struct explore_access *access)
{
    int r = access->actor - 1;
    bool slot_seq = in(access->word, w.slot_seq, MOST_SLOTS);
    bool leases = in(access->word, &w.lease_words[0][0], READERS * MOST_SLOTS);

    if (access->is_store && slot_seq && access->value == SL_MARK)
        w.marked[w.ring.slots[(sl_word *)access->word - w.slot_seq].sequence] = 1;
    switch (setting.mutation) {
    case WEAK_LEASE: relax(access, access->is_store && leases && access->value); break;
    case WEAK_MARK: relax(access, access->is_store && slot_seq && access->value == SL_MARK); break;
    case WEAK_PUBLISH:
        relax(access,
              access->is_store && (in(access->word, w.ready, MOST_SLOTS) || slot_seq || access->word == &w.head));
        break;
    case NO_VALIDATION:
        if (r >= 0 && !access->is_store && slot_seq && access->order == memory_order_seq_cst) {
            access->value = explore_peek(&w.lease_words[r][(sl_word *)access->word - w.slot_seq]);
            access->skip = true;
        }
        break;
    case NO_RESTORE:
        access->skip = access->is_store && access->actor == WRITER && slot_seq && access->value != SL_MARK &&
                       access->value == w.ring.slots[(sl_word *)access->word - w.slot_seq].sequence;
        break;
    case NO_CURSORS:
        if (access->actor == WRITER && in(access->word, w.cursor, READERS)) {
            access->value = UINT64_MAX;
            access->skip = true;
        }
        break;
    case NO_LEASES: access->skip = access->actor == WRITER && leases && !access->is_store; break;
    case CURSOR_FIRST: cursor_first(access, r); break;
    default: break;
    }
}
