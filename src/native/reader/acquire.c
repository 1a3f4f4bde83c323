/* SPDX-License-Identifier: MIT
 *
 * A reader's acquire: takes the next frame, or switches to another session, or waits.
 */
#include <stdio.h>

#include "native/reader/acquire.h"
#include "native/reader/gpu_wait.h"
#include "util/result.h"

#define RETRIES_BEFORE_YIELD 64 /* protocol 1.14 */

/* ---- messages ---- */

/* With the message of the last attempt to find a writer, if it failed. */
static int report_no_writer(const struct sl_reader *reader, int result, const char *why)
{
    char text[sizeof reader->join->text];

    sl_service_lock();
    snprintf(text, sizeof text, "%s", reader->join && reader->join->result ? reader->join->text : "");
    sl_service_unlock();
    return sl_fail(result, "channel '%s' %s%s%s", reader->base.name, why, text[0] ? ": " : "", text);
}

static int report_timeout(const struct sl_reader *reader)
{
    if (reader->session && !sl_wait_over(reader->session))
        return sl_fail(SLUICE_TIMEOUT, "channel '%s' has a writer, but no new frame came in time", reader->base.name);
    return report_no_writer(reader, SLUICE_NO_WRITER, "has no writer at the moment");
}

static int report_hold_limit(const struct sl_reader *reader)
{
    char list[160] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < SLUICE_MAX_SLOTS && used < sizeof list - 24; i++)
        if (sl_load(&reader->held[i].token, acquire) > SL_HELD_DEFERRED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", used ? ", " : "",
                                     (unsigned long long)reader->held[i].sequence);
    return sl_fail(SLUICE_E_LIMIT,
                   "channel '%s': this reader holds %u frames already (%s): release one, or open it with a larger hold",
                   reader->base.name, sl_held_most(reader), list);
}

/* ---- checks before a frame is taken ---- */

/* The session of the next frame decides whether the stream is of the right device. If this session is over, that may be
 * a later one. */
static int check_stream(struct sl_reader *reader, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    int r = session->sync->check(session->pages, stream);

    if (r != SLUICE_E_WRONG_DEVICE)
        return r;
    session->wrong_device = sl_wait_over(session);
    if (session->wrong_device)
        return 0;
    if (reader->device_changed)
        return sl_fail(r, "channel '%s': its writer came back on another device: %s", reader->base.name,
                       sl_last_error());
    return sl_stream_refused(reader->base.name, r);
}

static int check_device(struct sl_reader *reader, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    int r;

    if (!session)
        return sl_stream_check(stream, NULL);
    session->wrong_device = false;
    if ((r = session->sync->alive(session->pages)) != 0) {
        sl_reader_disconnect(reader);
        return r;
    }
    return stream.id != SLUICE_ON_CPU.id ? check_stream(reader, stream) : 0;
}

/* Waits for one of the queued releases. */
static int wait_for_release(struct sl_reader *reader, int64_t deadline)
{
    int64_t now = sl_os_now(), spin_end = sl_wait_spins_until(reader, deadline);

    while (!sl_held_find_free(reader)) {
        if (sl_load(&reader->closing, acquire))
            return 0;
        if (now >= deadline)
            return sl_fail(
                SLUICE_TIMEOUT,
                "channel '%s': all %u frames that this reader may hold are still being worked on; a larger hold "
                "lets it run ahead",
                reader->base.name, sl_held_most(reader));
        if (now < spin_end)
            sl_pause();
        else
            (void)sl_os_futex_wait_precise(&reader->closing, 0, now + SL_POLL_INTERVAL_NS);
        sl_release_settle(reader);
        now = sl_os_now();
    }
    return 0;
}

static void set_deadline(int64_t *deadline, int64_t timeout_ns)
{
    if (*deadline == 0 && timeout_ns > 0)
        *deadline = sl_os_deadline(timeout_ns);
}

static int check_room(struct sl_reader *reader, int64_t timeout_ns, int64_t *deadline)
{
    if (sl_held_find_free(reader))
        return 0;
    if (!sl_release_queued(reader))
        return report_hold_limit(reader);
    set_deadline(deadline, timeout_ns);
    int r = wait_for_release(reader, *deadline);
    if (r == 0)
        reader->now = 0;
    return r;
}

static int check_eviction(const struct sl_reader *reader)
{
    struct sl_session *session = reader->session;

    if (!session || !sl_wait_evicted(session) || session->reported_evicted)
        return 0;
    session->reported_evicted = true;
    return sl_fail(SLUICE_E_LOST,
                   "channel '%s': the writer evicted this reader, which held a frame too long or hung up on it",
                   reader->base.name);
}

