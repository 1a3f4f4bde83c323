/* SPDX-License-Identifier: MIT
 *
 * A reader's acquire: it looks for a frame, waits for it and takes it.
 *
 * A writer records a slot's event before it publishes the frame, so the event stands for the last frame in that slot.
 * acquire queries events from the CPU, in the relaxed capture mode, so that no capture is invalidated: first the newest
 * frame's, then those of older frames that were not taken, as a fast writer may overwrite every newest frame before it
 * is seen finished. A frame whose event is done is taken only if its slot was not begun again until then: else the
 * event may be that of a later frame.
 */
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

#define TRIES 4 /* finished frames that may be overtaken before one is returned anyway */
#define POLL_BEFORE_WAIT_NS \
    (5 * INT64_C(1000)) /* ns for which the CPU polls before a stream waits, as a stream continues that much later */
#define LATE 16         /* consecutive attempts after the deadline, for sessions that begin and end */

enum { GO_ON = 1000 }; /* try again; not a sluice_result */

static void raise_by(sl_word *word, uint64_t by)
{
    sl_store(word, sl_load(word, relaxed) + by, relaxed);
}

/* ---- is there a frame? ---- */

static void note_missed(struct sl_cipd_reader *reader, uint32_t missed)
{
    reader->unreported += missed;
    raise_by(&reader->dropped, missed);
}

/* How many frames count as missed if this one is taken. */
static uint32_t before(const struct sl_cipd_reader *reader, uint32_t index)
{
    uint32_t frames = sl_cipd_index_distance(reader->counted, index, reader->link->pool->count);

    return frames < UINT32_MAX / 2 ? frames : 0; /* a smaller index may mean anything */
}

/* This frame is taken, or given up: no older one will be taken, either. */
static void pass(struct sl_cipd_reader *reader, uint32_t index, int64_t now)
{
    note_missed(reader, before(reader, index));
    reader->oldest = reader->counted = sl_cipd_index_next(index, reader->link->pool->count);
    reader->pending_ns = now;
    reader->tries = 0;
    if (reader->pending.index == index)
        reader->pending.index = 0;
}

/* Frames of a session count as missed from which one on? All of a session that the reader has waited for: they continue
 * those of the last session, or begin at 1. */
static uint32_t first_counted(const struct sl_cipd_reader *reader, uint32_t index)
{
    if (!reader->awaited)
        return index;
    return reader->counted_before && index >= reader->counted_before ? reader->counted_before : 1;
}

/* 0: reader->pending is the newest frame, or there is none. */
static int poll_segment(struct sl_cipd_reader *reader, int64_t now)
{
    struct sl_cipd_frame frame;

    sl_mutex_lock(&reader->lock); /* other threads read the consumer */
    enum sl_cipd_poll what = sl_cipd_read_poll(&reader->consumer, now, &frame);
    sl_mutex_unlock(&reader->lock);
    reader->polled_ns = now;
    switch (what) {
    case SL_CIPD_NO_FRAME: return 0;
    case SL_CIPD_FRAME:
        sl_store(&reader->frame_ns, (uint64_t)(frame.time_ns ? frame.time_ns : now), relaxed);
        if (reader->pending.index == 0)
            reader->pending_ns = now;
        if (reader->counted == 0)
            reader->counted = first_counted(reader, frame.index);
        if (reader->oldest == 0)
            reader->oldest = sl_cipd_read_first(&reader->consumer, frame.index);
        reader->pending = frame;
        return 0;
    case SL_CIPD_SHUT:
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_SHUT, true);
        reader->shut = true;
        return GO_ON; /* another session may be there already */
    case SL_CIPD_LOST: sl_cipd_reader_drop(reader, SL_CIPD_REASON_DEAD, false); return GO_ON;
    default: sl_cipd_reader_drop(reader, SL_CIPD_REASON_CHANGING, true); return GO_ON;
    }
}

/* ---- is one finished? ---- */

static struct sl_cipd_slot *slot_of(const struct sl_cipd_reader *reader, const struct sl_cipd_frame *frame)
{
    return &reader->link->pool->slots[frame->slot];
}

