/* SPDX-License-Identifier: MIT
 *
 * `with stream` and `with stream.use()`: what makes a stream a thread's current one, and its end.
 */
#include "stream_object.h"

/* ---- exceptions at the end of a `with` ---- */

/* Puts `ours` at the end of what `error` came from. Steals `ours`. */
static void chain(PyObject *error, PyObject *ours)
{
    PyObject *last = Py_NewRef(error), *next;

    while (last != ours && (next = PyException_GetContext(last))) {
        Py_DECREF(last);
        last = next;
    }
    if (last == ours)
        Py_DECREF(ours);
    else
        PyException_SetContext(last, ours);
    Py_DECREF(last);
}

PyObject *leave_with(PyObject *error)
{
    PyObject *type, *value, *trace;

    if (!PyErr_Occurred())
        Py_RETURN_FALSE;
    if (error == Py_None)
        return NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        (void)PyException_SetTraceback(value, trace);
    if (value && PyExceptionInstance_Check(error))
        chain(error, value);
    else
        Py_XDECREF(value);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    Py_RETURN_FALSE;
}

/* ---- with stream ---- */

PyObject *stream_enter(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = stream_object_use(self);
    int r;

    if (!stream)
        return NULL;
    r = stream_push(object->state, stream);
    if (r == 0)
        (void)stream_entered(stream, 1);
    stream_drop(stream);
    return r < 0 ? NULL : Py_NewRef(self);
}

/* False: it captures, and stays open, as it has to. A reset has waited already. */
static bool wait_for(struct stream_object *object, struct stream *stream)
{
    int r;

    if (stream_leaves_at_once(stream))
        return stream_object_may_close(object, stream) == 0;
    Py_BEGIN_ALLOW_THREADS r = sluice_stream_synchronize(stream_handle(stream));
    Py_END_ALLOW_THREADS if (r != 0 && r != SLUICE_E_STALE && r != SLUICE_E_CLOSED) raise_handle(object->state, r);
    return r != SLUICE_E_CAPTURING;
}

/* The outermost `with` of one of ours: waits, then closes. */
static void finish(struct stream_object *object, struct stream *stream)
{
    if (!wait_for(object, stream))
        return;
    if (!stream_close_later(stream)) {
        stream_let_go(object);
    } else if (!PyErr_Occurred()) {
        (void)PyErr_WarnFormat(
            PyExc_ResourceWarning, 1,
            "%R is still the current stream of another `with`, on this thread or "
            "another: it is closed when that is left",
            (PyObject *)object);
    }
}

/* The object's, whether it is closed by now or not. */
static struct stream *take(struct stream_object *object)
{
    struct stream *stream;

    GUARD(object)
    stream = object->stream ? stream_keep(object->stream) : NULL;
    UNGUARD()
    if (!stream)
        PyErr_Format(object->state->stream_closed, "%R was closed before its `with` was left",
                     (PyObject *)object);
    return stream;
}

PyObject *stream_exit(PyObject *self, PyObject *error)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = take(object);

    if (stream && stream_pop(object->state, stream) == 0 && stream_entered(stream, -1) == 0 &&
        object->kind == SLUICE_STREAM_OWNED)
        finish(object, stream);
    stream_drop(stream);
    return leave_with(error);
}

/* ---- with stream.use() ---- */

struct scope {
    PyObject_HEAD struct stream_object *object;
};

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF((PyObject *)((struct scope *)self)->object);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyObject *stream_use(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream_object *object = (struct stream_object *)self;
    allocfunc allocate = (allocfunc)PyType_GetSlot(object->state->stream_scope, Py_tp_alloc);
    struct scope *scope = (struct scope *)allocate(object->state->stream_scope, 0);

    if (scope)
        scope->object = (struct stream_object *)Py_NewRef(self);
    return (PyObject *)scope;
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream_object *object = ((struct scope *)self)->object;
    struct stream *stream = stream_object_use((PyObject *)object);
    int r;

    if (!stream)
        return NULL;
    r = stream_push(object->state, stream);
    stream_drop(stream);
    return r < 0 ? NULL : Py_NewRef((PyObject *)object);
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct stream_object *object = ((struct scope *)self)->object;
    struct stream *stream = take(object);

    if (stream && stream_pop(object->state, stream) == 0 && stream_closed(stream))
        stream_let_go(object); /* its own `with` was left before this one */
    stream_drop(stream);
    return leave_with(count > 1 ? args[1] : Py_None);
}

static PyMethodDef methods[] = {
    { "__enter__", METHOD(enter), METH_NOARGS, "__enter__($self)\n--\n\n" },
    { "__exit__", METHOD(leave), METH_FASTCALL, "__exit__($self, kind, error, traceback, /)\n--\n\n" },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_methods, methods),
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice._StreamScope",
    .basicsize = sizeof(struct scope),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int stream_scope_type_init(PyObject *module, struct state *state)
{
    state->stream_scope = add_type(module, &spec);
    return state->stream_scope ? 0 : -1;
}
