/* SPDX-License-Identifier: MIT
 *
 * A frame between begin and commit: its checks, its arrays, its pin, and its end.
 */
#include <string.h>

#include "native/writer/writer.h"
#include "util/result.h"

int sl_frame_check_begun(const struct sl_writer *writer, const struct sluice_frame *frame)
{
    uint64_t owner = frame->opaque[SL_FRAME_OWNER], slot = frame->opaque[SL_FRAME_ENTRY];

    if (owner == 0)
        return sl_fail(SLUICE_E_STALE,
                       "channel '%s': this frame is not begun: it was committed or cancelled, or never begun",
                       writer->base.name);
    if (owner != atomic_load_explicit(&writer->base.object.id, memory_order_relaxed))
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame is not this writer's", writer->base.name);
    if (slot >= writer->ring.words.ids || writer->slots[slot].token == 0 ||
        writer->slots[slot].token != frame->opaque[SL_FRAME_TOKEN])
        return sl_fail(SLUICE_E_STALE, "channel '%s': this frame has been committed or cancelled already",
                       writer->base.name);
    return 0;
}

void sl_frame_end(struct sl_writer *writer, uint32_t slot)
{
    SL_SPAN_END(WRITE, &writer->slots[slot].span);
    writer->slots[slot].token = 0;
    writer->begun--;
}

void sl_frame_cancel(struct sl_writer *writer, uint32_t slot)
{
    sl_mutex_lock(&writer->serve->lock);
    sl_ring_cancel(&writer->ring, slot);
    writer->cancelled++;
    sl_mutex_unlock(&writer->serve->lock);
    sl_frame_end(writer, slot);
}

void sl_frame_invalidate(struct sluice_frame *frame)
{
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
}

int sl_native_writer_view(struct sluice_writer *base, const struct sluice_frame *frame, struct sl_view *view)
{
    struct sl_writer *writer = sl_writer_of(base);
    int r = sl_frame_check_begun(writer, frame);

    if (r != 0)
        return r;
    uint32_t slot = (uint32_t)frame->opaque[SL_FRAME_ENTRY];
    view->writable_geometries = sl_serve_record(writer->serve, slot)->arrays;
    view->geometries = view->writable_geometries;
    view->reshaped = &writer->slots[slot].reshaped;
    view->format = &writer->format;
    view->address = writer->slots[slot].address;
    view->device = writer->device_name;
    view->read_only = false;
    return 0;
}

int sl_native_writer_pin(struct sluice_writer *base, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sl_writer *writer = sl_writer_of(base);
    int r = sl_frame_check_begun(writer, frame);

    if (r == 0)
        *pin = (sluice_pin *)sl_slot_memory_pin(writer, (uint32_t)frame->opaque[SL_FRAME_ENTRY]);
    return r;
}
