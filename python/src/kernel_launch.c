/* SPDX-License-Identifier: MIT
 *
 * fx.blur(...): a launch, its shape, and its stream (docs/python-send-fetch.md#on-which-stream).
 */
#include "kernel.h"

#include <string.h>

#include "frame.h"
#include "stream_choice.h"
#include "stream_object.h"

/* ---- shape ---- */

/* `sizes` is what the program passed, of which `size` is one number. */
static int set_size(PyObject *size, PyObject *sizes, const char *what, uint32_t *into)
{
    long long value = size ? (long long)PyNumber_AsSsize_t(size, NULL) : -1;

    if (value == -1 && PyErr_Occurred())
        return -1;
    if (value < 1 || value > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s is %R: each number must be 1 to 4,294,967,295", what, sizes);
        return -1;
    }
    *into = (uint32_t)value;
    return 0;
}

static int set_sizes(PyObject *sizes, const char *what, uint32_t shape[3])
{
    Py_ssize_t count = PySequence_Size(sizes);
    int r = 0;

    if (count < 0)
        return -1;
    if (count < 1 || count > 3) {
        PyErr_Format(PyExc_ValueError, "%s is %R: it must be one to three numbers: x, y, z", what, sizes);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && r == 0; i++) {
        PyObject *size = PySequence_GetItem(sizes, i);
        r = set_size(size, sizes, what, &shape[i]);
        Py_XDECREF(size);
    }
    return r;
}

/* The size of an image is its width and height, that of an array its last two extents, without channels. */
static int set_extents(const int64_t *extents, int ndim, uint32_t shape[3])
{
    if (ndim == 3 && extents[2] <= 4)
        ndim = 2;
    if (ndim < 1 || ndim > 2) {
        PyErr_Format(PyExc_ValueError,
                     "over is an array of %d dimensions, whose size is ambiguous: give the number of threads, as "
                     "(width, height, depth)",
                     ndim);
        return -1;
    }
    for (int d = 0; d < ndim; d++) {
        int64_t extent = extents[ndim - 1 - d];
        if (extent < 1 || extent > UINT32_MAX) {
            PyErr_Format(PyExc_ValueError, "over is an array of extent %lld: there must be 1 to 4,294,967,295 threads",
                         (long long)extent);
            return -1;
        }
        shape[d] = (uint32_t)extent;
    }
    return 0;
}

static int set_array(const struct sluice_array *array, uint32_t shape[3])
{
    if (array->image.pixel_format == SLUICE_PIXEL_NONE)
        return set_extents(array->shape, array->ndim, shape);
    shape[0] = array->image.width;
    shape[1] = array->image.height;
    return 0;
}

static int set_frame(struct state *state, PyObject *object, uint32_t shape[3])
{
    struct lease *lease = frame_lease((struct frame *)object);
    struct sluice_array array;
    int r = lease ? array_find(state, lease, NULL, &array) : -1;

    (void)lease_drop(lease);
    return r < 0 ? -1 : set_array(&array, shape);
}

/* The size of an array of another library, by its .shape. 1 without an exception if it has no extents. */
static int set_foreign(PyObject *object, uint32_t shape[3])
{
    PyObject *sizes = PyObject_GetAttrString(object, "shape");
    int64_t extents[SLUICE_MAX_DIMS];
    Py_ssize_t count = sizes ? PySequence_Size(sizes) : 0;

    PyErr_Clear();
    for (Py_ssize_t i = 0; i < count && i < SLUICE_MAX_DIMS; i++) {
        PyObject *size = PySequence_GetItem(sizes, i);
        extents[i] = size ? (int64_t)PyNumber_AsSsize_t(size, NULL) : -1;
        Py_XDECREF(size);
    }
    Py_XDECREF(sizes);
    if (PyErr_Occurred())
        return -1;
    return count < 1 ? 1 : set_extents(extents, (int)count, shape);
}

int shape_parse(struct state *state, PyObject *object, const char *what, uint32_t shape[3])
{
    int r;

    if (PyLong_Check(object))
        return set_size(object, object, what, shape);
    if (PyTuple_Check(object) || PyList_Check(object))
        return set_sizes(object, what, shape);
    if (Py_IS_TYPE(object, state->frame) || Py_IS_TYPE(object, state->writer_frame))
        return set_frame(state, object, shape);
    if (Py_IS_TYPE(object, state->array))
        return set_array(&((struct array *)object)->a, shape);
    if ((r = set_foreign(object, shape)) != 1)
        return r;
    if (!PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s is %R: it must be a number of threads, (width, height), or an array", what,
                     object);
        return -1;
    }
    return set_size(object, object, what, shape);
}