/* How many frames may be taken, including the newest. If the index has wrapped, only the newest. */
static uint32_t reach(const struct sl_cipd_reader *reader)
{
    uint32_t slots = reader->link->pool->count, newest = reader->pending.index;
    uint32_t frames = newest >= reader->oldest ? newest - reader->oldest + 1 : 1;

    return frames < slots ? frames : slots;
}

/* 0: `found` is the newest frame that is finished according to its slot's event. SLUICE_NOT_READY: none is. */
static int look_back(struct sl_cipd_reader *reader, struct sl_cipd_frame *found)
{
    uint32_t frames = reach(reader);
    int r = SLUICE_NOT_READY;

    for (uint32_t i = 0; i < frames && r == SLUICE_NOT_READY; i++) {
        *found = reader->pending;
        if (i)
            sl_cipd_read_frame(&reader->consumer, reader->pending.index - i, found);
        const struct sl_cipd_slot *slot = slot_of(reader, found);
        r = slot->signal ? sl_cuda_query_event(reader->context, sl_cuda_signal_event(slot->signal)) : 0;
    }
    return r;
}

/* The frame is finished, but its slot may have been begun again. Should it be returned anyway? Never as a copy; with
 * one slot always, as this may happen at any time; else after a few frames were overtaken like this. */
static bool is_good_enough(struct sl_cipd_reader *reader, const struct sl_cipd_frame *found)
{
    if (reader->cipd.copy)
        return false;
    if (reader->link->pool->count == 1 && sl_cipd_load_index(reader->consumer.segment.at) == found->index)
        return true;
    if (reader->tries == 0 || reader->tried != reader->pending.index) {
        reader->tried = reader->pending.index;
        reader->tries++;
        sl_add(&reader->overruns, 1);
    }
    return reader->tries > TRIES;
}

/* 0 with `found`; SLUICE_NOT_READY; a failure. */
static int look(struct sl_cipd_reader *reader, struct sl_cipd_frame *found)
{
    int r = look_back(reader, found);

    if (r != 0 || sl_cipd_read_is_whole(&reader->consumer, found) || is_good_enough(reader, found))
        return r;
    return SLUICE_NOT_READY;
}

/* Waits until a frame is finished, or until the deadline: 0; SLUICE_TIMEOUT; SLUICE_E_LOST after wait_ns in total; the
 * result of poll_segment. */
static int await_finished(struct sl_cipd_reader *reader, int64_t deadline, int64_t *clock, struct sl_cipd_frame *found)
{
    int64_t began = *clock, now = began, spin = sl_os_later(began, reader->cipd.wait_spin_ns);
    struct sl_cuda_scope scope;
    bool slept = false;
    int r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    while ((r = look(reader, found)) == SLUICE_NOT_READY) { /* `now` is from before the query */
        if (now >= sl_os_later(reader->pending_ns, reader->cipd.wait_ns))
            r = SLUICE_E_LOST;
        else if (now >= deadline || sl_load(&reader->closing, acquire))
            r = SLUICE_TIMEOUT;
        if (r != SLUICE_NOT_READY)
            break;
        if (now < spin) {
            sl_pause();
        } else {
            slept = true;
            sl_os_sleep(SL_CIPD_POLL_INTERVAL);
        }
        now = sl_os_now();
        if ((r = poll_segment(reader, now)) != 0) /* newer ones may exist by now */
            break;
    }
    sl_cuda_leave(&scope);
    *clock = now;
    if (r == 0) {
        sl_store(&slot_of(reader, found)->wait_ns, (uint64_t)(now - began), relaxed);
        raise_by(&reader->spin_hits, !slept);
    }
    return r;
}

/* ---- a frame for the caller ---- */

static void fill_frame(struct sl_cipd_reader *reader, struct sl_cipd_held *held, int64_t now,
                       struct sluice_frame *frame)
{
    const struct sl_cipd_link *link = held->link;
    int64_t at = held->frame.time_ns;
    uint64_t latency = at && now > at ? (uint64_t)(now - at) : 0;

