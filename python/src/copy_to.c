/* SPDX-License-Identifier: MIT
 *
 * frame.copy_to(): copies into memory of the program.
 */
#include <string.h>

#include "fetch.h"
#include "frame.h"
#include "stream_choice.h"

struct targets {
    struct state *state;
    struct lease *lease;
    struct user user;
    PyObject *given;     /* the argument `stream` */
    struct source frame; /* the frame as a source: for the order of streams only */
    struct source sources[SLUICE_MAX_ARRAYS];
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    uint32_t count;
    /* Targets that their frameworks copy into, each from an array of the frame. */
    struct odd {
        struct source source;
        PyObject *from;
    } odd[SLUICE_MAX_ARRAYS];
    uint32_t odd_count;
};

/* ---- what is to be copied, and may be ---- */

/* On the frame's GPU, and on the target's. */
static int may_copy(const struct targets *to, const struct odd *odd)
{
    const struct source *source = &odd->source;
    int ordinal = device_ordinal(to->user.device);

    if (check_copy_captures(to->state, source->framework, ordinal, to->given) < 0 ||
        (source->ordinal != ordinal && check_copy_captures(to->state, source->framework, source->ordinal, NULL) < 0))
        return -1;
    return check_source_captures(to->state, NULL, &to->frame, 1);
}

static int add_odd(struct targets *to, const struct source *source, const struct sluice_array *of)
{
    PyObject *module = imported(&to->state->copies, "sluice._copies"), *fits = NULL;
    struct odd *odd = &to->odd[to->odd_count++];

    odd->source = *source;
    odd->from = module ? array_new(to->state, to->lease, of) : NULL;
    if (odd->from)
        fits = PyObject_CallMethod(module, "may_copy_in", "OOO", odd->source.keeper, odd->from,
                                   to->given ? to->given : Py_None);
    Py_XDECREF(fits);
    return fits ? may_copy(to, odd) : -1;
}

static int add(struct targets *to, PyObject *name, PyObject *object)
{
    struct source *source = &to->sources[to->count];
    struct sluice_array of;

    if (source_open(to->state, object, &to->user, source) < 0)
        return -1;
    if (source->framework == FRAMEWORK_JAX && (source->read_only || source->ordinal >= 0)) {
        PyErr_SetString(PyExc_TypeError, "JAX arrays are immutable: use frame.jax()");
    } else if (source->read_only) {
        PyErr_Format(PyExc_BufferError, "%R is read-only: nothing can be copied into it", (PyObject *)Py_TYPE(object));
    } else if (array_find(to->state, to->lease, name, &of) == 0) {
        to->frame.array = of; /* one stands for all arrays of the frame */
        if (source->odd)
            return add_odd(to, source, &of);
        to->arrays[to->count] = source->array;
        memcpy(to->arrays[to->count++].name, of.name, sizeof of.name);
        return 0;
    }
    source_close(source);
    return -1;
}

static int add_items(struct targets *to, PyObject *mapping)
{
    PyObject *items = PyMapping_Items(mapping);
    Py_ssize_t count = items ? PyList_Size(items) : -1;

    if (count == 0 || count > SLUICE_MAX_ARRAYS) {
        raise_as(to->state, ERROR_E_FORMAT, "%zd arrays: a frame holds 1 to %d", count, SLUICE_MAX_ARRAYS);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name, *array;
        if (mapping_item(items, i, &name, &array) < 0 || add(to, name, array) < 0)
            count = -1;
    }
    Py_XDECREF(items);
    return count < 0 ? -1 : 0;
}

/* ---- copying ---- */

/* Orders the copy behind what writes to the frame, and to the targets. */
static int before(struct targets *to, const struct stream_choice *choice)
{
    if (!choice->stream)
        return 0;
    if (check_source_captures(to->state, choice->stream, to->sources, to->count) < 0 ||
        choice_wait_for_sources(to->state, choice, &to->frame, 1) < 0)
        return -1;
    return choice_wait_for_sources(to->state, choice, to->sources, to->count);
}

