/* SPDX-License-Identifier: MIT
 *
 * The steps of taking a frame read cache lines that another core, or a GPU, has written. Prefetched together they cost
 * about as much as one of them.
 */
#include "native/reader/acquire.h"

static void prefetch_slot(const struct sl_session *session, uint32_t slot)
{
    const struct sl_words *words = &session->lease.words;
    const char *record = (const char *)sl_link_record(session->link, slot);

    __builtin_prefetch((const void *)&words->ready[slot]);
    __builtin_prefetch((const void *)&words->slot_seq[slot]);
    sl_fetch_to_store(&session->lease.page.lease[slot]);
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
}

void sl_prefetch_expected(const struct sl_session *session)
{
    __builtin_prefetch((const void *)session->lease.words.head);
    prefetch_slot(session, session->next_slot[session->last_slot]);
    if (session->lease.mode == SLUICE_IN_ORDER)
        sl_fetch_to_store(session->lease.page.cursor);
}

void sl_prefetch_newest(const struct sl_session *session)
{
    const struct sl_words *words = &session->lease.words;
    uint32_t slot = sl_head_slot(sl_load(words->head, relaxed));

    if (slot < words->ids)
        prefetch_slot(session, slot);
}

#define POLLS_PER_CALL \
    128 /* polls in one call: with more, other events would be noticed late; with fewer, calling it would be most of \
           the cost */

bool sl_prefetch_watch_newest(const struct sl_session *session)
{
    const struct sl_words *words = &session->lease.words;
    uint64_t head = sl_load(words->head, relaxed);
    uint32_t slot = sl_head_slot(head);

    for (int i = 0; slot < words->ids && i < POLLS_PER_CALL; i++)
        if (sl_reached(sl_load(&words->ready[slot], acquire), sl_head_sequence(head)))
            return true;
    return false;
}
