/* SPDX-License-Identifier: MIT
 *
 * Parallel sections: a device lends streams. They wait for a parent at the fork, and it waits for them at the join.
 */
#include <inttypes.h>
#include <string.h>

#include "device/device.h"
#include "util/result.h"

/* One fork or join. */
struct section {
    struct sl_device *device;
    struct sluice_stream parent;
    bool captures; /* the parent */
    uint32_t wanted, count, busy_count;
    struct sl_stream *streams[SL_DEVICE_FORKS]; /* the streams that are lent, with a reference each */
    struct sl_stream *busy[SL_DEVICE_FORKS];    /* streams that have work, which are lent if no others are left */
};

static struct sluice_stream handle_of(const struct sl_stream *stream)
{
    return (struct sluice_stream){ atomic_load_explicit(&stream->object.id, memory_order_relaxed) };
}

static void give_back(struct section *section, struct sl_stream **streams, uint32_t count)
{
    sl_mutex_lock(&section->device->lock);
    for (uint32_t i = 0; i < count; i++)
        sl_fork_give_back(streams[i]);
    sl_mutex_unlock(&section->device->lock);
    for (uint32_t i = 0; i < count; i++)
        sl_object_drop(&streams[i]->object);
}

/* ---- fork ---- */

/* Lends this section the next stream, from *at on, that is not lent. */
static struct sl_stream *take(struct section *section, enum sl_capture state, uint32_t *at)
{
    sl_mutex_lock(&section->device->lock);
    struct sl_stream *stream = sl_fork_next(section->device, state, at);
    if (stream) {
        stream->lent_to = SL_FORK_MOVING;
        sl_object_keep(&stream->object);
    }
    sl_mutex_unlock(&section->device->lock);
    return stream;
}

/* Idle ones. In a capture they record their work, so it does not matter what else they have to do. */
static void take_idle(struct section *section)
{
    struct sl_stream *stream;
    uint32_t at = 0;

    while (section->count < section->wanted && (stream = take(section, SL_CAPTURE_NONE, &at)) != NULL) {
        if (section->captures || section->device->ops->stream_query(stream) == 0)
            section->streams[section->count++] = stream;
        else
            section->busy[section->busy_count++] = stream;
    }
}

/* May one more stream be made? */
static bool reserve(struct sl_device *device)
{
    sl_mutex_lock(&device->lock);
    bool room = device->fork_count + device->fork_making < SL_DEVICE_FORKS;
    device->fork_making += room;
    sl_mutex_unlock(&device->lock);
    return room;
}

static int make(struct section *section)
{
    struct sl_device *device = section->device;
    struct sl_stream *stream;
    struct sluice_stream handle;
    struct sluice_device owner = { atomic_load_explicit(&device->object.id, memory_order_relaxed) };

    int r = sl_stream_new(owner, SLUICE_STREAM_OWNED, &stream);
    if (r == 0 && (r = device->ops->stream_create(stream)) != 0) {
        sl_object_drop(&stream->object);
    } else if (r == 0) {
        stream->forked = true;
        stream->lent_to = SL_FORK_MOVING;
        sl_object_keep(&stream->object);
        r = sl_stream_adopt(stream, NULL, &handle);
        if (r == 0)
            section->streams[section->count++] = stream;
        else
            sl_object_drop(&stream->object);
    }
    if (r != 0) {
        sl_mutex_lock(&device->lock);
        device->fork_making--;
        sl_mutex_unlock(&device->lock);
    }
    return r;
}

static void take_busy(struct section *section)
{
    while (section->count < section->wanted && section->busy_count > 0)
        section->streams[section->count++] = section->busy[--section->busy_count];
}

static int follow(struct section *section)
{
    int r = 0;

    for (uint32_t i = 0; i < section->count && r == 0; i++)
        r = sl_stream_wait_stream(handle_of(section->streams[i]), section->parent);
    return r;
}

/* Lends streams that an earlier section of the same capture has given back. A stream of another capture refuses to
 * wait. */
static int take_recorded(struct section *section)
{
    struct sl_stream *stream;
    uint32_t at = 0;
    int r = 0;

    while (r == 0 && section->count < section->wanted && (stream = take(section, SL_CAPTURE_ACTIVE, &at)) != NULL) {
        r = sl_stream_wait_stream(handle_of(stream), section->parent);
        if (r == 0)
            section->streams[section->count++] = stream;
        else
            section->busy[section->busy_count++] = stream;
        r = r == SLUICE_E_CAPTURING ? 0 : r;
    }
    return r;
}

static int too_many(const struct section *section)
{
    return sl_fail(SLUICE_E_LIMIT,
                   "%" PRIu32 " more streams cannot be lent: \"%s\" lends %d at once, and the others are in use or "
                   "take part in a capture; join them first",
                   section->wanted, section->device->name, SL_DEVICE_FORKS);
}

