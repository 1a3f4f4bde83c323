/* SPDX-License-Identifier: MIT
 *
 * A reader follows the sessions of its writer: it opens their slots, and leaves them when they end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/result.h"

#define CLOSE_TIMEOUT  (500 * SLUICE_MS) /* for other sessions' handles to be closed */
#define MIN_CLOSE_WAIT (2 * SLUICE_MS)   /* also in a call that is not to wait: mostly they are closed by then */

bool sl_cipd_is_gone(enum sl_cipd_reason reason)
{
    return reason == SL_CIPD_REASON_NOT_TRIED || reason == SL_CIPD_REASON_ABSENT || reason == SL_CIPD_REASON_SHUT ||
           reason == SL_CIPD_REASON_DEAD;
}

bool sl_cipd_is_refusal(int result)
{
    return result == SLUICE_E_FORMAT || result == SLUICE_E_UNSUPPORTED;
}

/* ---- leaving ---- */

void sl_cipd_link_drop(struct sl_cipd_reader *reader, struct sl_cipd_link *link)
{
    if (--link->users > 0)
        return;
    sl_cipd_overwrite_checks_destroy(reader, link->checks_queued);
    sl_cipd_free_queue_add(reader->free_queue, link->pool, 0);
    free(link);
}

void sl_cipd_held_end(struct sl_cipd_reader *reader, struct sl_cipd_held *held)
{
    sl_cipd_link_drop(reader, held->link);
    held->link = NULL;
    held->waits = SL_CIPD_READY;
    sl_store(&held->token, 0, release);
}

void sl_cipd_reader_drop(struct sl_cipd_reader *reader, enum sl_cipd_reason reason, bool again)
{
    struct sl_cipd_link *link = reader->link;

    sl_mutex_lock(&reader->lock);
    reader->link = NULL;
    if (link)
        sl_cipd_link_drop(reader, link);
    sl_cipd_read_drop(&reader->consumer, reason);
    if (again)
        sl_cipd_read_retry_now(&reader->consumer);
    sl_mutex_unlock(&reader->lock);
    if (link) {
        reader->awaited = true;
        if (reader->counted)
            reader->counted_before = reader->counted;
    }
    reader->pending.index = reader->tries = 0;
    if (link && reader->cipd.reconnect == SLUICE_CIPD_OFF)
        reader->over = true;
}

/* ---- opening ---- */

static bool holds_frames(const struct sl_cipd_reader *reader)
{
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire))
            return true;
    return false;
}

/* Does this process have any of these handles open? The caller only asks if this reader's frames of the last session
 * may have them open; another reader of this process has the current memory open. */
static bool is_doubtful(const struct sl_cipd_session *session)
{
    for (uint32_t i = 0; i < session->layout.slots; i++) {
        struct sl_cu_memory_handle handle;
        memcpy(&handle, session->handles[i].memory, sizeof handle);
        if (sl_cuda_ipc_is_open(&handle))
            return true;
    }
    return false;
}

static void set_close_until(struct sl_cipd_reader *reader, int64_t until)
{
    sl_mutex_lock(&reader->lock);
    reader->close_until = until;
    sl_mutex_unlock(&reader->lock);
}

/* A handle cannot be opened twice in one process, so those of the last session are closed first. The driver waits for
 * this program's work with that, and the call for the driver, as long as the caller lets it: SLUICE_AGAIN leaves the
 * rest to the next one. 0 with `closing`: not even in CLOSE_PATIENCE. */
static int await_closed(struct sl_cipd_reader *reader, bool *closing)
{
    int64_t now = sl_os_now(), until = reader->until;

    if (reader->close_until == 0) {
        set_close_until(reader, now + CLOSE_TIMEOUT);
        until = until > now + MIN_CLOSE_WAIT ? until : now + MIN_CLOSE_WAIT;
    }
    until = until < reader->close_until ? until : reader->close_until;
    *closing = sl_cipd_free_queue_wait(reader->free_queue, until > now ? until - now : 0) != 0;
    if (*closing && sl_os_now() < reader->close_until)
        return sl_fail(SLUICE_AGAIN,
                       "channel 'cipd:%s': its writer has begun anew, and the memory from before is not closed here "
                       "yet: the driver "
                       "waits for work of this program",
                       reader->base.name);
    set_close_until(reader, 0);
    return 0;
}