    *frame = (struct sluice_frame){
        /* all members: if some are left out, compilers clear the whole struct first, which is slow */
        .sequence = held->frame.index,
        .session = link->session,
        .missed = reader->unreported,
        .capture_ns = at,
        .commit_ns = at ? at : now,
        .meta = NULL,
        .meta_size = 0,
        .capture_clock = SLUICE_CLOCK_MONOTONIC,
        .slot = held->frame.slot,
        .generation = link->generation,
        .array_count = 1,
        .flags = 0,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&reader->base.object.id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = sl_load(&held->token, relaxed),
                    [SL_FRAME_ENTRY] = (uint64_t)(held - reader->held),
                    0,
                    0,
                    0 },
    };
    if (reader->last_session != link->session)
        frame->flags |= SLUICE_FRAME_NEW_SESSION | SLUICE_FRAME_NEW_FORMAT;
    reader->last_session = link->session;
    reader->unreported = 0;
    raise_by(&reader->taken, 1);
    raise_by(&link->pool->slots[held->frame.slot].frames, 1);
    sl_store(&reader->latency_ns, latency, relaxed);
    raise_by(&reader->latency_total_ns, latency);
}

/* `copy`: the address of its copy; 0: it was not copied. */
static void take(struct sl_cipd_reader *reader, struct sl_cipd_held *held, const struct sl_cipd_frame *found,
                 uint64_t copy, int64_t now, struct sluice_frame *frame)
{
    held->link = reader->link;
    held->frame = *found;
    held->polled_ns = reader->polled_ns;
    held->address = copy ? copy : slot_of(reader, found)->address;
    held->copied = copy != 0;
    held->last_check = 0;
    pass(reader, found->index, now);
    sl_mutex_lock(&reader->lock);
    reader->last_index = found->index;
    held->link->users++;
    sl_store(&held->token, SL_CIPD_RELEASED + ++reader->next_token, release);
    sl_mutex_unlock(&reader->lock);
    fill_frame(reader, held, now, frame);
    SL_SPAN_BEGIN(READ, &held->span, reader->base.name, frame->sequence);
}

/* While the GPU runs this process's work it does not run the writer's, so a frame chosen then is not overtaken.
 * SLUICE_NOT_READY: there is no frame to choose. */
static int choose_in_turn(struct sl_cipd_reader *reader, uint32_t entry, struct sl_cipd_frame *found)
{
    struct sl_cuda_scope scope;
    int r = sl_cipd_timeslice_begin(reader, entry, reader->link->pool->bytes);

    while (r == 0) {
        if ((r = poll_segment(reader, sl_os_now())) != 0 ||
            (r = sl_cuda_enter(reader->context, SL_CUDA_RELAXED, &scope)) != 0)
            return r;
        r = look(reader, found);
        sl_cuda_leave(&scope);
        if (r != SLUICE_NOT_READY || !sl_cipd_timeslice_lasts(reader, entry))
            return r;
        r = 0;
    }
    return r;
}

static int try_again(struct sl_cipd_reader *reader, int64_t now, int64_t deadline)
{
    raise_by(&reader->repeated, 1);
    if (now < deadline)
        return GO_ON;
    return sl_fail(SLUICE_AGAIN,
                   "channel 'cipd:%s': the writer was faster than each copy of its frames: it needs more slots",
                   reader->base.name);
}

/* Copies a frame, and takes the copy if it is whole. */
static int take_copy(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sl_cipd_frame *found,
                     int64_t deadline, struct sluice_frame *frame)
{
    uint32_t entry = (uint32_t)(held - reader->held);
    uint64_t copy;
    int r = reader->timeslice.left ? choose_in_turn(reader, entry, found) : 0;
    bool chosen = r != SLUICE_NOT_READY;

    if (r == 0)
        r = sl_cipd_copy(reader, entry, slot_of(reader, found), reader->link->pool->bytes, &copy);
    int64_t now = sl_os_now();
    if (r != 0 && chosen)
        return r;
    bool whole = chosen && sl_cipd_is_untouched(reader, found, reader->polled_ns);
    sl_cipd_timeslice_judge(&reader->timeslice, whole);
    if (whole) {
        take(reader, held, found, copy, now, frame);
        return 0;
    }
    if (chosen) {
        pass(reader, found->index, now);
        note_missed(reader, 1);
    }
    reader->pending_ns = now; /* frames do get finished */
    return try_again(reader, now, deadline);
}

