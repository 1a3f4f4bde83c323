/* SPDX-License-Identifier: MIT
 *
 * A writer's begin: takes a free slot for the next frame, or waits for one.
 */
#include "native/writer/writer.h"
#include "util/hooks.h"
#include "util/result.h"

void sl_begin_prefetch(struct sl_writer *writer)
{
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_prefetch(&writer->ring, writer->likely_slot, writer->serve->readers, writer->serve->reader_count);
    sl_mutex_unlock(&writer->serve->lock);
}

static void restore_geometries(const struct sl_writer *writer, struct sl_record *record)
{
    for (uint32_t i = 0; i < writer->format.array_count; i++)
        sl_geometry_from_array(&record->arrays[i], &writer->format.arrays[i]);
}

static void fill_frame(const struct sl_writer *writer, uint32_t slot, int64_t now, struct sluice_frame *frame)
{
    *frame = (struct sluice_frame){
        /* each field: see fill_frame in reader/frame_fill.c */
        .sequence = 0,
        .session = writer->session,
        .missed = 0,
        .capture_ns = now,
        .commit_ns = 0,
        .meta = sl_serve_meta(writer->serve, slot),
        .meta_size = 0,
        .capture_clock = SLUICE_CLOCK_MONOTONIC,
        .slot = slot,
        .generation = writer->generation,
        .array_count = writer->format.array_count,
        .flags = 0,
        .opaque = { [SL_FRAME_OWNER] = atomic_load_explicit(&writer->base.object.id, memory_order_relaxed),
                    [SL_FRAME_TOKEN] = writer->slots[slot].token,
                    [SL_FRAME_ENTRY] = slot,
                    0,
                    0,
                    0 },
    };
}

/* Hands the slot out. */
static void begin_frame(struct sl_writer *writer, uint32_t slot, int64_t now, struct sluice_frame *frame)
{
    struct sl_record *record = sl_serve_record(writer->serve, slot);
    struct sl_writer_slot *begun = &writer->slots[slot];

    if (begun->reshaped)
        restore_geometries(writer, record);
    begun->reshaped = false;
    begun->token = ++writer->next_token;
    fill_frame(writer, slot, now, frame);
    sl_record_prefetch(record);
    writer->begun++;
    SL_SPAN_BEGIN(WRITE, &begun->span, writer->base.name, 0);
}

/* Readers that wait ahead learn which of their semaphores will be signalled, before there are frames for them. */
static void update_reader_semaphores(struct sl_writer *writer)
{
    if (writer->in_flight.pages && sl_load(&writer->serve->ahead_changed, relaxed))
        sl_reader_semaphores_update(&writer->reader_semaphores, writer->serve, sl_in_flight_count(&writer->ring) > 0);
    sl_reader_semaphores_update_requests(&writer->reader_semaphores, writer->ring.head_sequence + 1);
}

/* There is no free slot, perhaps because the device is lost. */
static int report_no_slot(struct sl_writer *writer, int64_t now, uint64_t dropped)
{
    int r = sl_writer_check_device(writer, now);

    return r != 0 ? sl_writer_lose_frames(writer, r) : sl_free_slot_report_none(writer, dropped);
}

static int64_t begin_timeout(const struct sl_writer *writer, int64_t timeout_ns)
{
    if (timeout_ns != SLUICE_DEFAULT)
        return timeout_ns;
    return writer->params.policy == SLUICE_WAIT ? writer->params.wait_ns : 0;
}

int sl_native_begin(struct sluice_writer *base, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sl_writer *writer = sl_writer_of(base);
    int64_t now = sl_os_now();
    int slot, r;

    writer->took_long = false;
    sl_deferred_cancel_settle(writer);
    if ((r = sl_writer_check_device(writer, now)) != 0)
        return sl_writer_lose_frames(writer, r);
    update_reader_semaphores(writer);
    slot = sl_free_slot_find(writer, begin_timeout(writer, timeout_ns));
    if (writer->took_long)
        now = sl_os_now();
    if (slot < 0)
        return report_no_slot(writer, now, 1);
    begin_frame(writer, (uint32_t)slot, now, frame);
    SL_KILL_POINT("after_begin");
    return 0;
}

/* Takes a slot as begin does, and gives it back. */
int sl_native_wait(struct sluice_writer *base, int64_t timeout_ns)
{
    struct sl_writer *writer = sl_writer_of(base);
    int slot = sl_free_slot_find(writer, timeout_ns > 0 ? timeout_ns : 1);

    if (slot < 0)
        return report_no_slot(writer, sl_os_now(), 0);
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_cancel(&writer->ring, (uint32_t)slot);
    sl_mutex_unlock(&writer->serve->lock);
    return 0;
}
