/* SPDX-License-Identifier: MIT
 *
 * A writer's begin: takes a free slot for the next frame, or waits for one.
 */
#include <stdio.h>

#include "native/writer/writer.h"
#include "util/hooks.h"
#include "util/result.h"

/* ---- prefetching ---- */

void sl_begin_prefetch(struct sl_writer *writer)
{
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_early(&writer->ring, writer->likely, writer->serve->readers, writer->serve->reader_count);
    sl_mutex_unlock(&writer->serve->lock);
}

/* These cache lines are with readers of the slot's last frame, or with one that waits for this frame. */
void sl_begin_prefetch_record(const struct sl_record *record)
{
    sl_fetch_to_store(record);
    sl_fetch_to_store((const char *)record + 64);
}

/* ---- a lost device ---- */

int sl_begin_lose(struct sl_writer *writer, int result)
{
    uint32_t lost = sl_flight_lose(&writer->ring);

    if (lost) { /* readers must not wait for them (protocol 3.3) */
        sl_log(SLUICE_LOG_WARN, "channel '%s': %u frames are lost with the device", writer->base.name, lost);
        sl_mutex_lock(&writer->serve->lock);
        sl_serve_wake(writer->serve, SL_LAST_SEQUENCE);
        sl_mutex_unlock(&writer->serve->lock);
    }
    return result;
}

/* Is the device still usable? A stream reports a crash only when it is queried, so it is queried about work that should have
 * ended long ago. */
static int check_device(struct sl_writer *writer, int64_t now)
{
    if (writer->flight.idle && now - writer->last_commit_ns > SL_LATE && sl_flight_count(&writer->ring) > 0) {
        writer->took_long = true;
        return sl_flight_probe(&writer->flight);
    }
    return writer->flight.sync->alive(writer->flight.pages);
}

int sl_begin_failed(struct sl_writer *writer, int result)
{
    char why[640];

    snprintf(why, sizeof why, "%s", sl_last_error());
    if (check_device(writer, sl_os_now()) != 0)
        (void)sl_begin_lose(writer, result);
    return sl_fail_text(result, why);
}

/* There is no free slot: because the device is lost? */
static int report_no_slot(struct sl_writer *writer, int64_t now, uint64_t dropped)
{
    int r = check_device(writer, now);

    return r != 0 ? sl_begin_lose(writer, r) : sl_free_slot_none(writer, dropped);
}

/* ---- begin ---- */

static void restore_geometries(struct sl_writer *writer, struct sl_record *record)
{
    for (uint32_t i = 0; i < writer->format.array_count; i++)
        sl_geometry_from_array(&record->arrays[i], &writer->format.arrays[i]);
}

static void fill_frame(struct sl_writer *writer, uint32_t slot, int64_t now, struct sluice_frame *frame)
{
    struct sl_record *record = sl_serve_record(writer->serve, slot);
    struct sl_writer_slot *mine = &writer->slots[slot];

    if (mine->reshaped)
        restore_geometries(writer, record);
    mine->reshaped = false;
    mine->token = ++writer->next_token;
    *frame = (struct sluice_frame){ /* each field: see sl_frame_fill */
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
                    [SL_FRAME_TOKEN] = mine->token,
                    [SL_FRAME_ENTRY] = slot, 0, 0, 0 },
    };
    sl_begin_prefetch_record(record);
    writer->begun++;
    SL_SPAN_BEGIN(WRITE, &mine->span, writer->base.name, 0);
}

/* Tells readers that wait ahead which words to wait for, before there are frames for them. */
static void update_reader_words(struct sl_writer *writer)
{
    if (writer->flight.pages && sl_load(&writer->serve->ahead_changed, relaxed))
        sl_follow_update(&writer->follow, writer->serve, sl_flight_count(&writer->ring) > 0);
    sl_follow_ask(&writer->follow, writer->ring.head_sequence + 1);
}

int sl_native_begin(struct sluice_writer *base, int64_t timeout_ns, struct sluice_frame *frame)
{
    struct sl_writer *writer = sl_writer_of(base);
    int64_t now = sl_os_now();
    int slot, r;

    if (timeout_ns == SLUICE_DEFAULT)
        timeout_ns = writer->params.policy == SLUICE_WAIT ? writer->params.wait_ns : 0;
    writer->took_long = false;
    sl_withdraw_settle(writer);
    if ((r = check_device(writer, now)) != 0)
        return sl_begin_lose(writer, r);
    update_reader_words(writer);
    slot = sl_free_slot_find(writer, timeout_ns);
    if (writer->took_long)
        now = sl_os_now();
    if (slot < 0)
        return report_no_slot(writer, now, 1);
    fill_frame(writer, (uint32_t)slot, now, frame);
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
