/* SPDX-License-Identifier: MIT
 *
 * The CUDA kind of device: a GPU's primary context.
 */
#include "device/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/result.h"

static int cuda_open(struct sl_device *device)
{
    struct sl_cuda_context *context;
    int r = sl_cuda_context_open(device->name, &context);

    if (r == 0)
        device->state = context;
    return r;
}

static int cuda_identify(const char *name, unsigned char uuid[SL_DEVICE_UUID])
{
    return sl_cuda_identify(name, uuid);
}

static void cuda_name_of(const unsigned char uuid[SL_DEVICE_UUID], char name[SL_DEVICE_NAME])
{
    char text[SL_CUDA_UUID_TEXT];

    sl_cuda_uuid_text(uuid, text);
    snprintf(name, SL_DEVICE_NAME, "cuda:%s", text);
}

static void cuda_close(struct sl_device *device)
{
    sl_cuda_retired_destroy(device);
    sl_cuda_context_close(device->state);
}

/* The device's streams, with a reference to each. */
static int hold_streams(struct sl_device *device, struct sl_stream ***streams, size_t *count)
{
    struct sl_object *object;
    size_t room = 0;

    sl_mutex_lock(&device->lock);
    for (object = device->objects; object; object = object->next)
        room += object->kind == SL_HANDLE_STREAM;
    *count = 0;
    *streams = room ? malloc(room * sizeof **streams) : NULL;
    for (object = device->objects; object && *streams; object = object->next) {
        if (object->kind != SL_HANDLE_STREAM)
            continue;
        sl_add(&object->uses, 1); /* a listed object has at least one reference, its handle's */
        (*streams)[(*count)++] = (struct sl_stream *)object;
    }
    sl_mutex_unlock(&device->lock);
    if (room && !*streams)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to wait for %zu streams", room);
    return 0;
}

/* Waits for the default stream, and so for all blocking streams of the context, whoever created
 * them. If a capture makes the default stream unusable, this device has no work on it, and there is
 * nothing to wait for. */
static int wait_default(struct sl_cuda_context *context)
{
    enum sl_cuda_capture state;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cuda_capture(context, NULL, &state, NULL);
    if (r == 0 && state == SL_CUDA_CAPTURE_NONE)
        r = sl_cu(context, StreamSynchronize, NULL);
    sl_cuda_leave(&scope);
    return r;
}

/* Stream by stream: synchronizing the context would invalidate every capture in it, also those of
 * other libraries, which nobody can list. */
static int cuda_synchronize(struct sl_device *device)
{
    struct sl_stream **streams;
    size_t count;
    int r = hold_streams(device, &streams, &count);

    for (size_t i = 0; i < count; i++) {
        if (r == 0)
            r = sl_cuda_stream_synchronize(streams[i]);
        sl_object_drop(&streams[i]->object);
    }
    free(streams);
    if (r == 0)
        r = sl_cuda_retired_synchronize(device);
    return r == 0 ? wait_default(device->state) : r;
}

/* The memory is freed with the context, so it holds a reference to the context. */
static int cuda_host_alloc(struct sl_device *device, size_t size, void **memory, void **keeper)
{
    struct sl_cuda_context *context;
    struct sl_cuda_scope scope;
    int r = sl_cuda_context_open(device->name, &context);
    if (r != 0)
        return r;
    r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r == 0) {
        r = sl_cu(context, MemHostAlloc, memory, size, SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP);
        sl_cuda_leave(&scope);
    }
    if (r != 0)
        sl_cuda_context_close(context);
    else
        *keeper = context;
    return r;
}

static int cuda_host_free(void *memory, void *keeper)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(keeper, SL_CUDA_RELAXED, &scope);

    if (r == 0) {
        r = sl_cu(keeper, MemFreeHost, memory);
        sl_cuda_leave(&scope);
    } /* otherwise the memory was freed with the context */
    sl_cuda_context_close(keeper);
    return r;
}

const struct sl_device_ops sl_device_cuda = {
    .name = "cuda",
    .identify = cuda_identify,
    .name_of = cuda_name_of,
    .open = cuda_open,
    .close = cuda_close,
    .synchronize = cuda_synchronize,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .stream_create = sl_cuda_stream_create,
    .stream_wrap = sl_cuda_stream_wrap,
    .stream_default = sl_cuda_stream_default,
    .stream_destroy = sl_cuda_stream_destroy,
    .stream_capture = sl_cuda_stream_capture,
    .stream_queue = sl_cuda_stream_queue,
    .stream_query = sl_cuda_stream_query,
    .stream_synchronize = sl_cuda_stream_synchronize,
    .streams_state = sl_cuda_streams_state,
    .streams_wait = sl_cuda_streams_wait,
    .stream_wait_event = sl_cuda_stream_wait_event,
    .event_create = sl_cuda_event_create,
    .event_destroy = sl_cuda_event_destroy,
    .event_record = sl_cuda_event_record,
    .event_query = sl_cuda_event_query,
    .event_synchronize = sl_cuda_event_synchronize,
    .event_elapsed = sl_cuda_event_elapsed,
};