/* The newest frame was still not finished after a moment of polling, and there is no older one: queues a wait for it on
 * the stream. 0 if it was taken like this; GO_ON: it was not, or its slot has no event that could be waited for: such a
 * frame is finished, and only was not seen whole. */
static int take_ahead(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream,
                      int64_t now, struct sluice_frame *frame)
{
    struct sl_cipd_frame newest = reader->pending;

    if (!slot_of(reader, &newest)->signal)
        return GO_ON;
    int r = sl_cipd_ahead_wait(reader, held, stream);
    if (r != 0)
        return r == SLUICE_NO_SLOT ? GO_ON : r;
    take(reader, held, &newest, 0, now, frame);
    frame->flags |= SLUICE_FRAME_AHEAD;
    sl_cipd_ahead_watch(reader, held);
    return 0;
}

/* No published frame was seen finished in all that time. */
static int give_up(struct sl_cipd_reader *reader, int64_t now)
{
    long long ms = reader->cipd.wait_ns / SLUICE_MS;
    bool overtaken = before(reader, reader->pending.index) >= reader->link->pool->count;

    raise_by(&reader->timeouts, 1);
    pass(reader, reader->pending.index, now);
    note_missed(reader, 1);
    if (overtaken)
        return sl_fail(
            SLUICE_E_LOST,
            "channel 'cipd:%s': for %lld ms each frame was overwritten before it was seen finished: its writer is "
            "ahead of its GPU, and does not wait for readers",
            reader->base.name, ms);
    return sl_fail(
        SLUICE_E_LOST,
        "channel 'cipd:%s': a frame was published, and its GPU has not finished it within %lld ms: look at the writer",
        reader->base.name, ms);
}

/* Finds a finished frame, or takes the newest, for which the stream waits (0, `ahead`). Else the result of
 * await_finished. */
static int find(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream, int64_t now,
                int64_t deadline, struct sl_cipd_frame *found, bool *ahead, struct sluice_frame *frame)
{
    bool may = reader->ahead && stream.id != SLUICE_ON_CPU.id;
    int r = await_finished(reader, may ? now + POLL_BEFORE_WAIT_NS : deadline, &now, found);

    *ahead = false;
    if (!may || r != SLUICE_TIMEOUT)
        return r;
    r = take_ahead(reader, held, stream, now, frame);
    *ahead = r == 0;
    return r == GO_ON ? await_finished(reader, deadline, &now, found) : r;
}

/* With a pending frame. */
static int take_pending(struct sl_cipd_reader *reader, struct sl_cipd_held *held, struct sluice_stream stream,
                        int64_t now, int64_t deadline, struct sluice_frame *frame)
{
    struct sl_cipd_frame found;
    bool ahead;

    SL_STAGE_BEGIN(WAIT_DEVICE);
    int r = find(reader, held, stream, now, deadline, &found, &ahead, frame);
    SL_STAGE_END(WAIT_DEVICE);
    if (r == SLUICE_E_LOST && reader->link)
        return give_up(reader, sl_os_now());
    if (r == SLUICE_TIMEOUT)
        return sl_fail(SLUICE_TIMEOUT, "channel 'cipd:%s': a frame was published, and is not finished yet",
                       reader->base.name);
    if (r != 0 || ahead)
        return r;
    if (!reader->cipd.copy)
        take(reader, held, &found, 0, sl_os_now(), frame);
    else if ((r = take_copy(reader, held, &found, deadline, frame)) != 0)
        return r;
    sl_cipd_read_finished(&reader->consumer,
                          found.index); /* last, as the store waits for a cache line that the writer has */
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
    return sl_fail(SLUICE_E_LIMIT,
                   "channel 'cipd:%s': this reader holds %u frames already: release one, or open it with a larger hold",
                   reader->base.name, reader->params.hold);
}

