/* SPDX-License-Identifier: MIT
 *
 * What a reader does with a frame that it holds: check whether the writer has overwritten it, view it, release it.
 */
#include <string.h>

#include "cuda_link/cuda_link.h"
#include "util/result.h"

/* The entry of a frame that is held; NULL with a message. */
static struct sl_cipd_held *find_held(struct sl_cipd_reader *reader, const struct sluice_frame *frame)
{
    uint64_t index = frame->opaque[SL_FRAME_ENTRY], token = frame->opaque[SL_FRAME_TOKEN];

    if (frame->opaque[SL_FRAME_OWNER] == atomic_load_explicit(&reader->base.object.id, memory_order_relaxed) &&
        index < SLUICE_CIPD_MAX_SLOTS && token > SL_CIPD_RELEASED &&
        sl_load(&reader->held[index].token, acquire) == token)
        return &reader->held[index];
    sl_say("channel 'cipd:%s': this frame was released already, or is not this reader's", reader->base.name);
    return NULL;
}

bool sl_cipd_is_untouched(const struct sl_cipd_reader *reader, const struct sl_cipd_frame *frame, int64_t polled_ns)
{
    const struct sl_cipd_segment_reader *consumer = &reader->consumer;

    return sl_cipd_read_is_whole(consumer, frame) &&
           (!sl_cipd_load_shut(consumer->segment.at, &consumer->session.layout) ||
            sl_os_now() - polled_ns < SL_CIPD_GRACE);
}

/* Has the writer had no reason so far to overwrite it? With the reader's lock. */
static bool is_whole(struct sl_cipd_reader *reader, const struct sl_cipd_held *held)
{
    if (held->copied)
        return true;
    if (held->waits == SL_CIPD_CAME_NOT)
        return false;
    return held->link == reader->link && sl_cipd_is_untouched(reader, &held->frame, held->polled_ns);
}

static int say_lost(const struct sl_cipd_reader *reader)
{
    return sl_fail(SLUICE_E_LOST, "channel 'cipd:%s': the writer may have written to this frame while it was read",
                   reader->base.name);
}

int sl_cipd_check(struct sluice_reader *base, const struct sluice_frame *frame)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    const struct sl_cipd_held *held = find_held(reader, frame);

    if (!held)
        return SLUICE_E_STALE;
    sl_mutex_lock(&reader->lock);
    bool whole = is_whole(reader, held);
    sl_mutex_unlock(&reader->lock);
    return whole ? 0 : say_lost(reader);
}

int sl_cipd_check_mark(struct sl_cipd_reader *reader, const struct sluice_frame *frame)
{
    struct sl_cipd_held *held = find_held(reader, frame);

    if (!held)
        return SLUICE_E_STALE;
    sl_mutex_lock(&reader->lock);
    bool whole = is_whole(reader, held) || sl_cipd_overwrite_check_passed(held);
    sl_mutex_unlock(&reader->lock);
    return whole ? 0 : say_lost(reader);
}

int sl_cipd_reader_stream(struct sl_cipd_reader *reader, struct sluice_stream handle)
{
    struct sl_stream *stream;

    if (handle.id == SLUICE_ON_CPU.id)
        return 0;
    /* Nearly always the same stream as the last time. A handle never refers to another stream. */
    if (handle.id == sl_load(&reader->known_stream, relaxed) && sl_stream_is_alive(handle))
        return 0;
    int r = sl_stream_check(handle, &sl_device_cuda);
    if (r == SLUICE_E_WRONG_DEVICE)
        r = sl_fail(r, "channel 'cipd:%s': %s", reader->base.name, sl_last_error());
    if (r != 0 || (r = sl_stream_hold(handle, &stream)) != 0)
        return r;
    const struct sl_cuda_context *theirs = stream->object.device->state;
    if (theirs->device != reader->context->device)
        r = sl_fail(SLUICE_E_WRONG_DEVICE,
                    "channel 'cipd:%s': the stream is one of \"%s\", the frame is used on \"%s\"", reader->base.name,
                    stream->object.device->name, reader->device);
    else
        sl_store(&reader->known_stream, handle.id, relaxed);
    sl_object_drop(&stream->object);
    return r;
}

