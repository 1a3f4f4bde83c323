/* SPDX-License-Identifier: MIT
 *
 * Streams: created, wrapped, or the device's default; queried, synchronized, destroyed.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "os/os.h"
#include "util/handle.h"
#include "util/result.h"

/* A caller's struct larger than this is refused: its size was never set. */
#define LARGEST_STRUCT 4096

static const struct sl_device_ops *ops_of(const struct sl_stream *stream)
{
    return stream->object.device->ops;
}

int sl_stream_hold(struct sluice_stream handle, struct sl_stream **stream)
{
    struct sl_object *object;
    int r = sl_object_hold(handle.id, SL_HANDLE_STREAM, &object);

    if (r == 0)
        *stream = (struct sl_stream *)object;
    return r;
}

bool sl_stream_is_alive(struct sluice_stream handle)
{
    return sl_handle_is_alive(handle.id, SL_HANDLE_STREAM);
}

void (*_Atomic sl_stream_order_hook)(uint64_t from, uint64_t to, bool anew);
void (*_Atomic sl_stream_check_hook)(uint64_t from, uint64_t to, bool anew);

void sl_stream_add_order(uint64_t from, uint64_t to, bool anew)
{
    void (*hand_on)(uint64_t, uint64_t, bool) = atomic_load_explicit(&sl_stream_order_hook, memory_order_acquire);
    void (*check)(uint64_t, uint64_t, bool) = atomic_load_explicit(&sl_stream_check_hook, memory_order_acquire);

    if (hand_on)
        hand_on(from, to, anew);
    if (check)
        check(from, to, anew);
}

void sl_stream_add_host_wait(uint64_t from)
{
    void (*check)(uint64_t, uint64_t, bool) = atomic_load_explicit(&sl_stream_check_hook, memory_order_acquire);

    if (check)
        check(from, SLUICE_ON_CPU.id, false);
}

bool sl_stream_queue_of(struct sluice_stream handle, struct sl_stream_queue *queue)
{
    struct sl_object *object = sl_os_forked() ? NULL : sl_object_find(handle.id, SL_HANDLE_STREAM);
    const struct sl_stream *stream = (const struct sl_stream *)object;

    *queue = (struct sl_stream_queue){ .context = NULL };
    if (!object)
        return false;
    ops_of(stream)->stream_queue(stream, queue);
    sl_object_drop(object);
    return true;
}

uint64_t sl_stream_queue_id(const struct sl_stream *stream)
{
    struct sl_stream_queue queue = { .thread = 0 };

    ops_of(stream)->stream_queue(stream, &queue);
    return queue.thread ? UINT64_C(1) << 63 | queue.thread : sl_object_id(&stream->object); /* no handle has this bit */
}

bool sl_stream_ordered(const struct sl_stream_queue *a, const struct sl_stream_queue *b)
{
    if (!a->context || a->context != b->context)
        return false;
    if (a->native == b->native)
        return a->thread == b->thread;
    return a->blocking && b->blocking;
}

int sl_stream_check_handle(struct sluice_stream handle, const struct sl_device_ops *kind)
{
    if (handle.id == SLUICE_ON_CPU.id)
        return 0;
    if (handle.id == 0)
        return sl_fail(SLUICE_E_INVALID, "no stream given: pass SLUICE_ON_CPU if the CPU did the work, or the stream "
                                         "that does it");
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    if (kind && ops_of(stream) != kind)
        r = sl_fail(SLUICE_E_WRONG_DEVICE,
                    "stream 0x%" PRIx64 " is of device \"%s\", the channel's frames live on "
                    "\"%s\"; pass a stream of that device, or synchronize this one and pass none "
                    "(SLUICE_ON_CPU; in Python, None)",
                    handle.id, stream->object.device->name, kind->name);
    sl_object_drop(&stream->object);
    return r;
}

int sl_stream_refused(const char *channel, int result)
{
    return result == SLUICE_E_WRONG_DEVICE ? sl_fail(result, "channel '%s': %s", channel, sl_last_error()) : result;
}

