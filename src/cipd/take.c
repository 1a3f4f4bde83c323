/* SPDX-License-Identifier: MIT
 *
 * A reader's acquire: it looks for a frame, waits for it and takes it.
 *
 * A frame that was published is one whose event was recorded. acquire asks for the event, from the CPU, in the relaxed
 * mode, so that nobody's capture minds; the frame that it waits for stays the one that was the newest when it began to
 * wait, else one that is always late would never be seen.
 */
#include <string.h>

#include "cipd/cipd.h"
#include "util/result.h"

#define TRIES 4 /* frames that were overtaken while they got ready, before one is given all the same */
#define PEEP (10 * SLUICE_MS) /* between looks at the segment, while an event is waited for */
#define NEARLY (5 * INT64_C(1000)) /* ns for which the CPU looks before a stream waits: it goes on that much later */
#define LATE 16 /* attempts that follow each other behind the deadline, for sessions that come and go */

enum { GO_ON = 1000, IS_READY }; /* try again; the pending frame's event was seen: no results of Sluice's */

static void raise_by(sl_word *word, uint64_t by) { sl_store(word, sl_load(word, relaxed) + by, relaxed); }

/* ---- is there a frame? ---- */

static void note_missed(struct sl_cipd_reader *reader, uint32_t missed)
{
    reader->untold += missed;
    raise_by(&reader->dropped, missed);
}

/* What is published next to the one that is pending becomes it. */
static void make_pending(struct sl_cipd_reader *reader, const struct sl_cipd_frame *frame, int64_t now)
{
    note_missed(reader, frame->missed);
    reader->pending = *frame;
    reader->pending_ns = now;
}

/* 0: reader->pending is the newest one there is, or still the one before. */
static int poll_segment(struct sl_cipd_reader *reader, int64_t now)
{
    struct sl_cipd_frame frame;

    sl_mutex_lock(&reader->lock); /* others ask what it has seen */
    enum sl_cipd_poll what = sl_cipd_consume_poll(&reader->consumer, now, &frame);
    sl_mutex_unlock(&reader->lock);
    switch (what) {
    case SL_CIPD_NO_FRAME:
        return 0;
    case SL_CIPD_FRAME:
        sl_store(&reader->frame_ns, (uint64_t)(frame.time_ns ? frame.time_ns : now), relaxed);
        if (reader->pending.index == 0) {
            make_pending(reader, &frame, now);
        } else {
            if (reader->newer.index)
                frame.missed += 1 + reader->newer.missed;
            reader->newer = frame;
        }
        return 0;
    case SL_CIPD_SHUT:
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_SHUT, true);
        reader->shut = true;
        return GO_ON; /* another session may be there already */
    case SL_CIPD_LOST:
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_DEAD, false);
        return GO_ON;
    default:
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_CHANGING, true);
        return GO_ON;
    }
}

/* The one that was pending is not taken. */
static void give_up_pending(struct sl_cipd_reader *reader, int64_t now)
{
    note_missed(reader, 1);
    reader->pending.index = 0;
    if (reader->newer.index)
        make_pending(reader, &reader->newer, now);
    reader->newer.index = 0;
}

/* ---- is it ready? ---- */

/* Until the pending frame's event was seen, or the deadline: 0; SLUICE_TIMEOUT; SLUICE_E_LOST if it takes too long altogether;
 * what poll_segment says. */
