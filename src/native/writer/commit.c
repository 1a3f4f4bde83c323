/* SPDX-License-Identifier: MIT
 *
 * A writer's frame from begin to commit or cancel.
 */
#include <stdio.h>
#include <string.h>

#include "channel/channel.h"
#include "native/reader/gpu_wait.h"
#include "channel/frame_view.h"
#include "native/writer/writer.h"
#include "util/hooks.h"
#include "util/result.h"

/* ---- begin ---- */

/* Prefetches what commit stores to. These cache lines are with readers of the last frame, or one that waits for this frame. */
static void fetch_header(const struct sl_record *record)
{
    sl_fetch_to_store(record);
    sl_fetch_to_store((const char *)record + 64);
}

static void fill_frame(struct sluice_writer *writer, uint32_t slot, int64_t now, struct sluice_frame *frame)
{
    struct sl_record *record = writer->serve->ops->record(writer->serve, slot);
    struct sl_writer_slot *mine = &writer->slots[slot];

    if (mine->reshaped) {
        for (uint32_t i = 0; i < writer->format.array_count; i++)
            sl_geometry_from_array(&record->arrays[i], &writer->format.arrays[i]);
        mine->reshaped = false;
    }
    mine->token = ++writer->next_token;
    *frame = (struct sluice_frame){ /* each field: see sl_take_frame */
        .sequence = 0,
        .session = writer->session,
        .missed = 0,
        .capture_ns = now,
        .commit_ns = 0,
        .meta = writer->serve->ops->meta(writer->serve, slot),
        .meta_size = 0,
        .capture_clock = SLUICE_CLOCK_MONOTONIC,
        .slot = slot,
        .generation = writer->generation,
        .array_count = writer->format.array_count,
        .flags = 0,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&writer->object.id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = mine->token,
                    [SL_FRAME_ENTRY] = slot, 0, 0, 0 },
    };
    fetch_header(record);
    writer->begun++;
    SL_SPAN_BEGIN(WRITE, &mine->span, writer->name, 0);
}

/* The device is lost, and with it the frames it worked on: readers must not wait for them (protocol 3.3). */
static int lose(struct sluice_writer *writer, int result)
{
    uint32_t lost = sl_flight_lose(&writer->ring);

    if (lost) {
        sl_log(SLUICE_LOG_WARN, "channel '%s': %u frames are lost with the device", writer->name, lost);
        sl_mutex_lock(&writer->serve->lock);
        writer->serve->ops->wake(writer->serve, SL_LAST_SEQUENCE);
        sl_mutex_unlock(&writer->serve->lock);
    }
    return result;
}

/* May frames be ordered after this stream's work? If the stream must write a word, that call checks it. */
static int check_stream(const struct sluice_writer *writer, struct sluice_stream stream)
{
    if (stream.id == SLUICE_ON_CPU.id || writer->flight.pages)
        return 0;
    return sl_stream_refused(writer->name, writer->flight.sync->check(writer->flight.pages, stream));
}

/* After a failure to raise words: is the device lost? */
static int not_signalled(struct sluice_writer *writer, int result)
{
    return writer->flight.sync->alive(writer->flight.pages) != 0 ? lose(writer, result) : sl_stream_refused(writer->name, result);
}

/* For work that should have ended long ago: is its device still usable? A stream reports a crash only when it is
 * queried. */
static int check_device(struct sluice_writer *writer, int64_t now)
{
    if (writer->flight.idle && now - writer->last_commit_ns > SL_LATE && sl_flight_count(&writer->ring) > 0) {
        writer->took_long = true;
        return sl_flight_probe(&writer->flight);
    }
    return writer->flight.sync->alive(writer->flight.pages);
}

void sl_publish_early(struct sluice_writer *writer)
{
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_early(&writer->ring, writer->likely, writer->serve->readers, writer->serve->reader_count);
    sl_mutex_unlock(&writer->serve->lock);
}

int sl_publish_failed(struct sluice_writer *writer, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sluice_last_error());
    if (check_device(writer, sl_os_now()) != 0)
        (void)lose(writer, result);
    return sl_fail_text(result, why);
}

int sl_publish_begin(struct sluice_writer *writer, int64_t timeout_ns, struct sluice_frame *frame)
{
    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': no frame to begin was given", writer->name);
    if (timeout_ns < SLUICE_DEFAULT)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': a time-out of %lld ns", writer->name, (long long)timeout_ns);
    if (timeout_ns == SLUICE_DEFAULT)
        timeout_ns = writer->params.policy == SLUICE_WAIT ? writer->params.wait_ns : 0;

    int64_t now = sl_os_now();
    writer->took_long = false;
    sl_withdraw_settle(writer);
    int slot, r = check_device(writer, now);
    if (r != 0)
        return lose(writer, r);
    if (writer->flight.pages && sl_load(&writer->serve->ahead_changed, relaxed))
        sl_follow_update(&writer->follow, writer->serve, sl_flight_count(&writer->ring) > 0);
    sl_follow_ask(&writer->follow, writer->ring.head_sequence + 1);
    slot = sl_free_slot_find(writer, timeout_ns);
    if (writer->took_long)
        now = sl_os_now();
    if (slot < 0)
        return (r = check_device(writer, now)) != 0 ? lose(writer, r) : sl_free_slot_none(writer, 1);
    fill_frame(writer, (uint32_t)slot, now, frame);
    SL_KILL_POINT("after_begin");
    return 0;
}

