/* SPDX-License-Identifier: MIT
 *
 * A writer always leaves one finished frame for readers. A slot's event is recorded again for each frame. If a writer
 * were ahead of its GPU by as many frames as there are slots, readers would never see an event done, and get no frame.
 * So before a slot is written to, one of the frames in the other slots must be finished. With a single slot that is
 * impossible.
 */
#include "cuda_link/cuda_link.h"
#include "util/result.h"

/* How many frames stay when the next one is written. */
static uint32_t kept_frames(const struct sl_cipd_writer *writer)
{
    return writer->pool->count - 1;
}

static struct sl_cipd_slot *slot_before(const struct sl_cipd_writer *writer, uint32_t frames)
{
    uint32_t next = sl_cipd_write_slot(&writer->producer);

    return &writer->pool->slots[next >= frames ? next - frames : next + writer->pool->count - frames];
}

static bool is_kept(const struct sl_cipd_writer *writer, uint32_t frame)
{
    return frame && sl_cipd_index_distance(frame, writer->producer.index, writer->pool->count) < kept_frames(writer);
}

/* Is it known that one of them is finished, or does the next frame overwrite none? */
static bool is_finished_known(const struct sl_cipd_writer *writer)
{
    return slot_before(writer, 0)->frame == 0 || kept_frames(writer) == 0 || is_kept(writer, writer->finished);
}

bool sl_cipd_finished_is_reported(const struct sl_cipd_writer *writer)
{
    return is_finished_known(writer) || is_kept(writer, sl_cipd_write_finished(&writer->producer));
}

/* 0: one of them is finished. Queries the newest first: if that is finished, the next sends need no query. */
static int query_frames(struct sl_cipd_writer *writer, const struct sl_cipd_slot *none)
{
    (void)none;
    uint32_t frames = kept_frames(writer);
    int r = SLUICE_NOT_READY;

    for (uint32_t i = 1; i <= frames && r == SLUICE_NOT_READY; i++) {
        const struct sl_cipd_slot *slot = slot_before(writer, i);
        r = sl_cuda_query_event(writer->context, slot->last_work.event);
        if (r == 0)
            writer->finished = slot->frame;
    }
    return r;
}

int sl_cipd_keep_finished(struct sl_cipd_writer *writer, int64_t timeout_ns, uint64_t dropped)
{
    int64_t waited_ns = 0;
    int r;

    if (is_finished_known(writer))
        return 0;
    SL_STAGE_BEGIN(WAIT_SLOT);
    r = sl_cipd_await(writer, query_frames, NULL, timeout_ns, &waited_ns);
    SL_STAGE_END(WAIT_SLOT);
    if (waited_ns > 0 || r == SLUICE_NOT_READY) {
        sl_mutex_lock(&writer->lock);
        writer->waited_ns += (uint64_t)waited_ns;
        writer->dropped += r == SLUICE_NOT_READY ? dropped : 0;
        sl_mutex_unlock(&writer->lock);
    }
    if (r != SLUICE_NOT_READY)
        return r;
    return sl_fail(
        SLUICE_NO_SLOT,
        "channel 'cipd:%s': after %lld ms its GPU has not finished any of the last %u frames, and the next one would "
        "be written over the only finished one",
        writer->base.name, (long long)(timeout_ns / SLUICE_MS), kept_frames(writer));
}

void sl_cipd_next_is_finished(struct sl_cipd_writer *writer)
{
    writer->finished = sl_cipd_index_next(writer->producer.index, writer->pool->count);
}

/* Was all work for the next slot queued on the same stream, before the frame that is finished? */
static bool is_behind(const struct sl_cipd_writer *writer, uint32_t finished)
{
    const struct sl_cipd_slot *slot = slot_before(writer, 0);

    if (slot->last_work.stream == 0)
        return true;
    if (slot->frame == 0 || finished == 0)
        return false;
    for (uint32_t i = 1; i <= kept_frames(writer); i++)
        if (slot_before(writer, i)->frame == finished)
            return slot_before(writer, i)->last_work.stream == slot->last_work.stream;
    return false;
}

bool sl_cipd_next_slot_is_idle(const struct sl_cipd_writer *writer)
{
    return is_behind(writer, writer->finished);
}

bool sl_cipd_next_slot_is_reported_idle(const struct sl_cipd_writer *writer)
{
    return sl_cipd_finished_is_reported(writer) &&
           (is_behind(writer, writer->finished) || is_behind(writer, sl_cipd_write_finished(&writer->producer)));
}