static int await_pending(struct sl_cipd_reader *reader, int64_t deadline, int64_t *clock)
{
    struct sl_cipd_slot *slot = &reader->link->pool->slots[reader->pending.slot];
    int64_t began = *clock, now = began, spin = sl_cipd_later(began, reader->cipd.wait_spin_ns), peep = began + PEEP;
    struct sl_cuda_scope scope;
    int r, looks = 0;

    if (!slot->signal)
        return 0;
    r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    while ((r = sl_cuda_event_look(reader->context, sl_cuda_signal_event(slot->signal))) == SLUICE_NOT_READY) {
        now = sl_os_now();
        if (now >= sl_cipd_later(reader->pending_ns, reader->cipd.wait_ns))
            r = SLUICE_E_LOST;
        else if (now >= deadline || sl_load(&reader->closing, acquire))
            r = SLUICE_TIMEOUT;
        else
            r = SLUICE_NOT_READY;
        if (r != SLUICE_NOT_READY)
            break;
        if (now < spin) {
            sl_pause();
        } else {
            looks++;
            sl_os_sleep(SL_CIPD_LOOK);
            if (now >= peep) {
                peep = now + PEEP;
                if ((r = poll_segment(reader, now)) != 0)
                    break;
            }
        }
    }
    sl_cuda_leave(&scope);
    *clock = now;
    if (r == 0) {
        sl_store(&slot->wait_ns, (uint64_t)(now - began), relaxed);
        raise_by(&reader->spin_hits, looks == 0);
    }
    return r;
}

/* ---- a frame for the caller ---- */

static void fill_frame(struct sl_cipd_reader *reader, struct sl_cipd_held *held, int64_t now, struct sluice_frame *frame)
{
    const struct sl_cipd_link *link = held->link;
    int64_t at = held->frame.time_ns;
    uint64_t latency = at && now > at ? (uint64_t)(now - at) : 0;

    *frame = (struct sluice_frame){
        .sequence = held->frame.index,
        .session = link->session,
        .missed = reader->untold,
        .capture_ns = at,
        .commit_ns = at ? at : now,
        .slot = held->frame.slot,
        .generation = link->generation,
        .array_count = 1,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&reader->object->id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = sl_load(&held->token, relaxed),
                    [SL_FRAME_ENTRY] = (uint64_t)(held - reader->held) },
    };
    if (reader->last_session != link->session) {
        frame->flags |= SLUICE_FRAME_NEW_FORMAT;
        if (reader->last_session)
            frame->flags |= SLUICE_FRAME_NEW_SESSION;
    }
    reader->last_session = link->session;
    reader->untold = 0;
    raise_by(&reader->taken, 1);
    raise_by(&link->pool->slots[held->frame.slot].frames, 1);
    sl_store(&reader->latency_ns, latency, relaxed);
    raise_by(&reader->latency_total_ns, latency);
}

/* `copy`: where it lies now; 0: where it was. */
static void take(struct sl_cipd_reader *reader, struct sl_cipd_held *held, uint64_t copy, int64_t now, struct sluice_frame *frame)
{
    held->link = reader->link;
    held->frame = reader->pending;
    held->taken_ns = now;
    held->address = copy ? copy : held->link->pool->slots[held->frame.slot].address;
    held->copied = copy != 0;
    sl_mutex_lock(&reader->lock);
    reader->last_index = held->frame.index;
    held->link->users++;
    sl_store(&held->token, SL_CIPD_RELEASED + ++reader->next_token, release);
    sl_mutex_unlock(&reader->lock);
    fill_frame(reader, held, now, frame);
    SL_SPAN_BEGIN(READ, &held->span, reader->name, frame->sequence);
    reader->pending.index = 0;
    if (reader->newer.index)
        make_pending(reader, &reader->newer, now);
    reader->newer.index = 0;
}

/* Has the writer overtaken it while it got ready? Then the newest one is tried, if it is another. */
static bool overtaken(struct sl_cipd_reader *reader, int64_t now)
{
    if (sl_cipd_consume_whole(&reader->consumer, &reader->pending))
        return false;
    if (reader->newer.index == 0 && poll_segment(reader, now) != 0)
        return true;
    if (reader->newer.index == 0)
        return false; /* one slot: it may be being written at any time */
    sl_add(&reader->overruns, 1);
    give_up_pending(reader, now);
    return true;
}

