/* SPDX-License-Identifier: MIT
 *
 * A frame that a program writes in its slot: begin, commit, cancel.
 *
 * The protocol uses the slots in turn, one at a time. An event orders the work on a slot: commit records it behind the
 * program's work, and readers wait for it; the next begin of the slot waits for it on the CPU, as the program may use
 * any stream then. One finished frame is always left for readers: keep_finished.c.
 */
#include <string.h>

#include "channel/arrays.h"
#include "cuda_link/cuda_link.h"
#include "format/format.h"
#include "util/hooks.h"
#include "util/result.h"

#define BLOCK_TIMEOUT (10 * SLUICE_S)

int sl_cipd_count_failure(struct sl_cipd_writer *writer, int result)
{
    if (result >= 0 && result != SLUICE_TIMEOUT)
        return result;
    sl_mutex_lock(&writer->lock);
    writer->failed++;
    sl_mutex_unlock(&writer->lock);
    return result;
}

/* ---- is the writer ready? ---- */

static int skip_frame_at_barrier(struct sl_cipd_writer *writer)
{
    if (!writer->checks || !sl_cipd_barrier_check(&writer->checker, sl_os_now_coarse()))
        return 0;
    sl_mutex_lock(&writer->lock);
    sl_cipd_write_skip(&writer->producer);
    writer->skips++;
    writer->dropped++;
    sl_mutex_unlock(&writer->lock);
    return sl_fail(
        SLUICE_NO_SLOT,
        "channel 'cipd:%s': the frame is skipped, for an activation barrier is up: some sender is just being set up",
        writer->base.name);
}

int sl_cipd_check_writer(struct sl_cipd_writer *writer)
{
    int r = sl_cuda_alive(writer->context);

    if (r == 0 && sl_load(&writer->tick_failed, acquire))
        r = sl_cipd_writer_tick_result(writer);
    if (r == 0 && writer->pool_in_use)
        r = sl_cipd_writer_renew(writer, writer->slots);
    if (r != 0)
        return sl_cipd_count_failure(writer, r);
    return skip_frame_at_barrier(writer);
}

/* ---- is the slot free? ---- */

static int fail_no_slot(struct sl_cipd_writer *writer, int64_t timeout_ns, uint64_t dropped)
{
    sl_mutex_lock(&writer->lock);
    writer->dropped += dropped;
    sl_mutex_unlock(&writer->lock);
    return sl_fail(SLUICE_NO_SLOT, "channel 'cipd:%s': its GPU did not finish the work on slot %u of %u within %lld ms",
                   writer->base.name, sl_cipd_write_slot(&writer->producer), writer->slots,
                   (long long)(timeout_ns / SLUICE_MS));
}

/* On SLUICE_NO_SLOT `dropped` is added to the count of dropped frames. */
static int wait_for_slot(struct sl_cipd_writer *writer, int64_t timeout_ns, uint64_t dropped)
{
    struct sl_cipd_slot *slot = sl_cipd_next_slot(writer);
    int r = sl_cipd_keep_finished(writer, timeout_ns, dropped);

    if (r != 0 || sl_cipd_next_slot_is_idle(writer))
        return r;
    SL_STAGE_BEGIN(WAIT_SLOT);
    r = sl_cipd_await_slot(writer, slot, timeout_ns);
    SL_STAGE_END(WAIT_SLOT);
    sl_mutex_lock(&writer->lock);
    writer->waited_ns += sl_load(&slot->wait_ns, relaxed);
    sl_mutex_unlock(&writer->lock);
    return r == SLUICE_NOT_READY ? fail_no_slot(writer, timeout_ns, dropped) : r;
}

int sl_cipd_wait(struct sluice_writer *base, int64_t timeout_ns)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);

    return sl_cipd_next_slot_is_reported_idle(writer) ? 0 : wait_for_slot(writer, timeout_ns, 0);
}

/* ---- begin ---- */

