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
    struct sl_stream *parent;
    uint32_t wanted, count;
    struct sl_stream *streams[SL_DEVICE_FORKS];
    uint32_t held_count;
    struct sl_stream *held[SL_DEVICE_FORKS]; /* these and others, with a reference each */
};

static struct sluice_stream handle_of(const struct sl_stream *stream)
{
    return (struct sluice_stream){ sl_object_id(&stream->object) };
}

static int begin(struct section *section, struct sluice_stream parent, uint32_t count, const char *call)
{
    *section = (struct section){ .wanted = count };
    if (count == 0)
        return sl_fail(SLUICE_E_INVALID, "%s: a count of 0 streams", call);
    if (count > SL_DEVICE_FORKS)
        return sl_fail(SLUICE_E_LIMIT, "%s: %" PRIu32 " streams; a device lends %d at once", call, count,
                       SL_DEVICE_FORKS);
    int r = sl_stream_hold(parent, &section->parent);
    if (r == 0) {
        section->device = section->parent->object.device;
        sl_mutex_lock(&section->device->fork_lock);
    }
    return r;
}

static void end(struct section *section)
{
    sl_mutex_unlock(&section->device->fork_lock);
    for (uint32_t i = 0; i < section->held_count; i++)
        sl_object_drop(&section->held[i]->object);
    sl_object_drop(&section->parent->object);
}

static struct sl_loan *loan_of(struct sl_device *device, struct sluice_stream stream)
{
    for (struct sl_loan *loan = device->forks; loan < device->forks + SL_DEVICE_FORKS; loan++)
        if (loan->stream.id == stream.id)
            return loan;
    return NULL;
}

/* ---- fork ---- */

/* Holds the streams that are not lent. */
static void hold_free(struct section *section)
{
    for (uint32_t i = 0; i < SL_DEVICE_FORKS; i++) {
        struct sl_loan *loan = &section->device->forks[(section->device->next_fork + i) % SL_DEVICE_FORKS];
        struct sl_object *object = loan->parent.id ? NULL : sl_object_find(loan->stream.id, SL_HANDLE_STREAM);
        if (object)
            section->held[section->held_count++] = (struct sl_stream *)object;
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Takes idle ones. In a capture they record their work, so it does not matter what else they have to do. `rest`: what
 * is taken if there are no others: busy streams; in a capture those that an earlier section of it has given back. */
static void take_idle(struct section *section, bool captures, struct sl_stream **rest, uint32_t *rest_count)
{
    enum sl_stream_state states[SL_DEVICE_FORKS];
    uint32_t at = 0;

    while (section->count < section->wanted && at < section->held_count) {
        uint32_t count = least(section->wanted - section->count, section->held_count - at);
        section->device->ops->streams_state(section->held + at, count, states);
        for (uint32_t i = 0; i < count; i++, at++) {
            if (states[i] == SL_STREAM_IDLE || (captures && states[i] == SL_STREAM_BUSY))
                section->streams[section->count++] = section->held[at];
            else if (captures == (states[i] == SL_STREAM_CAPTURES))
                rest[(*rest_count)++] = section->held[at];
        }
    }
}

static int make(struct section *section, struct sl_loan *loan)
{
    struct sluice_device owner = { sl_object_id(&section->device->object) };
    struct sluice_stream handle;
    struct sl_stream *stream;
    int r = sl_stream_create(owner, NULL, &handle);

    if (r == 0)
        r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    stream->forked = true;
    *loan = (struct sl_loan){ .stream = handle };
    section->streams[section->count++] = section->held[section->held_count++] = stream;
    return 0;
}

static int make_more(struct section *section)
{
    int r = 0;

    for (uint32_t i = 0; i < SL_DEVICE_FORKS && r == 0 && section->count < section->wanted; i++)
        if (!sl_stream_is_alive(section->device->forks[i].stream))
            r = make(section, &section->device->forks[i]);
    return r;
}

/* A stream of another capture refuses to wait. */
static int take_rest(struct section *section, struct sl_stream **rest, uint32_t count)
{
    int r = 0;

    for (uint32_t i = 0; i < count && r == 0 && section->count < section->wanted; i++) {
        r = sl_streams_wait(&rest[i], 1, &section->parent, 1);
        if (r == 0)
            section->streams[section->count++] = rest[i];
        r = r == SLUICE_E_CAPTURING ? 0 : r;
    }
    return r;
}

static int gather(struct section *section)
{
    struct sl_stream *rest[SL_DEVICE_FORKS];
    uint32_t rest_count = 0;
    bool captures = section->device->ops->stream_capture(section->parent) == SL_CAPTURE_ACTIVE;

    hold_free(section);
    take_idle(section, captures, rest, &rest_count);
    int r = make_more(section);
    if (r == 0 && section->count > 0 && section->count + rest_count >= section->wanted)
        r = sl_streams_wait(section->streams, section->count, &section->parent, 1);
    if (r == 0 && section->count + rest_count >= section->wanted)
        r = take_rest(section, rest, rest_count);
    if (r != 0 || section->count == section->wanted)
        return r;
    return sl_fail(SLUICE_E_LIMIT,
                   "%" PRIu32 " more streams cannot be lent: \"%s\" lends %d at once, and the others are in use or "
                   "take part in a capture; join them first",
                   section->wanted, section->device->name, SL_DEVICE_FORKS);
}

int sl_fork(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams)
{
    struct section section;
    int r = begin(&section, parent, count, "sluice_fork");

    if (r != 0)
        return r;
    r = gather(&section);
    for (uint32_t i = 0; i < count && r == 0; i++) {
        streams[i] = handle_of(section.streams[i]);
        struct sl_loan *loan = loan_of(section.device, streams[i]);
        loan->parent = parent;
        section.device->next_fork = (uint32_t)(loan + 1 - section.device->forks);
    }
    end(&section);
    return r;
}

/* ---- join ---- */

/* A stream whose parent has ended may be joined to another one. */
static bool is_lent(const struct sl_loan *loan, struct sluice_stream parent)
{
    return loan && loan->parent.id != 0 && (loan->parent.id == parent.id || !sl_stream_is_alive(loan->parent));
}

/* Takes it back. */
static int collect(struct section *section, struct sluice_stream handle)
{
    struct sluice_stream parent = handle_of(section->parent);
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);

    if (r != 0)
        return r;
    section->held[section->held_count++] = stream;
    struct sl_loan *loan = loan_of(section->device, handle);
    if (!is_lent(loan, parent))
        return sl_fail(SLUICE_E_INVALID,
                       "stream 0x%" PRIx64 " is not lent to stream 0x%" PRIx64
                       ": join the streams of each sluice_fork once",
                       handle.id, parent.id);
    loan->parent.id = 0;
    section->streams[section->count++] = stream;
    return 0;
}

int sl_join(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams)
{
    struct section section;
    int r = begin(&section, parent, count, "sluice_join");

    if (r != 0)
        return r;
    for (uint32_t i = 0; i < count && r == 0; i++)
        r = collect(&section, streams[i]);
    if (r == 0) {
        r = sl_streams_wait(&section.parent, 1, section.streams, count);
        memset(streams, 0, count * sizeof *streams);
    } else {
        for (uint32_t i = 0; i < section.count; i++)
            loan_of(section.device, streams[i])->parent = parent;
    }
    end(&section);
    return r;
}
