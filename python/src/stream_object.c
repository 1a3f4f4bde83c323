/* SPDX-License-Identifier: MIT
 *
 * _sluice._Stream, which the Python class Stream is over, and the module's functions about streams.
 */
#include "stream_object.h"

#include <structmember.h>

struct stream_object {
    PyObject_HEAD struct state *state;
    struct stream *stream; /* NULL once closed */
    /* what follows outlives its end */
    uint64_t id;       /* the handle's, for messages */
    uint64_t identity; /* what == compares */
    const char *device;
    int kind; /* enum sluice_stream_kind */
};

PyObject *raise_handle(const struct state *state, int result)
{
    if (result != SLUICE_E_STALE)
        return raise_result(state, result);
    PyErr_SetString(state->stale_handle, sluice_last_error());
    return NULL;
}

PyObject *stream_object(struct state *state, struct stream *stream)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(state->stream, Py_tp_alloc);
    struct stream_object *object = stream ? (struct stream_object *)allocate(state->stream, 0) : NULL;

    if (!object) {
        stream_drop(stream);
        return NULL;
    }
    object->state = state;
    object->stream = stream;
    object->id = stream_handle(stream).id;
    object->identity = stream_identity(stream);
    object->device = stream_device(stream);
    object->kind = (int)stream->kind;
    return (PyObject *)object;
}

static void let_go(struct stream_object *object)
{
    struct stream *stream;

    GUARD(object)
    stream = object->stream;
    object->stream = NULL;
    UNGUARD()
    stream_drop(stream);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct stream_object *object = (struct stream_object *)self;

    Py_VISIT((PyObject *)Py_TYPE(self));
    return stream_visit(object->state, object->stream, visit, arg);
}

