/* SPDX-License-Identifier: MIT
 *
 * Importers of sluice.cuda_link acquire frames.
 */
#include "cuda_link.h"

#include <string.h>

#include "clock.h"
#include "export.h"
#include "view.h"

/* ---- streams ---- */

int link_native(PyObject *given, size_t *native)
{
    *native = PyLong_AsSize_t(given);
    if (*native != (size_t)-1 || !PyErr_Occurred())
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%R is not a stream: a native stream is an int of 64 bits, 0 for the default stream",
                 given);
    return -1;
}

struct stream *link_stream(struct state *state, PyObject *given, const char *device)
{
    size_t native;

    if (!PyLong_Check(given))
        return stream_of(state, given, device);
    return link_native(given, &native) < 0 ? NULL : stream_of_native(state, native, device);
}

/* The GPU on which frames are used; NULL for host, or if it is not known yet. */
static const char *gpu_of(struct channel *channel, char *name)
{
    if (channel->session)
        return channel->device ? channel->device->name : NULL;
    if (sluice_reader_device(channel->reader, name, DEVICE_NAME) != 0 || strcmp(name, "host") == 0)
        return NULL;
    return name;
}

/* Puts the stream that waits for the frame into the lease; none if the CPU waits. */
static int name_stream(struct link *link, struct channel *channel, struct lease *lease, enum framework framework,
                       PyObject *given)
{
    struct state *state = link->reader->state;
    struct stream *stream = NULL;
    char name[DEVICE_NAME];
    const char *device;

    if (!given && framework != FRAMEWORK_CUPY && !(framework == FRAMEWORK_TORCH && link->gpu_wait))
        return 0;
    if (!(device = gpu_of(channel, name)))
        return 0;
    if (given)
        stream = link_stream(state, given, device);
    else if (framework_current(state, framework, device, &stream) == 0 && !stream)
        return 0;
    return stream ? lease_use_named(lease, stream) : -1;
}

/* A frame that was acquired for one stream will be used by another, or by the CPU. */
static int wait_elsewhere(struct link *link, struct channel *channel, struct lease *lease, enum framework framework,
                          PyObject *given)
{
    struct lease wanted = { .channel = channel };
    int r = 0;

    if (!(lease->frame.flags & SLUICE_FRAME_AHEAD))
        return 0;
    if (name_stream(link, channel, &wanted, framework, given) < 0)
        return -1;
    if (!wanted.first) {
        Py_BEGIN_ALLOW_THREADS r = sluice_stream_synchronize(stream_handle(lease->first));
        Py_END_ALLOW_THREADS
    } else {
        r = export_on(link->reader->state, lease, stream_native(wanted.first));
    }
    lease_drop_streams(&wanted);
    return PyErr_Occurred() ? -1 : check_result(link->reader->state, r);
}

/* ---- taking ---- */

/* Is there a frame that was published and is not finished? */
static bool is_coming(struct channel *channel)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    return sluice_reader_stats(channel->reader, &stats) == 0 && stats.lag > 0;
}

static void count_wait(struct link *link, int64_t ns)
{
    bool slept = ns > link->spin_ns;

    link->spin_hits += !slept;
    link->sleep_hits += slept;
    *(slept ? &link->slept_ns : &link->spun_ns) += (uint64_t)ns;
    if (!link->window || link->gpu_wait)
        return;
    link->window_frames++;
    link->window_sleeps += slept;
    if (link->window_sleeps >= link->threshold) {
        link->gpu_wait = true;
        link->latched = link->frames + 1;
    } else if (link->window_frames >= link->window) {
        link->window_frames = link->window_sleeps = 0;
    }
}

static int acquire(struct link *link, struct channel *channel, struct lease *lease)
{
    int r = reader_acquire(link->reader, channel, lease, 0);

    if (r == SLUICE_E_LIMIT && link->held && !PyErr_Occurred()) { /* the channel has too few slots for two */
        (void)lease_drop(link->held);
        link->held = NULL;
        r = reader_acquire(link->reader, channel, lease, 0);
    }
    if (r == SLUICE_TIMEOUT && !link->pending && is_coming(channel)) {
        int64_t began = clock_now();
        r = reader_acquire(link->reader, channel, lease, link->timeout_ns);
        if (r == SLUICE_TIMEOUT)
            r = SLUICE_E_LOST;
        if (r == 0)
            count_wait(link, clock_now() - began);
    } else if (r == 0 && !lease->first) {
        count_wait(link, 0);
    }
    link->timeouts += r == SLUICE_E_LOST;
    return r;
}

/* Is it the first frame of another session or format? */
static bool is_renewal(struct link *link, const struct lease *lease)
{
    bool other = link->session != lease->frame.session || link->generation != lease->frame.generation;
    bool renewed = other && link->session && !link->reported;

    link->session = lease->frame.session;
    link->generation = lease->frame.generation;
    link->reported = false;
    if (other)
        link_forget(link);
    link->renewals += renewed;
    return renewed;
}

static int report(struct link *link, int r)
{
    if (PyErr_Occurred())
        return LINK_RAISED;
    if (r == SLUICE_CLOSED || r == SLUICE_NO_WRITER) {
        bool first = !link->reported && link->session;
        if (first) { /* the writer frees the memory without waiting for readers */
            link_forget(link);
            link_hold(link, NULL);
        }
        link->reported = true;
        return first ? r : SLUICE_NO_WRITER;
    }
    if (r >= 0 || r == SLUICE_E_LOST || r == SLUICE_E_CLOSED)
        return r;
    raise_result(link->reader->state, r);
    return LINK_RAISED;
}

int link_acquire(struct link *link, struct channel *channel, enum framework framework, PyObject *given,
                 struct lease **out)
{
    struct lease *lease;
    int r = LINK_RAISED;

