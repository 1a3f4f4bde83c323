/* SPDX-License-Identifier: MIT
 *
 * Events: points in a stream that other streams wait for, or measure the time between.
 */
#include <inttypes.h>

#include "device/device.h"
#include "util/result.h"

static const struct sl_device_ops *ops_of(const struct sl_event *event)
{
    return event->object.device->ops;
}

int sl_event_hold(struct sluice_event handle, struct sl_event **event)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_EVENT, &object);

    if (r == 0)
        *event = (struct sl_event *)object;
    return r;
}

int sl_event_recorded(struct sl_event *event)
{
    if (atomic_load_explicit(&event->recorded, memory_order_acquire))
        return 0;
    return sl_fail(
        SLUICE_E_NOT_RECORDED,
        "event 0x%" PRIx64
        " was never recorded; record it on a stream first (sluice_event_record; in Python, event.record(stream))",
        sl_object_id(&event->object));
}

static void finish_event(struct sl_object *object)
{
    struct sl_event *event = (struct sl_event *)object;

    ops_of(event)->event_destroy(event);
    sl_device_count(SL_HANDLE_EVENT, -1);
}

int sl_event_create(struct sluice_device device, uint32_t flags, struct sluice_event *handle)
{
    if (flags & ~(uint32_t)(SLUICE_EVENT_TIMING | SLUICE_EVENT_SLEEP))
        return sl_fail(SLUICE_E_INVALID,
                       "sluice_event_create: flags are 0x%" PRIx32 "; there are SLUICE_EVENT_TIMING and "
                       "SLUICE_EVENT_SLEEP",
                       flags);
    void *object;
    int r = sl_device_object(device, SL_HANDLE_EVENT, sizeof(struct sl_event), &object);
    if (r != 0)
        return r;
    struct sl_event *event = object;
    event->timing = (flags & SLUICE_EVENT_TIMING) != 0;
    event->sleep = (flags & SLUICE_EVENT_SLEEP) != 0;
    r = ops_of(event)->event_create(event);
    if (r != 0) {
        sl_object_drop(&event->object);
        return r;
    }
    event->object.finish = finish_event;
    sl_device_count(SL_HANDLE_EVENT, 1);
    return sl_device_adopt(&event->object, NULL, &handle->id);
}

/* An event is recorded only on streams of its own device, also if the same GPU was opened twice:
 * closing one device must not end what the other still uses. */
static int same_device(struct sl_event *event, struct sl_object *other, const char *what)
{
    if (event->object.device == other->device)
        return 0;
    return sl_fail(SLUICE_E_WRONG_DEVICE,
                   "event 0x%" PRIx64 " is of \"%s\", and %s 0x%" PRIx64 " is of \"%s\": two devices, as "
                   "each open is one; create the event on the other's device",
                   sl_object_id(&event->object), event->object.device->name, what,
                   atomic_load_explicit(&other->id, memory_order_relaxed), other->device->name);
}

int sl_event_record(struct sluice_event handle, struct sluice_stream stream_handle)
{
    struct sl_event *event;
    struct sl_stream *stream;
    int r = sl_event_hold(handle, &event);
    if (r != 0)
        return r;
    r = sl_stream_hold(stream_handle, &stream);
    if (r == 0) {
        r = same_device(event, &stream->object, "stream");
        if (r == 0) {
            sl_stream_add_order(stream_handle.id, handle.id, true);
            r = ops_of(event)->event_record(event, stream);
        }
        if (r == 0)
            atomic_store_explicit(&event->recorded, true, memory_order_release);
        sl_object_drop(&stream->object);
    }
    sl_object_drop(&event->object);
    return r;
}

int sl_event_query(struct sluice_event handle)
{
    struct sl_event *event;
    int r = sl_event_hold(handle, &event);
    if (r != 0)
        return r;
    r = sl_event_recorded(event);
    if (r == 0)
        r = ops_of(event)->event_query(event);
    if (r == SLUICE_NOT_READY)
        sl_say("event 0x%" PRIx64 " has not been reached yet", handle.id);
    if (r == 0)
        sl_stream_add_host_wait(handle.id);
    sl_object_drop(&event->object);
    return r;
}

int sl_event_synchronize(struct sluice_event handle)
{
    struct sl_event *event;
    int r = sl_event_hold(handle, &event);
    if (r != 0)
        return r;
    r = sl_event_recorded(event);
    if (r == 0)
        r = ops_of(event)->event_synchronize(event);
    if (r == 0)
        sl_stream_add_host_wait(handle.id);
    sl_object_drop(&event->object);
    return r;
}

static int measurable(struct sl_event *event)
{
    if (!event->timing)
        return sl_fail(SLUICE_E_NO_TIMING,
                       "event 0x%" PRIx64 " was made without timing; create one that takes times "
                       "(SLUICE_EVENT_TIMING; in Python, timing=True)",
                       sl_object_id(&event->object));
    return sl_event_recorded(event);
}

static int reached(struct sl_event *event)
{
    int r = ops_of(event)->event_query(event);

    if (r == SLUICE_NOT_READY)
        sl_say("event 0x%" PRIx64 " has not been reached yet", sl_object_id(&event->object));
    return r;
}

/* Errors that waiting cannot cure come first. */
static int read_elapsed(struct sl_event *start, struct sl_event *stop, double *milliseconds)
{
    int r = same_device(start, &stop->object, "event");

    if (r == 0)
        r = measurable(start);
    if (r == 0)
        r = measurable(stop);
    if (r == 0)
        r = reached(start);
    if (r == 0)
        r = reached(stop);
    if (r == 0 && (r = ops_of(start)->event_elapsed(start, stop, milliseconds)) == SLUICE_NOT_READY)
        sl_say("one of the events was recorded again meanwhile, and has not been reached yet");
    return r;
}

int sl_event_elapsed(struct sluice_event start_handle, struct sluice_event stop_handle, double *milliseconds)
{
    struct sl_event *start, *stop;

    int r = sl_event_hold(start_handle, &start);
    if (r != 0)
        return r;
    r = sl_event_hold(stop_handle, &stop);
    if (r == 0) {
        r = read_elapsed(start, stop, milliseconds);
        sl_object_drop(&stop->object);
    }
    sl_object_drop(&start->object);
    return r;
}

int sl_event_destroy(struct sluice_event *handle)
{
    return sl_device_end(&handle->id, SL_HANDLE_EVENT);
}