/* May a frame be taken? 0, or what acquire returns. */
static int check_may_take(struct sl_reader *reader, struct sluice_stream stream, int64_t timeout_ns, int64_t *deadline)
{
    int r;

    if ((r = check_device(reader, stream)) != 0 || (r = sl_gpu_wait_report(reader)) != 0)
        return r;
    if ((r = check_room(reader, timeout_ns, deadline)) != 0)
        return r;
    if (sl_load(&reader->closing, acquire))
        return sl_fail(SLUICE_E_CLOSED, "channel '%s': the reader was closed meanwhile", reader->base.name);
    return check_eviction(reader);
}

/* ---- taking a frame ---- */

/* The frame is of a session that is over, and the stream of another device: the frame stays for a call with a stream of
 * its own device, if it can be taken at all. */
static int refuse_stream(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    struct sl_link_memory *memory;
    int r = sl_slot_map_get(session, slot, sl_link_record(session->link, slot), &memory);

    if (r != 0)
        return r;
    (void)session->sync->check(session->pages, stream); /* its message names the devices */
    return sl_fail(SLUICE_E_WRONG_DEVICE, "channel '%s': its writer has ended, and frame %llu is left of it: %s",
                   reader->base.name, (unsigned long long)sequence, sl_last_error());
}

static int fill_or_refuse(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                          struct sluice_frame *frame)
{
    return reader->session->wrong_device ? refuse_stream(reader, slot, sequence, stream)
                                         : sl_frame_fill(reader, slot, sequence, stream, frame);
}

static int give_up_frame(struct sl_reader *reader, uint64_t sequence)
{
    reader->session->lease.given_up = sequence;
    return SLUICE_TIMEOUT;
}

/* Makes a frame of a leased slot, whose memory may not have arrived yet: waits for it until the deadline
 * (protocol 2.4). */
static int fill_when_mapped(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                            int64_t deadline, struct sluice_frame *frame)
{
    const struct sl_link *link = reader->session->link;
    int r;

    while ((r = fill_or_refuse(reader, slot, sequence, stream, frame)) == SLUICE_AGAIN) {
        if (sl_load(&link->gone, acquire))
            return give_up_frame(reader, sequence); /* the memory will not arrive by this link */
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the memory of frame %llu has not come yet", reader->base.name,
                           (unsigned long long)sequence);
        SL_STAGE_BEGIN(WAIT_FRAME);
        (void)sl_wait_for_news(reader, deadline, true);
        reader->now = 0;
        SL_STAGE_END(WAIT_FRAME);
        sl_session_handle_news(reader);
    }
    if (r == SLUICE_E_UNSUPPORTED && sl_load(&link->gone, acquire))
        return give_up_frame(reader, sequence); /* its memory ended with its writer */
    return r;
}

static void count_retries(struct sl_reader *reader, uint64_t retries)
{
    struct sl_lease *lease = &reader->session->lease;

    if (retries)
        sl_store(&reader->counts.retries, sl_load(&reader->counts.retries, relaxed) + retries, relaxed);
    if (lease->lost)
        sl_add(&reader->counts.lost, lease->lost);
    lease->lost = 0;
}

/* Leases the next frame: 0; SLUICE_TIMEOUT if there is none; SLUICE_AGAIN if the writer overwrote every one of them in
 * time. */
static int lease_next(struct sl_reader *reader, int64_t deadline, uint32_t *slot, uint64_t *sequence)
{
    uint64_t retries = 0;
    int leased;

    while ((leased = sl_lease_take(&reader->session->lease, sequence)) == SL_LEASE_RETRY) {
        if (++retries % RETRIES_BEFORE_YIELD != 0)
            continue;
        sl_os_yield();
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the writer outran this reader %d times", reader->base.name,
                           (int)retries);
    }
    count_retries(reader, retries);
    *slot = (uint32_t)leased;
    return leased < 0 ? SLUICE_TIMEOUT : 0;
}

/* `awaited`: acquire has polled for this frame, so it knows about when the frame became ready. */
static int take_ready(struct sl_reader *reader, bool awaited, struct sluice_stream stream, int64_t deadline,
                      struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    uint64_t sequence = 0;
    uint32_t slot;
    int r = lease_next(reader, deadline, &slot, &sequence);

    if (r != 0)
        return r;
    int64_t found = awaited ? sl_os_now() : 0; /* before its memory is waited for, or copied */
    r = fill_when_mapped(reader, slot, sequence, stream, deadline, frame);
    if (r != 0)
        sl_lease_end(&session->lease, slot);
    else if (session->pages)
        sl_wait_update_estimate(session, found, frame->commit_ns, sl_load(&reader->counts.latency_ns, relaxed));
    if (r == SLUICE_E_PROTOCOL &&
        sl_load(session->link->page.evicted, seq_cst)) /* the frame is not damaged, but overwritten */
        r = sl_fail(SLUICE_AGAIN, "channel '%s': the writer is evicting this reader", reader->base.name);
    return r;
}

