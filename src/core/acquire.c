/* SPDX-License-Identifier: MIT
 *
 * A reader takes a frame, or waits for one.
 */
#include <stdio.h>
#include <string.h>

#include "core/format.h"
#include "core/park.h"
#include "core/reader.h"
#include "core/view.h"
#include "util/hooks.h"
#include "util/result.h"

#define RETRIES_BEFORE_YIELD 64 /* protocol 1.14 */

/* ---- taking ---- */

/* NULL if as many frames are out as it may hold. */
static struct sl_held *free_entry(struct sluice_reader *reader)
{
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire) == 0)
            return &reader->held[i];
    return NULL;
}

static int check_record(const struct sluice_reader *reader, const struct sl_record *record,
                        const struct sl_link_memory *memory, uint64_t sequence)
{
    const struct sluice_format *format = &memory->format;

    if (record->sequence != sequence || record->generation != memory->generation ||
        record->array_count != format->array_count || record->meta_size > SLUICE_MAX_META ||
        record->offset % SL_SLOT_ALIGN != 0 || record->offset > memory->object.size ||
        memory->object.size - record->offset < format->slot_bytes)
        return sl_fail(SLUICE_E_PROTOCOL, "channel '%s': the header of frame %llu is damaged", reader->name,
                       (unsigned long long)sequence);
    return 0;
}

/* Frames that this reader did not get since the one before. */
static uint64_t count_missed(struct sl_session *session, uint64_t dropped)
{
    uint64_t missed = session->lease.skipped - session->skipped;

    if (session->generation != 0 && dropped >= session->dropped)
        missed += dropped - session->dropped;
    session->skipped = session->lease.skipped;
    session->dropped = dropped;
    return missed;
}

/* The writer's times may be any numbers. */
static int64_t our_time(const struct sl_link *link, int64_t theirs)
{
    return (int64_t)((uint64_t)theirs - (uint64_t)link->clock_offset_ns);
}

static void fill_frame(struct sluice_reader *reader, const struct sl_held *entry, const struct sl_record *record,
                       uint64_t token, struct sluice_frame *frame)
{
    struct sl_session *session = entry->session;
    struct sl_link *link = session->link;

    *frame = (struct sluice_frame){
        .sequence = entry->sequence,
        .session = link->session,
        .missed = count_missed(session, record->dropped),
        .capture_ns = record->capture_ns,
        .commit_ns = our_time(link, record->commit_ns),
        .meta_size = record->meta_size,
        .capture_clock = record->capture_clock,
        /* Only a writer writes through it; readers map it read-only. */
        .meta = (void *)(uintptr_t)entry->meta,
        .slot = entry->slot,
        .generation = record->generation,
        .array_count = record->array_count,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&reader->object.id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = token,
                    [SL_FRAME_ENTRY] = (uint64_t)(entry - reader->held) },
    };
    if (frame->capture_clock == SLUICE_CLOCK_MONOTONIC)
        frame->capture_ns = our_time(link, frame->capture_ns);
    if (reader->last_session != 0 && reader->last_session != link->session)
        frame->flags |= SLUICE_FRAME_NEW_SESSION;
    if (session->generation != frame->generation)
        frame->flags |= SLUICE_FRAME_NEW_FORMAT;
    session->generation = frame->generation;
    reader->last_session = link->session;
}

/* For statistics and observers. */
static void count_frame(struct sluice_reader *reader, const struct sl_held *entry, const struct sluice_frame *frame,
                        uint64_t token)
{
    struct sl_link *link = entry->session->link;
    int64_t now = sl_os_now();
    uint64_t latency = now > frame->commit_ns ? (uint64_t)now - (uint64_t)frame->commit_ns : 0;

    sl_store(&link->page.lease_ns[entry->slot], (uint64_t)now + (uint64_t)link->clock_offset_ns, relaxed);
    sl_store(&reader->latency_ns, latency, relaxed);
    sl_store(&reader->taken, sl_load(&reader->taken, relaxed) + 1, relaxed);
    sl_store(&reader->missed, sl_load(&reader->missed, relaxed) + frame->missed, relaxed);
    sl_store(link->page.taken, sl_load(&reader->taken, relaxed), relaxed);
    sl_store(link->page.missed, sl_load(&reader->missed, relaxed), relaxed);
    sl_store(link->page.latency_ns, latency, relaxed);
    sl_store(link->page.last, entry->sequence, relaxed);
    sl_timing_taken(&reader->timing, &link->page, now, latency, token);
}

