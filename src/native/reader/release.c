/* SPDX-License-Identifier: MIT
 *
 * A reader's release, which ends the lease of a frame: at once, or behind the work on a stream.
 */
#include <string.h>

#include "native/reader/acquire.h"
#include "native/reader/gpu_wait.h"
#include "native/reader/peer_copy.h"
#include "util/hooks.h"
#include "util/result.h"

#define DRAIN_TIMEOUT     (2 * SLUICE_S)   /* how long close waits for queued releases */
#define LATE_NS           (20 * SLUICE_MS) /* a release so late that the driver is queried about it */
#define SETTLE_INTERVAL   (5 * SLUICE_MS)  /* between checks of held frames, if there is room for others */
#define MIN_POLL_INTERVAL (SLUICE_MS / 20)
#define MAX_POLL_INTERVAL SLUICE_MS

/* The functions below return the next token of an entry whose frame is released. It is stored last: from then on its
 * memory, and an old session, may be freed. */

void sl_release_lease(struct sl_session *session, uint32_t slot)
{
    const struct sl_link *link = session->link;

    SL_KILL_POINT("before_release");
    sl_lease_end(&session->lease, slot);
    SL_KILL_POINT("after_release");
    if (sl_load(link->waiting, relaxed))
        (void)sl_os_send(link->wake_fd, "", 1, NULL, 0);
}

/* Ends it at once: no work uses the frame, or the work was lost with the device. */
static uint64_t end_now(const struct sl_held *entry)
{
    if (entry->copied)
        sl_store(entry->word, 0, release);
    else
        sl_release_lease(entry->session, entry->slot);
    return 0;
}

/* After a failure to queue the write of the word that ends it. */
static uint64_t handle_failed_signal(struct sl_reader *reader, const struct sl_held *entry)
{
    const struct sl_session *session = entry->session;

    if (session->sync->alive(session->pages) == 0)
        return SL_HELD_ENDING;
    sl_reader_disconnect(reader); /* the work has ended with the device (protocol 1.8) */
    return end_now(entry);
}

/* A deferred release; it has a reference to its stream. If the stream accepts no work any more, there is no order left
 * to keep. */
static bool retry_deferred(struct sl_deferred *deferred)
{
    struct sl_held *entry = (struct sl_held *)((char *)deferred - offsetof(struct sl_held, deferred));
    const struct sl_session *session = entry->session;
    struct sl_signal none = { entry->word, 0 };
    uint64_t next = SL_HELD_QUEUED;
    int r = session->sync->signal_held(session->pages, deferred->stream, deferred->thread, &none, 1);

    if (r == SLUICE_E_CAPTURING || r == SLUICE_E_NO_MEMORY)
        return false;
    if (r != 0 && (next = handle_failed_signal(entry->reader, entry)) == SL_HELD_ENDING)
        next = end_now(entry);
    sl_store(&entry->token, next, release);
    return true;
}

/* Defers it until the capture has ended. The stream must live until then, and until its work is done. */
static uint64_t defer(struct sl_reader *reader, struct sl_held *entry, struct sluice_stream stream, int *result)
{
    struct sl_stream_queue queue;

    (void)sl_stream_queue_of(stream, &queue);
    *result = sl_stream_hold(stream, &entry->deferred.stream);
    if (*result != 0)
        return SL_HELD_ENDING;
    entry->reader = reader;
    entry->deferred.thread = queue.thread;
    entry->deferred.run = retry_deferred;
    return SL_HELD_DEFERRED;
}

/* Ends it after the work on `stream`, by one queued write (R6); deferred while a capture prevents that (protocol
 * 3.14). SL_HELD_ENDING if that fails, with the failure in *result. */
static uint64_t end_on_stream(struct sl_reader *reader, struct sl_held *entry, struct sluice_stream stream, int *result)
{
    const struct sl_session *session = entry->session;
    struct sl_signal none = { entry->word, 0 };

    SL_KILL_POINT("before_release");
    *result = sl_stream_refused(reader->base.name, session->sync->signal(session->pages, stream, &none, 1));
    SL_KILL_POINT("after_release");
    if (*result == 0)
        return SL_HELD_QUEUED;
    return *result == SLUICE_E_CAPTURING ? defer(reader, entry, stream, result) : handle_failed_signal(reader, entry);
}

/* Is the work that uses the frame still running? If a kernel crashed, a queued release never runs, and
 * the driver reports that only when it is queried. */
static int check_work(struct sl_reader *reader, const struct sl_held *entry, int64_t *now)
{
    const struct sl_session *session = entry->session;
    const struct sl_link *link = session->link;
    if (*now == 0) /* once for all entries */
        *now = sl_os_now();
    uint64_t taken = sl_load(&link->page.lease_ns[entry->slot], relaxed) - (uint64_t)link->clock_offset_ns;

    if (*now - reader->probed_ns < LATE_NS || (int64_t)((uint64_t)*now - taken) < LATE_NS)
        return session->sync->alive(session->pages);
    reader->probed_ns = *now;
    return session->sync->probe(session->pages);
}

