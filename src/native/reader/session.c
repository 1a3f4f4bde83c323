/* SPDX-License-Identifier: MIT
 *
 * A reader follows its channel's writers: links come from the service thread, and the acquiring thread
 * switches to them when no frame is left in the old session.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/reader/gpu_wait.h"
#include "native/reader/reader.h"
#include "util/hooks.h"
#include "util/result.h"

#define DRIVER_PATIENCE (250 * SLUICE_MS) /* how long a dead writer's GPU may still finish frames */

/* ---- on the service thread, under its lock ---- */

/* Wakes all threads that sleep in a call. */
static void wake(struct sl_reader *reader)
{
    sl_add(&reader->bell, 1);
    sl_os_wake(&reader->bell, INT32_MAX);
    if (reader->session) {
        sl_word32 *bell = reader->session->link->page.bell;
        sl_add(bell, 1);
        sl_os_wake(bell, INT32_MAX);
    }
}

void sl_session_ring(struct sl_reader *reader)
{
    sl_store(&reader->attention, 1, seq_cst);
    wake(reader);
    if (reader->poll.note >= 0)
        sl_os_note_set(reader->poll.note);
}

/* For a reader that takes no more frames: marks all as read. */
static void read_all(struct sl_link *link)
{
    if (link)
        sl_store(link->page.cursor, SL_LAST_SEQUENCE + 1, release);
}

void sl_session_stop(struct sl_reader *reader)
{
    sl_store(&reader->closing, 1, seq_cst);
    sl_service_lock();
    read_all(reader->next);
    read_all(reader->preparing);
    read_all(reader->prepared ? reader->prepared->link : NULL);
    read_all(reader->session ? reader->session->link : NULL);
    sl_session_ring(reader);
    sl_service_unlock();
}

void sl_session_linked(void *context, struct sl_link *link)
{
    struct sl_reader *reader = context;

    if (sl_load(&reader->closing, acquire))
        read_all(link);

    /* The previous link, if it was not used yet. */
    if (reader->next)
        sl_link_close(reader->next);
    reader->next = link;
    if (!sl_prepare_begin(reader))
        sl_session_ring(reader);
}

void sl_session_changed(void *context, struct sl_link *link)
{
    /* A failed attempt is not reported to acquire, nor to a program that polls. */
    if (link)
        sl_session_ring(context);
    else
        wake(context);
}

/* ---- on the acquiring thread ---- */

void sl_session_attend(struct sl_reader *reader)
{
    if (sl_load(&reader->attention, relaxed) != 0)
        sl_store(&reader->attention, 0, seq_cst);
    sl_release_settle_now_and_then(reader);
    if (reader->old)
        sl_session_reap(reader, false);
}

/* Rejoins a session that had dropped this reader: continues after the frame that it took last. */
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

/* No session could be made from the link: keeps it for the next attempt. */
static void put_back(struct sl_reader *reader, struct sl_link *link)
{
    sl_service_lock();
    if (reader->next)
        sl_link_close(link); /* a later one has come meanwhile */
    else
        reader->next = link;
    sl_service_unlock();
}

/* Counts and gives up the frames that the session's writer left unfinished. */
static uint32_t lose_rest(const struct sl_reader *reader, struct sl_session *session)
{
    uint32_t lost = session->lease.over ? 0 : sl_lease_unfinished(&session->lease.words, sl_lease_want(&session->lease));

    session->lease.over = true;
    if (lost)
        sl_log(SLUICE_LOG_WARN, "channel '%s': its writer ended with %u frames that its device had not finished: they are lost",
               reader->base.name, lost);
    return lost;
}

/* The next session, prepared; by this thread while the reader is being opened, or if the other thread failed. */
static int take_next(struct sl_reader *reader, struct sl_session **session)
{
    struct sl_link *link = NULL;

    sl_service_lock();
    *session = reader->prepared;
    reader->prepared = NULL;
    if (!*session && !reader->prepares) {
        link = reader->next;
        reader->next = NULL;
    }
    sl_service_unlock();
    if (*session)
        return 0;
    if (!link)
        return SLUICE_NO_WRITER;
    int r = sl_prepare(reader, link, session);
    if (r != 0)
        put_back(reader, link);
    return r;
}

int sl_session_switch(struct sl_reader *reader)
{
    struct sl_session *session, *old = reader->session;
    int r = take_next(reader, &session);

    if (r != 0)
        return r;
    if (old && old->link->session == session->link->session)
        continue_session(session, old);
    if (old && strcmp(old->device, session->device) != 0)
        reader->moved = true;
    SL_KILL_POINT("before_switch");
    sl_service_lock();
    reader->session = session;
    if (old) {
        sl_poll_fd_remove(reader, old);
        old->next = reader->old;
        reader->old = old;
    }
    sl_poll_fd_add(reader, session);
    sl_service_unlock();
    sl_add(&reader->sessions, 1);
    if (old && old->pages && old->link->session != session->link->session)
        sl_add(&reader->lost, lose_rest(reader, old));
    sl_session_reap(reader, false);
    return 0;
}