/* A held slot becomes a frame; SLUICE_AGAIN while its memory has not come. */
static int make_frame(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                      struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    const struct sl_record *record = session->link->ops->link_record(session->link, slot);
    struct sl_held *entry = free_entry(reader);
    struct sl_link_memory *memory;
    int r;

    if ((r = sl_session_map(session, slot, record, &memory)) != 0)
        return r;
    struct sl_record header; /* copied once, then checked, then used; its arrays when they are asked for */
    memcpy(&header, record, offsetof(struct sl_record, arrays));
    if ((r = check_record(reader, &header, memory, sequence)) != 0)
        return r;
    *entry = (struct sl_held){
        .token = SL_HELD_ENDING,
        .session = session,
        .memory = memory,
        .address = (char *)memory->object.address + header.offset,
        .word = &session->link->page.lease[slot],
        .record = record,
        .meta = session->link->ops->link_meta(session->link, slot),
        .slot = slot,
        .on_stream = session->pages && stream.id != SLUICE_ON_CPU.id,
        .taken_for = stream,
        .sequence = sequence,
    };
    if (session->staged && (r = sl_staged_copy(reader, entry)) != 0)
        return r;
    SL_KILL_POINT("before_keep");
    sl_lease_keep(&session->lease, sequence);
    SL_KILL_POINT("after_keep");
    uint64_t token = ++reader->next_token << 8 | (uint64_t)(entry - reader->held) | UINT64_C(1) << 63;
    fill_frame(reader, entry, &header, token, frame);
    count_frame(reader, entry, frame, token);
    SL_SPAN_BEGIN(READ, &entry->span, reader->name, sequence);
    if (entry->copied)
        sl_release_lease(session, slot);
    sl_store(&entry->token, token, release);
    SL_KILL_POINT("after_acquire");
    return 0;
}

/* ---- waiting ---- */

static bool is_evicted(const struct sl_session *session)
{
    return sl_load(session->link->page.evicted, acquire) != 0;
}

static bool is_over(const struct sl_session *session)
{
    return sl_load(&session->link->gone, acquire) || sl_load(session->link->closed, acquire) || is_evicted(session);
}

static bool called(const struct sluice_reader *reader)
{
    return sl_load(&reader->attention, seq_cst) || sl_load(&reader->closing, seq_cst);
}

static int look_at(const struct sl_session *session)
{
    return sl_lease_look(&session->lease.words, session->lease.mode, sl_lease_want(&session->lease));
}

bool sl_acquire_has_news(const struct sluice_reader *reader)
{
    const struct sl_session *session = reader->session;

    if (sl_load(&reader->attention, seq_cst))
        return true;
    if (!session)
        return false;
    if (is_evicted(session))
        return !session->told_evicted;
    int look = look_at(session);
    return (look != SL_LEASE_NONE && look != SL_LEASE_SOON) ||
           (sl_load(session->link->closed, acquire) && !session->told_closed);
}

/* Is a frame committed that its writer's device still works on? */
static bool is_coming(const struct sluice_reader *reader)
{
    const struct sl_session *session = reader->session;

    return session && session->pages && !session->lease.over && !is_evicted(session) && look_at(session) == SL_LEASE_SOON;
}

/* Is a frame committed that the stream could wait for? */
static bool may_go_ahead(const struct sl_session *session)
{
    return session && session->ahead_now && !is_evicted(session) && sl_lease_is_ahead(&session->lease) &&
           session->refused != sl_lease_want(&session->lease);
}

/* Before a sleep, and in the spin. What a session that is gone has left, acquire has tried to take already. */
static bool must_look(const struct sluice_reader *reader)
{
    bool gone = reader->session && sl_load(&reader->session->link->gone, acquire);

    return called(reader) || (!gone && (sl_acquire_has_news(reader) || may_go_ahead(reader->session)));
}

