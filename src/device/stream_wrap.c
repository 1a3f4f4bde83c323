/* SPDX-License-Identifier: MIT
 *
 * Wraps streams of other libraries. A native stream has one handle on a device, counted by its wraps.
 */
#include <stdlib.h>

#include "device/device.h"
#include "util/result.h"

/* Counts a wrap of a stream that has a handle, under the device's lock. Takes `release` (or NULL) over. */
static uint64_t count(struct sl_stream *stream, struct sl_stream_release *release)
{
    stream->more_wraps++;
    if (release) {
        release->next = stream->releases;
        stream->releases = release;
    }
    return sl_object_id(&stream->object);
}

/* Of `object`, which was made meanwhile, if another thread was faster. */
static uint64_t count_instead(struct sl_object *object)
{
    struct sl_stream *made = (struct sl_stream *)object, *first = sl_stream_by_native(object->device, made->wrapped);

    if (!first)
        return 0;
    struct sl_stream_release *release = made->releases;
    made->releases = NULL;
    return count(first, release);
}

/* ---- wrapping ---- */

/* False if it has no handle on this device yet. */
static bool wrap_again(struct sl_device *device, uintptr_t native, struct sl_stream_release *release,
                       struct sluice_stream *handle)
{
    sl_mutex_lock(&device->lock);
    struct sl_stream *stream = sl_stream_by_native(device, native);
    if (stream)
        handle->id = count(stream, release);
    sl_mutex_unlock(&device->lock);
    return stream != NULL;
}

static int wrap_first(struct sluice_device device, uintptr_t native, struct sl_stream_release *release,
                      struct sluice_stream *handle)
{
    struct sl_stream *stream;
    int r = sl_stream_new(device, SLUICE_STREAM_BORROWED, &stream);

    if (r != 0)
        return r;
    stream->wrapped = native;
    if ((r = stream->object.device->ops->stream_wrap(stream, native)) != 0) {
        sl_object_drop(&stream->object);
        return r;
    }
    stream->releases = release;
    return sl_stream_adopt(stream, count_instead, handle);
}

int sl_stream_wrap(struct sluice_device handle, uintptr_t native, void (*call)(void *user), void *user,
                   struct sluice_stream *stream)
{
    struct sl_stream_release *release = NULL;
    struct sl_device *device;
    int r = sl_device_hold(handle, &device);

    if (r != 0)
        return r;
    if (native == 1) /* CUDA's other name of the legacy default stream */
        native = 0;
    if (call && !(release = malloc(sizeof *release)))
        r = sl_fail(SLUICE_E_NO_MEMORY, "no memory to wrap a stream of \"%s\"", device->name);
    if (release)
        *release = (struct sl_stream_release){ .release = call, .user = user };
    if (r == 0 && !wrap_again(device, native, release, stream) &&
        (r = wrap_first(handle, native, release, stream)) != 0)
        free(release);
    sl_object_drop(&device->object);
    return r;
}
