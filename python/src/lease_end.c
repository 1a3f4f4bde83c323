/* SPDX-License-Identifier: MIT
 *
 * The streams that use a frame, and its end behind their work. Most frames are used on one stream, which the end names;
 * several are named to the library before (sluice_frame_used_on).
 */
#include "lease.h"

/* ---- the streams ---- */

static void drop_used(void *stream)
{
    stream_drop(stream);
}

/* Names `stream` to the library, and takes the reference over. */
static int add(struct lease *lease, struct stream *stream)
{
    int r = sluice_frame_used_on(&lease->frame, stream_handle(stream), drop_used, stream);

    if (r == SLUICE_E_STALE && lease_is_open(lease) && stream_renew(stream))
        r = sluice_frame_used_on(&lease->frame, stream_handle(stream), drop_used, stream);
    if (r != 0)
        stream_drop(stream);
    return r;
}

/* The same of the first, which others join now. One of ours that a reset has ended has no work any more. */
static int add_first(struct lease *lease)
{
    int r;

    if (lease->several || !lease->first)
        return 0;
    r = add(lease, stream_keep(lease->first));
    if (r == 0)
        lease->several = true;
    return r == SLUICE_E_STALE || r == SLUICE_E_CLOSED ? 0 : r;
}

void lease_begun(struct lease *lease)
{
    if (lease->first && lease->first->thread) /* whose stream only this thread can name */
        (void)add_first(lease);
}

int lease_use(struct lease *lease, struct stream *stream)
{
    struct stream *first = NULL;
    int r;

    if (atomic_compare_exchange_strong(&lease->first, &first, stream)) {
        if (stream->thread && lease_is_open(lease))
            lease_begun(lease);
        return 0;
    }
    if (stream_same(first, stream) || !lease_is_open(lease)) {
        stream_drop(stream);
        return 0;
    }
    if ((r = add_first(lease)) == 0) {
        lease->last = stream_native(stream);
        lease->several = true;
        r = add(lease, stream);
    } else {
        stream_drop(stream);
    }
    if (r == 0)
        return 0;
    PyErr_SetString(PyExc_MemoryError, sluice_last_error());
    return -1;
}

int lease_use_named(struct lease *lease, struct stream *stream)
{
    lease->named = true;
    return lease_use(lease, stream);
}

bool lease_uses(const struct lease *lease, uintptr_t native)
{
    return lease->first && (stream_native(lease->first) == native || (lease->several && lease->last == native));
}

void lease_drop_streams(struct lease *lease)
{
    stream_drop(lease->first);
    lease->first = NULL;
}

struct stream *lease_first(struct lease *lease)
{
    return stream_keep(lease->first);
}

/* ---- waiting for them ---- */

bool lease_captures(struct lease *lease)
{
    if (lease->several)
        return sluice_frame_captures(&lease->frame) > 0;
    return lease->first && stream_native(lease->first) != 0 && stream_captures(lease->first);
}

int lease_wait_for(struct lease *lease, const struct stream *stream)
{
    int r;

    if (!lease->several && (!lease->first || stream_same(lease->first, stream)))
        return 0;
    r = add_first(lease);
    return r == 0 && lease->several ? sluice_frame_wait(&lease->frame, stream_handle(stream)) : r;
}

int lease_join(struct lease *lease, uintptr_t *native)
{
    struct sluice_stream behind = SLUICE_ON_CPU;
    int r = add_first(lease);

    if (r == 0)
        r = sluice_frame_stream(&lease->frame, &behind);
    *native = 0;
    return r == 0 && behind.id != SLUICE_ON_CPU.id ? sluice_stream_native(behind, native) : r;
}

/* ---- ends ---- */

enum end { COMMIT, CANCEL, RELEASE };

static int end_on(struct lease *lease, enum end how, struct sluice_stream stream)
{
    if (how == RELEASE)
        return sluice_reader_release(lease->channel->reader, &lease->frame, stream);
    return (how == COMMIT ? sluice_writer_commit : sluice_writer_cancel)(lease->channel->writer, &lease->frame, stream);
}

static int end(struct lease *lease, enum end how)
{
    struct sluice_stream any;
    int r;

    if (!lease->device || !lease->first || lease->several)
        return end_on(lease, how, SLUICE_ON_CPU);
    r = end_on(lease, how, stream_handle(lease->first));
    if (r != SLUICE_E_STALE || !lease_is_open(lease))
        return r;
    if ((r = add_first(lease)) == 0 && lease->several) /* a reset has ended the handle */
        return end_on(lease, how, SLUICE_ON_CPU);
    return r == 0 && (r = sluice_stream_default(lease->device->device, &any)) == 0 ? end_on(lease, how, any) : r;
}

int lease_commit(struct lease *lease)
{
    return end(lease, COMMIT);
}

int lease_cancel(struct lease *lease)
{
    return end(lease, CANCEL);
}

int lease_release(struct lease *lease)
{
    int r = end(lease, RELEASE);

    if (r == 0 || lease->several || !lease->device || !lease_is_open(lease))
        return r;
    if (add_first(lease) == 0 && lease->several) /* which ends it later */
        (void)end_on(lease, RELEASE, SLUICE_ON_CPU);
    return r == SLUICE_E_CAPTURING ? 0 : r;
}

bool lease_is_open(const struct lease *lease)
{
    for (size_t i = 0; i < sizeof lease->frame.opaque / sizeof lease->frame.opaque[0]; i++)
        if (lease->frame.opaque[i]) /* the library clears it with the frame's end */
            return true;
    return false;
}

PyObject *raise_capturing(const struct state *state, const struct lease *lease, const char *what)
{
    return raise_as(
        state, ERROR_E_CAPTURING,
        "channel '%s': a stream that works on this frame is capturing a graph, so %s: nothing was queued, and the "
        "frame stays begun; commit or cancel it after the capture",
        lease->channel->name, what);
}

/* ---- copies ---- */

/* A reference to the channel's stream, unless it is another device's or a reset has ended it. */
static struct stream *keep_copies(struct channel *channel, const struct opened *device)
{
    struct stream *stream;

    streams_lock();
    stream = channel->copies;
    if (stream && (stream->device != device || stream_was_reset(stream)))
        stream = NULL;
    if (stream)
        stream_keep(stream);
    streams_unlock();
    return stream;
}

struct stream *copy_stream(struct state *state, struct channel *channel, const char *device)
{
    const struct opened *opened = device_open(state, device);
    struct stream *stream = opened ? keep_copies(channel, opened) : NULL, *old;
    int r;

    if (stream || !opened)
        return stream;
    Py_BEGIN_ALLOW_THREADS r = stream_make(opened, NULL, &stream);
    Py_END_ALLOW_THREADS if (r != 0) return (struct stream *)raise_result(state, r);
    streams_lock(); /* of several threads that come here the last one's stays */
    old = channel->copies;
    channel->copies = stream_keep(stream);
    streams_unlock();
    stream_drop(old);
    return stream;
}
