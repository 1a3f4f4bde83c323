/* SPDX-License-Identifier: MIT
 *
 * A reader's acquire: takes a frame, possibly before it is ready, or switches to another session, or waits.
 */
#include <stdio.h>

#include "native/reader/acquire.h"
#include "native/reader/gpu_wait.h"
#include "util/result.h"

#define RETRIES_BEFORE_YIELD 64 /* protocol 1.14 */

/* The frame is of a session that is over, and the stream of another device: so it stays for a call with a stream of its own, if
 * it can be taken at all. */
static int refuse(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    struct sl_link_memory *memory;
    int r = sl_session_map(session, slot, sl_link_record(session->link, slot), &memory);

    if (r != 0)
        return r;
    (void)session->sync->check(session->pages, stream); /* says of which devices they are */
    return sl_fail(SLUICE_E_WRONG_DEVICE, "channel '%s': its writer has ended, and frame %llu is left of it: %s", reader->base.name,
                   (unsigned long long)sequence, sl_last_error());
}

/* The slot is held, but its memory has not arrived: waits for it within the caller's timeout (protocol 2.4). */
static int wait_for_memory(struct sl_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                           int64_t deadline, struct sluice_frame *frame)
{
    bool wrong_device = reader->session->wrong_device;
    int r;

    while ((r = wrong_device ? refuse(reader, slot, sequence, stream) : sl_take_frame(reader, slot, sequence, stream, frame)) ==
           SLUICE_AGAIN) {
        if (sl_load(&reader->session->link->gone, acquire)) {
            reader->session->lease.given_up = sequence; /* it never will, by this link */
            return SLUICE_TIMEOUT;
        }
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the memory of frame %llu has not come yet", reader->base.name,
                           (unsigned long long)sequence);
        SL_STAGE_BEGIN(WAIT_FRAME);
        (void)sl_wait_for_news(reader, deadline, true);
        reader->now = 0;
        SL_STAGE_END(WAIT_FRAME);
        sl_session_attend(reader);
    }
    if (r == SLUICE_E_UNSUPPORTED && sl_load(&reader->session->link->gone, acquire)) {
        reader->session->lease.given_up = sequence; /* its memory ended with its writer */
        return SLUICE_TIMEOUT;
    }
    return r;
}

/* ---- ahead ---- */

#define NEARLY (5 * INT64_C(1000)) /* ns that a wait on the GPU costs beyond the readiness of what it waits for */
#define SELDOM 64 /* frames */

/* A waiting stream continues some microseconds after the frame is ready. Work queued once the CPU has seen the frame ready
 * runs sooner, and no stream waits. So the CPU polls that long first; the more often it polls in vain, the less often it
 * does. */
static bool is_nearly_ready(struct sl_reader *reader)
{
    struct sl_session *session = reader->session;

    if (session->park_at_once > 0) {
        session->park_at_once--;
        return false;
    }
    int64_t until = sl_os_deadline(NEARLY);
    bool ready = false;
    reader->now = 0;
    for (int turn = 1; !ready && (turn % 4 != 0 || sl_os_now() < until); turn++) {
        (void)sl_lines_watch(session); /* watches the newest frame, which may be another one */
        ready = !sl_lease_is_ahead(&session->lease);
    }
    session->park_next = ready ? 0 : session->park_next < SELDOM / 2 ? session->park_next * 2 + 1 : SELDOM;
    session->park_at_once = session->park_next;
    return ready;
}

#define A_FEW 8 /* frames, besides those for which the CPU will not poll first */

/* A frame is late, and the next ones may be, too. The writer raises words that streams can wait for only for as many frames as
 * readers request. Between two frames that this reader takes there may be many others. */