static void settle_entry(struct sl_reader *reader, struct sl_held *entry, int64_t *now)
{
    uint64_t token = sl_load(&entry->token, acquire);

    if (token == SL_HELD_DEFERRED) {
        sl_deferred_run(&entry->deferred);
    } else if (token == SL_HELD_QUEUED) {
        if (sl_load(entry->word, acquire) == 0 && !sl_peer_copy_is_busy(reader, entry))
            sl_store(&entry->token, 0, release);
        else if (check_work(reader, entry, now) != 0)
            sl_store(&entry->token, end_now(entry), release);
    } else if (token > SL_HELD_DEFERRED && entry->on_stream) {
        (void)check_work(reader, entry, now); /* acquire reports a lost device */
    }
}

void sl_release_settle(struct sl_reader *reader)
{
    int64_t now = 0;

    if (sl_load(&reader->may_be_deferred, relaxed))
        (void)sl_exchange(&reader->may_be_deferred, 0); /* before the entries are checked, not after */
    for (uint32_t i = 0; i < reader->params.hold; i++)
        settle_entry(reader, &reader->held[i], &now);
    if (sl_release_deferred(reader))
        sl_store(&reader->may_be_deferred, 1, relaxed);
}

/* The words of queued releases are on cache lines that a GPU writes: checking all of them for each frame would cost
 * more than the rest of acquire. */
void sl_release_settle_if_due(struct sl_reader *reader)
{
    if (!reader->old && !sl_load(&reader->may_be_deferred, relaxed) && sl_held_find_free(reader)) {
        int64_t now = sl_os_now_coarse();
        if (now - reader->settled_ns < SETTLE_INTERVAL)
            return;
        reader->settled_ns = now;
    }
    sl_release_settle(reader);
}

static bool has_token(const struct sl_reader *reader, uint64_t token)
{
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire) == token)
            return true;
    return false;
}

bool sl_release_queued(const struct sl_reader *reader)
{
    return has_token(reader, SL_HELD_QUEUED) || has_token(reader, SL_HELD_DEFERRED);
}

bool sl_release_deferred(const struct sl_reader *reader)
{
    return has_token(reader, SL_HELD_DEFERRED);
}

bool sl_release_drain(struct sl_reader *reader)
{
    int64_t deadline = sl_os_deadline(DRAIN_TIMEOUT), interval = MIN_POLL_INTERVAL;

    for (;;) {
        int64_t now = sl_os_now(); /* read first: this thread may be suspended after the check */
        sl_release_settle(reader);
        if (!sl_release_queued(reader))
            return true;
        if (now >= deadline)
            return false;
        sl_os_sleep(interval);
        interval = interval * 2 < MAX_POLL_INTERVAL ? interval * 2 : MAX_POLL_INTERVAL;
    }
}

/* May the frame be released on this stream? */
static int check_stream(const struct sl_reader *reader, const struct sl_held *entry, struct sluice_stream stream)
{
    const struct sl_session *session = entry->session;

    if (stream.id != SLUICE_ON_CPU.id) /* if the stream must write a word, that call checks it */
        return session->pages ? 0 : sl_stream_refused(reader->base.name, session->sync->check(session->pages, stream));
    if (entry->on_stream) /* protocol 1.15 */
        return sl_fail(
            SLUICE_E_INVALID,
            "channel '%s': this frame was acquired for a stream, whose work may still read it: release it on a stream",
            reader->base.name);
    return 0;
}

int sl_native_release(struct sluice_reader *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_reader *reader = sl_reader_of(base);
    struct sl_held *entry = sl_held_find(reader, frame);
    uint64_t token = frame->opaque[SL_FRAME_TOKEN], expected = token, next;
    int r;

    if (!entry)
        return SLUICE_E_STALE;
    if ((r = check_stream(reader, entry, stream)) != 0)
        return r;
    /* If several threads release the same frame, only one succeeds. */
    if (!atomic_compare_exchange_strong_explicit(&entry->token, &expected, SL_HELD_ENDING, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame was released already", reader->base.name);

    const struct sl_link *link = entry->session->link;
    next = entry->session->pages && stream.id != SLUICE_ON_CPU.id ? end_on_stream(reader, entry, stream, &r)
                                                                  : end_now(entry);
    if (next == SL_HELD_ENDING) { /* it is held as before */
        sl_store(&entry->token, token, release);
        return r;
    }
    bool lost = r == 0 && !entry->copied && sl_held_is_evicted(link);
    bool unfinished = entry->on_stream && sl_load(&reader->unreported, acquire) != 0 &&
                      sl_gpu_wait_was_lost(entry->session, entry->slot, entry->sequence);
    sl_timing_released(&reader->timing, &link->page, token);
    SL_SPAN_END(READ, &entry->span);
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
    sl_store(&entry->token, next, release);
    if (next == SL_HELD_DEFERRED) {
        sl_store(&reader->may_be_deferred, 1, release);
        sl_deferred_add(&entry->deferred);
    }
    if (lost)
        return sl_fail(SLUICE_E_LOST,
                       "channel '%s': the writer took this frame back while it was read: it may not have been whole",
                       reader->base.name);
    if (unfinished)
        return sl_fail(SLUICE_E_LOST,
                       "channel '%s': its writer did not finish this frame: discard everything computed from it",
                       reader->base.name);
    return r;
}