static void begin_frame(struct sl_cipd_writer *writer, struct sluice_frame *frame)
{
    uint32_t slot = sl_cipd_write_slot(&writer->producer);

    sl_cipd_next_slot(writer)->frame = 0;
    sl_cipd_write_announce(&writer->producer);
    writer->token = ++writer->next_token;
    if (writer->reshaped)
        sl_geometry_from_array(&writer->geometry, &writer->format.arrays[0]);
    writer->reshaped = false;
    *frame = (struct sluice_frame){
        .session = writer->session,
        .capture_ns = sl_os_now(),
        .meta = writer->meta,
        .slot = slot,
        .generation = writer->generation,
        .array_count = 1,
        .opaque = { [SL_FRAME_OWNER] = sl_cipd_writer_id(writer),
                    [SL_FRAME_TOKEN] = writer->token,
                    [SL_FRAME_ENTRY] = slot },
    };
    SL_SPAN_BEGIN(WRITE, &writer->span, writer->base.name, 0);
}

int sl_cipd_begin(struct sluice_writer *base, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    int r;

    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': frame is NULL", writer->base.name);
    if (timeout_ns < SLUICE_DEFAULT)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': a time-out of %lld ns", writer->base.name,
                       (long long)timeout_ns);
    if (writer->token)
        return sl_fail(SLUICE_E_BUSY, "channel 'cipd:%s': a frame is begun already, and its protocol has one at a time",
                       writer->base.name);
    if ((r = sl_cipd_check_writer(writer)) != 0)
        return r;
    if ((r = wait_for_slot(writer, timeout_ns == SLUICE_DEFAULT ? writer->wait_ns : timeout_ns, 1)) != 0)
        return sl_cipd_count_failure(writer, r);
    begin_frame(writer, frame);
    SL_KILL_POINT("after_begin");
    return 0;
}

static int check_is_begun(const struct sl_cipd_writer *writer, const struct sluice_frame *frame)
{
    if (!frame)
        return sl_fail(SLUICE_E_INVALID, "channel 'cipd:%s': frame is NULL", writer->base.name);
    if (frame->opaque[SL_FRAME_OWNER] == 0)
        return sl_fail(SLUICE_E_STALE,
                       "channel 'cipd:%s': this frame is not begun: it was committed or cancelled, or never begun",
                       writer->base.name);
    if (frame->opaque[SL_FRAME_OWNER] != sl_cipd_writer_id(writer) || writer->token == 0 ||
        frame->opaque[SL_FRAME_TOKEN] != writer->token)
        return sl_fail(SLUICE_E_STALE, "channel 'cipd:%s': this frame is not this writer's, or has ended",
                       writer->base.name);
    return 0;
}

static void end_frame(struct sl_cipd_writer *writer, struct sluice_frame *frame)
{
    SL_SPAN_END(WRITE, &writer->span);
    writer->token = 0;
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
}

/* ---- commit ---- */

/* A job without copies, behind the program's work on the stream. */
static int begin_empty_job(struct sl_cipd_writer *writer, struct sluice_stream stream, struct sl_copy_job *job)
{
    job->needs_fence = false;
    job->prompt = true;
    return sl_arrays_begin(&writer->copier, SL_COPY_SEND, NULL, 0, stream, job);
}

int sl_cipd_record_work(struct sl_cipd_writer *writer, struct sl_copy_job *job)
{
    struct sl_cipd_slot *slot = sl_cipd_next_slot(writer);
    int r;

    SL_STAGE_BEGIN(SIGNAL);
    r = sl_copy_record(job, &slot->last_work);
    SL_STAGE_END(SIGNAL);
    if (r != 0 || !writer->params.block)
        return r;
    r = sl_cipd_await_slot(writer, slot, BLOCK_TIMEOUT);
    if (r == SLUICE_NOT_READY)
        return sl_fail(SLUICE_TIMEOUT,
                       "channel 'cipd:%s': the GPU did not finish the frame within %d s; it is not published",
                       writer->base.name, (int)(BLOCK_TIMEOUT / SLUICE_S));
    if (r == 0)
        sl_cipd_next_is_finished(writer);
    return r;
}

