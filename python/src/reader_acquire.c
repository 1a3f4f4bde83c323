/* SPDX-License-Identifier: MIT
 *
 * A reader acquires frames.
 */
#include "reader.h"

#include <string.h>

#include "clock.h"
#include "export.h"
#include "frame.h"
#include "stream_object.h"

struct channel *reader_keep_channel(struct reader *reader)
{
    struct channel *channel;

    GUARD(reader)
    channel = reader->channel;
    if (channel)
        atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    UNGUARD()
    return channel;
}

struct channel *reader_channel(struct reader *reader)
{
    struct channel *channel = reader_keep_channel(reader);

    if (!channel)
        raise_as(reader->state, ERROR_E_CLOSED, "this reader is closed");
    return channel;
}

/* Finds the device of the frame that was just acquired, once for each session. With the channel entered. Not 0: the
 * exception is set, and the frame released. */
static int place(struct reader *reader, struct channel *channel, struct lease *lease)
{
    char name[DEVICE_NAME];
    int r = 0;

    if (channel->session != lease->frame.session) {
        const struct opened *device = NULL;
        r = sluice_frame_device(&lease->frame, name, sizeof name);
        if (r == 0 && strcmp(name, "host") != 0 && !(device = device_open(reader->state, name)))
            r = SLUICE_E_UNSUPPORTED;
        if (r != 0) {
            (void)lease_release(lease);
            if (!PyErr_Occurred())
                raise_result(reader->state, r);
            return r;
        }
        channel->device = device;
        channel->session = lease->frame.session;
    }
    lease->device = channel->device;
    if (lease->device)
        lease_begun(lease);
    return 0;
}

static struct sluice_stream stream_for(const struct lease *lease)
{
    return lease->first ? stream_handle(lease->first) : SLUICE_ON_CPU;
}

/* After an acquire, with the channel entered. */
static void note_session(struct channel *channel, int r)
{
    channel->unsettled = channel->foreign && r != 0 && r != SLUICE_TIMEOUT && r != SLUICE_E_LIMIT;
}

static int acquire_wait(struct reader *reader, struct channel *channel, struct lease *lease, int64_t timeout_ns)
{
    int r;

    if (channel_enter(reader->state, channel) < 0)
        return SLUICE_E_FORKED; /* the exception is set */
    Py_BEGIN_ALLOW_THREADS r = sluice_reader_acquire(channel->reader, stream_for(lease), timeout_ns, &lease->frame);
    Py_END_ALLOW_THREADS note_session(channel, r);
    if (r == 0)
        r = place(reader, channel, lease);
    channel_leave(channel);
    return r;
}

/* With the GIL: usually it takes less time than to release that. */
static int acquire_now(struct reader *reader, struct channel *channel, struct lease *lease)
{
    int r;

    if (channel->unsettled || channel->slow)
        return acquire_wait(reader, channel, lease, 0);
    if (channel_enter(reader->state, channel) < 0)
        return SLUICE_E_FORKED;
    r = sluice_reader_acquire(channel->reader, stream_for(lease), 0, &lease->frame);
    note_session(channel, r);
    if (r == 0)
        r = place(reader, channel, lease);
    channel_leave(channel);
    return r;
}

bool reader_may_come(int r)
{
    return r == SLUICE_TIMEOUT || r == SLUICE_NO_WRITER || r == SLUICE_AGAIN;
}

#define MIN_WAIT (50 * INT64_C(1000)) /* ns; a warm-up costs little beside such waits */

int reader_acquire(struct reader *reader, struct channel *channel, struct lease *lease, int64_t timeout_ns)
{
    int r = acquire_now(reader, channel, lease), again;

    if (!reader_may_come(r) || timeout_ns == 0)
        return r;
    struct patience patience = patience_new(timeout_ns);
    if (atomic_load_explicit(&channel->typical_wait, memory_order_relaxed) > MIN_WAIT)
        export_warm_up(reader->state, channel);
    while ((again = patience_next(&patience, channel)) > 0) {
        r = acquire_wait(reader, channel, lease, patience.slice);
        if (r == 0) /* from the writer's time, by the same clock: no call after the wait */
            atomic_store_explicit(&channel->typical_wait,
                                  (int64_t)((uint64_t)lease->frame.commit_ns - (uint64_t)patience.began),
                                  memory_order_relaxed);
        if (!reader_may_come(r))
            return r;
        if (atomic_load(&channel->closed)) {
            raise_as(reader->state, ERROR_E_CLOSED, "channel '%s': the reader was closed while it waited",
                     channel->name);
            return r;
        }
    }
    return again < 0 ? r : acquire_now(reader, channel, lease); /* a frame may have come before the GIL did */
}