/* ---- commit, cancel ---- */

static int check_begun(struct sluice_writer *writer, const struct sluice_frame *frame)
{
    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "channel '%s': no frame was given", writer->name);
    uint64_t owner = frame->opaque[SL_FRAME_OWNER], slot = frame->opaque[SL_FRAME_ENTRY];
    if (owner == 0)
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame is not begun: it was committed or cancelled, or never begun",
                       writer->name);
    if (owner != atomic_load_explicit(&writer->object.id, memory_order_relaxed))
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame is not this writer's", writer->name);
    if (slot >= writer->ring.words.ids || writer->slots[slot].token == 0 ||
        writer->slots[slot].token != frame->opaque[SL_FRAME_TOKEN])
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame has been committed or cancelled already", writer->name);
    return 0;
}

static void end_slot(struct sluice_writer *writer, uint64_t slot)
{
    SL_SPAN_END(WRITE, &writer->slots[slot].span);
    writer->slots[slot].token = 0;
    writer->begun--;
}

static void invalidate(struct sluice_frame *frame)
{
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
}

int sl_publish_none_begun(struct sluice_writer *writer, const char *why)
{
    sl_withdraw_settle(writer);
    if (writer->begun == 0)
        return 0;
    if (writer->withdrawn > 0)
        return sl_fail(SLUICE_E_BUSY, "channel '%s': copies of a failed send may still use a slot, until its stream no longer captures a "
                       "graph: %s", writer->name, why);
    return sl_fail(SLUICE_E_BUSY, "channel '%s': %u frames are begun: %s", writer->name, writer->begun, why);
}

static uint64_t frame_bytes(const struct sl_record *record)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < record->array_count; i++)
        bytes += record->arrays[i].nbytes;
    return bytes;
}

/* The words that are raised when the frame is ready. */
static uint32_t words_of(const struct sluice_writer *writer, uint32_t slot, uint64_t sequence, struct sl_signal *signals)
{
    signals[0] = (struct sl_signal){ &writer->ring.words.ready[slot], sequence };
    return 1 + sl_follow_signals(&writer->follow, slot, sequence, signals + 1);
}

static int raise_ready(struct sluice_writer *writer, uint32_t slot, uint64_t sequence,
                       struct sluice_stream stream, struct sl_copy_job *job)
{
    struct sl_signal signals[1 + SLUICE_MAX_READERS];
    uint32_t count = words_of(writer, slot, sequence, signals);

    if (!job || !sl_copy_launches(job))
        return sl_flight_signal(&writer->flight, stream, signals, count);
    return sl_copy_launch(job, signals, count);
}

void sl_publish_prepare(struct sluice_writer *writer, struct sl_copy_job *job)
{
    struct sl_signal signals[1 + SLUICE_MAX_READERS];
    int slot = writer->likely = sl_ring_next(&writer->ring);

    if (slot >= 0 && job->by_graph)
        sl_copy_prepare(job, signals, words_of(writer, (uint32_t)slot, writer->ring.head_sequence + 1, signals));
}

int sl_publish_commit(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream,
                      struct sl_copy_job *job)
{
    struct sl_serve *serve = writer->serve;
    int r;

    if ((r = check_begun(writer, frame)) != 0 || (r = check_stream(writer, stream)) != 0 ||
        (r = sl_park_check(stream)) != 0)
        return r;
    if (frame->meta_size > SLUICE_MAX_META)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': %u bytes of metadata, %d fit", writer->name, frame->meta_size,
                       SLUICE_MAX_META);
    uint64_t sequence = writer->ring.head_sequence + 1;
    if (sequence > SL_LAST_SEQUENCE)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': its sequences are used up; open it again", writer->name);

    uint32_t slot = (uint32_t)frame->opaque[SL_FRAME_ENTRY];
    struct sl_record *record = serve->ops->record(serve, slot);
    fetch_header(record); /* in parallel with the driver call */
    sl_fetch_to_store(&writer->ring.words.slot_seq[slot]);
    SL_KILL_POINT("before_ready");
    SL_STAGE_BEGIN(SIGNAL);
    if (!writer->flight.pages || stream.id == SLUICE_ON_CPU.id)
        writer->flight.sync->settle();
    r = raise_ready(writer, slot, sequence, stream, job); /* W7 */
    SL_STAGE_END(SIGNAL);
    if (r != 0)
        return not_signalled(writer, r);
    /* After the driver call, so that the device works meanwhile; the time, too. Nobody reads these words before W8. */
    int64_t now = sl_os_now();
    record->sequence = sequence;
    record->capture_ns = frame->capture_ns;
    record->capture_clock = frame->capture_clock;
    record->commit_ns = now;
    record->dropped = writer->totals.dropped;
    record->meta_size = frame->meta_size;
    SL_KILL_POINT("before_publish");
    SL_STAGE_BEGIN(PUBLISH);
    sl_mutex_lock(&serve->lock);
    sl_ring_publish(&writer->ring, slot, sequence); /* W8, W9 */
    SL_KILL_POINT("before_wake");
    writer->totals.committed++;
    writer->totals.bytes += frame_bytes(record);
    writer->last_commit_ns = now;
    serve->ops->totals(serve, &writer->totals);
    SL_STAGE_END(PUBLISH);
    SL_STAGE_BEGIN(WAKE);
    serve->ops->wake(serve, sequence);
    sl_mutex_unlock(&serve->lock);
    SL_STAGE_END(WAKE);
    frame->sequence = sequence;
    frame->commit_ns = now;
    end_slot(writer, slot);
    invalidate(frame);
    return 0;
}

