/* SPDX-License-Identifier: MIT
 *
 * Copies from a GPU into pinned memory. They have a stream of their own: a frame that is ready needs no order, so the
 * copy runs beside the work queued on the frame.
 */
#include "fetch.h"

#include <string.h>

#include "frame.h"
#include "pinned.h"
#include "stream_choice.h"

#define SOON  (20 * INT64_C(1000))  /* ns that a small copy may block an event loop: */
#define SMALL (UINT64_C(256) << 10) /* less than a thread would cost */

/* One copy: what is fetched, and where the caller's array lies in it. */
struct copy {
    struct lease *lease;    /* until it is queued: the frame then ends behind it */
    struct sluice_array to; /* in pinned memory */
    const char *device;     /* that it comes from */
    uint64_t bytes;         /* of pinned memory */
    struct pinned *pinned;
    struct sluice_ticket ticket;
    PyObject *make[5]; /* what numpy.ndarray() is called with: shape, dtype, buffer, offset, strides; NULL ends them */
};

enum { SHAPE, DTYPE, BUFFER, OFFSET, STRIDES };

static void clear(struct copy *copy)
{
    for (int i = 0; i < 5; i++)
        Py_CLEAR(copy->make[i]);
    (void)lease_drop(copy->lease);
    pinned_give(copy->pinned);
    copy->lease = NULL;
    copy->pinned = NULL;
}

/* ---- what goes where ---- */

/* A plane is fetched with its whole image, at the same offset as in the slot. */
static int plan_plane(struct copy *copy, const struct array *plane, const struct sluice_array *whole)
{
    uint64_t offset = plane->a.offset - whole->offset;

    copy->to = *whole;
    copy->to.read_only = 0;
    copy->bytes = whole->nbytes;
    copy->make[OFFSET] = PyLong_FromUnsignedLongLong(offset);
    copy->make[STRIDES] = array_strides(plane);
    return copy->make[OFFSET] && copy->make[STRIDES] ? 0 : -1;
}

/* All other arrays are copied without gaps between rows. */
static int plan_whole(struct copy *copy, const struct array *array)
{
    const struct sluice_array *a = &array->a;
    int r = sluice_array_wrap(&copy->to, a->name, NULL, a->dtype, a->ndim, a->shape, NULL);

    copy->bytes = copy->to.nbytes;
    return check_result(array->state, r);
}

static int plan(struct copy *copy, struct array *array)
{
    struct state *state = array->state;
    struct lease *lease = array->lease;
    struct sluice_array whole;

    memset(copy, 0, sizeof *copy);
    if (!lease->channel->reader) {
        raise_as(state, ERROR_E_UNSUPPORTED,
                 "channel '%s': a frame on a GPU cannot be copied to host memory while it is being written: fill it "
                 "by torch(), cupy() or DLPack, and read it with a reader",
                 lease->channel->name);
        return -1;
    }
    copy->device = device_text(lease->device);
    if (check_result(state, sluice_frame_array(&lease->frame, array->a.name, &whole)) < 0)
        return -1;
    copy->lease = lease_keep(lease);
    bool plane = whole.image.pixel_format && !array->a.image.pixel_format;
    if ((plane ? plan_plane(copy, array, &whole) : plan_whole(copy, array)) < 0)
        return -1;
    copy->make[DTYPE] = Py_XNewRef(dtype_numpy(state, array->a.dtype));
    return copy->make[DTYPE] && (copy->make[SHAPE] = array_shape(array)) ? 0 : -1;
}

/* ---- copying ---- */

static bool is_written(const struct lease *lease, const struct sluice_array *a)
{
    return !a->read_only || (lease->frame.flags & SLUICE_FRAME_AHEAD);
}

int copy_behind(struct lease *lease, const struct sluice_array *a, const struct stream *stream)
{
    return is_written(lease, a) ? lease_wait_for(lease, stream) : 0;
}

