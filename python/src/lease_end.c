/* SPDX-License-Identifier: MIT
 *
 * The streams that use a frame, and its end behind the work of all of them.
 *
 * One stream: the end is queued on it. Several: a stream of ours waits for each, and the end is queued on that. No
 * event waits for the legacy default stream, which takes none during a capture elsewhere: a blocking stream of ours is
 * ordered behind its work without a call.
 */
#include "lease.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stream_cache.h"

#define CAPTURE_POLL_NS 1000000

/* ---- the set ---- */

/* Makes room for one more. */
static bool grow(struct lease *lease)
{
    uint32_t room = lease->used_room * 4;
    struct stream **more;

    if (lease->used_count < lease->used_room)
        return true;
    if (!(more = malloc(room * sizeof(struct stream *))))
        return false;
    memcpy(more, lease->used, lease->used_count * sizeof(struct stream *));
    if (lease->used != lease->few)
        free(lease->used);
    lease->used = more;
    lease->used_room = room;
    return true;
}

static bool has(const struct lease *lease, const struct stream *stream)
{
    for (uint32_t i = 0; i < lease->used_count; i++)
        if (stream_same(lease->used[i], stream))
            return true;
    return false;
}

int lease_use(struct lease *lease, struct stream *stream)
{
    bool there, done;

    spin_lock(&lease->busy, lease->channel);
    there = has(lease, stream);
    done = there || grow(lease);
    if (!there && done)
        lease->used[lease->used_count++] = stream;
    spin_unlock(&lease->busy);
    if (there || !done)
        stream_drop(stream);
    if (!done)
        PyErr_NoMemory();
    return done ? 0 : -1;
}

int lease_use_named(struct lease *lease, struct stream *stream)
{
    lease->named = true;
    return lease_use(lease, stream);
}

bool lease_uses(struct lease *lease, uintptr_t native)
{
    bool found = false;

    spin_lock(&lease->busy, lease->channel);
    for (uint32_t i = 0; i < lease->used_count && !found; i++)
        found = stream_native(lease->used[i]) == native;
    spin_unlock(&lease->busy);
    return found;
}

void lease_drop_streams(struct lease *lease)
{
    for (uint32_t i = 0; i < lease->used_count; i++)
        stream_drop(lease->used[i]);
    if (lease->used != lease->few)
        free(lease->used);
    lease->used_count = 0;
    lease->used = lease->few;
}

/* The streams of the set now, with a reference to each; in `few` if they fit. NULL without memory, or if there are
 * none. */
static struct stream **list(struct lease *lease, struct stream *few[LEASE_STREAMS], uint32_t *count)
{
    struct stream **all = few;

    spin_lock(&lease->busy, lease->channel);
    *count = lease->used_count;
    if (*count == 0 || *count > LEASE_STREAMS)
        all = *count ? malloc(*count * sizeof(struct stream *)) : NULL;
    for (uint32_t i = 0; all && i < *count; i++)
        all[i] = stream_keep(lease->used[i]);
    spin_unlock(&lease->busy);
    return all;
}

static void drop_list(struct stream **all, struct stream *few[LEASE_STREAMS], uint32_t count)
{
    for (uint32_t i = 0; all && i < count; i++)
        stream_drop(all[i]);
    if (all != few)
        free(all);
}

/* ---- streams of ours ---- */

static struct helpers *find_helpers(struct helpers *list, const struct opened *device)
{
    while (list && list->device != device)
        list = list->next;
    return list;
}

/* Makes them the first time; NULL without memory. */
static struct helpers *helpers_of(struct channel *channel, const struct opened *device)
{
    struct helpers *first = atomic_load(&channel->helpers), *found = find_helpers(first, device), *made;

    if (found || !(made = calloc(1, sizeof *made)))
        return found;
    made->device = device;
    do { /* unless another thread was first */
        if ((found = find_helpers(first, device))) {
            free(made);
            return found;
        }
        made->next = first;
    } while (!atomic_compare_exchange_weak(&channel->helpers, &first, made));
    return made;
}

void channel_drop_helpers(struct channel *channel)
{
    struct helpers *next;

    for (struct helpers *helpers = atomic_load(&channel->helpers); helpers; helpers = next) {
        for (int i = 0; i < HELPER_STREAMS; i++)
            stream_drop(helpers->streams[i]);
        next = helpers->next;
        free(helpers);
    }
}

/* `check`: also by a reset that has not returned yet. */
static bool is_ended(const struct stream *stream, bool check)
{
    struct sluice_stream_info info = { .size = sizeof info };

    return stream_was_reset(stream) || (check && sluice_stream_info(stream_handle(stream), &info) != 0);
}

static struct stream *keep_helper(struct helpers *helpers, enum helper_stream which)
{
    struct stream *stream;

    streams_lock();
    stream = helpers->streams[which];
    if (stream)
        stream_keep(stream);
    streams_unlock();
    return stream;
}

