/* SPDX-License-Identifier: MIT
 *
 * A reader follows its channel's writers: links come from the service thread, the acquiring thread
 * goes over to them when the old session has nothing left to give.
 */
#include <stdlib.h>

#include "core/reader.h"
#include "util/hooks.h"
#include "util/result.h"

/* ---- on the service thread, under its lock ---- */

/* Wakes whoever sleeps in a call. */
static void wake(struct sluice_reader *reader)
{
    sl_add(&reader->bell, 1);
    sl_os_wake(&reader->bell, INT32_MAX);
    if (reader->session) {
        sl_word32 *bell = reader->session->link->page.bell;
        sl_add(bell, 1);
        sl_os_wake(bell, INT32_MAX);
    }
}

static void ring(struct sluice_reader *reader)
{
    sl_store(&reader->attention, 1, seq_cst);
    wake(reader);
    if (reader->note >= 0)
        sl_os_note_set(reader->note);
}

/* Nothing is unread to a reader that takes no more. */
static void read_all(struct sl_link *link)
{
    if (link)
        sl_store(link->page.cursor, SL_LAST_SEQUENCE + 1, release);
}

void sl_session_stop(struct sluice_reader *reader)
{
    sl_store(&reader->closing, 1, seq_cst);
    sl_service_lock();
    read_all(reader->next);
    read_all(reader->session ? reader->session->link : NULL);
    ring(reader);
    sl_service_unlock();
}

void sl_session_linked(void *context, struct sl_link *link)
{
    struct sluice_reader *reader = context;

    if (sl_load(&reader->closing, acquire))
        read_all(link);

    /* One that came and went before anybody used it. */
    if (reader->next)
        reader->next->ops->link_close(reader->next);
    reader->next = link;
    ring(reader);
}

void sl_session_changed(void *context, struct sl_link *link)
{
    /* An attempt that failed is no news to acquire, and to whoever polls. */
    if (link)
        ring(context);
    else
        wake(context);
}

/* ---- on the acquiring thread ---- */

void sl_session_attend(struct sluice_reader *reader)
{
    if (sl_load(&reader->attention, relaxed) != 0)
        sl_store(&reader->attention, 0, seq_cst);
    sl_session_reap(reader, false);
}

/* Back in a session that dropped it: goes on behind the frame that it took last. */
static void continue_session(struct sl_session *session, const struct sl_session *before)
{
    struct sl_lease *lease = &session->lease;
    uint64_t want = sl_lease_next(&before->lease), first = sl_lease_want(lease);

    lease->last = before->lease.last;
    sl_store(lease->page.last, sl_load(before->lease.page.last, relaxed), relaxed);
    session->dropped = before->dropped;
    session->generation = before->generation;
    if (lease->mode == SLUICE_IN_ORDER && first < want)
        sl_store(lease->page.cursor, want, release);
    else if (lease->mode == SLUICE_IN_ORDER)
        lease->skipped = first - want;
}

static struct sl_session *session_new(const struct sluice_reader *reader, struct sl_link *link)
{
    struct sl_session *session = calloc(1, sizeof *session);

    if (!session) {
        sl_say("channel '%s': no memory for a session", reader->name);
        return NULL;
    }
    session->link = link;
    session->lease = (struct sl_lease){
        .words = link->words,
        .page = link->page,
        .mode = reader->params.mode,
        .every = reader->params.every,
    };
    if (reader->session && reader->session->link->session == link->session)
        continue_session(session, reader->session);
    return session;
}

int sl_session_switch(struct sluice_reader *reader)
{
    struct sl_session *session, *old;

    sl_service_lock();
    if (!reader->next) {
        sl_service_unlock();
        return SLUICE_NO_WRITER;
    }
    session = session_new(reader, reader->next);
    if (!session) {
        sl_service_unlock();
        return SLUICE_E_NO_MEMORY;
    }
    SL_KILL_POINT("before_switch");
    reader->next = NULL;
    old = reader->session;
    reader->session = session;
    if (old) {
        sl_gate_leave(reader, old->link);
        old->next = reader->old;
        reader->old = old;
    }
    sl_gate_enter(reader, session->link);
    sl_service_unlock();
    sl_add(&reader->sessions, 1);
    sl_session_reap(reader, false);
    return 0;
}