bool sl_session_rejoin(struct sl_reader *reader)
{
    const struct sl_session *session = reader->session;
    bool again = false;

    if (!session || !sl_load(&session->link->gone, acquire))
        return false;
    sl_service_lock();
    const struct sl_link *next = reader->prepared ? reader->prepared->link : reader->prepares ? NULL : reader->next;
    if (next && next->session == session->link->session)
        again = sl_lease_want(&session->lease) >= sl_load(next->page.cursor, acquire);
    sl_service_unlock();
    return again && sl_session_switch(reader) == 0;
}

void sl_session_fail(struct sl_reader *reader)
{
    sl_service_lock();
    if (reader->join)
        sl_join_close(reader->join, true);
    reader->join = NULL;
    sl_session_ring(reader); /* release may be who found it: acquire has to report it, and its descriptor stays readable */
    sl_service_unlock();
}

/* Its device may work on for a moment (protocol 4.1); a writer that closed has waited for that. */
int64_t sl_session_rests_until(const struct sl_session *session, int64_t now)
{
    bool rests = session->pages && !session->lease.over && !sl_load(session->link->closed, acquire) &&
                 !sl_load(session->link->page.evicted, acquire);

    return rests ? (session->over_ns ? session->over_ns : now) + DRIVER_PATIENCE : 0;
}

bool sl_session_give_up(struct sl_reader *reader)
{
    struct sl_session *session = reader->session;
    int64_t now = sl_os_now();

    if (!session || !session->pages || session->lease.over || sl_load(session->link->page.evicted, acquire))
        return false;
    if (session->over_ns == 0)
        session->over_ns = now;
    if (now < sl_session_rests_until(session, now))
        return false;
    uint32_t lost = lose_rest(reader, session);
    sl_add(&reader->lost, lost);
    return lost > 0;
}

/* Marks the memory as held while the caller maps it: the service thread removes memory that is neither held nor mapped. */
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
        if (session->pages)
            sl_background_await_capacity(); /* else what earlier generations had would pile up */
        SL_STAGE_BEGIN(MAP);
        r = memory->object.ops->map(&memory->object, session->link->writable);
        SL_STAGE_END(MAP);
        memory->shared.in_background = r == 0 && session->pages;
    }
    sl_store(&memory->held, 0, release);
    if (r != 0)
        return r;
    *map = (struct sl_slot_map){ .memory = memory, .number = number };
    *out = memory;
    return 0;
}

/* Is a held frame in this session, in this memory (NULL: in any)? On the acquiring thread. */
static bool is_out(const struct sl_reader *reader, const struct sl_session *session,
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

/* With no lock held: unmapping may call a driver. */
static void free_memories(struct sl_link_memory *memory)
{
    while (memory) {
        struct sl_link_memory *next = memory->next;
        sl_mem_drop(&memory->shared);
        memory = next;
    }
}

void sl_session_prune(struct sl_reader *reader)
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

/* With no lock held, and without access to the reader. */
static void session_free(void *argument)
{
    struct sl_session *session = argument;
    struct sl_link *link = session->link;

    sl_service_lock();
    struct sl_link_memory *memories = link->memories;
    link->memories = NULL;
    sl_service_unlock();
    free_memories(memories);
    sl_staged_close(session);
    session->sync->detach(session->pages);
    sl_service_lock();
    sl_link_close(link);
    sl_service_unlock();
    free(session);
}

/* Frees a session that the writer or this reader has ended: nothing is added to its link any more. With a device it runs on its
 * own thread, as the driver may wait for all of the program's GPU work, for which neither acquire nor close must wait. */
void sl_session_end(struct sl_session *session)
{
    if (!session)
        return;
    sl_service_lock();
    sl_gpu_wait_forget(session);
    sl_service_unlock();
    if (session->pages)
        sl_background_run(session_free, session);
    else
        session_free(session);
}

static void end_sessions(struct sl_session *session)
{
    while (session) {
        struct sl_session *next = session->next;
        sl_session_end(session);
        session = next;
    }
}

/* Removes old sessions without held frames from the list, or all of them, and returns them. */
static struct sl_session *take_idle(struct sl_reader *reader, bool all)
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

void sl_session_reap(struct sl_reader *reader, bool all)
{
    struct sl_session *last, *prepared;

    end_sessions(take_idle(reader, all)); /* only this thread changes the list */
    if (!all)
        return;
    sl_service_lock();
    last = reader->session;
    prepared = reader->prepared;
    reader->session = reader->prepared = NULL;
    if (reader->next)
        sl_link_close(reader->next);
    reader->next = NULL;
    sl_service_unlock();
    sl_session_end(last);
    sl_session_end(prepared);
}