bool copy_captured(struct lease *lease, const struct sluice_array *a)
{
    return is_written(lease, a) && lease_captures(lease);
}

/* Copies, once memory is allocated. With `queued` the copy is left to the GPU; else the library waits for it: it knows
 * how long copies take, and waits better than a ticket can. */
static int run(struct state *state, struct copy *copy, const struct sluice_array *a, bool queued)
{
    struct channel *channel = copy->lease->channel;
    struct stream *stream = NULL; /* waits for what may still write to the frame */
    int r = 0;

    copy->to.data = copy->pinned->memory;
    if ((queued || !a->read_only) && !(stream = copy_stream(state, channel, copy->device)))
        return -1;
    if (queued && lease_use(copy->lease, stream_keep(stream)) < 0) {
        stream_drop(stream);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS if (stream) r = copy_behind(copy->lease, a, stream);
    if (r == 0)
        r = sluice_reader_fetch(channel->reader, &copy->lease->frame, &copy->to, 1,
                                stream ? stream_handle(stream) : SLUICE_ON_CPU, queued ? &copy->ticket : NULL);
    Py_END_ALLOW_THREADS stream_drop(stream);
    if (r == SLUICE_TIMEOUT)
        copy->pinned = NULL; /* the copy may still write to it: leaked */
    return r == 0 ? 0 : raise_copy(state, r);
}

int raise_unfinished(const struct state *state, const char *device, const char *and)
{
    raise_as(state, ERROR_TIMEOUT,
             "the copy from \"%s\" has not finished after 10 s, because work queued before it has not: synchronize "
             "its stream first%s",
             device, and);
    return -1;
}

static int wait(struct state *state, struct copy *copy)
{
    int r;

    Py_BEGIN_ALLOW_THREADS r = sluice_ticket_wait(copy->ticket, PATIENCE);
    Py_END_ALLOW_THREADS return r == SLUICE_TIMEOUT ? raise_unfinished(state, copy->device, "")
                                                    : check_result(state, r);
}

/* Makes the array of a finished copy; its base returns the memory to the pool. */
static PyObject *make_ndarray(struct state *state, struct copy *copy)
{
    PyObject **make = copy->make;
    struct pinned *pinned = copy->pinned;

    copy->pinned = NULL;
    if (copy->bytes && !(make[BUFFER] = pinned_object(state, pinned, copy->bytes)))
        return NULL;
    return PyObject_CallFunctionObjArgs(state->ndarray, make[SHAPE], make[DTYPE], make[BUFFER], make[OFFSET],
                                        make[STRIDES], NULL);
}

PyObject *fetch_array(struct array *array)
{
    struct state *state = array->state;
    struct copy copy;
    PyObject *made = NULL;

    if (plan(&copy, array) == 0 && (!copy.bytes || ((copy.pinned = pinned_take(state, copy.device, copy.bytes, true)) &&
                                                    run(state, &copy, &array->a, false) == 0)))
        made = make_ndarray(state, &copy);
    clear(&copy);
    return made;
}

/* ---- without blocking: for event loops ---- */

struct fetch {
    PyObject_HEAD struct state *state;
    struct copy copy;
    PyObject *array; /* until the copy is queued */
    bool queued, done;
};

static int start(struct fetch *fetch)
{
    int r = run(fetch->state, &fetch->copy, &((struct array *)fetch->array)->a, true);

    fetch->queued = r == 0;
    Py_CLEAR(fetch->array);
    if (r == 0 && fetch->copy.lease->channel->foreign) /* its writer may overwrite the frame: settle() checks */
        return 0;
    (void)lease_drop(fetch->copy.lease);
    fetch->copy.lease = NULL;
    return r;
}

/* Was the frame whole until the copy finished? */
static int settle(struct fetch *fetch)
{
    struct lease *lease = fetch->copy.lease;
    int r = 0;

    if (lease && lease->channel->foreign)
        r = check_result(fetch->state, sluice_reader_check(lease->channel->reader, &lease->frame));
    (void)lease_drop(lease);
    fetch->copy.lease = NULL;
    return r;
}

/* A copy that has begun, for sluice._asyncio: it is queued, unless its memory has to be allocated first.
 * The frame's lease ends behind the copy; the memory stays until the copy is done. */
static struct fetch *fetch_begin(struct array *array)
{
    struct state *state = array->state;
    struct fetch *fetch = PyObject_New(struct fetch, state->fetch);

    if (!fetch)
        return NULL;
    fetch->state = state;
    fetch->queued = fetch->done = false;
    fetch->array = Py_NewRef((PyObject *)array);
    struct copy *copy = &fetch->copy;
    if (plan(copy, array) == 0 &&
        (!copy->bytes || !(copy->pinned = pinned_take(state, copy->device, copy->bytes, false)) || start(fetch) == 0)) {
        fetch->done =
            !copy->bytes || (fetch->queued && copy->bytes <= SMALL && sluice_ticket_wait(copy->ticket, SOON) == 0);
        if (!fetch->done || settle(fetch) == 0)
            return fetch;
    }
    Py_DECREF((PyObject *)fetch);
    return NULL;
}

/* On a thread of an executor. */
static PyObject *fetch_wait(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct fetch *fetch = (struct fetch *)self;
    struct copy *copy = &fetch->copy;

    if (!fetch->done && !fetch->queued &&
        (!(copy->pinned = pinned_take(fetch->state, copy->device, copy->bytes, true)) || start(fetch) < 0))
        return NULL;
    if (!fetch->done && (wait(fetch->state, copy) < 0 || settle(fetch) < 0))
        return NULL;
    fetch->done = true;
    Py_RETURN_NONE;
}

static PyObject *fetch_result(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct fetch *fetch = (struct fetch *)self;

    return make_ndarray(fetch->state, &fetch->copy);
}

/* Has the copy ended, though nothing waited for it? Memory that is still written must not return to the pool. */
static bool is_over(struct fetch *fetch)
{
    int r;

    if (!fetch->queued || fetch->done)
        return true;
    Py_BEGIN_ALLOW_THREADS r = sluice_ticket_wait(fetch->copy.ticket, PATIENCE);
    Py_END_ALLOW_THREADS return !copy_may_go_on(r);
}

static void fetch_dealloc(PyObject *self)
{
    struct fetch *fetch = (struct fetch *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (!is_over(fetch)) /* the GPU hangs, and may still write to it: leaked */
        fetch->copy.pinned = NULL;
    Py_XDECREF(fetch->array);
    clear(&fetch->copy);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *frame_fetch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "name", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *values[1], *module = imported(&frame->state->coroutines, "sluice._asyncio");
    PyObject *array = NULL, *made = NULL;
    struct lease *lease = NULL;
    struct fetch *copy;

    if (module && parse_fast("fetch", names, 1, args, count, keywords, values) == 0 && (lease = frame_lease(frame)))
        array = array_of_frame(frame->state, lease, values[0]);
    if (array && !lease->device)
        made = PyObject_CallMethod(module, "fetch_host", "O", array);
    else if (array && (copy = fetch_begin((struct array *)array)))
        made = PyObject_CallMethod(module, "fetch", "NO", copy, copy->done ? Py_True : Py_False);
    Py_XDECREF(array);
    (void)lease_drop(lease);
    return made;
}

static PyMethodDef methods[] = {
    { "wait", METHOD(fetch_wait), METH_NOARGS, DOC_Fetch_wait },
    { "result", METHOD(fetch_result), METH_NOARGS, DOC_Fetch_result },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, fetch_dealloc),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_doc, DOC_Fetch),
    { 0, NULL },
};

TYPE_SPEC(fetch, "sluice._Fetch", struct fetch, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