static int gather(struct section *section)
{
    int r = 0;

    take_idle(section);
    while (r == 0 && section->count < section->wanted && reserve(section->device))
        r = make(section);
    take_busy(section);
    if (r == 0 && section->count < section->wanted && !section->captures)
        r = too_many(section);
    if (r == 0)
        r = follow(section);
    if (r == 0 && section->captures)
        r = take_recorded(section);
    return r == 0 && section->count < section->wanted ? too_many(section) : r;
}

static void lend(struct section *section, struct sluice_stream *streams)
{
    sl_mutex_lock(&section->device->lock);
    for (uint32_t i = 0; i < section->count; i++)
        section->streams[i]->lent_to = section->parent.id;
    sl_mutex_unlock(&section->device->lock);
    for (uint32_t i = 0; i < section->count; i++) {
        streams[i] = handle_of(section->streams[i]);
        sl_object_drop(&section->streams[i]->object);
    }
}

static int check_count(uint32_t count, const char *call)
{
    if (count == 0)
        return sl_fail(SLUICE_E_INVALID, "%s: a count of 0 streams", call);
    if (count > SL_DEVICE_FORKS)
        return sl_fail(SLUICE_E_LIMIT, "%s: %" PRIu32 " streams; a device lends %d at once", call, count,
                       SL_DEVICE_FORKS);
    return 0;
}

int sl_fork(struct sluice_stream handle, uint32_t count, struct sluice_stream *streams)
{
    struct sl_stream *parent;
    int r = check_count(count, "sluice_fork");

    if (r == 0)
        r = sl_stream_hold(handle, &parent);
    if (r != 0)
        return r;
    struct sl_device *device = parent->object.device;
    struct section section = { .device = device, .parent = handle, .wanted = count };
    section.captures = device->ops->stream_capture(parent) == SL_CAPTURE_ACTIVE;
    r = gather(&section);
    give_back(&section, section.busy, section.busy_count);
    if (r == 0)
        lend(&section, streams);
    else
        give_back(&section, section.streams, section.count);
    sl_object_drop(&parent->object);
    return r;
}

/* ---- join ---- */

/* Call it with the device's lock held. A stream whose parent has ended may be joined to another one. */
static bool is_lent(const struct sl_stream *stream, struct sluice_stream parent)
{
    if (!stream->forked || stream->lent_to <= SL_FORK_MOVING)
        return false;
    return stream->lent_to == parent.id || !sl_stream_is_alive((struct sluice_stream){ stream->lent_to });
}

/* Marks the stream: it can be joined only once, and no other section gets it before the parent waits for it. */
static int collect(struct section *section, struct sluice_stream handle)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    sl_mutex_lock(&section->device->lock);
    bool lent = stream->object.device == section->device && is_lent(stream, section->parent);
    if (lent)
        stream->lent_to = SL_FORK_MOVING;
    sl_mutex_unlock(&section->device->lock);
    if (lent) {
        section->streams[section->count++] = stream;
        return 0;
    }
    sl_object_drop(&stream->object);
    return sl_fail(SLUICE_E_INVALID,
                   "stream 0x%" PRIx64 " is not lent to stream 0x%" PRIx64
                   ": join the streams of each sluice_fork once",
                   handle.id, section->parent.id);
}

static void release(struct section *section)
{
    sl_mutex_lock(&section->device->lock);
    for (uint32_t i = 0; i < section->count; i++)
        section->streams[i]->lent_to = section->parent.id;
    sl_mutex_unlock(&section->device->lock);
    for (uint32_t i = 0; i < section->count; i++)
        sl_object_drop(&section->streams[i]->object);
}

/* Joins all of them, even if waiting for one fails. The message is the first failure's. */
static int wait_for_all(struct section *section)
{
    char first[512];
    int result = 0;

    for (uint32_t i = 0; i < section->count; i++) {
        int r = sl_stream_wait_stream(section->parent, handle_of(section->streams[i]));
        if (r != 0 && result == 0) {
            result = r;
            strncpy(first, sl_last_error(), sizeof first - 1);
            first[sizeof first - 1] = '\0';
        }
    }
    return result == 0 ? 0 : sl_fail_text(result, first);
}

int sl_join(struct sluice_stream handle, uint32_t count, struct sluice_stream *streams)
{
    struct sl_stream *parent;
    int r = check_count(count, "sluice_join");

    if (r == 0)
        r = sl_stream_hold(handle, &parent);
    if (r != 0)
        return r;
    struct section section = { .device = parent->object.device, .parent = handle };
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = collect(&section, streams[i]);
    if (r != 0) {
        release(&section);
    } else {
        r = wait_for_all(&section);
        give_back(&section, section.streams, section.count);
        memset(streams, 0, count * sizeof *streams);
    }
    sl_object_drop(&parent->object);
    return r;
}