static int open_link(struct sl_cipd_reader *reader)
{
    const struct sl_cipd_session *session = &reader->consumer.session;
    struct sl_cipd_link *link = calloc(1, sizeof *link);
    bool closing;
    int r;

    if (!link)
        return sl_fail(SLUICE_E_NO_MEMORY, "channel 'cipd:%s': no memory for a session", reader->base.name);
    if ((r = sl_cipd_format_as(&session->format, &reader->cipd, &link->format)) == 0 &&
        (r = await_closed(reader, &closing)) == 0) {
        link->doubtful = (closing || holds_frames(reader)) && is_doubtful(session);
        r = sl_cipd_pool_open(reader->free_queue, reader->base.name, reader->device, session, &link->pool);
    }
    if (r != 0) {
        free(link);
        return r;
    }
    link->users = 1;
    link->session = sl_os_random();
    sl_geometry_from_array(&link->geometry, &link->format.arrays[0]);
    sl_mutex_lock(&reader->lock);
    link->generation = ++reader->generation;
    reader->link = link;
    reader->last_index = 0;
    sl_mutex_unlock(&reader->lock);
    reader->oldest = reader->counted = 0;
    reader->shut = false;
    sl_store(&reader->sessions, sl_load(&reader->sessions, relaxed) + 1, relaxed);
    return 0;
}

int sl_cipd_reader_find_session(struct sl_cipd_reader *reader, int64_t now)
{
    int r = 0;

    sl_mutex_lock(&reader->lock);
    if (sl_exchange(&reader->retry, 0))
        sl_cipd_read_retry_now(&reader->consumer);
    SL_STAGE_BEGIN(CONNECT);
    if (!reader->consumer.session.layout.slots)
        r = sl_cipd_read_connect(&reader->consumer, now);
    SL_STAGE_END(CONNECT);
    if (r != 0 && reader->consumer.reason == SL_CIPD_REASON_ABSENT) {
        reader->awaited = true;
        reader->counted_before = 0;
    }
    sl_mutex_unlock(&reader->lock);
    return r;
}

void sl_cipd_reader_retry(struct sl_cipd_reader *reader)
{
    sl_store(&reader->retry, 1, release);
    sl_add(&reader->bell, 1);
    sl_os_futex_wake(&reader->bell, INT32_MAX);
}

static void name_changed(struct sl_name_watch *watch)
{
    sl_cipd_reader_retry(
        (struct sl_cipd_reader *)(void *)((char *)watch - offsetof(struct sl_cipd_reader, name_watch)));
}

void sl_cipd_reader_watch_name(struct sl_cipd_reader *reader)
{
    if (reader->name_watch.changed)
        return;
    sl_service_lock();
    reader->name_watch = (struct sl_name_watch){ .name = reader->base.name, .changed = name_changed };
    (void)sl_name_watch_join(&reader->name_watch, NULL);
    sl_service_unlock();
}

int sl_cipd_reader_connect(struct sl_cipd_reader *reader, int64_t now)
{
    int r;

    if (reader->link)
        return 0;
    if (reader->over)
        return sl_fail(SLUICE_CLOSED, "channel 'cipd:%s': its session has ended, and this reader does not reconnect",
                       reader->base.name);
    if ((r = sl_cuda_alive(reader->context)) != 0)
        return r;
    if ((r = sl_cipd_reader_find_session(reader, now)) != 0)
        return reader->consumer.reason == SL_CIPD_REASON_HANDLES_FAILED ? sl_fail_text(r, reader->unopened) : r;
    r = open_link(reader);
    if (r == SLUICE_AGAIN)
        return r;
    if (r != 0) {
        snprintf(reader->unopened, sizeof reader->unopened, "%s", sl_last_error());
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_HANDLES_FAILED, false);
        /* Not a failure if the writer has just ended or begun a new session: handles and format may be of two sessions
         * then. */
        return sl_fail_text(r == SLUICE_E_UNSUPPORTED || r == SLUICE_E_PROTOCOL ? SLUICE_NO_WRITER : r,
                            reader->unopened);
    }
    return 0;
}
