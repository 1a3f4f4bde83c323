/* SPDX-License-Identifier: MIT
 *
 * The `host` device: work is done when a call returns, so there is never anything to wait for. An
 * event stores the time at which it was recorded. Captures are in host_capture.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/host.h"
#include "os/os.h"
#include "util/result.h"

static int host_identify(const char *name, unsigned char uuid[SL_DEVICE_UUID])
{
    (void)name;
    memset(uuid, 0, SL_DEVICE_UUID);
    return 0;
}

static void host_name_of(const unsigned char uuid[SL_DEVICE_UUID], char name[SL_DEVICE_NAME])
{
    (void)uuid;
    snprintf(name, SL_DEVICE_NAME, "host");
}

static int host_open(struct sl_device *device)
{
    device->state = NULL;
    return 0;
}

static void host_close(struct sl_device *device)
{
    (void)device;
}

static int host_synchronize(struct sl_device *device)
{
    (void)device;
    return 0;
}

static int host_stream(struct sl_stream *stream)
{
    stream->native = 0;
    return 0;
}

static int host_stream_wrap(struct sl_stream *stream, uintptr_t native)
{
    (void)native; /* the host has no native streams: any value will do */
    return host_stream(stream);
}

static void host_stream_destroy(struct sl_stream *stream)
{
    (void)stream;
}

static void host_stream_queue(const struct sl_stream *stream, struct sl_stream_queue *queue)
{
    (void)stream;
    (void)queue;
}

static enum sl_capture host_stream_capture(struct sl_stream *stream)
{
    return sl_host_captures(stream) ? SL_CAPTURE_ACTIVE : SL_CAPTURE_NONE;
}

static int host_stream_done(struct sl_stream *stream)
{
    (void)stream;
    return 0;
}

static void host_streams_state(struct sl_stream *const *streams, uint32_t count, enum sl_stream_state *states)
{
    for (uint32_t i = 0; i < count; i++)
        states[i] = sl_host_captures(streams[i]) ? SL_STREAM_CAPTURES : SL_STREAM_IDLE;
}

static int host_streams_wait(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                             uint32_t other_count)
{
    int result = 0;

    for (uint32_t i = 0; i < count * other_count; i++) {
        int r = sl_host_capture_wait_stream(streams[i / other_count], others[i % other_count]);
        result = r ? r : result;
    }
    return result;
}

static int host_event_create(struct sl_event *event)
{
    struct sl_host_event *own = calloc(1, sizeof *own);

    if (!own)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for an event (%zu bytes)", sizeof *own);
    event->native = (uintptr_t)own;
    return 0;
}

static void host_event_destroy(struct sl_event *event)
{
    free(sl_host_event_of(event)->mark.list);
    free(sl_host_event_of(event));
}

static int host_event_record(struct sl_event *event, struct sl_stream *stream)
{
    if (event->timing)
        atomic_store_explicit(&sl_host_event_of(event)->at, sl_os_now(), memory_order_relaxed);
    return sl_host_capture_record(stream, event);
}

static int host_event_elapsed(struct sl_event *start, struct sl_event *stop, double *milliseconds)
{
    int64_t from = atomic_load_explicit(&sl_host_event_of(start)->at, memory_order_relaxed);
    int64_t to = atomic_load_explicit(&sl_host_event_of(stop)->at, memory_order_relaxed);

    *milliseconds = (double)(to - from) / (double)SLUICE_MS;
    return 0;
}

static int host_alloc(struct sl_device *device, size_t size, void **memory, void **keeper)
{
    size_t unit = sl_os_page_size();

    (void)device;
    *keeper = NULL;
    *memory = size > SIZE_MAX - unit ? NULL : sl_os_aligned_alloc(unit, (size + unit - 1) / unit * unit);
    return *memory ? 0 : sl_fail(SLUICE_E_NO_MEMORY, "there are no %zu bytes of memory left", size);
}

static int host_free(void *memory, void *keeper)
{
    (void)keeper;
    sl_os_aligned_free(memory);
    return 0;
}

const struct sl_device_ops sl_device_host = {
    .name = "host",
    .identify = host_identify,
    .name_of = host_name_of,
    .open = host_open,
    .close = host_close,
    .synchronize = host_synchronize,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .stream_create = host_stream,
    .stream_wrap = host_stream_wrap,
    .stream_default = host_stream,
    .stream_destroy = host_stream_destroy,
    .stream_capture = host_stream_capture,
    .stream_queue = host_stream_queue,
    .stream_query = host_stream_done,
    .stream_synchronize = host_stream_done,
    .streams_state = host_streams_state,
    .streams_wait = host_streams_wait,
    .stream_wait_event = sl_host_capture_wait_event,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_query = sl_host_capture_moment,
    .event_synchronize = sl_host_capture_moment,
    .event_elapsed = host_event_elapsed,
};