/* 0: not at all. */
static int64_t spins_until(const struct sluice_reader *reader, int64_t deadline)
{
    int64_t end = reader->params.spin_ns < 0 ? 0 : sl_os_deadline(reader->params.spin_ns);

    return end < deadline ? end : deadline;
}

static void spin(const struct sluice_reader *reader, int64_t deadline)
{
    int64_t end = spins_until(reader, deadline);

    if (end == 0)
        return;
    for (uint32_t i = 1; !must_look(reader); i++) {
        sl_pause();
        if (i % 32 == 0 && sl_os_now() >= end)
            return;
    }
}

#define LOOK_OFTEN (SLUICE_MS / 20)
#define LOOK_SELDOM SLUICE_MS

int64_t sl_acquire_look_at(int64_t now, int64_t since, int64_t ready_after)
{
    int64_t due = since + ready_after - ready_after / 8;

    if (now + LOOK_OFTEN < due)
        return due;
    int64_t late = (now - since - ready_after) / 8;
    if (late > LOOK_SELDOM)
        late = LOOK_SELDOM;
    return now + (late > LOOK_OFTEN ? late : LOOK_OFTEN);
}

/* A GPU wakes nobody when it is done: looks again and again, seldom at first (protocol 3.8). */
static void wait_for_device(struct sluice_reader *reader, int64_t deadline)
{
    struct sl_session *session = reader->session;
    uint64_t want = sl_lease_want(&session->lease);
    uint32_t rung = sl_load(session->link->page.bell, acquire);
    int64_t now = sl_os_now();

    if (session->soon != want) {
        session->soon = want;
        session->soon_ns = now;
    }
    int64_t until = sl_acquire_look_at(now, session->soon_ns, (int64_t)sl_load(&session->ready_after, relaxed));
    SL_STAGE_BEGIN(WAIT_DEVICE);
    if (is_coming(reader) && !called(reader))
        (void)sl_os_wait(session->link->page.bell, rung, until < deadline ? until : deadline);
    SL_STAGE_END(WAIT_DEVICE);
}

void sl_acquire_learn(struct sl_session *session, int64_t ready_after)
{
    int64_t before = (int64_t)sl_load(&session->ready_after, relaxed);

    sl_store(&session->ready_after, (uint64_t)(before ? before + (ready_after - before) / 4 : ready_after), relaxed);
}

/* How long frames take from commit to ready, of late: by what was waited for, and by what was there sooner. */
static void learn(struct sl_session *session, uint64_t want, uint64_t latency)
{
    if (session->soon == want)
        sl_acquire_learn(session, (int64_t)latency);
    else if (latency < sl_load(&session->ready_after, relaxed))
        sl_store(&session->ready_after, latency, relaxed);
}

/* Sleeps until there is something to look at. `arriving`: a frame is there whose memory has not come yet. */
static void wait_for_news(struct sluice_reader *reader, int64_t deadline, bool arriving)
{
    struct sl_session *session = reader->session;
    bool live = session && !is_over(session);
    sl_word32 *bell = live ? session->link->page.bell : &reader->bell;

    if (!arriving) {
        spin(reader, deadline);
        if (must_look(reader))
            return;
        if (is_coming(reader)) {
            wait_for_device(reader, deadline);
            return;
        }
    }
    uint32_t rung = sl_load(bell, acquire);
    if (live && !arriving)
        sl_store(session->link->page.want, sl_lease_want(&session->lease), seq_cst);
    if (arriving ? !called(reader) : !must_look(reader) && !is_coming(reader))
        (void)sl_os_wait(bell, rung, deadline);
    if (live)
        sl_store(session->link->page.want, 0, relaxed);
}

