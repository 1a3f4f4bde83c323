/* SPDX-License-Identifier: MIT
 *
 * A reader follows its channel's writers: links come from the service thread, the acquiring thread
 * goes over to them when the old session has nothing left to give.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/apart.h"
#include "core/park.h"
#include "core/reader.h"
#include "util/hooks.h"
#include "util/result.h"

#define DRIVER_PATIENCE (250 * SLUICE_MS) /* the GPU of a writer that died may finish frames so long */

static sl_word32 ending; /* sessions of this process that end on threads of their own */

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
    sl_release_settle_now_and_then(reader);
    if (reader->old)
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

/* Where frames of this link are used here, and the page's words made known to that device. */
static int equip(struct sluice_reader *reader, struct sl_session *session)
{
    struct sl_link *link = session->link;
    const char *kind = sl_mem_of_kind(link->memory_kind)->name;
    const struct sl_device_ops *device = sl_device_of_kind(kind);

    device->name_of(link->uuid, session->home);
    snprintf(session->device, sizeof session->device, "%s", reader->device[0] ? reader->device : session->home);
    if (sl_device_kind(session->device) != device)
        return sl_fail(SLUICE_E_WRONG_DEVICE,
                       "channel '%s' has its frames on '%s', not on '%s': leave the reader's device out, and copy frames with "
                       "sluice_reader_fetch if need be",
                       reader->name, session->home, reader->device);
    int r = sl_staged_choose(reader, session);
    if (r != 0)
        return r;
    session->sync = sl_sync_of_device(kind);
    r = session->sync->attach(session->device, link->pages, link->page_bytes, true, &session->pages);
    if (r != 0 && device != sl_device_kind("host"))
        return sl_fail(r, "channel '%s' has its frames on a GPU, and '%s' cannot be used for them: %s", reader->name,
                       session->device, sluice_last_error());
    if (r == 0 && (r = sl_staged_open(reader, session)) != 0)
        session->sync->detach(session->pages);
    if (r == 0 && session->pages && reader->params.ahead && !session->staged) {
        session->ahead = session->sync->can_wait(session->pages) == 0;
        if (!session->ahead)
            sl_log(SLUICE_LOG_WARN, "channel '%s': no frame is taken ahead, the CPU waits: %s", reader->name,
                   sluice_last_error());
    }
    return r;
}

static int session_new(struct sluice_reader *reader, struct sl_link *link, struct sl_session **out)
{
    struct sl_session *session = calloc(1, sizeof *session);
    int r;

    if (!session)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for a session", reader->name);
    session->link = link;
    session->lease = (struct sl_lease){
        .words = link->words,
        .page = link->page,
        .mode = reader->params.mode,
        .every = reader->params.every,
    };
    if ((r = equip(reader, session)) != 0) {
        free(session);
        return r;
    }
    if (reader->session && reader->session->link->session == link->session)
        continue_session(session, reader->session);
    *out = session;
    return 0;
}

/* The link came, but nothing can be done with it: perhaps the next time. */
static void put_back(struct sluice_reader *reader, struct sl_link *link)
{
    sl_service_lock();
    if (reader->next)
        link->ops->link_close(link); /* a later one has come meanwhile */
    else
        reader->next = link;
    sl_service_unlock();
}

/* What the session's writer left unfinished. */
static uint32_t lose_rest(const struct sluice_reader *reader, struct sl_session *session)
{
    uint32_t lost = session->lease.over ? 0 : sl_lease_unfinished(&session->lease.words, sl_lease_want(&session->lease));

    session->lease.over = true;
    if (lost)
        sl_log(SLUICE_LOG_WARN, "channel '%s': its writer ended with %u frames that its device had not finished: they are lost",
               reader->name, lost);
    return lost;
}

int sl_session_switch(struct sluice_reader *reader)
{
    struct sl_session *session, *old;
    int r;

    sl_service_lock();
    struct sl_link *link = reader->next;
    reader->next = NULL;
    sl_service_unlock();
    if (!link)
        return SLUICE_NO_WRITER;
    if ((r = session_new(reader, link, &session)) != 0) { /* may ask a driver: no lock is held */
        put_back(reader, link);
        return r;
    }
    SL_KILL_POINT("before_switch");
    sl_service_lock();
    old = reader->session;
    reader->session = session;
    if (old) {
        sl_gate_leave(reader, old);
        old->next = reader->old;
        reader->old = old;
    }
    sl_gate_enter(reader, session);
    sl_service_unlock();
    sl_add(&reader->sessions, 1);
    if (old && old->pages && old->link->session != session->link->session)
        sl_add(&reader->lost, lose_rest(reader, old));
    sl_session_reap(reader, false);
    return 0;
}