static void ask_for_words(const struct sl_session *session)
{
    uint64_t head = sl_head_sequence(sl_load(session->lease.words.head, relaxed)), last = session->lease.last;
    uint64_t ahead = (session->park_next + A_FEW) * (last != 0 && head > last ? head - last : 1);

    if (sl_load(session->link->page.own_to, relaxed) < head + ahead / 2) /* not each time: the writer reads this cache line */
        sl_store(session->link->page.own_to, head + ahead, relaxed);
}

/* Takes a slot and queues a wait on the stream for its frame; SL_LEASE_NONE if the CPU has to wait, or
 * with a failure in *result. */
static int take_ahead(struct sl_reader *reader, const struct sl_stream *stream, uint64_t *sequence, int *result)
{
    struct sl_session *session = reader->session;
    const struct sl_page *page = &session->link->page;
    struct sl_link_memory *memory;
    int slot = sl_lease_take_ahead(&session->lease, sequence);

    if (slot < 0)
        return SL_LEASE_NONE;
    uint64_t from = sl_load(page->own_from, acquire);
    bool may = from != 0 && *sequence >= from && !sl_load(&session->poisoned[slot], relaxed) &&
               sl_session_map(session, (uint32_t)slot, sl_link_record(session->link, (uint32_t)slot),
                              &memory) == 0 &&
               sl_gpu_wait_begin(reader, (uint32_t)slot, *sequence, stream);
    if (may) {
        int r = session->sync->await(session->pages, stream, &page->own_ready[slot], *sequence);
        if (r == 0)
            return slot;
        sl_gpu_wait_cancel(reader, (uint32_t)slot, *sequence);
        *result = r;
    }
    sl_lease_end(&session->lease, (uint32_t)slot);
    return SL_LEASE_NONE;
}

static int try_ahead(struct sl_reader *reader, struct sluice_stream stream, struct sluice_frame *frame)
{
    struct sl_stream *held;
    uint64_t sequence;
    int slot, r = sl_stream_hold(stream, &held);

    if (r != 0)
        return r;
    if (!reader->now)
        reader->now = sl_os_now();
    slot = take_ahead(reader, held, &sequence, &r);
    sl_object_drop(&held->object);
    if (slot < 0)
        return r != 0 ? r : SLUICE_TIMEOUT;
    r = sl_take_frame(reader, (uint32_t)slot, sequence, stream, frame);
    if (r == 0)
        frame->flags |= SLUICE_FRAME_AHEAD;
    else
        sl_lease_end(&reader->session->lease, (uint32_t)slot); /* the queued wait is useless but harmless */
    return r;
}

/* ---- acquire ---- */

/* 0, SLUICE_TIMEOUT if there is no frame to take, or a failure. */
static int try_take(struct sl_reader *reader, struct sluice_stream stream, int64_t deadline,
                    struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    uint64_t sequence = 0, want;
    int slot, r, retries = 0;

    /* A live writer ignores the leases of a reader that it has evicted. */
    if (!session || sl_wait_evicted(session))
        return SLUICE_TIMEOUT;
    sl_lines_newest(session);
    sl_session_prune(reader);
    want = sl_lease_want(&session->lease);
    session->ahead_now = session->ahead && stream.id != SLUICE_ON_CPU.id && !session->wrong_device;
    if (session->ahead_now && sl_lease_is_ahead(&session->lease) && !is_nearly_ready(reader)) {
        ask_for_words(session);
        if ((r = try_ahead(reader, stream, frame)) != SLUICE_TIMEOUT)
            return r;
        session->refused = want;
    }
    while ((slot = sl_lease_take(&session->lease, &sequence)) == SL_LEASE_RETRY) {
        if (++retries % RETRIES_BEFORE_YIELD != 0)
            continue;
        sl_os_yield();
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the writer outran this reader %d times", reader->base.name, retries);
    }
    if (retries)
        sl_store(&reader->retries, sl_load(&reader->retries, relaxed) + (uint64_t)retries, relaxed);
    if (session->lease.lost) {
        sl_add(&reader->lost, session->lease.lost);
        session->lease.lost = 0;
    }
    if (slot < 0)
        return SLUICE_TIMEOUT;
    int64_t found = session->awaited == want ? sl_os_now() : 0; /* before its memory is waited for, or copied */
    r = wait_for_memory(reader, (uint32_t)slot, sequence, stream, deadline, frame);
    if (r != 0)
        sl_lease_end(&session->lease, (uint32_t)slot);
    else if (session->pages)
        sl_wait_taken(session, found, frame->commit_ns, sl_load(&reader->latency_ns, relaxed));
    if (r == SLUICE_E_PROTOCOL && sl_load(session->link->page.evicted, seq_cst))
        r = sl_fail(SLUICE_AGAIN, "channel '%s': the writer is evicting this reader", reader->base.name); /* no damage */
    return r;
}