void sl_publish_cancelled(struct sluice_writer *writer, uint32_t slot)
{
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_cancel(&writer->ring, slot);
    writer->cancelled++;
    sl_mutex_unlock(&writer->serve->lock);
    end_slot(writer, slot);
}

int sl_publish_cancel(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream)
{
    int r;

    if ((r = check_begun(writer, frame)) != 0 || (r = check_stream(writer, stream)) != 0)
        return r;
    uint32_t slot = (uint32_t)frame->opaque[SL_FRAME_ENTRY];
    if ((r = sl_flight_give_up(&writer->flight, &writer->ring, slot, stream)) != 0)
        return not_signalled(writer, r);
    sl_publish_cancelled(writer, slot);
    invalidate(frame);
    return 0;
}

int sl_writer_view(struct sl_object *object, const struct sluice_frame *frame, struct sl_view *view)
{
    struct sluice_writer *writer = (struct sluice_writer *)object;
    uint64_t slot = frame->opaque[SL_FRAME_ENTRY];
    int r;

    if (writer->bare)
        return writer->bare->writer_view(writer->state, frame, view);
    if ((r = check_begun(writer, frame)) != 0)
        return r;
    view->writable_record = writer->serve->ops->record(writer->serve, (uint32_t)slot);
    view->record = view->writable_record;
    view->reshaped = &writer->slots[slot].reshaped;
    view->format = &writer->format;
    view->address = writer->slots[slot].address;
    view->device = writer->device_name;
    view->read_only = false;
    return 0;
}

/* ---- the calls ---- */

int sluice_writer_begin(sluice_writer *handle, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(BEGIN);
    r = writer->bare ? writer->bare->begin(writer->state, timeout_ns, frame) : sl_publish_begin(writer, timeout_ns, frame);
    SL_STAGE_END(BEGIN);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_wait(sluice_writer *handle, int64_t timeout_ns)
{
    struct sluice_writer *writer;
    int slot, r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if (timeout_ns < 0) {
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': a time-out of %lld ns", writer->name, (long long)timeout_ns);
    } else if (writer->bare) {
        r = writer->bare->wait(writer->state, timeout_ns);
    } else if ((slot = sl_free_slot_find(writer, timeout_ns > 0 ? timeout_ns : 1)) < 0) {
        r = (r = check_device(writer, sl_os_now())) != 0 ? lose(writer, r) : sl_free_slot_none(writer, 0);
    } else {
        sl_mutex_lock(&writer->serve->lock);
        sl_ring_cancel(&writer->ring, (uint32_t)slot);
        sl_mutex_unlock(&writer->serve->lock);
    }
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_pin(sluice_writer *handle, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    if (!pin)
        r = sl_fail(SLUICE_E_INVALID, "channel '%s': no place for the pin was given", writer->name);
    else if (writer->bare)
        r = writer->bare->writer_pin(writer->state, frame, pin);
    else if ((r = check_begun(writer, frame)) == 0)
        *pin = (sluice_pin *)sl_generation_pin(writer, (uint32_t)frame->opaque[SL_FRAME_ENTRY]);
    sl_writer_leave(writer);
    return r;
}

int sluice_pin_drop(sluice_pin **pin)
{
    int r;

    if (!pin || !*pin)
        return 0;
    if ((r = sl_object_forked()) == 0)
        sl_mem_drop((struct sl_mem_shared *)*pin);
    *pin = NULL;
    return r;
}

int sluice_writer_commit(sluice_writer *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    SL_STAGE_BEGIN(COMMIT);
    if (!writer->bare)
        r = sl_publish_commit(writer, frame, stream, NULL);
    else if ((r = sl_park_check(stream)) == 0)
        r = writer->bare->commit(writer->state, frame, stream);
    SL_STAGE_END(COMMIT);
    sl_writer_leave(writer);
    return r;
}

int sluice_writer_cancel(sluice_writer *handle, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sluice_writer *writer;
    int r = sl_writer_enter(handle, &writer);

    if (r != 0)
        return r;
    r = writer->bare ? writer->bare->cancel(writer->state, frame, stream) : sl_publish_cancel(writer, frame, stream);
    sl_writer_leave(writer);
    return r;
}