void sl_cipd_publish(struct sl_cipd_writer *writer, struct sluice_frame *frame, const struct sl_copy_job *sent)
{
    struct sl_cipd_slot *slot = sl_cipd_next_slot(writer);
    int64_t now = sl_os_now();

    frame->slot = sl_cipd_write_slot(&writer->producer);
    SL_KILL_POINT("before_publish");
    SL_STAGE_BEGIN(PUBLISH);
    sl_mutex_lock(&writer->lock);
    frame->sequence = sl_cipd_write_publish(&writer->producer, now);
    writer->published++;
    writer->bytes += writer->metadata.bytes;
    writer->graph_frames += sent && sent->by_graph;
    writer->copied_bytes += sent ? writer->metadata.bytes : 0;
    writer->last_frame_ns = now;
    if (writer->holds) {
        sl_cipd_barrier_published(&writer->holder, now);
        sl_cipd_writer_update_checks(writer);
    }
    sl_mutex_unlock(&writer->lock);
    SL_STAGE_END(PUBLISH);
    slot->frame = (uint32_t)frame->sequence;
    sl_store(&slot->frames, sl_load(&slot->frames, relaxed) + 1, relaxed);
    frame->session = writer->session;
    frame->generation = writer->generation;
    frame->commit_ns = now;
}

static int check_can_commit(const struct sl_cipd_writer *writer, const struct sluice_frame *frame)
{
    int r = check_is_begun(writer, frame);

    if (r != 0)
        return r;
    if (writer->reshaped)
        return sl_fail(
            SLUICE_E_UNSUPPORTED,
            "channel 'cipd:%s': the frame was given another shape, which its protocol cannot say of one frame: cancel "
            "it, sluice_writer_reformat, begin again",
            writer->base.name);
    if (frame->meta_size > SLUICE_MAX_META)
        return sl_fail(SLUICE_E_LIMIT, "channel 'cipd:%s': %u bytes of metadata, %d fit", writer->base.name,
                       frame->meta_size, SLUICE_MAX_META);
    return sl_cuda_alive(writer->context);
}

int sl_cipd_commit(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    struct sl_copy_job job;
    int r;

    if ((r = check_can_commit(writer, frame)) != 0 || (r = begin_empty_job(writer, stream, &job)) != 0)
        return r;
    r = sl_cipd_record_work(writer, &job);
    sl_copy_end(&job);
    if (r != 0)
        return sl_cipd_count_failure(writer, r);
    sl_cipd_publish(writer, frame, NULL);
    end_frame(writer, frame);
    return 0;
}

/* ---- cancel ---- */

/* The slot is not reused before the work that the program has queued on it is done. */
static int record_cancelled_work(struct sl_cipd_writer *writer, struct sluice_stream stream)
{
    struct sl_copy_job job;
    int r = begin_empty_job(writer, stream, &job);

    if (r != 0)
        return r;
    r = sl_copy_record(&job, &sl_cipd_next_slot(writer)->last_work);
    sl_copy_end(&job);
    return r;
}

int sl_cipd_cancel(struct sluice_writer *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    int r = check_is_begun(writer, frame);

    if (r == 0 && stream.id != SLUICE_ON_CPU.id && sl_cuda_alive(writer->context) == 0)
        r = record_cancelled_work(writer, stream);
    if (r != 0)
        return r;
    sl_mutex_lock(&writer->lock);
    writer->cancelled++;
    sl_mutex_unlock(&writer->lock);
    end_frame(writer, frame);
    return 0;
}

/* ---- the memory of a frame that is begun ---- */

int sl_cipd_writer_pin(struct sluice_writer *base, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    int r = check_is_begun(writer, frame);

    return r == 0 ? sl_cipd_pin(sl_cipd_next_slot(writer), pin) : r;
}

int sl_cipd_writer_view(struct sluice_writer *base, const struct sluice_frame *frame, struct sl_view *view)
{
    struct sl_cipd_writer *writer = sl_cipd_writer_of(base);
    int r = check_is_begun(writer, frame);

    if (r != 0)
        return r;
    view->writable_geometries = &writer->geometry;
    view->geometries = &writer->geometry;
    view->reshaped = &writer->reshaped;
    view->format = &writer->format;
    view->address = (char *)(uintptr_t)sl_cipd_next_slot(writer)->address;
    view->device = writer->device;
    return 0;
}
