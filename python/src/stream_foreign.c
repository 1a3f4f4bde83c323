/* SPDX-License-Identifier: MIT
 *
 * Streams of other libraries: which native stream an object stands for, and the names of those.
 */
#include <string.h>

#include "framework.h"
#include "stream.h"
#include "stream_object.h"

#define SHARED 64

static struct stream *shared[SHARED]; /* without an owner, each with a reference */

/* ---- native streams ---- */

static struct stream **place_of(const struct opened *device, uintptr_t native)
{
    return &shared[(native / 64 + native / 4096 + native + (unsigned)device->ordinal) % SHARED];
}

static struct stream *find_shared(const struct opened *device, uintptr_t native)
{
    struct stream *found;

    streams_lock();
    found = *place_of(device, native);
    if (found && found->device == device && found->native == native && !stream_was_reset(found))
        stream_keep(found);
    else
        found = NULL;
    streams_unlock();
    return found;
}

static void share(struct stream *stream)
{
    struct stream **place = place_of(stream->device, stream->native), *old;

    streams_lock();
    old = *place;
    *place = stream_keep(stream);
    streams_unlock();
    stream_drop(old);
}

void streams_forget(const struct opened *device)
{
    struct stream *dropped[SHARED];
    unsigned count = 0;

    streams_lock();
    for (unsigned i = 0; i < SHARED; i++)
        if (shared[i] && shared[i]->device == device) {
            dropped[count++] = shared[i];
            shared[i] = NULL;
        }
    streams_unlock();
    while (count > 0)
        stream_drop(dropped[--count]);
}

/* The library's handle, counted once more, so that this calls the driver only for the first. */
static int wrap(const struct opened *device, uintptr_t native, struct sluice_stream *handle)
{
    return native == 0 ? sluice_stream_default(device->device, handle)
                       : sluice_stream_wrap(device->device, native, NULL, NULL, handle);
}

static struct stream *name_foreign(struct state *state, uintptr_t native, const struct opened *device)
{
    unsigned resets = atomic_load(&device->resets);
    struct sluice_stream handle;
    struct stream *stream;
    int r;

    Py_BEGIN_ALLOW_THREADS r = wrap(device, native, &handle);
    Py_END_ALLOW_THREADS if (r != 0) return (struct stream *)raise_result(state, r);
    stream = stream_new(device, resets, handle, native, native == 0 ? SLUICE_STREAM_DEFAULT : SLUICE_STREAM_BORROWED);
    return stream ? stream : (struct stream *)PyErr_NoMemory();
}

struct stream *stream_view(struct state *state, uintptr_t native, const char *device, PyObject *owner)
{
    const struct opened *opened = device_open(state, device);
    struct stream *stream = NULL;

    if (!opened)
        return NULL;
    if (native == 1)
        native = 0;
    if (!owner && native != STREAM_PER_THREAD && (stream = find_shared(opened, native)))
        return stream;
    if (!(stream = name_foreign(state, native, opened)))
        return NULL;
    if (owner)
        stream_own(state, stream, owner);
    else if (native != STREAM_PER_THREAD)
        share(stream);
    return stream;
}

struct stream *stream_unshared(struct state *state, struct stream *stream)
{
    struct stream *own;

    if (!stream || stream->owner)
        return stream;
    own = name_foreign(state, stream->native, stream->device);
    stream_drop(stream);
    return own;
}

bool stream_renew(struct stream *stream)
{
    struct sluice_stream handle;

    if (stream->kind == SLUICE_STREAM_OWNED || wrap(stream->device, stream->native, &handle) != 0)
        return false;
    atomic_store(&stream->id, handle.id);
    return true;
}

struct stream *stream_of_native(struct state *state, uintptr_t native, const char *device)
{
    PyObject *owner = native > STREAM_PER_THREAD ? framework_owner(state, device_ordinal(device), native) : NULL;
    struct stream *stream = stream_view(state, native, device, owner);

    Py_XDECREF(owner);
    streams_release_owners(state);
    return stream;
}

/* ---- objects ---- */

/* An attribute; NULL without an exception if there is none. */
static PyObject *attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);

    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

static int read_value(PyObject *object, PyObject *number, const char *what, uintptr_t *native)
{
    if (!PyLong_Check(number) || PyBool_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%s of %R is %R: it must be an int", what, object, number);
        return -1;
    }
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred() || value > UINTPTR_MAX) {
        PyErr_Format(PyExc_ValueError, "%s of %R is %R, which is no stream", what, object, number);
        return -1;
    }
    *native = (uintptr_t)value;
    return 0;
}

/* The result of __cuda_stream__(): version 0 and the stream. */
static int read_protocol(PyObject *object, PyObject *said, uintptr_t *native)
{
    PyObject *version;
    long number;

    if (!PyTuple_Check(said) || PyTuple_Size(said) != 2) {
        PyErr_Format(PyExc_TypeError,
                     "__cuda_stream__() of %R gave %R: it must be a tuple of two ints, a version "
                     "and a stream",
                     object, said);
        return -1;
    }
    version = PyTuple_GetItem(said, 0);
    if (!PyLong_Check(version) || PyBool_Check(version)) {
        PyErr_Format(PyExc_TypeError, "__cuda_stream__() of %R gave the version %R: it must be an int", object,
                     version);
        return -1;
    }
    number = PyLong_AsLong(version);
    if (number != 0) {
        PyErr_Format(PyExc_ValueError, "__cuda_stream__() of %R speaks version %R: this release knows version 0",
                     object, version);
        return -1;
    }
    return read_value(object, PyTuple_GetItem(said, 1), "__cuda_stream__()", native);
}

