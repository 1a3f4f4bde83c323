/* SPDX-License-Identifier: MIT
 *
 * A writer's commit and cancel, which end a frame that was begun.
 */
#include "native/writer/writer.h"
#include "util/hooks.h"
#include "util/result.h"

/* ---- checks ---- */

/* May the frame be ordered after this stream's work? If a signal is queued on the stream, that call checks it. */
static int check_stream(const struct sl_writer *writer, struct sluice_stream stream)
{
    if (stream.id == SLUICE_ON_CPU.id || writer->in_flight.pages)
        return 0;
    int r = writer->in_flight.sync->check(writer->in_flight.pages, stream);
    if (r == 0)
        r = sl_stream_check_apart(stream, "a frame cannot be published or given up behind it");
    return sl_stream_refused(writer->base.name, r);
}

static int check_commit(const struct sl_writer *writer, const struct sluice_frame *frame, struct sluice_stream stream)
{
    int r;

    if ((r = sl_frame_check_begun(writer, frame)) != 0 || (r = check_stream(writer, stream)) != 0)
        return r;
    if (frame->meta_size > SLUICE_MAX_META)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': %u bytes of metadata, %d fit", writer->base.name,
                       frame->meta_size, SLUICE_MAX_META);
    if (writer->ring.head_sequence == SL_LAST_SEQUENCE)
        return sl_fail(SLUICE_E_LIMIT, "channel '%s': its sequences are used up; open it again", writer->base.name);
    return 0;
}

/* After a failure to signal. */
static int report_failed_signal(struct sl_writer *writer, int result)
{
    if (writer->in_flight.sync->alive(writer->in_flight.pages) != 0)
        return sl_writer_lose_frames(writer, result);
    return sl_stream_refused(writer->base.name, result);
}

/* ---- the signals that a frame is ready ---- */

/* The channel's ready word, and a semaphore for each reader that waits ahead. Returns how many. */
static uint32_t fill_signals(const struct sl_writer *writer, uint32_t slot, uint64_t sequence,
                             struct sl_signal *signals)
{
    signals[0] = (struct sl_signal){ &writer->ring.words.ready[slot], sequence };
    return 1 + sl_reader_semaphores_fill_signals(&writer->reader_semaphores, slot, sequence, signals + 1);
}

/* Step W7: signals at once, or behind the work on the stream. */
static int signal_ready(struct sl_writer *writer, uint32_t slot, uint64_t sequence, struct sluice_stream stream,
                        struct sl_copy_job *job)
{
    struct sl_signal signals[1 + SLUICE_MAX_READERS];
    uint32_t count = fill_signals(writer, slot, sequence, signals);

    if (!writer->in_flight.pages || stream.id == SLUICE_ON_CPU.id)
        writer->in_flight.sync->settle();
    if (job && sl_copy_launches(job))
        return sl_copy_launch(job, signals, count);
    return sl_in_flight_signal(&writer->in_flight, stream, signals, count);
}

void sl_commit_prepare_next(struct sl_writer *writer, struct sl_copy_job *job)
{
    struct sl_signal signals[1 + SLUICE_MAX_READERS];
    int slot = sl_ring_next(&writer->ring);

    writer->likely_slot = slot;
    if (slot >= 0 && job->by_graph)
        sl_copy_prepare(job, signals, fill_signals(writer, (uint32_t)slot, writer->ring.head_sequence + 1, signals));
}

/* ---- commit ---- */

static uint64_t count_bytes(const struct sl_record *record)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < record->array_count; i++)
        bytes += record->arrays[i].nbytes;
    return bytes;
}

static void fill_record(const struct sl_writer *writer, struct sl_record *record, const struct sluice_frame *frame,
                        uint64_t sequence, int64_t now)
{
    record->sequence = sequence;
    record->capture_ns = frame->capture_ns;
    record->capture_clock = frame->capture_clock;
    record->commit_ns = now;
    record->dropped = writer->totals.dropped;
    record->meta_size = frame->meta_size;
}

/* Steps W8 and W9: the frame becomes the newest, and sleeping readers wake. */
static void publish(struct sl_writer *writer, uint32_t slot, uint64_t sequence, const struct sl_record *record,
                    int64_t now)
{
    struct sl_serve *serve = writer->serve;

    SL_KILL_POINT("before_publish");
    SL_STAGE_BEGIN(PUBLISH);
    sl_mutex_lock(&serve->lock);
    sl_ring_publish(&writer->ring, slot, sequence);
    SL_KILL_POINT("before_wake");
    writer->totals.committed++;
    writer->totals.bytes += count_bytes(record);
    writer->last_commit_ns = now;
    sl_serve_totals(serve, &writer->totals);
    SL_STAGE_END(PUBLISH);
    SL_STAGE_BEGIN(WAKE);
    sl_serve_wake(serve, sequence);
    sl_mutex_unlock(&serve->lock);
    SL_STAGE_END(WAKE);
}

int sl_commit_frame(struct sl_writer *writer, struct sluice_frame *frame, struct sluice_stream stream,
                    struct sl_copy_job *job)
{
    int r = check_commit(writer, frame, stream);

    if (r != 0)
        return r;
    uint64_t sequence = writer->ring.head_sequence + 1;
    uint32_t slot = (uint32_t)frame->opaque[SL_FRAME_ENTRY];
    struct sl_record *record = sl_serve_record(writer->serve, slot);
    sl_record_prefetch(record); /* in parallel with the driver call */
    sl_fetch_to_store(&writer->ring.words.slot_seq[slot]);
    SL_KILL_POINT("before_ready");
    SL_STAGE_BEGIN(SIGNAL);
    r = signal_ready(writer, slot, sequence, stream, job);
    SL_STAGE_END(SIGNAL);
    if (r != 0)
        return report_failed_signal(writer, r);
    /* The record is filled after the driver call, so that the device works meanwhile: nobody reads it before W8. */
    int64_t now = sl_os_now();
    fill_record(writer, record, frame, sequence, now);
    publish(writer, slot, sequence, record, now);
    frame->sequence = sequence;
    frame->commit_ns = now;
    sl_frame_end(writer, slot);
    sl_frame_invalidate(frame);
    return 0;
}

int sl_native_commit(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    return sl_commit_frame(sl_writer_of(base), frame, stream, NULL);
}

/* ---- cancel ---- */

int sl_native_cancel(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_writer *writer = sl_writer_of(base);
    int r;

    if ((r = sl_frame_check_begun(writer, frame)) != 0 || (r = check_stream(writer, stream)) != 0)
        return r;
    uint32_t slot = (uint32_t)frame->opaque[SL_FRAME_ENTRY];
    if ((r = sl_in_flight_cancel(&writer->in_flight, &writer->ring, slot, stream)) != 0)
        return report_failed_signal(writer, r);
    sl_frame_cancel(writer, slot);
    sl_frame_invalidate(frame);
    return 0;
}

int sl_commit_check_none_begun(struct sl_writer *writer, const char *why)
{
    sl_deferred_cancel_settle(writer);
    if (writer->begun == 0)
        return 0;
    if (writer->deferred_cancels > 0)
        return sl_fail(SLUICE_E_BUSY,
                       "channel '%s': copies of a failed send may still use a slot, until its stream no longer "
                       "captures a graph: %s",
                       writer->base.name, why);
    return sl_fail(SLUICE_E_BUSY, "channel '%s': %u frames are begun: %s", writer->base.name, writer->begun, why);
}