/* With the message of the last attempt to find a writer, if it failed. */
static int no_session(const struct sl_reader *reader, int result, const char *why)
{
    char text[sizeof reader->join->text];

    sl_service_lock();
    snprintf(text, sizeof text, "%s", reader->join && reader->join->result ? reader->join->text : "");
    sl_service_unlock();
    return sl_fail(result, "channel '%s' %s%s%s", reader->base.name, why, text[0] ? ": " : "", text);
}

static int nothing_came(const struct sl_reader *reader)
{
    if (reader->session && !sl_wait_over(reader->session))
        return sl_fail(SLUICE_TIMEOUT, "channel '%s': no new frame came in time", reader->base.name);
    return no_session(reader, SLUICE_NO_WRITER, "has no writer at the moment");
}

static int too_many(const struct sl_reader *reader)
{
    char list[160] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < SLUICE_MAX_SLOTS && used < sizeof list - 24; i++)
        if (sl_load(&reader->held[i].token, acquire) > SL_HELD_DEFERRED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", used ? ", " : "",
                                     (unsigned long long)reader->held[i].sequence);
    return sl_fail(SLUICE_E_LIMIT, "channel '%s': this reader holds %u frames already (%s): release one, or open it with a larger hold",
                   reader->base.name, reader->params.hold, list);
}

/* Some of the frames that it holds have a queued release: waits for one of them. */
static int wait_for_room(struct sl_reader *reader, int64_t deadline)
{
    int64_t now = sl_os_now(), end = sl_wait_spins_until(reader, deadline);

    while (!sl_take_entry(reader)) {
        if (sl_load(&reader->closing, acquire))
            return 0;
        if (now >= deadline)
            return sl_fail(SLUICE_TIMEOUT,
                           "channel '%s': all %u frames that this reader may hold are still being worked on; a larger hold "
                           "lets it run ahead",
                           reader->base.name, reader->params.hold);
        if (now < end)
            sl_pause();
        else
            (void)sl_os_nap(&reader->closing, 0, now + SL_DUE_LOOK);
        sl_release_settle(reader);
        now = sl_os_now();
    }
    return 0;
}

/* The session that the next frame is of decides whether the stream is of the right device. If this one is over, that may be a
 * later one. */
static int check_stream(struct sl_reader *reader, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    int r = session->sync->check(session->pages, stream);

    if (r != SLUICE_E_WRONG_DEVICE)
        return r;
    session->wrong_device = sl_wait_over(session);
    if (session->wrong_device)
        return 0;
    if (reader->moved)
        return sl_fail(r, "channel '%s': its writer came back on another device: %s", reader->base.name, sl_last_error());
    return sl_stream_refused(reader->base.name, r);
}

static int check_device(struct sl_reader *reader, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    int r;

    if (!session)
        return sl_stream_check(stream, NULL);
    session->wrong_device = false;
    if ((r = session->sync->alive(session->pages)) != 0)
        sl_session_fail(reader);
    else if (stream.id != SLUICE_ON_CPU.id)
        r = check_stream(reader, stream);
    return r;
}