/* Of several threads that come here the last one's stays. */
static int make_helper(struct helpers *helpers, enum helper_stream which, struct stream **out)
{
    struct sluice_stream_params params = { .size = sizeof params, .blocking = which == JOIN_BLOCKING };
    int r = stream_make(helpers->device, &params, out);

    if (r != 0)
        return r;
    stream_keep(*out);
    streams_lock();
    struct stream *old = helpers->streams[which];
    helpers->streams[which] = *out;
    streams_unlock();
    stream_drop(old);
    return 0;
}

/* The channel's stream of that kind, made the first time and after a reset: a reference. Returns a result. */
static int helper_of(struct lease *lease, enum helper_stream which, bool check, struct stream **out)
{
    struct helpers *helpers = helpers_of(lease->channel, lease->device);

    if (!helpers)
        return SLUICE_E_NO_MEMORY;
    *out = keep_helper(helpers, which);
    if (*out && !is_ended(*out, check))
        return 0;
    stream_drop(*out);
    return make_helper(helpers, which, out);
}

struct stream *copy_stream(struct state *state, struct channel *channel, const char *device)
{
    const struct opened *opened = device_open(state, device);
    struct helpers *helpers = opened ? helpers_of(channel, opened) : NULL;
    struct stream *stream;
    int r;

    if (!helpers)
        return opened ? (struct stream *)PyErr_NoMemory() : NULL;
    stream = keep_helper(helpers, COPY);
    if (stream && !stream_was_reset(stream))
        return stream;
    stream_drop(stream);
    Py_BEGIN_ALLOW_THREADS r = make_helper(helpers, COPY, &stream);
    Py_END_ALLOW_THREADS return r == 0 ? stream : (struct stream *)raise_result(state, r);
}

/* ---- joins ---- */

static bool is_legacy(const struct stream *stream)
{
    return stream_native(stream) == 0;
}

/* Gives a reference to a stream of ours behind all of them. `check`: makes it anew if a reset has ended it. */
static int join_all(struct lease *lease, struct stream **all, uint32_t count, bool check, struct stream **out)
{
    enum helper_stream which = JOIN;
    int r;

    for (uint32_t i = 0; i < count; i++)
        if (is_legacy(all[i]))
            which = JOIN_BLOCKING;
    if ((r = helper_of(lease, which, check, out)) != 0)
        return r;
    for (uint32_t i = 0; r == 0 && i < count; i++)
        if (!is_legacy(all[i]))
            r = stream_join(stream_handle(*out), all[i]);
    if (r != 0)
        stream_drop(*out);
    return r;
}

/* The blocking stream stands for the default one, which may take no events. */
static int wait_for(struct lease *lease, struct sluice_stream stream, const struct stream *other)
{
    struct stream *join;
    int r;

    if (!is_legacy(other))
        return stream_join(stream, other);
    if ((r = helper_of(lease, JOIN_BLOCKING, true, &join)) != 0)
        return r;
    r = sluice_stream_wait_stream(stream, stream_handle(join));
    stream_drop(join);
    return r;
}

/* Counts the streams, other than `stream`, that are capturing a graph. The default stream is left out: our blocking
 * stream stands in for it. */
static uint32_t count_captures(struct stream **all, uint32_t count, const struct stream *stream)
{
    uint32_t captures = 0;

    for (uint32_t i = 0; i < count; i++)
        captures += !is_legacy(all[i]) && !(stream && stream_same(all[i], stream)) && stream_captures(all[i]);
    return captures;
}

uint32_t lease_captures(struct lease *lease)
{
    struct stream *few[LEASE_STREAMS];
    uint32_t count;
    struct stream **all = list(lease, few, &count);
    uint32_t captures = all ? count_captures(all, count, NULL) : 0;

    drop_list(all, few, count);
    return captures;
}

int lease_wait_for(struct lease *lease, const struct stream *stream)
{
    struct stream *few[LEASE_STREAMS];
    uint32_t count;
    struct stream **all = list(lease, few, &count);
    int r = count && !all ? SLUICE_E_NO_MEMORY : 0;

    if (r == 0 && count > 1 && count_captures(all, count, stream) > 0) /* before any wait is queued */
        r = SLUICE_E_CAPTURING;
    for (uint32_t i = 0; r == 0 && i < count; i++)
        if (!stream_same(all[i], stream))
            r = wait_for(lease, stream_handle(stream), all[i]);
    drop_list(all, few, count);
    return r;
}

/* May other libraries wait for it by its native value? Not for another thread's default stream, nor for one that a
 * reset has ended. */
static bool is_valid_native(const struct stream *stream)
{
    return stream_is_usable_here(stream) && !stream_was_reset(stream);
}

int lease_join(struct lease *lease, uintptr_t *native)
{
    struct stream *few[LEASE_STREAMS], *join;
    uint32_t count;
    struct stream **all = list(lease, few, &count);
    int r = all ? 0 : SLUICE_E_NO_MEMORY;

    if (r == 0 && count == 1 && is_valid_native(all[0]))
        *native = stream_native(all[0]);
    else if (r == 0 && (r = join_all(lease, all, count, true, &join)) == 0) {
        *native = stream_native(join);
        stream_drop(join);
    }
    drop_list(all, few, count);
    return r;
}