/* 0; SLUICE_TIMEOUT if there is no frame to take; SLUICE_AGAIN, or a failure. */
static int take_frame(struct sl_reader *reader, struct sluice_stream stream, int64_t deadline,
                      struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    int r;

    if (!session || sl_wait_evicted(session)) /* the writer would ignore the lease */
        return SLUICE_TIMEOUT;
    sl_prefetch_newest(session);
    sl_slot_map_prune(reader);
    uint64_t want = sl_lease_want(&session->lease);
    session->ahead.on_stream = session->ahead.allowed && stream.id != SLUICE_ON_CPU.id && !session->wrong_device;
    if (session->ahead.on_stream && sl_lease_is_ahead(&session->lease) && !sl_acquire_poll_briefly(reader)) {
        if ((r = sl_acquire_ahead(reader, stream, frame)) != SLUICE_TIMEOUT)
            return r;
        session->ahead.refused = want;
    }
    return take_ready(reader, session->awaited.sequence == want, stream, deadline, frame);
}

/* ---- acquire ---- */

static bool may_retry(int result)
{
    return result == SLUICE_TIMEOUT || result == SLUICE_AGAIN;
}

/* The session is over, and has no frame that can be taken. SLUICE_AGAIN: there may be one now; SLUICE_TIMEOUT: no other
 * writer is there yet; else what acquire returns. */
static int switch_session(struct sl_reader *reader)
{
    int r;

    if (sl_session_give_up(reader) || (r = sl_session_switch(reader)) == 0)
        return SLUICE_AGAIN;
    if (r < 0)
        return r;
    if (reader->session && sl_load(reader->session->link->closed, acquire)) {
        reader->session->reported_closed = true;
        return report_no_writer(reader, SLUICE_CLOSED, "was closed by its writer");
    }
    return SLUICE_TIMEOUT;
}

/* Prefetches, and reads the clock meanwhile; a caller that polls mostly finds no frame, and needs no time. */
static void prepare_acquire(struct sl_reader *reader, int64_t timeout_ns)
{
    reader->now = 0;
    if (!reader->session)
        return;
    sl_prefetch_expected(reader->session);
    if (timeout_ns > 0)
        reader->now = sl_os_now();
}

/* True: a frame became ready, and should be taken at once. */
static bool wait_for_frame(struct sl_reader *reader, int64_t deadline)
{
    SL_STAGE_BEGIN(WAIT_FRAME);
    bool ready = sl_wait_for_news(reader, deadline, false);
    SL_STAGE_END(WAIT_FRAME);
    return ready;
}

static int acquire_frame(struct sl_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                         struct sluice_frame *frame)
{
    int64_t deadline = 0; /* the first attempt does not wait */
    int r;

    prepare_acquire(reader, timeout_ns);
    for (;;) {
        sl_session_handle_news(reader);
        if ((r = check_may_take(reader, stream, timeout_ns, &deadline)) != 0)
            return r;
        /* Before the attempt, which then sees all frames that were published before the end of the session. */
        bool over = !reader->session || sl_wait_over(reader->session);
        if (over && sl_session_rejoin(reader)) {
            reader->now = 0;
            continue;
        }
        if (!may_retry(r = take_frame(reader, stream, deadline, frame)))
            return r;
        sl_release_settle(reader); /* there is time for it, as no frame can be taken */
        reader->now = 0;
        set_deadline(&deadline, timeout_ns);
        if (r == SLUICE_AGAIN && sl_os_now() >= deadline)
            return r;
        if (r == SLUICE_TIMEOUT && over && !may_retry(r = switch_session(reader)))
            return r;
        if (r == SLUICE_AGAIN)
            continue;
        if (timeout_ns == 0 || sl_os_now() >= deadline)
            return report_timeout(reader);
        if (wait_for_frame(reader, deadline) && !may_retry(r = take_frame(reader, stream, deadline, frame)))
            return r;
    }
}

int sl_native_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns,
                      struct sluice_frame *frame)
{
    struct sl_reader *reader = sl_reader_of(base);
    int r = acquire_frame(reader, stream, timeout_ns, frame);

    if (reader->poll.epoll >= 0)
        sl_poll_fd_update(reader);
    return r;
}