/* 1: it is a stream; 0: it is not; -1 with an exception. */
static int read_native(PyObject *object, uintptr_t *native)
{
    PyObject *found = attribute(object, "__cuda_stream__"), *said;
    const char *what = "cuda_stream";
    int r;

    if (found) {
        said = PyCallable_Check(found) ? PyObject_CallNoArgs(found) : Py_NewRef(found);
        r = said ? read_protocol(object, said, native) : -1;
        Py_XDECREF(said);
        Py_DECREF(found);
        return r < 0 ? -1 : 1;
    }
    if (!PyErr_Occurred())
        found = attribute(object, what); /* PyTorch's */
    if (!found && !PyErr_Occurred() && (said = attribute(object, "wait_event"))) {
        Py_DECREF(said); /* CuPy's; its memory pointers also have a `ptr` */
        found = attribute(object, what = "ptr");
    }
    if (!found)
        return PyErr_Occurred() ? -1 : 0;
    r = read_value(object, found, what, native);
    Py_DECREF(found);
    return r < 0 ? -1 : 1;
}

/* The GPU that a stream's object names, or -1. */
static int named_ordinal(PyObject *object)
{
    PyObject *value = attribute(object, "device_index"), *device; /* PyTorch's */
    long ordinal;

    if (!value)
        value = attribute(object, "device_id");             /* CuPy's */
    if (!value && (device = attribute(object, "device"))) { /* cuda.core's */
        value = attribute(device, "device_id");
        Py_DECREF(device);
    }
    PyErr_Clear();
    ordinal = value && PyLong_Check(value) ? PyLong_AsLong(value) : -1;
    PyErr_Clear();
    Py_XDECREF(value);
    return ordinal >= 0 && ordinal < 1000 ? (int)ordinal : -1;
}

/* A stream of PyTorch, perhaps for each frame: its attributes are known, and PyTorch never ends one, so it is not kept.
 */
static struct stream *of_torch(struct state *state, PyObject *object, const char *device)
{
    PyObject *number = known_attribute(object, &state->cuda_stream, "cuda_stream");
    PyObject *index = number ? known_attribute(object, &state->device_index, "device_index") : NULL;
    long ordinal = index ? PyLong_AsLong(index) : -1;
    char made[DEVICE_NAME];
    uintptr_t native;
    int r = index && !PyErr_Occurred() ? read_value(object, number, "cuda_stream", &native) : -1;

    Py_XDECREF(number);
    Py_XDECREF(index);
    if (r < 0)
        return NULL;
    return stream_view(state, native, ordinal < 0 ? device : device_numbered((int)ordinal, made), NULL);
}

/* Of the GPU that the object names, else of `device`. */
static struct stream *of_foreign(struct state *state, PyObject *object, const char *device)
{
    char named[DEVICE_NAME];
    uintptr_t native;
    int r, ordinal;

    if (device_ordinal(device) != -1 && framework_torch_stream(state, object))
        return of_torch(state, object, device);
    if ((r = read_native(object, &native)) < 0)
        return NULL;
    if (r == 0) {
        PyErr_Format(
            PyExc_TypeError,
            PyLong_Check(object)
                ? "%R is no stream: for a native stream's address use sluice.Stream.from_handle(address, device)"
                : "%R is no stream: give a sluice.Stream, or one of PyTorch, CuPy or any library whose streams have "
                  "__cuda_stream__",
            object);
        return NULL;
    }
    if (device_ordinal(device) == -1) {
        raise_as(state, ERROR_E_WRONG_DEVICE,
                 "%R is a stream of a GPU, and this is on \"host\", where work is done when a call returns: give None",
                 object);
        return NULL;
    }
    if ((ordinal = named_ordinal(object)) < 0)
        return stream_view(state, native, device, object);
    return stream_view(state, native, device_numbered(ordinal, named), object);
}

struct stream *stream_of_any(struct state *state, PyObject *object, const char *device)
{
    streams_release_owners(state);
    if (Py_TYPE(object) == state->stream)
        return stream_object_use(object);
    return of_foreign(state, object, device);
}

struct stream *stream_of(struct state *state, PyObject *object, const char *device)
{
    const struct opened *opened = device ? device_open(state, device) : NULL;
    struct stream *stream;

    if (device && !opened)
        return NULL;
    stream = stream_of_any(state, object, opened ? opened->name : "cuda:0");
    if (!stream)
        return NULL;
    if (!opened || strcmp(stream_device(stream), opened->name) == 0)
        return stream;
    raise_as(state, ERROR_E_WRONG_DEVICE,
             "%R is a stream of \"%s\", but the work is on \"%s\": give a stream of that device, which can wait for "
             "this one",
             object, stream_device(stream), opened->name);
    stream_drop(stream);
    return NULL;
}
