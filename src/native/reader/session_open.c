/* SPDX-License-Identifier: MIT
 *
 * Makes a session from a new link. The driver calls for that (a context, and registering the page of words with the
 * device) run on a thread of their own once the reader is open, so that acquire does not wait for the driver
 * (protocol 6.2).
 */
#include <stdio.h>
#include <stdlib.h>

#include "native/reader/peer_copy.h"
#include "native/reader/reader.h"
#include "util/result.h"

/* Chooses the device on which frames of this link are used, and registers the page of words with it. */
static int attach_device(const struct sl_reader *reader, struct sl_session *session)
{
    struct sl_link *link = session->link;
    const char *kind = sl_mem_of_kind(link->memory_kind)->name;
    const struct sl_device_ops *device = sl_device_of_kind(kind);

    device->name_of(link->uuid, session->owner);
    snprintf(session->device, sizeof session->device, "%s", reader->device[0] ? reader->device : session->owner);
    if (sl_device_kind(session->device) != device)
        return sl_fail(
            SLUICE_E_WRONG_DEVICE,
            "channel '%s' has its frames on '%s', not on '%s': leave the reader's device out, and copy frames with "
            "sluice_reader_fetch if need be",
            reader->base.name, session->owner, reader->device);
    int r = sl_peer_copy_choose(reader, session);
    if (r != 0)
        return r;
    session->sync = sl_sync_of_device(kind);
    r = session->sync->attach(session->device, link->pages, link->page_bytes, true, &session->pages);
    if (r != 0 && device != sl_device_kind("host"))
        return sl_fail(r, "channel '%s' has its frames on a GPU, and '%s' cannot be used for them: %s",
                       reader->base.name, session->device, sl_last_error());
    if (r == 0 && (r = sl_peer_copy_open(reader, session)) != 0)
        session->sync->detach(session->pages);
    if (r == 0 && session->pages && reader->params.ahead && !session->peer_copy) {
        session->ahead.allowed = session->sync->can_wait(session->pages) == 0;
        if (!session->ahead.allowed)
            sl_log(SLUICE_LOG_WARN, "channel '%s': no frame is taken ahead, the CPU waits: %s", reader->base.name,
                   sl_last_error());
    }
    return r;
}

/* In order the writer has said where this reader begins. */
static void count_awaited(struct sl_session *session)
{
    struct sl_lease *lease = &session->lease;
    uint64_t first = sl_load(lease->page.cursor, acquire);

    if (lease->awaited && lease->mode == SLUICE_IN_ORDER && first > 1 && first <= SL_LAST_SEQUENCE)
        lease->skipped = first - 1;
}

int sl_session_open(const struct sl_reader *reader, struct sl_link *link, struct sl_session **out)
{
    struct sl_session *session = calloc(1, sizeof *session);
    int r;

    if (!session)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel '%s': no memory for a session", reader->base.name);
    session->link = link;
    session->lease = (struct sl_lease){
        .words = link->words,
        .page = link->page,
        .mode = reader->params.mode,
        .every = reader->params.every,
        .awaited = link->awaited,
    };
    count_awaited(session);
    if ((r = attach_device(reader, session)) != 0)
        free(session);
    else
        *out = session;
    return r;
}

/* ---- the thread ---- */

/* The newest link; NULL: there is nothing to do, and the thread ends. */
static struct sl_link *take_link(struct sl_reader *reader)
{
    sl_service_lock();
    struct sl_link *link = sl_load(&reader->closing, relaxed) || reader->next.failed ? NULL : reader->next.link;
    if (link) {
        reader->next.link = NULL;
        reader->next.opening = link;
    } else {
        reader->next.thread_runs = false;
        if (reader->next.link) /* acquire opens it, or says why it cannot */
            sl_wake_with_news(reader);
        else /* a program that polls has nothing to do */
            sl_wake_sleepers(reader);
    }
    sl_service_unlock();
    return link;
}

/* Without a session the link is kept: acquire tries again, and reports why. */
static void hand_over(struct sl_reader *reader, struct sl_link *link, struct sl_session *session)
{
    sl_service_lock();
    struct sl_session *unused = session ? reader->next.session : NULL;
    if (session) {
        reader->next.session = session;
        sl_wake_with_news(reader);
    } else if (reader->next.link) {
        sl_link_close(link); /* a later one has come meanwhile */
    } else {
        reader->next.link = link;
        reader->next.failed = true;
    }
    reader->next.opening = NULL;
    sl_service_unlock();
    sl_session_end(unused);
}

static void open_sessions(void *argument)
{
    struct sl_reader *reader = argument;
    struct sl_session *session;
    struct sl_link *link;

    while ((link = take_link(reader)) != NULL)
        hand_over(reader, link, sl_session_open(reader, link, &session) == 0 ? session : NULL);
    sl_object_drop(&reader->base.object);
}

bool sl_session_open_begin(struct sl_reader *reader)
{
    struct sl_next_session *next = &reader->next;

    if (!next->link || !next->use_thread || sl_load(&reader->closing, relaxed) ||
        next->link->memory_kind == SL_MEM_HOST)
        return false;
    next->failed = false;
    if (next->thread_runs)
        return true;
    sl_add(&reader->base.object.uses,
           1); /* its handle is valid: close sets `closing` under this lock before it ends the handle */
    next->thread_runs = sl_background_start(open_sessions, reader);
    if (!next->thread_runs)
        sl_add(&reader->base.object.uses, (uint32_t)-1);
    return next->thread_runs;
}

void sl_session_open_wait(struct sl_reader *reader)
{
    sl_service_lock();
    bool runs = reader->next.thread_runs;
    sl_service_unlock();
    if (runs)
        sl_background_await(reader->base.name);
}