/* ---- keywords ---- */

enum keyword { OVER, STREAM, GRID, BLOCK, SHARED, KEYWORDS };

static int parse_keywords(const struct kernel *kernel, PyObject *keywords, PyObject *values[KEYWORDS])
{
    static const char *const names[KEYWORDS] = { "over", "stream", "grid", "block", "shared" };
    PyObject *name, *value;
    Py_ssize_t at = 0;

    memset(values, 0, KEYWORDS * sizeof *values);
    while (keywords && PyDict_Next(keywords, &at, &name, &value)) {
        Py_UCS4 first = PyUnicode_GetLength(name) > 0 ? PyUnicode_ReadChar(name, 0) : 0;
        int i = 0;
        while (i < KEYWORDS && (first != (Py_UCS4)names[i][0] || PyUnicode_CompareWithASCIIString(name, names[i]) != 0))
            i++;
        if (i == KEYWORDS) {
            PyErr_Format(PyExc_TypeError,
                         "kernel '%U' got an unexpected argument %R: parameters are given by position; there are over, "
                         "grid, block, shared and stream besides",
                         kernel->name, name);
            return -1;
        }
        values[i] = value == Py_None ? NULL : value;
    }
    return 0;
}

static int parse_shape(struct call *call, PyObject *values[KEYWORDS])
{
    struct state *state = call->kernel->state;
    struct sluice_launch *shape = &call->shape;

    memset(shape, 0, sizeof *shape);
    shape->size = sizeof *shape;
    if (!values[OVER] == !values[GRID]) {
        PyErr_Format(PyExc_TypeError, "kernel '%U': give either over= (how many threads) or grid= (how many blocks)%s",
                     call->kernel->name, values[OVER] ? ", not both" : "");
        return -1;
    }
    if ((values[OVER] && shape_parse(state, values[OVER], "over", shape->over) < 0) ||
        (values[GRID] && shape_parse(state, values[GRID], "grid", shape->grid) < 0) ||
        (values[BLOCK] && shape_parse(state, values[BLOCK], "block", shape->block) < 0))
        return -1;
    return values[SHARED] && !parse_u32(values[SHARED], &shape->shared) ? -1 : 0;
}

/* ---- the stream ---- */

int call_named_stream(struct state *state, PyObject *given, struct stream *own, const char *device, struct stream **out)
{
    if (given)
        return (*out = stream_of(state, given, device)) ? 0 : -1;
    if (!own)
        return stream_current_usable(state, device, out);
    if (stream_check(state, own) < 0 || stream_check_reset(state, own) < 0)
        return -1;
    *out = stream_keep(own);
    return 0;
}

/* The framework's of the first array that has one, then the frame's. */
struct stream *call_found_stream(const struct call *call)
{
    for (uint32_t i = 0; i < call->source_count; i++)
        if (call->sources[i].stream)
            return stream_keep(call->sources[i].stream);
    for (uint32_t i = 0; i < call->frame_count; i++)
        if (call->leases[i]->named && !stream_was_reset(call->leases[i]->first))
            return lease_first(call->leases[i]);
    return NULL;
}

/* The launch is ordered with arrays of other streams, unless it is recorded: then the graph's launches are what is to
 * be ordered with them. */
int call_order(struct call *call, struct stream_choice *choice)
{
    struct state *state = call->state;
    int captures = -1;

    for (uint32_t i = 0; i < call->source_count; i++) {
        struct source *source = &call->sources[i];
        choice->lasting = choice->lasting || source->lasting;
        if (!source->stream || stream_same(source->stream, choice->stream))
            continue;
        if (stream_captures(source->stream)) {
            raise_as(state, ERROR_E_CAPTURING,
                     "%U: the library of an array is capturing a graph on another stream: launch on that stream",
                     call->name);
            return -1;
        }
        if (captures < 0)
            captures = stream_captures(choice->stream);
        choice->edges = choice->edges || !captures;
        if (captures) {
            stream_drop(source->stream);
            source->stream = NULL;
        }
    }
    if (choice->lasting && stream_captures(choice->stream))
        choice->lasting = false;
    return choice->edges ? choice_wait_for_sources(state, choice, call->sources, call->source_count) : 0;
}