/* The reader's device; NULL if it is not known yet. Before the first frame the device may not be open yet. */
static const char *device_now(struct reader *reader, struct channel *channel, char *name)
{
    const struct opened *opened;

    if (channel->session)
        return device_text(channel->device);
    if (sluice_reader_device(channel->reader, name, DEVICE_NAME) != 0)
        return NULL;
    if (strcmp(name, "host") == 0)
        return name;
    if (!(opened = device_open(reader->state, name))) {
        PyErr_Clear(); /* acquire fails with a message */
        return name;
    }
    return device_text(opened);
}

/* A stream of any device: acquire checks that the next frame is of the same, since the next writer may be on another
 * one. */
static int name_given(struct reader *reader, struct lease *lease, const char *device, PyObject *given)
{
    bool gpu = device && strcmp(device, "host") != 0;
    struct stream *stream = stream_of_any(reader->state, given, gpu ? device : "cuda:0");

    return stream ? lease_use_named(lease, stream) : -1;
}

/* Puts the stream that next() was given, or the thread's, into the lease. `of`: the device's ordinal, if it is known.
 * -1 with an exception. */
static int name_stream(struct reader *reader, struct channel *channel, struct lease *lease, PyObject *given, int *of)
{
    char name[DEVICE_NAME];
    const char *device;
    struct stream *stream;

    *of = -1;
    if (!given && channel->session && !channel->device)
        return 0;
    device = device_now(reader, channel, name);
    *of = device ? device_ordinal(device) : -2;
    if (given && given != Py_None)
        return name_given(reader, lease, device, given);
    if (!device && !reader->ahead)
        return 0;
    if (export_stream(reader->state, device, NULL, &stream) < 0)
        return -1;
    if (!stream && reader->ahead && *of != -1 && export_stream(reader->state, NULL, NULL, &stream) < 0)
        return -1; /* a stream of another GPU may be right for the next writer's frames */
    if (stream)
        return lease_use_named(lease, stream);
    if (!reader->ahead || *of == -1)
        return 0;
    raise_as(reader->state, ERROR_E_INVALID,
             "channel '%s': ahead=True acquires frames that are not ready, so a stream must wait for them: give "
             "next(stream=...), or "
             "enter one: with sluice.Stream(device)",
             channel->name);
    return -1;
}

static void forget_stream(struct lease *lease)
{
    lease_drop_streams(lease);
    lease->named = false;
}

/* The lease's stream is of another device than the session, which may be new: forgets the last session's device.
 * Returns whether the new one is another device than the stream was chosen for, so that the thread may have another
 * stream for it, or none. */
static bool choose_again(struct reader *reader, struct channel *channel, struct lease *lease, int of)
{
    char name[DEVICE_NAME];
    const char *device;

    if (PyErr_Occurred() || !lease->first || channel_enter(reader->state, channel) < 0)
        return false;
    channel->session = 0;
    channel_leave(channel);
    device = device_now(reader, channel, name);
    if (!device || device_ordinal(device) == of)
        return false;
    forget_stream(lease);
    return true;
}

/* On the stream that next() was given, or the thread's. Returns a result, perhaps with an exception. */
static int acquire(struct reader *reader, struct channel *channel, struct lease *lease, int64_t timeout_ns,
                   PyObject *given)
{
    bool ends = timeout_ns > 0 && timeout_ns != SLUICE_FOREVER;
    int64_t deadline = ends ? patience_new(timeout_ns).deadline : 0;
    bool again = false;
    int of, r;

    do {
        if (again && ends && (timeout_ns = deadline - clock_now()) < 0)
            timeout_ns = 0;
        if (name_stream(reader, channel, lease, given, &of) < 0)
            return SLUICE_E_STALE;
        r = reader_acquire(reader, channel, lease, timeout_ns);
        again = r == SLUICE_E_WRONG_DEVICE && choose_again(reader, channel, lease, of);
    } while (again && (!given || given == Py_None));
    if (r == 0 && !lease->device)
        forget_stream(lease); /* host: nothing is queued */
    return r;
}

PyObject *reader_next_frame(struct reader *reader, int64_t timeout_ns, PyObject *stream, bool quiet, int *result)
{
    struct channel *channel = reader_channel(reader);
    struct lease *lease = channel ? lease_new(channel) : NULL;
    PyObject *frame = NULL;

    *result = SLUICE_E_STALE;
    if (lease) {
        *result = acquire(reader, channel, lease, timeout_ns, stream);
        if (*result == 0) {
            frame = frame_new(reader->state, reader->state->frame, lease);
        } else {
            if (!PyErr_Occurred() && (!quiet || *result == SLUICE_E_WRONG_DEVICE))
                raise_result(reader->state, *result);
            lease_discard(lease);
        }
    }
    channel_drop(channel);
    return frame;
}
