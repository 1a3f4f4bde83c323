/* SPDX-License-Identifier: MIT
 *
 * Importers of sluice.cuda_link copy frames into host memory: into one buffer of pinned memory, which the next call
 * overwrites; or, pipelined, into two in turn, and return the one that was filled while the program worked on the
 * other.
 */
#include "cuda_link.h"

#include <string.h>

#include "fetch.h"
#include "pinned.h"

#define TRIES 4 /* to copy a frame before its writer overwrites it */

/* ---- memory ---- */

static int wait_for(const struct host_copy *copy)
{
    int r;

    Py_BEGIN_ALLOW_THREADS r = sluice_ticket_wait(copy->ticket, PATIENCE);
    Py_END_ALLOW_THREADS return r;
}

void link_forget_copies(struct link *link)
{
    for (int i = 0; i < 2; i++) {
        struct host_copy *copy = &link->host_copies[i];
        if (copy->lease && copy_may_go_on(wait_for(copy))) /* the copy may still write to it: leaked */
            Py_XINCREF(copy->result);
        (void)lease_drop(copy->lease);
        Py_XDECREF(copy->result);
        memset(copy, 0, sizeof *copy);
    }
}

/* An object that owns memory: pinned, or pageable if the program allows that. */
static PyObject *memory_for(struct link *link, const char *device, uint64_t bytes, void **memory)
{
    struct state *state = link->reader->state;
    struct pinned *pinned = pinned_take(state, device, bytes, true);
    PyObject *plain;

    link->pinned = pinned != NULL;
    if (pinned) {
        *memory = pinned->memory;
        return pinned_object(state, pinned, bytes);
    }
    if (!link->pageable || !(PyErr_ExceptionMatches(state->errors[ERROR_E_NO_MEMORY]) ||
                             PyErr_ExceptionMatches(state->errors[ERROR_E_DRIVER])))
        return NULL;
    PyErr_Clear();
    plain = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (plain)
        *memory = PyByteArray_AsString(plain);
    return plain;
}

static int prepare(struct link *link, struct host_copy *copy, const char *device, const struct sluice_array *a)
{
    struct state *state = link->reader->state;
    PyObject *memory, *array;
    void *data = NULL;

    if (check_result(state, sluice_array_wrap(&copy->to, a->name, NULL, a->dtype, a->ndim, a->shape, NULL)) < 0)
        return -1;
    memory = memory_for(link, device, copy->to.nbytes, &data);
    array = memory ? array_over(state, sizes_tuple(a->shape, a->ndim), dtype_numpy(state, a->dtype), memory) : NULL;
    if (array)
        copy->result = PyObject_CallFunctionObjArgs(link->result, array, NULL);
    copy->to.data = data;
    Py_XDECREF(memory);
    Py_XDECREF(array);
    return copy->result ? 0 : -1;
}

static bool fits(const struct host_copy *copy, const struct sluice_array *a)
{
    return copy->result && memcmp(&copy->to.dtype, &a->dtype, sizeof a->dtype) == 0 && copy->to.ndim == a->ndim &&
           memcmp(copy->to.shape, a->shape, (size_t)a->ndim * sizeof a->shape[0]) == 0;
}

/* The buffer for the frame. NULL with an exception. */
static struct host_copy *copy_for(struct link *link, struct lease *lease)
{
    struct host_copy *copy = &link->host_copies[link->pipelined ? !link->last_copy : 0];
    struct sluice_array a;

    if (check_result(link->reader->state, sluice_frame_array(&lease->frame, NULL, &a)) < 0)
        return NULL;
    if (fits(copy, &a))
        return copy;
    if (copy->result)
        link_forget_copies(link);
    return prepare(link, copy, device_text(lease->device), &a) == 0 ? copy : NULL;
}

/* ---- one after the other ---- */