/* A stream of another library that we keep alive, and that keeps ours. */
static int clear(PyObject *self)
{
    let_go((struct stream_object *)self);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct state *state = object->state;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    stream_drop(object->stream);
    if (state && state->owners)
        streams_release_owners(state);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* A new reference; NULL without an exception once it is closed. */
static struct stream *keep(struct stream_object *object)
{
    struct stream *stream;

    GUARD(object)
    stream = object->stream ? stream_keep(object->stream) : NULL;
    UNGUARD()
    return stream;
}

/* A new reference; NULL with StreamClosedError. */
static struct stream *keep_open(struct stream_object *object)
{
    struct stream *stream = keep(object);

    if (stream && stream_check(object->state, stream) == 0)
        return stream;
    if (!stream)
        PyErr_Format(object->state->stream_closed, "%R was closed: make another one", (PyObject *)object);
    stream_drop(stream);
    return NULL;
}

struct stream *stream_object_use(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = keep_open(object);

    if (!stream)
        return NULL;
    if (!stream_is_usable_here(stream))
        raise_as(
            object->state, ERROR_E_INVALID,
            "%R is another thread's default stream, which this thread cannot use: name this thread's, or make a stream",
            self);
    else if (stream_check_reset(object->state, stream) == 0)
        return stream;
    stream_drop(stream);
    return NULL;
}

/* ---- making ---- */

PyObject *stream_create_object(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    struct sluice_stream_params params = { .size = sizeof params };
    const char *device;
    int blocking, sync_on_exit;
    struct stream *stream;

    if (!PyArg_ParseTuple(args, "sipp:Stream", &device, &params.priority, &blocking, &sync_on_exit))
        return NULL;
    params.blocking = blocking != 0;
    stream = stream_create(state, device, &params);
    if (stream)
        stream->at_once = !sync_on_exit;
    return stream_object(state, stream);
}

PyObject *stream_from_handle(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    PyObject *handle, *owner;
    const char *device;

    if (!PyArg_ParseTuple(args, "OsO:from_handle", &handle, &device, &owner))
        return NULL;
    size_t native = PyLong_AsSize_t(handle);
    if (PyErr_Occurred())
        return NULL;
    PyObject *kept = owner == Py_None ? NULL : owner;
    return stream_object(state, stream_unshared(state, stream_view(state, native, device, kept)));
}

PyObject *stream_wrap(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    const char *device;
    PyObject *object;

    if (!PyArg_ParseTuple(args, "Oz:wrap", &object, &device))
        return NULL;
    struct stream *stream = device ? stream_of(state, object, device) : stream_of_any(state, object, "cuda:0");
    if (Py_TYPE(object) == state->stream) {
        stream_drop(stream);
        return stream ? Py_NewRef(object) : NULL;
    }
    if ((stream =
             stream_unshared(state, stream))) /* PyTorch's too, which calls for frames do not keep: see of_torch() */
        stream_own(state, stream, object);
    return stream_object(state, stream);
}

PyObject *use_stream_class(PyObject *module, PyObject *type)
{
    struct state *state = PyModule_GetState(module);

    Py_XDECREF((PyObject *)state->stream);
    state->stream = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

/* ---- work ---- */

/* The result of a call on it. Drops `stream`. */
static PyObject *answer(struct stream_object *object, struct stream *stream, int r, PyObject *value)
{
    PyObject *made = r < 0 ? raise_handle(object->state, r) : value ? Py_NewRef(value) : PyBool_FromLong(r == 0);

    stream_drop(stream); /* after that: it may change the thread's last error */
    return made;
}

/* The result of a call of the library; `value` or, if that is NULL, whether it is 0. */
static PyObject *call(PyObject *self, int (*function)(struct sluice_stream), PyObject *value)
{
    struct stream *stream = stream_object_use(self);
    int r;

    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = function(stream_handle(stream));
    Py_END_ALLOW_THREADS return answer((struct stream_object *)self, stream, r, value);
}

static PyObject *query(PyObject *self, PyObject *Py_UNUSED(none))
{
    return call(self, sluice_stream_query, NULL);
}

static PyObject *synchronize(PyObject *self, PyObject *Py_UNUSED(none))
{
    return call(self, sluice_stream_synchronize, Py_None);
}

static PyObject *wait_for(PyObject *self, PyObject *other)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = stream_object_use(self), *others;
    int r;

    if (!stream)
        return NULL;
    if (!(others = stream_of_any(object->state, other, object->device))) {
        stream_drop(stream);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS r = sluice_stream_wait_stream(stream_handle(stream), stream_handle(others));
    Py_END_ALLOW_THREADS PyObject *none = answer(object, stream, r, Py_None);
    stream_drop(others);
    return none;
}

static PyObject *native_of(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = keep_open((struct stream_object *)self);
    uintptr_t native;

    if (!stream)
        return NULL;
    int r = sluice_stream_native(stream_handle(stream), &native); /* fails after a reset */
    PyObject *none = answer((struct stream_object *)self, stream, r, Py_None);
    Py_XDECREF(none);
    return none ? PyLong_FromSize_t(native) : NULL;
}

static PyObject *same_native(PyObject *self, PyObject *other)
{
    struct stream_object *object = (struct stream_object *)self;
    struct state *state = object->state;
    struct stream *stream = keep_open(object), *others = NULL;
    PyObject *same = NULL;

    if (stream)
        others = Py_TYPE(other) == state->stream ? keep_open((struct stream_object *)other)
                                                 : stream_of_any(state, other, object->device);
    if (others && stream_check_reset(state, stream) == 0 && stream_check_reset(state, others) == 0)
        same = PyBool_FromLong(stream_same(stream, others));
    stream_drop(others);
    stream_drop(stream);
    return same;
}

static void drop_keeper(PyObject *capsule)
{
    stream_drop(PyCapsule_GetPointer(capsule, "sluice.stream"));
}

/* An object that keeps the native stream alive, also once this one is closed. */
static PyObject *keeper(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = stream_object_use(self);
    PyObject *capsule = stream ? PyCapsule_New(stream, "sluice.stream", drop_keeper) : NULL;

    if (!capsule)
        stream_drop(stream);
    return capsule;
}

/* ---- its end ---- */

static PyObject *captures(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = keep((struct stream_object *)self);
    bool captures = stream && stream_captures(stream);

    stream_drop(stream);
    return PyBool_FromLong(captures);
}

/* `later`: where it is current, it is closed once it is not; True if so. Else BusyError then. */
static PyObject *close_stream(PyObject *self, PyObject *later)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = keep(object);
    bool open = false;

    if (!stream)
        Py_RETURN_FALSE;
    if (later == Py_True)
        open = stream_close_later(stream);
    else if (stream_close(object->state, stream) < 0) {
        stream_drop(stream);
        return NULL;
    }
    stream_drop(stream);
    if (!open)
        let_go(object);
    streams_release_owners(object->state);
    return PyBool_FromLong(open);
}

/* -> itself. `own`: by its own `with`, not by use(). */
static PyObject *push(PyObject *self, PyObject *own)
{
    struct stream *stream = stream_object_use(self);
    int r;

    if (!stream)
        return NULL;
    r = stream_push(((struct stream_object *)self)->state, stream, own == Py_True);
    stream_drop(stream);
    return r < 0 ? NULL : Py_NewRef(self);
}

/* -> 0: its own `with` is entered still; 1: that was the outermost, which waits; 2: which does not. */
static PyObject *pop(PyObject *self, PyObject *own)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = keep(object);
    int left;

    if (!stream)
        return PyErr_Format(object->state->stream_closed, "%R was closed before its `with` was left", self);
    left = stream_pop(object->state, stream, own == Py_True);
    if (left > 0 && stream->at_once)
        left = 2;
    if (left >= 0 && own != Py_True && stream_closed(stream))
        let_go(object); /* its own `with` was left before this one */
    stream_drop(stream);
    return left < 0 ? NULL : PyLong_FromLong(left);
}