/* ---- the launch ---- */

/* Raises the exception that Python has for an argument that does not fit. The library's sentence shows which one. */
static PyObject *raise_launch(const struct state *state, int r)
{
    const char *sentence = sluice_last_error();
    size_t length = strlen(sentence);
    bool type = (length > 6 && strcmp(sentence + length - 6, "passed") == 0) || strstr(sentence, "pass a variable");

    if (r == SLUICE_E_INVALID && type)
        PyErr_SetString(PyExc_TypeError, sentence);
    else if (r == SLUICE_E_LIMIT && strstr(sentence, "does not hold"))
        PyErr_SetString(PyExc_OverflowError, sentence);
    else
        return raise_handle(state, r);
    return NULL;
}

static PyObject *launch(struct call *call, const struct stream_choice *choice)
{
    struct sluice_stream stream = choice_handle(choice);
    int r;

    Py_BEGIN_ALLOW_THREADS r = sluice_launch(call->kernel->handle, stream, &call->shape, call->arguments, call->count);
    if (r == 0 && (choice_hold_sources(choice, call->sources, call->source_count) != 0 || choice->lasting))
        r = sluice_stream_synchronize(stream);
    Py_END_ALLOW_THREADS return r == 0 ? Py_NewRef(Py_None) : raise_launch(call->kernel->state, r);
}

/* Uses a frame on the stream, which waits for other streams that may still write to it. Branches of a parallel section
 * and captures have an order of their own. */
static int use_frame(struct state *state, struct lease *lease, struct stream *stream)
{
    bool others = lease->first && (lease->several || !stream_same(lease->first, stream));

    if (!lease->device)
        return 0;
    if (others && (stream->lent || stream_captures(stream)))
        return lease_use(lease, stream_keep(stream));
    return export_on_stream(state, lease, stream_keep(stream));
}

int call_use_frames(struct call *call, const struct stream_choice *choice)
{
    int r = 0;

    for (uint32_t i = 0; i < call->frame_count && r == 0; i++)
        r = use_frame(call->state, call->leases[i], choice->stream);
    return r;
}

static PyObject *run(struct call *call, PyObject *args, bool named)
{
    struct stream_choice choice = { .stream = NULL };
    PyObject *done = NULL;

    for (Py_ssize_t i = 0, n = PyTuple_Size(args); i < n; i++)
        if (argument_add(call, PyTuple_GetItem(args, i)) < 0)
            return NULL;
    if (named || !(choice.stream = call_found_stream(call)))
        choice.stream = stream_keep(call->user.consumer);
    if (call_order(call, &choice) == 0 && call_use_frames(call, &choice) == 0)
        done = launch(call, &choice);
    choice_drop(&choice);
    return done;
}

PyObject *kernel_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct kernel *kernel = (struct kernel *)self;
    PyObject *values[KEYWORDS], *done = NULL;
    struct call call; /* large: only what is used is filled in */
    struct stream *named = NULL;

    call.state = kernel->state;
    call.device = kernel->device;
    call.kernel = kernel;
    call.name = kernel->name;
    call.count = call.source_count = call.frame_count = 0;
    if (PyTuple_Size(args) > SLUICE_MAX_PARAMETERS)
        return PyErr_Format(PyExc_TypeError, "kernel '%U': %zd arguments; there can be %d", kernel->name,
                            PyTuple_Size(args), SLUICE_MAX_PARAMETERS);
    if (parse_keywords(kernel, keywords, values) < 0 || parse_shape(&call, values) < 0 ||
        call_named_stream(kernel->state, values[STREAM], kernel->stream, kernel->device->name, &named) < 0)
        return NULL;
    struct stream *behind = named ? named : stream_of_native(kernel->state, 0, kernel->device->name);
    call.user = (struct user){ NULL, kernel->device->name, false, behind };
    if (behind)
        done = run(&call, args, named != NULL);
    for (uint32_t i = 0; i < call.source_count; i++)
        source_close(&call.sources[i]);
    for (uint32_t i = 0; i < call.frame_count; i++)
        (void)lease_drop(call.leases[i]);
    stream_drop(behind);
    return done;
}