/* The copy of the pending frame, if it is whole. */
static int take_copy(struct sl_cipd_reader *reader, struct sl_cipd_held *held, int64_t deadline, struct sluice_frame *frame)
{
    const struct sl_cipd_pool *pool = reader->link->pool;
    uint64_t copy;
    int r = sl_cipd_copy(reader, (uint32_t)(held - reader->held), &pool->slots[reader->pending.slot], pool->bytes, &copy);
    int64_t now = sl_os_now();

    if (r != 0)
        return r;
    if (sl_cipd_consume_whole(&reader->consumer, &reader->pending)) {
        take(reader, held, copy, now, frame);
        return 0;
    }
    raise_by(&reader->repeated, 1);
    give_up_pending(reader, now);
    if (now < deadline)
        return GO_ON;
    return sl_fail(SLUICE_AGAIN, "channel 'cipd:%s': the writer was faster than each copy of its frames: it needs more slots",
                   reader->name);
}

/* Is the pending frame not ready, though it has been looked at for a moment? Then the stream shall wait for it. 0 if it is
 * taken so; IS_READY; GO_ON: it is neither. */
static int take_ahead(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream,
                      struct sluice_frame *frame)
{
    int64_t now;
    int r;

    if (!reader->ahead || stream.id == SLUICE_ON_CPU.id || !reader->link->pool->slots[reader->pending.slot].signal)
        return GO_ON;
    now = sl_os_now();
    r = await_pending(reader, now + NEARLY, &now);
    if (r == 0)
        return IS_READY; /* to ask once more is what costs most of an acquire */
    if (r != SLUICE_TIMEOUT)
        return r == SLUICE_E_LOST ? GO_ON : r; /* to be given up: as ever */
    sl_mutex_lock(&reader->lock);
    r = sl_cipd_ahead_wait(reader, held, stream);
    sl_mutex_unlock(&reader->lock);
    if (r != 0)
        return r == SLUICE_NO_SLOT ? GO_ON : r;
    take(reader, held, 0, now, frame);
    frame->flags |= SLUICE_FRAME_AHEAD;
    sl_cipd_ahead_watch(reader);
    return 0;
}

/* With a pending frame. */
static int take_pending(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream, int64_t deadline,
                        uint32_t *tries, struct sluice_frame *frame)
{
    int64_t now = reader->pending_ns;
    int r = take_ahead(reader, held, stream, frame);

    if (r != IS_READY && (r != GO_ON || !reader->link))
        return r;

    SL_STAGE_BEGIN(WAIT_DEVICE);
    r = r == IS_READY ? 0 : await_pending(reader, deadline, &now);
    SL_STAGE_END(WAIT_DEVICE);
    if (r == SLUICE_E_LOST) {
        raise_by(&reader->timeouts, 1);
        give_up_pending(reader, now);
        return sl_fail(SLUICE_E_LOST,
                       "channel 'cipd:%s': a frame was published, and its GPU has not finished it within %lld ms: look at the writer",
                       reader->name, (long long)(reader->cipd.wait_ns / SLUICE_MS));
    }
    if (r == SLUICE_TIMEOUT)
        return sl_fail(SLUICE_TIMEOUT, "channel 'cipd:%s': a frame was published, and is not finished yet", reader->name);
    if (r != 0)
        return r;
    now = sl_os_now();
    if (*tries < TRIES && overtaken(reader, now)) {
        ++*tries;
        return GO_ON;
    }
    if (reader->cipd.copy)
        return take_copy(reader, held, deadline, frame);
    take(reader, held, 0, now, frame);
    return 0;
}

/* ---- acquire ---- */

static struct sl_cipd_held *free_entry(struct sl_cipd_reader *reader)
{
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire) == 0 && sl_cipd_copy_free(reader, i))
            return &reader->held[i];
    return NULL;
}

static int too_many(const struct sl_cipd_reader *reader)
{
    return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': this reader holds %u frames already: release one, or open it with a larger hold",
                   reader->name, reader->params.hold);
}

static int nothing_came(struct sl_cipd_reader *reader, int64_t now)
{
    int64_t quiet = now - reader->consumer.frame_ns;

    raise_by(&reader->no_frame, 1);
    if (reader->cipd.stall_ns > 0 && quiet > reader->cipd.stall_ns)
        return sl_fail(SLUICE_TIMEOUT,
                       "channel 'cipd:%s': no frame for %lld ms: its writer pauses, hangs, or was killed (the protocol does not tell)",
                       reader->name, (long long)(quiet / SLUICE_MS));
    return sl_fail_text(SLUICE_TIMEOUT, reader->nothing);
}

