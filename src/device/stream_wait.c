/* SPDX-License-Identifier: MIT
 *
 * Streams that wait for other streams, or for events.
 */
#include "device/device.h"
#include "util/result.h"

static const struct sl_device_ops *ops_of(const struct sl_stream *stream)
{
    return stream->object.device->ops;
}

/* Streams wait for each other only on devices of one kind. Between two kinds only the CPU could
 * wait. */
static int same_kind(struct sl_stream *stream, struct sl_object *other, const char *what)
{
    if (other->device->ops == ops_of(stream))
        return 0;
    return sl_fail(SLUICE_E_WRONG_DEVICE, "a stream of \"%s\" cannot wait for %s of \"%s\"; synchronize it on the CPU",
                   stream->object.device->name, what, other->device->name);
}

int sl_streams_wait(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                    uint32_t other_count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < other_count; j++)
            sl_stream_add_order(sl_object_id(&others[j]->object), sl_object_id(&streams[i]->object), false);
    return ops_of(streams[0])->streams_wait(streams, count, others, other_count);
}

int sl_stream_wait_stream(struct sluice_stream handle, struct sluice_stream other_handle)
{
    struct sl_stream *stream, *other;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    r = sl_stream_hold(other_handle, &other);
    if (r == 0) {
        r = same_kind(stream, &other->object, "a stream");
        if (r == 0 && stream != other)
            r = sl_streams_wait(&stream, 1, &other, 1);
        sl_object_drop(&other->object);
    }
    sl_object_drop(&stream->object);
    return r;
}

int sl_stream_wait_event(struct sluice_stream handle, struct sluice_event event_handle)
{
    struct sl_stream *stream;
    struct sl_event *event;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    r = sl_event_hold(event_handle, &event);
    if (r == 0) {
        r = same_kind(stream, &event->object, "an event");
        if (r == 0)
            r = sl_event_recorded(event);
        if (r == 0) {
            sl_stream_add_order(event_handle.id, handle.id, false);
            r = ops_of(stream)->stream_wait_event(stream, event);
        }
        sl_object_drop(&event->object);
    }
    sl_object_drop(&stream->object);
    return r;
}