static int nothing_came(struct sl_cipd_reader *reader, int64_t now)
{
    char why[256];

    raise_by(&reader->no_frame, 1);
    if (sl_cipd_reader_stalled(reader, now, why, sizeof why))
        return sl_fail(SLUICE_TIMEOUT, "channel 'cipd:%s': %s", reader->base.name, why);
    return sl_fail_text(SLUICE_TIMEOUT, reader->nothing);
}

static int wait_for_session(struct sl_cipd_reader *reader, int result, int64_t now, int64_t deadline, uint32_t rung)
{
    int64_t next = sl_cipd_read_next_try(&reader->consumer);

    if (result < 0 && !sl_cipd_is_refusal(result) && result != SLUICE_E_PERMISSION)
        return result;
    if (reader->shut && result == SLUICE_NO_WRITER && sl_cipd_is_gone(reader->consumer.reason))
        result = sl_fail(SLUICE_CLOSED, "channel 'cipd:%s' was closed by its writer", reader->base.name);
    if (result == SLUICE_CLOSED || now >= deadline) {
        raise_by(&reader->no_frame, 1);
        return result;
    }
    sl_cipd_reader_watch_name(reader);
    (void)sl_os_futex_wait(&reader->bell, rung, next < deadline ? next : deadline);
    return GO_ON;
}

/* Waits until there is a frame: 0, SLUICE_TIMEOUT, ... */
static int wait_for_frame(struct sl_cipd_reader *reader, int64_t deadline, int64_t *spin)
{
    int64_t now = sl_os_now();

    if (now >= deadline)
        return nothing_came(reader, now);
    if (*spin == 0)
        *spin = sl_os_later(now, reader->params.spin_ns);
    if (now < *spin) {
        sl_pause();
        return 0;
    }
    SL_STAGE_BEGIN(WAIT_FRAME);
    (void)sl_cipd_read_wait(&reader->consumer, deadline);
    SL_STAGE_END(WAIT_FRAME);
    return 0;
}

/* Are all frames of the last session released, so that the memory of this one can be opened with certainty? */
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
                   int64_t deadline, int64_t *spin, struct sluice_frame *frame)
{
    uint32_t rung = sl_load(&reader->bell, acquire);
    int r;

    if (sl_load(&reader->closing, acquire))
        return sl_fail(SLUICE_E_CLOSED, "channel 'cipd:%s': the reader was closed meanwhile", reader->base.name);
    if (!reader->link) {
        if ((r = sl_cipd_reader_connect(reader, now)) != 0)
            return wait_for_session(reader, r, now, deadline, rung);
        now = sl_os_now(); /* opening took long */
    }
    if (is_to_be_opened_anew(reader)) {
        sl_cipd_reader_drop(reader, SL_CIPD_REASON_CHANGING, true);
        return GO_ON;
    }
    if ((r = poll_segment(reader, now)) != 0)
        return r;
    if (reader->pending.index == 0)
        return (r = wait_for_frame(reader, deadline, spin)) != 0 ? r : GO_ON;
    return take_pending(reader, held, stream, now, deadline, frame);
}

int sl_cipd_acquire(struct sluice_reader *base, struct sluice_stream stream, int64_t timeout_ns,
                    struct sluice_frame *frame)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    struct sl_cipd_held *held = free_entry(reader);
    int64_t now = sl_os_now(), deadline = sl_os_later(now, timeout_ns), spin = 0;
    uint32_t late = 0;
    int r;

    if ((r = sl_cuda_alive(reader->context)) != 0 || (r = sl_cipd_reader_stream(reader, stream)) != 0 ||
        (r = sl_cipd_ahead_report_lost(reader)) != 0)
        return r;
    if (!held)
        return too_many(reader);
    reader->until = deadline;
    if (reader->shut) /* it reports that at once, so it also looks for a new session at once */
        sl_store(&reader->retry, 1, release);
    while ((r = attempt(reader, held, stream, now, deadline, &spin, frame)) == GO_ON) {
        now = sl_os_now();
        if (now > deadline && ++late > LATE)
            r = nothing_came(reader, now);
    }
    if (reader->note >= 0)
        sl_cipd_poll_fd_update(reader);
    return r;
}
