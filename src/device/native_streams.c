/* SPDX-License-Identifier: MIT
 *
 * A device's streams by their native streams, for wraps. Under the device's lock.
 */
#include "device/device.h"

static struct sl_stream **bucket_of(struct sl_device *device, uintptr_t native)
{
    return &device->by_native[(native * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - SL_DEVICE_NATIVE_BITS)];
}

struct sl_stream *sl_stream_by_native(struct sl_device *device, uintptr_t native)
{
    struct sl_stream *stream = *bucket_of(device, native);

    while (stream && stream->wrapped != native)
        stream = stream->next_native;
    return stream;
}

void sl_stream_listed(struct sl_stream *stream)
{
    struct sl_device *device = stream->object.device;
    struct sl_stream *old, **bucket;

    if (stream->kind == SLUICE_STREAM_OWNED)
        stream->wrapped = stream->native;
    if (stream->kind == SLUICE_STREAM_DEFAULT) {
        device->default_stream = sl_object_id(&stream->object);
        return;
    }
    if (stream->kind == SLUICE_STREAM_OWNED && !stream->native) /* host */
        return;
    old = sl_stream_by_native(device, stream->wrapped);
    if (old) /* that stream is gone: its address means this one now */
        sl_stream_unlisted(old);
    bucket = bucket_of(device, stream->wrapped);
    stream->next_native = *bucket;
    *bucket = stream;
}

void sl_stream_unlisted(struct sl_stream *stream)
{
    struct sl_stream **at = bucket_of(stream->object.device, stream->wrapped);

    while (*at && *at != stream)
        at = &(*at)->next_native;
    if (*at)
        *at = stream->next_native;
}