/* The slot is held, its memory is on the way: waits for it within the caller's time (protocol 2.4). */
static int wait_for_memory(struct sluice_reader *reader, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                           int64_t deadline, struct sluice_frame *frame)
{
    int r;

    while ((r = make_frame(reader, slot, sequence, stream, frame)) == SLUICE_AGAIN) {
        if (sl_load(&reader->session->link->gone, acquire)) {
            reader->session->lease.given_up = sequence; /* it never will, by this link */
            return SLUICE_TIMEOUT;
        }
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the memory of frame %llu has not come yet", reader->name,
                           (unsigned long long)sequence);
        SL_STAGE_BEGIN(WAIT_FRAME);
        wait_for_news(reader, deadline, true);
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

/* A stream that waits goes on some microseconds after the frame is ready; work that is queued once the CPU has seen that
 * runs sooner, and no stream is parked. So the CPU looks for so long first; where that comes to nothing ever more
 * seldom. */
static bool is_nearly_ready(struct sl_session *session)
{
    if (session->park_at_once > 0) {
        session->park_at_once--;
        return false;
    }
    int64_t until = sl_os_deadline(NEARLY);
    bool ready;
    while (!(ready = !sl_lease_is_ahead(&session->lease)) && sl_os_now() < until)
        sl_pause();
    session->park_next = ready ? 0 : session->park_next < SELDOM / 2 ? session->park_next * 2 + 1 : SELDOM;
    session->park_at_once = session->park_next;
    return ready;
}

/* The slot of a frame that the stream waits for from now on, held; SL_LEASE_NONE if the CPU has to wait, or
 * *result says why not at all. */
static int take_ahead(struct sluice_reader *reader, struct sluice_stream stream, uint64_t *sequence, int *result)
{
    struct sl_session *session = reader->session;
    const struct sl_page *page = &session->link->page;
    struct sl_link_memory *memory;
    int slot = sl_lease_take_ahead(&session->lease, sequence);

    if (slot < 0)
        return SL_LEASE_NONE;
    uint64_t from = sl_load(page->own_from, acquire);
    bool may = from != 0 && *sequence >= from && !sl_load(&session->spoiled[slot], relaxed) &&
               sl_session_map(session, (uint32_t)slot, session->link->ops->link_record(session->link, (uint32_t)slot),
                              &memory) == 0 &&
               sl_park_begin(reader, (uint32_t)slot, *sequence, stream);
    if (may) {
        int r = session->sync->await(session->pages, stream, &page->own_ready[slot], *sequence);
        if (r == 0)
            return slot;
        sl_park_cancel(reader, (uint32_t)slot, *sequence);
        *result = r;
    }
    sl_lease_end(&session->lease, (uint32_t)slot);
    return SL_LEASE_NONE;
}

static int try_ahead(struct sluice_reader *reader, struct sluice_stream stream, struct sluice_frame *frame)
{
    uint64_t sequence;
    int r = 0, slot = take_ahead(reader, stream, &sequence, &r);

    if (slot < 0)
        return r != 0 ? r : SLUICE_TIMEOUT;
    r = make_frame(reader, (uint32_t)slot, sequence, stream, frame);
    if (r == 0)
        frame->flags |= SLUICE_FRAME_AHEAD;
    else
        sl_lease_end(&reader->session->lease, (uint32_t)slot); /* the stream waits in vain, and harms nobody */
    return r;
}

/* ---- acquire ---- */

/* What the steps of taking the newest frame look at one after the other lies on lines that another core, or a GPU,
 * has written: fetched together they cost as much as one. */
static void fetch_lines(const struct sl_session *session)
{
    const struct sl_words *words = &session->lease.words;
    uint32_t slot = sl_head_slot(sl_load(words->head, relaxed));

    if (slot >= words->ids)
        return;
    const char *record = (const char *)session->link->ops->link_record(session->link, slot);
    __builtin_prefetch((const void *)&words->ready[slot]);
    __builtin_prefetch((const void *)&words->slot_seq[slot]);
    __builtin_prefetch((const void *)&session->lease.page.lease[slot], 1);
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
}

/* 0, SLUICE_TIMEOUT when there is nothing to take, or why it could not be. */
static int try_take(struct sluice_reader *reader, struct sluice_stream stream, int64_t deadline,
                    struct sluice_frame *frame)
{
    struct sl_session *session = reader->session;
    uint64_t sequence = 0, want;
    int slot, r, retries = 0;

    /* A writer that lives on does not look at the leases of a reader that it evicted. */
    if (!session || is_evicted(session))
        return SLUICE_TIMEOUT;
    fetch_lines(session);
    sl_session_prune(reader);
    want = sl_lease_want(&session->lease);
    session->ahead_now = session->ahead && stream.id != SLUICE_ON_CPU.id;
    if (session->ahead_now && sl_lease_is_ahead(&session->lease) && !is_nearly_ready(session)) {
        if ((r = try_ahead(reader, stream, frame)) != SLUICE_TIMEOUT)
            return r;
        session->refused = want;
    }
    while ((slot = sl_lease_take(&session->lease, &sequence)) == SL_LEASE_RETRY) {
        if (++retries % RETRIES_BEFORE_YIELD != 0)
            continue;
        sl_os_yield();
        if (sl_os_now() >= deadline || sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_AGAIN, "channel '%s': the writer outran this reader %d times", reader->name, retries);
    }
    if (retries)
        sl_store(&reader->retries, sl_load(&reader->retries, relaxed) + (uint64_t)retries, relaxed);
    if (session->lease.lost) {
        sl_add(&reader->lost, session->lease.lost);
        session->lease.lost = 0;
    }
    if (slot < 0)
        return SLUICE_TIMEOUT;
    r = wait_for_memory(reader, (uint32_t)slot, sequence, stream, deadline, frame);
    if (r != 0)
        sl_lease_end(&session->lease, (uint32_t)slot);
    else if (session->pages)
        learn(session, want, sl_load(&reader->latency_ns, relaxed));
    if (r == SLUICE_E_PROTOCOL && sl_load(session->link->page.evicted, seq_cst))
        r = sl_fail(SLUICE_AGAIN, "channel '%s': the writer is evicting this reader", reader->name); /* no damage */
    return r;
}

/* With what the last attempt to find a writer said, if it failed. */
static int no_session(const struct sluice_reader *reader, int result, const char *why)
{
    char text[sizeof reader->join->text];

    sl_service_lock();
    snprintf(text, sizeof text, "%s", reader->join && reader->join->result ? reader->join->text : "");
    sl_service_unlock();
    return sl_fail(result, "channel '%s' %s%s%s", reader->name, why, text[0] ? ": " : "", text);
}

static int nothing_came(const struct sluice_reader *reader)
{
    if (reader->session && !is_over(reader->session))
        return sl_fail(SLUICE_TIMEOUT, "channel '%s': no new frame came in time", reader->name);
    return no_session(reader, SLUICE_NO_WRITER, "has no writer at the moment");
}

static int too_many(const struct sluice_reader *reader)
{
    char list[160] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < SLUICE_MAX_SLOTS && used < sizeof list - 24; i++)
        if (sl_load(&reader->held[i].token, acquire) > SL_HELD_BACK)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", used ? ", " : "",
                                     (unsigned long long)reader->held[i].sequence);
    return sl_fail(SLUICE_E_LIMIT, "channel '%s': this reader holds %u frames already (%s): release one, or open it with a larger hold",
                   reader->name, reader->params.hold, list);
}