int sl_stream_not_capturing(struct sl_stream *stream, const char *what)
{
    enum sl_capture state = ops_of(stream)->stream_capture(stream);

    if (state == SL_CAPTURE_NONE)
        return 0;
    if (state == SL_CAPTURE_BLOCKED)
        return sl_fail(SLUICE_E_CAPTURING,
                       "stream 0x%" PRIx64 " is shut, because a blocking stream of \"%s\" is "
                       "capturing a graph: %s until the capture ends",
                       sl_object_id(&stream->object), stream->object.device->name, what);
    return sl_fail(SLUICE_E_CAPTURING, "stream 0x%" PRIx64 " is capturing a graph: %s until the capture ends",
                   sl_object_id(&stream->object), what);
}

int sl_stream_check_apart(struct sluice_stream handle, const char *what)
{
    struct sl_stream *stream;

    if (handle.id == SLUICE_ON_CPU.id)
        return 0;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    r = sl_stream_not_capturing(stream, what);
    sl_object_drop(&stream->object);
    return r;
}

/* ---- making ---- */

static void call_releases(struct sl_stream *stream)
{
    struct sl_stream_release *release = stream->releases;

    stream->releases = NULL;
    while (release) {
        struct sl_stream_release *next = release->next;
        release->release(release->user);
        free(release);
        release = next;
    }
}

static void finish_stream(struct sl_object *object)
{
    struct sl_stream *stream = (struct sl_stream *)object;

    ops_of(stream)->stream_destroy(stream);
    sl_device_count(SL_HANDLE_STREAM, -1);
    if (sl_object_id(&stream->object) != 0) /* without a handle, wrapping has failed */
        call_releases(stream);
}

int sl_stream_new(struct sluice_device device, enum sluice_stream_kind kind, struct sl_stream **stream)
{
    void *object;
    int r = sl_device_object(device, SL_HANDLE_STREAM, sizeof **stream, &object);

    if (r == 0) {
        *stream = object;
        (*stream)->kind = kind;
    }
    return r;
}

int sl_stream_adopt(struct sl_stream *stream, uint64_t (*known)(struct sl_object *object), struct sluice_stream *handle)
{
    stream->object.finish = finish_stream;
    sl_device_count(SL_HANDLE_STREAM, 1);
    return sl_device_adopt(&stream->object, known, &handle->id);
}

static int read_params(const struct sluice_stream_params *params, struct sluice_stream_params *mine)
{
    memset(mine, 0, sizeof *mine);
    if (!params)
        return 0;
    if (params->size < sizeof params->size || params->size > LARGEST_STRUCT)
        return sl_fail(SLUICE_E_INVALID, "sluice_stream_params.size is %" PRIu32 "; set it to sizeof of the struct",
                       params->size);
    memcpy(mine, params, params->size < sizeof *mine ? params->size : sizeof *mine);
    if (mine->blocking > 1)
        return sl_fail(SLUICE_E_INVALID, "sluice_stream_params.blocking is %" PRIu32 "; it is 0 or 1", mine->blocking);
    if (mine->reserved != 0)
        return sl_fail(SLUICE_E_INVALID, "sluice_stream_params.reserved is %" PRIu32 "; it must be 0", mine->reserved);
    return 0;
}

int sl_stream_create(struct sluice_device device, const struct sluice_stream_params *params,
                     struct sluice_stream *handle)
{
    struct sluice_stream_params mine;
    struct sl_stream *stream;

    int r = read_params(params, &mine);
    if (r == 0)
        r = sl_stream_new(device, SLUICE_STREAM_OWNED, &stream);
    if (r != 0)
        return r;
    stream->priority = mine.priority;
    stream->blocking = mine.blocking != 0;
    if ((r = ops_of(stream)->stream_create(stream)) == 0)
        return sl_stream_adopt(stream, NULL, handle);
    sl_object_drop(&stream->object);
    return r;
}

static uint64_t known_default(struct sl_object *object)
{
    return object->device->default_stream;
}

int sl_stream_default(struct sluice_device device, struct sluice_stream *handle)
{
    struct sl_stream *stream;

    int r = sl_stream_new(device, SLUICE_STREAM_DEFAULT, &stream);
    if (r != 0)
        return r;
    if ((r = ops_of(stream)->stream_default(stream)) == 0)
        return sl_stream_adopt(stream, known_default, handle);
    sl_object_drop(&stream->object);
    return r;
}

/* ---- what it is ---- */