/* ---- ends ---- */

typedef int (*call)(struct lease *lease, struct sluice_stream stream);

static int call_commit(struct lease *lease, struct sluice_stream stream)
{
    return sluice_writer_commit(lease->channel->writer, &lease->frame, stream);
}

static int call_cancel(struct lease *lease, struct sluice_stream stream)
{
    return sluice_writer_cancel(lease->channel->writer, &lease->frame, stream);
}

static int call_release(struct lease *lease, struct sluice_stream stream)
{
    return sluice_reader_release(lease->channel->reader, &lease->frame, stream);
}

static int end_behind(struct lease *lease, struct stream **all, uint32_t count, bool check, call end)
{
    struct stream *join;
    int r;

    if (count == 1 && stream_is_usable_here(all[0]) && !check)
        return end(lease, stream_handle(all[0]));
    if ((r = join_all(lease, all, count, check, &join)) != 0)
        return r;
    r = end(lease, stream_handle(join));
    stream_drop(join);
    return r;
}

static int end_by(struct lease *lease, call end)
{
    struct stream *few[LEASE_STREAMS], **all;
    uint32_t count = 0;
    int r;

    if (!lease->device) /* host: nothing is queued */
        return end(lease, SLUICE_ON_CPU);
    all = list(lease, few, &count);
    if (count == 0)
        return end(lease, SLUICE_ON_CPU);
    if (!all)
        return SLUICE_E_NO_MEMORY;
    r = end_behind(lease, all, count, false, end);
    if (r == SLUICE_E_STALE) /* a reset of the device ended one of them */
        r = end_behind(lease, all, count, true, end);
    drop_list(all, few, count);
    return r;
}

int lease_commit(struct lease *lease)
{
    return end_by(lease, call_commit);
}
int lease_cancel(struct lease *lease)
{
    return end_by(lease, call_cancel);
}
int lease_release(struct lease *lease)
{
    return end_by(lease, call_release);
}

bool lease_is_open(const struct lease *lease)
{
    for (size_t i = 0; i < sizeof lease->frame.opaque / sizeof lease->frame.opaque[0]; i++)
        if (lease->frame.opaque[i]) /* the library clears it with the frame's end */
            return true;
    return false;
}

/* A reference to the stream at that place; NULL after the last one. */
static struct stream *stream_at(struct lease *lease, uint32_t i)
{
    struct stream *stream;

    spin_lock(&lease->busy, lease->channel);
    stream = i < lease->used_count ? stream_keep(lease->used[i]) : NULL;
    spin_unlock(&lease->busy);
    return stream;
}

/* The blocking stream stands for the default one, which may take no work. */
static int finish(struct lease *lease, const struct stream *stream)
{
    struct stream *join;
    int r;

    if (!is_legacy(stream) || helper_of(lease, JOIN_BLOCKING, true, &join) != 0)
        return stream_finish(stream);
    r = sluice_stream_synchronize(stream_handle(join));
    stream_drop(join);
    return r;
}

/* Waits for all streams that are not capturing; returns a reference to the first that is, and their number. */
static struct stream *finish_others(struct lease *lease, uint32_t *captured)
{
    struct stream *stream, *captures = NULL;

    *captured = 0;
    for (uint32_t i = 0; (stream = stream_at(lease, i)); i++) {
        if (finish(lease, stream) == SLUICE_E_CAPTURING && (*captured)++ == 0)
            captures = stream;
        else
            stream_drop(stream);
    }
    return captures;
}

/* The library defers a release on a capturing stream until the capture has ended. It takes one stream for each release,
 * so with `patient` this waits until at most one captures. */
static int release_when_done(struct lease *lease, bool patient)
{
    struct timespec nap = { .tv_nsec = CAPTURE_POLL_NS };
    struct stream *captures;
    struct sluice_stream any;
    uint32_t captured;

    while ((captures = finish_others(lease, &captured)) && captured > 1 && patient) {
        stream_drop(captures);
        (void)nanosleep(&nap, NULL);
    }
    int r = call_release(lease, captures ? stream_handle(captures) : SLUICE_ON_CPU);
    if (r == SLUICE_E_INVALID && !captures && sluice_stream_default(lease->device->device, &any) == 0)
        r = call_release(lease, any); /* a frame that was acquired on a stream is released on one */
    if (captures)
        stream_drop(captures);
    return r;
}

int lease_release_final(struct lease *lease, bool patient)
{
    int r = lease_release(lease);

    return r != 0 && lease->device && lease_is_open(lease) ? release_when_done(lease, patient) : r;
}

PyObject *raise_capturing(const struct state *state, const struct lease *lease, const char *what)
{
    return raise_as(
        state, ERROR_E_CAPTURING,
        "channel '%s': a stream that works on this frame is capturing a graph, so %s: nothing was queued, and the "
        "frame stays begun; commit or cancel it after the capture",
        lease->channel->name, what);
}