/* Some of what it holds is released already, behind work: waits for that. */
static int wait_for_room(struct sluice_reader *reader, int64_t timeout_ns)
{
    int64_t now = sl_os_now(), deadline = sl_os_deadline(timeout_ns), end = spins_until(reader, deadline);

    while (!free_entry(reader)) {
        if (sl_load(&reader->closing, acquire))
            return 0;
        if (now >= deadline)
            return sl_fail(SLUICE_TIMEOUT,
                           "channel '%s': all %u frames that this reader may hold are still being worked on; a larger hold "
                           "lets it run ahead",
                           reader->name, reader->params.hold);
        if (now < end)
            sl_pause();
        else
            sl_os_sleep(LOOK_OFTEN);
        sl_release_settle(reader);
        now = sl_os_now();
    }
    return 0;
}

static int check_device(struct sluice_reader *reader, struct sluice_stream stream)
{
    struct sl_session *session = reader->session;
    int r;

    if (!session)
        return sl_stream_check(stream, NULL);
    if ((r = session->sync->alive(session->pages)) != 0)
        sl_session_fail(reader);
    else if (stream.id != SLUICE_ON_CPU.id)
        r = session->sync->check(session->pages, stream);
    return r;
}

static int acquire(struct sluice_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                   struct sluice_frame *frame)
{
    int64_t deadline = 0; /* a first look; the clock is read only if there is need to wait */
    int r;

    for (;;) {
        sl_session_attend(reader);
        if ((r = check_device(reader, stream)) != 0 || (r = sl_park_tell(reader)) != 0)
            return r;
        if (!free_entry(reader)) {
            if (!sl_release_queued(reader))
                return too_many(reader);
            if ((r = wait_for_room(reader, timeout_ns)) != 0)
                return r;
        }
        if (sl_load(&reader->closing, acquire))
            return sl_fail(SLUICE_E_STALE, "channel '%s': the reader was closed meanwhile", reader->name);
        if (reader->session && is_evicted(reader->session) && !reader->session->told_evicted) {
            reader->session->told_evicted = true;
            return sl_fail(SLUICE_E_LOST,
                           "channel '%s': the writer evicted this reader, which held a frame too long or hung up on it",
                           reader->name);
        }
        /* Asked first: what was published before the end is then seen by the look that follows. */
        bool over = !reader->session || is_over(reader->session);
        if (over && sl_session_rejoin(reader))
            continue;
        r = try_take(reader, stream, deadline, frame);
        if (r != SLUICE_TIMEOUT && r != SLUICE_AGAIN)
            return r;
        if (deadline == 0 && timeout_ns > 0)
            deadline = sl_os_deadline(timeout_ns);
        if (r == SLUICE_AGAIN) {
            if (sl_os_now() >= deadline)
                return r;
            continue;
        }
        if (over) {
            if (sl_session_give_up(reader))
                continue;
            if ((r = sl_session_switch(reader)) == 0)
                continue;
            if (r < 0)
                return r;
            if (reader->session && sl_load(reader->session->link->closed, acquire)) {
                reader->session->told_closed = true;
                return no_session(reader, SLUICE_CLOSED, "was closed by its writer");
            }
        }
        if (timeout_ns == 0 || sl_os_now() >= deadline)
            return nothing_came(reader);
        SL_STAGE_BEGIN(WAIT_FRAME);
        wait_for_news(reader, deadline, false);
        SL_STAGE_END(WAIT_FRAME);
    }
}

