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

/* ---- on the service thread, under its lock ---- */

/* For a reader that takes no more frames: marks all as read. */
static void mark_all_read(struct sl_link *link)
{
    if (link)
        sl_store(link->page.cursor, SL_LAST_SEQUENCE + 1, release);
}

void sl_session_stop(struct sl_reader *reader)
{
    sl_store(&reader->closing, 1, seq_cst);
    sl_service_lock();
    mark_all_read(reader->next.link);
    mark_all_read(reader->next.opening);
    mark_all_read(reader->next.session ? reader->next.session->link : NULL);
    mark_all_read(reader->session ? reader->session->link : NULL);
    sl_wake_with_news(reader);
    sl_service_unlock();
}

void sl_session_linked(void *context, struct sl_link *link)
{
    struct sl_reader *reader = context;

    if (sl_load(&reader->closing, acquire))
        mark_all_read(link);

    /* The previous link, if it was not used yet. */
    if (reader->next.link)
        sl_link_close(reader->next.link);
    reader->next.link = link;
    if (!sl_session_open_begin(reader))
        sl_wake_with_news(reader);
}

void sl_session_changed(void *context, struct sl_link *link)
{
    /* A failed attempt is not reported to acquire, nor to a program that polls. */
    if (link)
        sl_wake_with_news(context);
    else
        sl_wake_sleepers(context);
}

/* ---- on the acquiring thread ---- */

void sl_session_handle_news(struct sl_reader *reader)
{
    if (sl_load(&reader->attention, relaxed) != 0)
        sl_store(&reader->attention, 0, seq_cst);
    sl_release_settle_if_due(reader);
    if (reader->old)
        sl_session_end_idle(reader);
}

/* Rejoins a session that had dropped this reader: continues after the frame that it took last. */
static void continue_session(struct sl_session *session, const struct sl_session *before)
{
    struct sl_lease *lease = &session->lease;
    uint64_t want = sl_lease_next(&before->lease), first = sl_lease_want(lease);

    lease->last = before->lease.last;
    lease->awaited = false;
    lease->skipped = 0;
    sl_store(lease->page.last, sl_load(before->lease.page.last, relaxed), relaxed);
    session->dropped = before->dropped;
    session->generation = before->generation;
    if (lease->mode == SLUICE_IN_ORDER && first < want)
        sl_store(lease->page.cursor, want, release);
    else if (lease->mode == SLUICE_IN_ORDER)
        lease->skipped = first - want;
}

/* No session could be made from the link: keeps it for the next attempt. */
static void return_link(struct sl_reader *reader, struct sl_link *link)
{
    sl_service_lock();
    if (reader->next.link)
        sl_link_close(link); /* a later one has come meanwhile */
    else
        reader->next.link = link;
    sl_service_unlock();
}

/* Counts and gives up the frames that the session's writer left unfinished. */
static uint32_t lose_unfinished(const struct sl_reader *reader, struct sl_session *session)
{
    uint32_t lost =
        session->lease.over ? 0 : sl_lease_unfinished(&session->lease.words, sl_lease_want(&session->lease));

    session->lease.over = true;
    if (lost)
        sl_log(SLUICE_LOG_WARN,
               "channel '%s': its writer ended with %u frames that its device had not finished: they are lost",
               reader->base.name, lost);
    return lost;
}

/* The next session, prepared; by this thread while the reader is being opened, or if the other thread failed. */
static int take_next_session(struct sl_reader *reader, struct sl_session **session)
{
    struct sl_link *link = NULL;

    sl_service_lock();
    *session = reader->next.session;
    reader->next.session = NULL;
    if (!*session && !reader->next.thread_runs) {
        link = reader->next.link;
        reader->next.link = NULL;
    }
    sl_service_unlock();
    if (*session)
        return 0;
    if (!link)
        return SLUICE_NO_WRITER;
    int r = sl_session_open(reader, link, session);
    if (r != 0)
        return_link(reader, link);
    return r;
}

int sl_session_switch(struct sl_reader *reader)
{
    struct sl_session *session, *old = reader->session;
    int r = take_next_session(reader, &session);

    if (r != 0)
        return r;
    if (old && old->link->session == session->link->session)
        continue_session(session, old);
    if (old && strcmp(old->device, session->device) != 0)
        reader->device_changed = true;
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
    sl_add(&reader->counts.sessions, 1);
    if (old && old->pages && old->link->session != session->link->session)
        sl_add(&reader->counts.lost, lose_unfinished(reader, old));
    sl_session_end_idle(reader);
    return 0;
}

bool sl_session_rejoin(struct sl_reader *reader)
{
    const struct sl_session *session = reader->session;
    bool again = false;

    if (!session || !sl_load(&session->link->gone, acquire))
        return false;
    sl_service_lock();
    const struct sl_link *next = reader->next.session       ? reader->next.session->link
                                 : reader->next.thread_runs ? NULL
                                                            : reader->next.link;
    if (next && next->session == session->link->session)
        again = sl_lease_want(&session->lease) >= sl_load(next->page.cursor, acquire);
    sl_service_unlock();
    return again && sl_session_switch(reader) == 0;
}

bool sl_session_give_up(struct sl_reader *reader)
{
    struct sl_session *session = reader->session;
    int64_t now = sl_os_now();

    if (!session || !session->pages || session->lease.over || sl_load(session->link->page.evicted, acquire))
        return false;
    if (session->gone_ns == 0)
        session->gone_ns = now;
    if (now < sl_wait_rests_until(session, now))
        return false;
    uint32_t lost = lose_unfinished(reader, session);
    sl_add(&reader->counts.lost, lost);
    return lost > 0;
}