static int wait_for_session(struct sl_cipd_reader *reader, int result, int64_t now, int64_t deadline, uint32_t rung)
{
    int64_t next = sl_cipd_consume_next_try(&reader->consumer);

    if (result < 0 && result != SLUICE_E_FORMAT && result != SLUICE_E_PERMISSION)
        return result;
    if (reader->shut && result == SLUICE_NO_WRITER && sl_cipd_is_gone(reader->consumer.reason))
        result = sl_fail(SLUICE_CLOSED, "channel 'cipd:%s' was closed by its writer", reader->name);
    if (result == SLUICE_CLOSED || now >= deadline) {
        raise_by(&reader->no_frame, 1);
        return result;
    }
    (void)sl_os_wait(&reader->bell, rung, next < deadline ? next : deadline);
    return GO_ON;
}

/* Until a frame is there: 0, SLUICE_TIMEOUT, ... */
static int wait_for_frame(struct sl_cipd_reader *reader, int64_t deadline, int64_t *spin)
{
    int64_t now = sl_os_now();

    if (now >= deadline)
        return nothing_came(reader, now);
    if (*spin == 0)
        *spin = sl_cipd_later(now, reader->params.spin_ns);
    if (now < *spin) {
        sl_pause();
        return 0;
    }
    SL_STAGE_BEGIN(WAIT_FRAME);
    (void)sl_cipd_consume_wait(&reader->consumer, deadline);
    SL_STAGE_END(WAIT_FRAME);
    return 0;
}

/* Frames of the session before are all released, so its memory can be opened for certain. */
static bool is_to_be_opened_anew(const struct sl_cipd_reader *reader)
{
    if (!reader->link->doubtful)
        return false;
    for (uint32_t i = 0; i < reader->params.hold; i++)
        if (sl_load(&reader->held[i].token, acquire))
            return false;
    return true;
}

static int attempt(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream, int64_t now,
                   int64_t deadline, uint32_t *tries, int64_t *spin, struct sluice_frame *frame)
{
    uint32_t rung = sl_load(&reader->bell, acquire);
    int r;

    if (sl_load(&reader->closing, acquire))
        return sl_fail(SLUICE_E_STALE, "channel 'cipd:%s': the reader was closed meanwhile", reader->name);
    if (!reader->link && (r = sl_cipd_reader_connect(reader, now)) != 0)
        return wait_for_session(reader, r, now, deadline, rung);
    if (is_to_be_opened_anew(reader)) {
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_CHANGING, true);
        return GO_ON;
    }
    if (reader->pending.index == 0 && (r = poll_segment(reader, now)) != 0)
        return r;
    if (reader->pending.index == 0)
        return (r = wait_for_frame(reader, deadline, spin)) != 0 ? r : GO_ON;
    return take_pending(reader, held, stream, deadline, tries, frame);
}

int sl_cipd_acquire(void *state, struct sluice_stream stream, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sl_cipd_reader *reader = state;
    struct sl_cipd_held *held = free_entry(reader);
    int64_t now = sl_os_now(), deadline = sl_cipd_later(now, timeout_ns), spin = 0;
    uint32_t tries = 0, late = 0;
    int r;

    if ((r = sl_cuda_alive(reader->context)) != 0 || (r = sl_cipd_reader_stream(reader, stream)) != 0)
        return r;
    if (!held)
        return too_many(reader);
    if (reader->shut) /* what it says then, it says at once: so it looks at once, too */
        sl_store(&reader->retry, 1, release);
    while ((r = attempt(reader, held, stream, now, deadline, &tries, &spin, frame)) == GO_ON) {
        now = sl_os_now();
        if (now > deadline && ++late > LATE)
            r = nothing_came(reader, now);
    }
    if (reader->note >= 0)
        sl_cipd_note_settle(reader);
    return r;
}