/* The copy may still write to it: its memory is leaked, unless it is a frame's, which ends behind the copy. */
static void leave_behind(struct source *source)
{
    if (source->lease)
        return;
    source->keeper = NULL;
    source->buffer.obj = NULL;
}

static int copy(struct targets *to, const struct stream_choice *choice)
{
    struct channel *channel = to->lease->channel;
    struct sluice_ticket ticket = { 0 };
    bool queued;
    int r;

    if (before(to, choice) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS r = sluice_reader_fetch(channel->reader, &to->lease->frame, to->arrays, to->count,
                                                   choice_handle(choice), choice->stream ? &ticket : NULL);
    queued = r == 0;
    if (queued && choice->stream &&
        (choice_hold_sources(choice, to->sources, to->count) != 0 || choice->host || choice->lasting))
        r = sluice_ticket_wait(ticket, PATIENCE);
    Py_END_ALLOW_THREADS if (queued) choice_hold_frame(choice, to->lease);
    for (uint32_t i = 0; queued && i < to->count; i++)
        choice_hold_frame(choice, to->sources[i].lease);
    for (uint32_t i = 0; (queued ? copy_may_go_on(r) : r == SLUICE_TIMEOUT) && i < to->count; i++)
        leave_behind(&to->sources[i]);
    if (r == SLUICE_TIMEOUT && queued)
        return raise_unfinished(to->state, to->user.device, "; the target may still be written to until then");
    return check_result(to->state, r);
}

/* Copies all of the library's targets in one call. */
static int copy_own(struct targets *to)
{
    struct stream_choice choice = { .stream = NULL };
    int r =
        to->count == 0 ? 0 : choice_make(to->state, to->given, &to->user, to->lease, to->sources, to->count, &choice);

    if (r == 0 && choice.on_gpu && !choice.stream &&
        !to->frame.array.read_only) { /* waits for what may still write to the frame */
        choice.stream = copy_stream(to->state, to->user.channel, to->user.device);
        r = choice.stream ? 0 : -1;
    }
    if (r == 0 && to->count > 0)
        r = copy(to, &choice);
    choice_drop(&choice);
    return r;
}

static int copy_odd(struct targets *to, const struct odd *odd)
{
    PyObject *module = imported(&to->state->copies, "sluice._copies"), *done = NULL;

    if (module)
        done = PyObject_CallMethod(module, "copy_in", "OOO", odd->source.keeper, odd->from,
                                   to->given ? to->given : Py_None);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Those of frameworks are checked first and copied last: the library copies all of its own, or none. */
static int copy_all(struct targets *to, PyObject *target, PyObject *name)
{
    bool several = is_mapping(target);
    int r = -1;

    if (several && name && name != Py_None)
        PyErr_SetString(PyExc_TypeError, "copy_to() takes a mapping of names or a name, not both");
    else
        r = several ? add_items(to, target) : add(to, name, target);
    if (r == 0)
        r = copy_own(to);
    for (uint32_t i = 0; i < to->odd_count && r == 0; i++)
        r = copy_odd(to, &to->odd[i]);
    for (uint32_t i = 0; i < to->count; i++)
        source_close(&to->sources[i]);
    for (uint32_t i = 0; i < to->odd_count; i++) {
        source_close(&to->odd[i].source);
        Py_XDECREF(to->odd[i].from);
    }
    return r;
}

PyObject *frame_copy_to(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "target", "name", "stream", NULL };
    struct frame *frame = (struct frame *)self;
    struct targets to; /* large: only what is used is filled in */
    PyObject *values[3];
    int r;

    if (parse_fast("copy_to", names, 2, args, count, keywords, values) < 0)
        return NULL;
    if (!values[0]) {
        PyErr_SetString(PyExc_TypeError, "copy_to() takes an array, or a mapping of names to arrays");
        return NULL;
    }
    if (!(to.lease = frame_lease(frame)))
        return NULL;
    to.state = frame->state;
    to.count = to.odd_count = 0;
    to.frame.lease = to.lease;
    to.frame.stream = NULL;
    to.user = (struct user){ to.lease->channel, device_text(to.lease->device), true, NULL };
    to.given = values[2];
    r = copy_all(&to, values[0], values[1]);
    (void)lease_drop(to.lease);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}