/* May a frame be taken? 0, or what acquire returns. *deadline is 0 until there was a wait. */
static int may_take(struct sl_reader *reader, struct sluice_stream stream, int64_t timeout_ns, int64_t *deadline)
{
    int r;

    if ((r = check_device(reader, stream)) != 0 || (r = sl_gpu_wait_report(reader)) != 0)
        return r;
    if (!sl_take_entry(reader)) {
        if (!sl_release_queued(reader))
            return too_many(reader);
        if (*deadline == 0 && timeout_ns > 0)
            *deadline = sl_os_deadline(timeout_ns);
        if ((r = wait_for_room(reader, *deadline)) != 0)
            return r;
        reader->now = 0;
    }
    if (sl_load(&reader->closing, acquire))
        return sl_fail(SLUICE_E_CLOSED, "channel '%s': the reader was closed meanwhile", reader->base.name);
    if (reader->session && sl_wait_evicted(reader->session) && !reader->session->reported_evicted) {
        reader->session->reported_evicted = true;
        return sl_fail(SLUICE_E_LOST, "channel '%s': the writer evicted this reader, which held a frame too long or hung up on it",
                       reader->base.name);
    }
    return 0;
}

/* The session is over, and has no frame that can be taken. SLUICE_AGAIN: there may be one now; SLUICE_TIMEOUT: no other writer is
 * there yet; else what acquire returns. */
static int go_on(struct sl_reader *reader)
{
    int r;

    if (sl_session_give_up(reader) || (r = sl_session_switch(reader)) == 0)
        return SLUICE_AGAIN;
    if (r < 0)
        return r;
    if (reader->session && sl_load(reader->session->link->closed, acquire)) {
        reader->session->reported_closed = true;
        return no_session(reader, SLUICE_CLOSED, "was closed by its writer");
    }
    return SLUICE_TIMEOUT;
}

static int acquire(struct sl_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                   struct sluice_frame *frame)
{
    int64_t deadline = 0; /* the first attempt does not wait */
    int r;

    reader->now = 0;
    if (reader->session) {
        sl_lines_early(reader->session);
        if (timeout_ns > 0)
            reader->now = sl_os_now(); /* during the prefetch; a caller that polls mostly finds no frame, and needs no time */
    }
    for (;;) {
        sl_session_attend(reader);
        if ((r = may_take(reader, stream, timeout_ns, &deadline)) != 0)
            return r;
        /* Before the attempt: then that sees all frames that were published before the end of the session. */
        bool over = !reader->session || sl_wait_over(reader->session);
        if (over && sl_session_rejoin(reader)) {
            reader->now = 0;
            continue;
        }
        r = try_take(reader, stream, deadline, frame);
        if (r != SLUICE_TIMEOUT && r != SLUICE_AGAIN)
            return r;
        sl_release_settle(reader); /* there is time for it, as no frame can be taken */
        reader->now = 0;
        if (deadline == 0 && timeout_ns > 0)
            deadline = sl_os_deadline(timeout_ns);
        if (r == SLUICE_AGAIN) {
            if (sl_os_now() >= deadline)
                return r;
            continue;
        }
        if (over && (r = go_on(reader)) == SLUICE_AGAIN)
            continue;
        if (r != SLUICE_TIMEOUT)
            return r;
        if (timeout_ns == 0 || sl_os_now() >= deadline)
            return nothing_came(reader);
        SL_STAGE_BEGIN(WAIT_FRAME);
        bool ready = sl_wait_for_news(reader, deadline, false);
        SL_STAGE_END(WAIT_FRAME);
        /* The checks above were made a moment ago, and are repeated if no frame can be taken. */
        if (ready && (r = try_take(reader, stream, deadline, frame)) != SLUICE_TIMEOUT && r != SLUICE_AGAIN)
            return r;
    }
}

int sl_native_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sl_reader *reader = sl_reader_of(base);
    int r = acquire(reader, stream, timeout_ns, frame);

    if (reader->poll.epoll >= 0)
        sl_poll_fd_update(reader);
    return r;
}