bool sl_session_rejoin(struct sluice_reader *reader)
{
    const struct sl_session *session = reader->session;
    bool again = false;

    if (!session || !sl_load(&session->link->gone, acquire))
        return false;
    sl_service_lock();
    if (reader->next && reader->next->session == session->link->session)
        again = sl_lease_want(&session->lease) >= sl_load(reader->next->page.cursor, acquire);
    sl_service_unlock();
    return again && sl_session_switch(reader) == 0;
}

void sl_session_fail(struct sluice_reader *reader)
{
    sl_service_lock();
    if (reader->join)
        reader->join->ops->join_close(reader->join, true);
    reader->join = NULL;
    sl_service_unlock();
}

bool sl_session_give_up(struct sluice_reader *reader)
{
    struct sl_session *session = reader->session;
    int64_t now = sl_os_now();

    if (!session || !session->pages || session->lease.over || sl_load(session->link->page.evicted, acquire))
        return false;
    if (session->over_ns == 0)
        session->over_ns = now;
    /* Its device may go on for a moment (protocol 4.1); one that closed has waited for it. */
    if (!sl_load(session->link->closed, acquire) && now - session->over_ns < DRIVER_PATIENCE)
        return false;
    uint32_t lost = lose_rest(reader, session);
    sl_add(&reader->lost, lost);
    return lost > 0;
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
    int r = 0;

    if (map->number == number && map->memory) {
        *out = map->memory;
        return 0;
    }
    struct sl_link_memory *memory = find_memory(session, number);
    if (!memory)
        return SLUICE_AGAIN;
    memory->object.device = session->near ? session->device : session->home;
    memory->object.home = session->foreign && session->near ? session->home : NULL;
    if (!memory->object.address) {
        SL_STAGE_BEGIN(MAP);
        r = memory->object.ops->map(&memory->object, session->link->writable);
        SL_STAGE_END(MAP);
    }
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

/* With no lock held: unmapping may ask a driver. */
static void free_memories(struct sl_link_memory *memory)
{
    while (memory) {
        struct sl_link_memory *next = memory->next;
        sl_mem_drop(&memory->shared);
        memory = next;
    }
}

void sl_session_prune(struct sluice_reader *reader)
{
    struct sl_session *session = reader->session;
    uint32_t oldest = sl_load(session->link->oldest_memory, acquire);
    uint32_t came = sl_load(&session->link->memory_count, acquire);
    struct sl_link_memory *unused = NULL;
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
        memory->next = unused;
        unused = memory;
        sl_store(&session->link->memory_count, sl_load(&session->link->memory_count, relaxed) - 1, relaxed);
    }
    session->memory_count = sl_load(&session->link->memory_count, relaxed);
    sl_service_unlock();
    free_memories(unused);
    if (!left)
        session->oldest_memory = oldest;
}

/* With no lock held, and nothing of the reader's. */
static void session_free(void *argument)
{
    struct sl_session *session = argument;
    struct sl_link *link = session->link;
    bool apart = session->pages != NULL;

    sl_service_lock();
    struct sl_link_memory *memories = link->memories;
    link->memories = NULL;
    sl_service_unlock();
    free_memories(memories);
    sl_staged_close(session);
    session->sync->detach(session->pages);
    sl_service_lock();
    link->ops->link_close(link);
    sl_service_unlock();
    free(session);
    if (apart)
        sl_add(&ending, (uint32_t)-1);
}

/* The writer's part is over, or ours: nothing is added to its link any more. On a thread of its own where a driver is asked: that
 * may wait for all that the program has on the GPU, and neither acquire nor close shall. True if it is. */
static bool end_session(struct sl_session *session)
{
    bool apart = session->pages != NULL;

    sl_service_lock();
    sl_park_forget(session);
    sl_service_unlock();
    if (apart) {
        sl_add(&ending, 1);
        sl_apart(session_free, session);
    } else {
        session_free(session);
    }
    return apart;
}

static bool end_sessions(struct sl_session *session)
{
    bool apart = false;

    while (session) {
        struct sl_session *next = session->next;
        apart = end_session(session) || apart;
        session = next;
    }
    return apart;
}

/* Old sessions that hold nothing, taken off the list; all of them at the end. */
static struct sl_session *take_idle(struct sluice_reader *reader, bool all)
{
    struct sl_session *idle = NULL;

    for (struct sl_session **link = &reader->old; *link;) {
        struct sl_session *session = *link;
        if (!all && is_out(reader, session, NULL)) {
            link = &session->next;
            continue;
        }
        *link = session->next;
        session->next = idle;
        idle = session;
    }
    return idle;
}

void sl_session_reap(struct sluice_reader *reader, bool all)
{
    struct sl_session *last = NULL;

    bool apart = end_sessions(take_idle(reader, all)); /* only this thread changes the list */
    if (!all)
        return;
    sl_service_lock();
    last = reader->session;
    reader->session = NULL;
    if (reader->next)
        reader->next->ops->link_close(reader->next);
    reader->next = NULL;
    sl_service_unlock();
    apart = end_sessions(last) || apart;
    if (apart)
        sl_apart_await(&ending, 0, reader->name);
}