static int copy_now(struct channel *channel, struct lease *lease, struct host_copy *copy)
{
    int r;

    Py_BEGIN_ALLOW_THREADS r = sluice_reader_fetch(channel->reader, &lease->frame, &copy->to, 1, SLUICE_ON_CPU, NULL);
    if (r == 0)
        r = sluice_reader_check(channel->reader, &lease->frame);
    Py_END_ALLOW_THREADS if (r == SLUICE_TIMEOUT) copy->result = NULL; /* the copy may still write to it: leaked */
    return r;
}

static PyObject *copy_frame(struct link *link, struct channel *channel)
{
    struct host_copy *copy;
    struct lease *lease;
    int r;

    for (int tries = 0; tries < TRIES; tries++) {
        if ((r = link_acquire(link, channel, FRAMEWORK_NONE, NULL, &lease)) != 0)
            return link_without(link, r);
        r = (copy = copy_for(link, lease)) ? copy_now(channel, lease, copy) : LINK_RAISED;
        (void)lease_drop(lease);
        if (r == 0)
            return Py_NewRef(copy->result);
        if (r != SLUICE_E_LOST)
            return r > 0 || r == LINK_RAISED ? link_without(link, r) : raise_result(link->reader->state, r);
        link->overruns++;
    }
    return Py_NewRef(link->none); /* the writer is faster than each copy */
}

/* ---- pipelined ---- */

static int queue_on(const struct stream *stream, struct link *link, struct channel *channel, struct lease *lease,
                    struct host_copy *copy)
{
    int r = sluice_reader_fetch(channel->reader, &lease->frame, &copy->to, 1, stream_handle(stream), &copy->ticket);

    if (check_result(link->reader->state, r) < 0)
        return -1;
    copy->lease = lease;
    copy->marked = false;
    if (link->foreign && !link->markless) {
        r = sluice_cipd_mark(channel->reader, &lease->frame, stream_handle(stream));
        copy->marked = r == 0;
        link->markless = r == SLUICE_E_UNSUPPORTED;
    }
    return 0;
}

static int queue(struct link *link, struct channel *channel, struct lease *lease, struct host_copy *copy)
{
    struct stream *stream = copy_stream(link->reader->state, channel, device_text(lease->device));
    int r = stream ? lease_use(lease, stream_keep(stream)) : -1;

    if (r == 0)
        r = queue_on(stream, link, channel, lease, copy);
    stream_drop(stream);
    return r;
}

/* Finishes the copy that the previous call queued. The writer may have reused the slot since; the mark behind the copy
 * tells whether it did so during the copy. A new reference; link->none if the frame was torn. */
static PyObject *finish(struct link *link, struct channel *channel, struct host_copy *copy)
{
    int r = wait_for(copy);

    if (copy_may_go_on(r)) /* as above */
        copy->result = NULL;
    if (r == 0)
        r = copy->marked ? sluice_cipd_check_mark(channel->reader, &copy->lease->frame)
                         : sluice_reader_check(channel->reader, &copy->lease->frame);
    link->overruns += r == SLUICE_E_LOST;
    (void)lease_drop(copy->lease);
    copy->lease = NULL;
    if (r == SLUICE_E_LOST)
        return Py_NewRef(link->none);
    return r == 0 ? Py_NewRef(copy->result) : raise_result(link->reader->state, r);
}

static PyObject *copy_pipelined(struct link *link, struct channel *channel)
{
    struct host_copy *copy, *before;
    struct lease *lease;
    PyObject *result;
    int r = link_acquire(link, channel, FRAMEWORK_NONE, NULL, &lease);

    if (r != 0)
        return link_without(link, r);
    copy = copy_for(link, lease); /* may drop both buffers */
    before = &link->host_copies[link->last_copy];
    result = !copy           ? NULL
             : before->lease ? finish(link, channel, before)
                             : Py_NewRef(link->none); /* no copy was queued */
    if (!result || queue(link, channel, lease, copy) < 0) {
        (void)lease_drop(lease);
        Py_XDECREF(result);
        return NULL;
    }
    link->last_copy = (unsigned)(copy - link->host_copies);
    return result;
}

PyObject *link_numpy(struct link *link, struct channel *channel)
{
    return link->pipelined ? copy_pipelined(link, channel) : copy_frame(link, channel);
}