int sl_stream_native(struct sluice_stream handle, uintptr_t *native)
{
    struct sl_stream *stream;

    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    *native = stream->native;
    sl_object_drop(&stream->object);
    return 0;
}

int sl_stream_info(struct sluice_stream handle, struct sluice_stream_info *info)
{
    struct sl_stream *stream;

    if (info->size < sizeof info->size || info->size > LARGEST_STRUCT)
        return sl_fail(SLUICE_E_INVALID, "sluice_stream_info.size is %" PRIu32 "; set it to sizeof of the struct",
                       info->size);
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    struct sluice_stream_info mine = {
        .size = info->size,
        .kind = stream->kind,
        .priority = stream->priority,
        .blocking = stream->blocking,
        .capturing = ops_of(stream)->stream_capture(stream) == SL_CAPTURE_ACTIVE,
        .device = { sl_object_id(&stream->object.device->object) },
    };
    memset(info, 0, mine.size); /* members that only a newer caller knows become 0 */
    memcpy(info, &mine, mine.size < sizeof mine ? mine.size : sizeof mine);
    sl_object_drop(&stream->object);
    return 0;
}

/* ---- waiting ---- */

int sl_stream_query(struct sluice_stream handle)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    r = sl_stream_not_capturing(stream, "it cannot be queried");
    if (r == 0)
        r = ops_of(stream)->stream_query(stream);
    if (r == SLUICE_NOT_READY)
        sl_say("stream 0x%" PRIx64 " still has work to do", handle.id);
    if (r == 0)
        sl_stream_add_host_wait(handle.id);
    sl_object_drop(&stream->object);
    return r;
}

int sl_stream_synchronize(struct sluice_stream handle)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    r = sl_stream_not_capturing(stream, "it cannot be synchronized");
    if (r == 0)
        r = ops_of(stream)->stream_synchronize(stream);
    if (r == 0)
        sl_stream_add_host_wait(handle.id);
    sl_object_drop(&stream->object);
    return r;
}

/* ---- its end ---- */

/* Called with the device's lock held: takes one from the handle's count; false if it is the last. */
static bool count_down(struct sl_stream *stream)
{
    bool more = stream->object.listed && stream->more_wraps > 0;

    stream->more_wraps -= more;
    return more;
}

/* The same: ends the stream's handle, if the stream may end now. */
static int end_stream(struct sl_stream *stream, uint64_t id)
{
    if (stream->object.listed && stream->current > 0)
        return sl_fail(SLUICE_E_BUSY,
                       "stream 0x%" PRIx64 " is a current stream (%u times, on this thread or another); "
                       "pop it there first",
                       id, stream->current);
    if (!sl_device_disown(&stream->object, SL_END_DESTROYED))
        return sl_object_ended(id, SL_HANDLE_STREAM);
    return 0;
}

/* Is the last count of its handle one that the program may drop now? */
static int check_destroy(struct sl_stream *stream)
{
    if (stream->kind == SLUICE_STREAM_DEFAULT)
        return sl_fail(SLUICE_E_INVALID, "a device's default stream cannot be destroyed; it ends with the device");
    if (stream->forked)
        return sl_fail(SLUICE_E_INVALID,
                       "stream 0x%" PRIx64 " is one that the device lends (sluice_fork): give it back "
                       "by sluice_join; it ends with the device",
                       sl_object_id(&stream->object));
    return stream->kind == SLUICE_STREAM_OWNED ? sl_stream_not_capturing(stream, "it cannot be destroyed") : 0;
}

int sl_stream_destroy(struct sluice_stream *handle)
{
    struct sl_stream *stream;
    int r;

    if (handle->id == 0)
        return 0;
    if ((r = sl_stream_hold(*handle, &stream)) != 0)
        return r;
    struct sl_device *device = stream->object.device;
    int may_end = check_destroy(stream);
    sl_mutex_lock(&device->lock);
    bool counted = count_down(stream);
    r = counted ? 0 : may_end != 0 ? may_end : end_stream(stream, handle->id);
    sl_mutex_unlock(&device->lock);
    if (r == 0)
        handle->id = 0;
    if (r == 0 && !counted) {
        sl_deferred_end_stream(stream);
        sl_object_drop(&stream->object); /* the handle's reference */
    }
    sl_object_drop(&stream->object);
    return r;
}