int sl_cipd_mark(struct sl_cipd_reader *reader, const struct sluice_frame *frame, struct sluice_stream handle)
{
    struct sl_cipd_held *held = find_held(reader, frame);
    struct sl_stream *stream;
    int r;

    if (!held)
        return SLUICE_E_STALE;
    if (handle.id == SLUICE_ON_CPU.id)
        return sl_fail(SLUICE_E_INVALID,
                       "channel 'cipd:%s': a mark needs a stream; for the CPU use sluice_reader_check",
                       reader->base.name);
    if ((r = sl_cipd_reader_stream(reader, handle)) != 0)
        return r;
    if (held->copied)
        return 0;
    if ((r = sl_stream_hold(handle, &stream)) != 0)
        return r;
    sl_mutex_lock(&reader->lock);
    r = sl_cipd_overwrite_check_queue(reader, held, stream);
    sl_mutex_unlock(&reader->lock);
    sl_object_drop(&stream->object);
    return r;
}

int sl_cipd_release(struct sluice_reader *base, struct sluice_frame *frame, struct sluice_stream stream)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    struct sl_cipd_held *held = find_held(reader, frame);
    uint64_t token = frame->opaque[SL_FRAME_TOKEN];
    int r;

    if (!held)
        return SLUICE_E_STALE;
    if ((r = sl_cipd_reader_stream(reader, stream)) != 0 ||
        (held->copied && (r = sl_cipd_copy_release(reader, (uint32_t)(held - reader->held), stream)) != 0))
        return r;
    sl_mutex_lock(&reader->lock);
    bool mine = sl_load(&held->token, relaxed) == token; /* if several threads release it, only one succeeds */
    bool whole = mine && is_whole(reader, held);
    uint64_t lost = mine && held->waits == SL_CIPD_CAME_NOT ? held->ahead_number : 0;
    if (mine) {
        SL_SPAN_END(READ, &held->span);
        if (held->waits == SL_CIPD_WAITS)
            sl_store(&held->token, SL_CIPD_RELEASED, release); /* its slot's event is still being queried */
        else
            sl_cipd_held_end(reader, held);
    }
    sl_mutex_unlock(&reader->lock);
    if (!mine)
        return sl_fail(SLUICE_E_STALE, "channel 'cipd:%s': this frame was released already", reader->base.name);
    memset(frame->opaque, 0, sizeof frame->opaque);
    frame->meta = NULL;
    if (whole)
        return 0;
    if (lost)
        sl_cipd_ahead_reported(reader->ahead, lost);
    sl_add(&reader->overruns, 1);
    return say_lost(reader);
}

int sl_cipd_reader_pin(struct sluice_reader *base, const struct sluice_frame *frame, sluice_pin **pin)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    struct sl_cipd_held *held = find_held(reader, frame);

    if (!held)
        return SLUICE_E_STALE;
    if (held->copied)
        return sl_fail(SLUICE_E_UNSUPPORTED,
                       "channel 'cipd:%s': frames of this reader are copies, in memory that is no slot's",
                       reader->base.name);
    return sl_cipd_pin(&held->link->pool->slots[held->frame.slot], pin);
}

int sl_cipd_reader_view(struct sluice_reader *base, const struct sluice_frame *frame, struct sl_view *view)
{
    struct sl_cipd_reader *reader = sl_cipd_reader_of(base);
    const struct sl_cipd_held *held = find_held(reader, frame);

    if (!held)
        return SLUICE_E_STALE;
    view->format = &held->link->format;
    view->geometries = &held->link->geometry;
    view->address = (char *)(uintptr_t)held->address;
    view->device = reader->device;
    view->behind = held->waits == SL_CIPD_WAITS ? held->ahead_stream : SLUICE_ON_CPU;
    view->read_only = !reader->params.writable && !held->copied;
    return 0;
}