/* -> 0: open; 1: closed, by whichever of its names; 2: it was reset. */
static PyObject *state_now(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = keep((struct stream_object *)self);
    int now = !stream || stream_closed(stream) ? 1 : stream_was_reset(stream) ? 2 : 0;

    stream_drop(stream);
    return PyLong_FromLong(now);
}

/* ---- the type ---- */

static PyMethodDef methods[] = {
    { "_captures", METHOD(captures), METH_NOARGS, NULL },
    { "_close", METHOD(close_stream), METH_O, NULL },
    { "_keeper", METHOD(keeper), METH_NOARGS, NULL },
    { "_native", METHOD(native_of), METH_NOARGS, NULL },
    { "_pop", METHOD(pop), METH_O, NULL },
    { "_push", METHOD(push), METH_O, NULL },
    { "_query", METHOD(query), METH_NOARGS, NULL },
    { "_same_native", METHOD(same_native), METH_O, NULL },
    { "_state", METHOD(state_now), METH_NOARGS, NULL },
    { "_synchronize", METHOD(synchronize), METH_NOARGS, NULL },
    { "_wait", METHOD(wait_for), METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
    { "_id", T_ULONGLONG, offsetof(struct stream_object, id), READONLY, NULL },
    { "_identity", T_ULONGLONG, offsetof(struct stream_object, identity), READONLY, NULL },
    { "_kind", T_INT, offsetof(struct stream_object, kind), READONLY, NULL },
    { "device", T_STRING, offsetof(struct stream_object, device), READONLY, DOC_Stream_device },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, dealloc), SLOT(Py_tp_traverse, traverse), SLOT(Py_tp_clear, clear),
    SLOT(Py_tp_methods, methods), SLOT(Py_tp_members, members),   { 0, NULL },
};

TYPE_SPEC(stream_base, "sluice._Stream", struct stream_object,
          Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC, slots);

/* ---- functions of the module ---- */

PyObject *current_stream(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", NULL };
    struct state *state = PyModule_GetState(module);
    const char *device = NULL;
    struct stream *stream;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|z:current_stream", names, &device) ||
        (device && !device_open(state, device)) || stream_current(state, device, &stream) < 0)
        return NULL;
    return stream ? stream_object(state, stream) : Py_NewRef(Py_None);
}

/* For sluice.reset() and sluice.synchronize(). */
static PyObject *of_device(PyObject *module, PyObject *name, bool reset)
{
    struct state *state = PyModule_GetState(module);
    const char *device = PyUnicode_AsUTF8AndSize(name, NULL);
    const struct opened *opened = device ? device_open(state, device) : NULL;
    int r;

    if (!opened)
        return NULL;
    streams_release_owners(state);
    Py_BEGIN_ALLOW_THREADS streams_forget(opened);
    r = reset ? sluice_device_reset(opened->device) : sluice_device_synchronize(opened->device);
    Py_END_ALLOW_THREADS PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_result(state, r);
    if (reset && r != SLUICE_E_CAPTURING && r != SLUICE_E_FORKED) { /* also if the driver failed */
        device_was_reset(opened);
        streams_forget(opened);
    }
    return none;
}

PyObject *reset_device(PyObject *module, PyObject *name)
{
    return of_device(module, name, true);
}

PyObject *synchronize_device(PyObject *module, PyObject *name)
{
    return of_device(module, name, false);
}