    if (link->unreported) {
        link->unreported = false;
        return LINK_RENEWED;
    }
    if (!(lease = lease_new(channel)))
        return LINK_RAISED;
    if (name_stream(link, channel, lease, framework, given) == 0)
        r = acquire(link, channel, lease);
    if (r == SLUICE_E_CAPTURING && !given && lease->first) { /* the program named no stream: the CPU waits */
        lease_drop_streams(lease);
        lease->named = false;
        r = acquire(link, channel, lease);
    }
    if (r == 0) {
        bool renewed = is_renewal(link, lease);
        (void)lease_drop(link->pending);
        link->pending = lease;
        if (renewed)
            return LINK_RENEWED;
    } else {
        lease_discard(lease);
        if (r != SLUICE_TIMEOUT || !link->pending || PyErr_Occurred())
            return report(link, r);
        if (wait_elsewhere(link, channel, link->pending, framework, given) < 0)
            return LINK_RAISED;
    }
    *out = link->pending;
    link->pending = NULL;
    link->frames++;
    link->missed += (*out)->frame.missed;
    link->latency_ns = clock_now() - (*out)->frame.commit_ns;
    return 0;
}

void link_hold(struct link *link, struct lease *lease)
{
    struct lease *before = link->held;

    link->held = lease;
    link->overruns += lease_drop(before) == SLUICE_E_LOST;
}

/* ---- as an array of its framework ---- */

static PyObject *result_for(struct link *link, PyObject *view, struct slot_result *made)
{
    PyObject *result;

    if (made->view == view)
        return Py_NewRef(made->result);
    if (!(result = PyObject_CallFunctionObjArgs(link->result, view, NULL)))
        return NULL;
    Py_XDECREF(made->view);
    Py_XDECREF(made->result);
    made->view = Py_NewRef(view);
    made->result = Py_NewRef(result);
    return result;
}

static PyObject *show(struct link *link, struct lease *lease, enum framework framework, bool given)
{
    struct state *state = link->reader->state;
    struct slot_result *made = &link->slot_results[framework == FRAMEWORK_CUPY][lease->frame.slot % LINK_SLOTS];
    struct sluice_array a;
    PyObject *view, *result = NULL;
    /* On cuda-link's channels a frame is not held until streams have finished with it, and one that is ready needs no
     * wait: the framework's current stream need not be recorded. */
    bool recorded = given || (link->foreign && !(lease->frame.flags & SLUICE_FRAME_AHEAD));
    int r;

    if (recorded && link->foreign &&
        made->result) /* in a session a slot is always the same memory, of the same format */
        return Py_NewRef(made->result);
    if ((r = sluice_frame_array(&lease->frame, NULL, &a)) != 0)
        return raise_result(state, r);
    if (link->copies || !lease->device) {
        PyObject *array = array_new(state, lease, &a);
        view = array ? export_array((struct array *)array, framework, true) : NULL;
        Py_XDECREF(array);
        if (view)
            result = PyObject_CallFunctionObjArgs(link->result, view, NULL);
    } else {
        view = recorded ? view_made(state, lease, &a, framework, NULL) : view_of(state, lease, &a, framework, NULL);
        if (view)
            result = result_for(link, view, made);
    }
    Py_XDECREF(view);
    return result;
}

PyObject *link_without(const struct link *link, int code)
{
    return code == LINK_RAISED ? NULL : code == SLUICE_TIMEOUT ? Py_NewRef(link->none) : PyLong_FromLong(code);
}

PyObject *link_show(struct link *link, struct channel *channel, enum framework framework, PyObject *given)
{
    struct lease *lease;
    PyObject *result;
    int r = link_acquire(link, channel, framework, given, &lease);

    if (r != 0)
        return link_without(link, r);
    result = show(link, lease, framework, given && lease->first);
    link_hold(link, lease);
    return result;
}

/* ---- waiting for one ---- */

/* Sleeps in slices, while no writer could wake the reader. */
static int sleep_in_slices(struct channel *channel, int64_t timeout_ns)
{
    struct patience patience = patience_new(timeout_ns);
    int again;

    do {
        struct timespec slice = { .tv_nsec = (long)patience.slice };
        Py_BEGIN_ALLOW_THREADS(void) nanosleep(&slice, NULL);
        Py_END_ALLOW_THREADS
    } while ((again = patience_next(&patience, channel)) > 0);
    return again;
}

/* 1, 0, or -1 with an exception. */
static int wait_for(struct link *link, struct channel *channel, int64_t timeout_ns)
{
    struct lease *lease;
    int r;

    if (link->pending)
        return 1;
    if (!(lease = lease_new(channel)))
        return -1;
    r = reader_acquire(link->reader, channel, lease, timeout_ns);
    if (r == 0) {
        link->unreported = is_renewal(link, lease);
        link->pending = lease;
        return 1;
    }
    lease_discard(lease);
    link->timeouts += r == SLUICE_E_LOST;
    if (PyErr_Occurred())
        return -1;
    if (r == SLUICE_CLOSED && (!link->session || link->reported))
        return sleep_in_slices(channel, timeout_ns);
    return r == SLUICE_CLOSED || (r < 0 && r != SLUICE_E_LIMIT);
}

PyObject *link_wait(PyObject *self, PyObject *ns)
{
    struct link *link = (struct link *)self;
    int64_t timeout_ns = PyLong_AsLongLong(ns);
    struct channel *channel;
    int found = 0;

    if (PyErr_Occurred() || link_enter(link) < 0)
        return NULL;
    if ((channel = reader_keep_channel(link->reader)))
        found = wait_for(link, channel, timeout_ns);
    channel_drop(channel);
    link_leave(link);
    return found < 0 ? NULL : PyBool_FromLong(found);
}