/* Debug builds find a second thread in acquire (protocol 2.6). */
static bool enter(struct sluice_reader *reader)
{
#ifndef NDEBUG
    return sl_exchange(&reader->busy, 1) == 0;
#else
    (void)reader;
    return true;
#endif
}

static void leave(struct sluice_reader *reader)
{
#ifndef NDEBUG
    sl_store(&reader->busy, 0, release);
#else
    (void)reader;
#endif
}

int sluice_reader_acquire(sluice_reader *handle, struct sluice_stream stream, int64_t timeout_ns,
                          struct sluice_frame *frame)
{
    struct sluice_reader *reader;
    int r = sl_reader_hold(handle, &reader);

    if (r != 0)
        return r;
    if (!frame)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': no place for the frame was given", reader->name);
    else if (timeout_ns < SLUICE_DEFAULT)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': a time-out of %lld ns", reader->name, (long long)timeout_ns);
    if (r == 0 && !enter(reader)) {
        r = sl_fail(SLUICE_E_BUSY, "channel '%s': two threads acquire from one reader at once: open one each", reader->name);
    } else if (r == 0) {
        SL_STAGE_BEGIN(ACQUIRE);
        r = acquire(reader, stream, timeout_ns == SLUICE_DEFAULT ? SLUICE_S : timeout_ns, frame);
        SL_STAGE_END(ACQUIRE);
        if (reader->gate >= 0)
            sl_gate_settle(reader);
        leave(reader);
    }
    sl_object_drop(&reader->object);
    return r;
}