/* Held while the caller maps it: the service thread takes away what nobody holds and nobody has mapped. */
static struct sl_link_memory *find_memory(struct sl_session *session, uint32_t number)
{
    struct sl_link_memory *memory;

    sl_service_lock();
    for (memory = session->link->memories; memory && memory->memory != number; memory = memory->next)
        ;
    if (memory)
        sl_store(&memory->held, 1, relaxed);
    sl_service_unlock();
    return memory;
}

int sl_session_map(struct sl_session *session, uint32_t slot, const struct sl_record *record,
                   struct sl_link_memory **out)
{
    struct sl_slot_map *map = &session->maps[slot];
    uint32_t number = record->memory;
    int r;

    if (map->number == number && map->memory) {
        *out = map->memory;
        return 0;
    }
    struct sl_link_memory *memory = find_memory(session, number);
    if (!memory)
        return SLUICE_AGAIN;
    r = memory->object.address ? 0 : memory->object.ops->map(&memory->object, session->link->writable);
    sl_store(&memory->held, 0, release);
    if (r != 0)
        return r;
    *map = (struct sl_slot_map){ .memory = memory, .number = number };
    *out = memory;
    return 0;
}

/* Does a frame that is out lie in this session, in this memory (NULL: in any)? On the acquiring thread. */
static bool is_out(const struct sluice_reader *reader, const struct sl_session *session,
                   const struct sl_link_memory *memory)
{
    for (uint32_t i = 0; i < reader->params.hold; i++) {
        const struct sl_held *entry = &reader->held[i];
        if (sl_load(&entry->token, acquire) != 0 && entry->session == session &&
            (!memory || entry->memory == memory))
            return true;
    }
    return false;
}

static void forget_maps(struct sl_session *session, const struct sl_link_memory *memory)
{
    for (uint32_t s = 0; s < SL_MAX_IDS; s++)
        if (session->maps[s].memory == memory)
            session->maps[s] = (struct sl_slot_map){ .number = 0 };
}

void sl_session_prune(struct sluice_reader *reader)
{
    struct sl_session *session = reader->session;
    uint32_t oldest = sl_load(session->link->oldest_memory, acquire);
    uint32_t came = sl_load(&session->link->memory_count, acquire);
    bool left = false;

    if (oldest == session->oldest_memory && came == session->memory_count)
        return;
    sl_service_lock();
    for (struct sl_link_memory **link = &session->link->memories; *link;) {
        struct sl_link_memory *memory = *link;
        if (!sl_link_forgot(session->link, memory->memory) || is_out(reader, session, memory)) {
            left = left || memory->memory < oldest;
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        forget_maps(session, memory);
        memory->object.ops->destroy(&memory->object);
        free(memory);
        sl_store(&session->link->memory_count, sl_load(&session->link->memory_count, relaxed) - 1, relaxed);
    }
    session->memory_count = sl_load(&session->link->memory_count, relaxed);
    sl_service_unlock();
    if (!left)
        session->oldest_memory = oldest;
}

static void session_free(struct sl_session *session)
{
    session->link->ops->link_close(session->link);
    free(session);
}

void sl_session_reap(struct sluice_reader *reader, bool all)
{
    struct sl_session *idle = reader->old; /* only this thread changes the list */

    while (idle && is_out(reader, idle, NULL))
        idle = idle->next;
    if (!idle && !all)
        return;
    sl_service_lock();
    for (struct sl_session **link = &reader->old; *link;) {
        struct sl_session *session = *link;
        if (!all && is_out(reader, session, NULL)) {
            link = &session->next;
            continue;
        }
        *link = session->next;
        session_free(session);
    }
    if (all && reader->session)
        session_free(reader->session);
    if (all && reader->next)
        reader->next->ops->link_close(reader->next);
    if (all) {
        reader->session = NULL;
        reader->next = NULL;
    }
    sl_service_unlock();
}
