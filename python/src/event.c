/* SPDX-License-Identifier: MIT
 *
 * sluice.Event, and what is asked of a whole device.
 */
#include "stream_cache.h"
#include "stream_object.h"

#include <structmember.h>

struct event_object {
    PyObject_HEAD struct state *state;
    _Atomic uint64_t handle; /* 0 once closed */
    PyObject *weak;
    uint64_t id; /* the handle's; what follows outlives the end too */
    const char *device;
    bool timing;
};

/* ---- making and closing ---- */

PyObject *event_new(struct state *state, const char *device, uint32_t flags)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(state->event, Py_tp_alloc);
    const struct opened *opened = device_open(state, device);
    struct sluice_event event = { 0 };
    struct event_object *object;
    int r;

    if (!opened || !(object = (struct event_object *)allocate(state->event, 0)))
        return NULL;
    object->state = state;
    object->device = opened->name;
    object->timing = (flags & SLUICE_EVENT_TIMING) != 0;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_create(opened->device, flags, &event);
    Py_END_ALLOW_THREADS object->id = event.id;
    atomic_store(&object->handle, event.id);
    if (r == 0)
        return (PyObject *)object;
    Py_DECREF((PyObject *)object);
    return raise_handle(state, r);
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", "timing", "sleep", NULL };
    const char *device = "cuda:0";
    int timing = 0, sleep = 0;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|spp:Event", names, &device, &timing, &sleep))
        return NULL;
    return event_new(PyType_GetModuleState(type), device,
                     (timing ? SLUICE_EVENT_TIMING : 0u) | (sleep ? SLUICE_EVENT_SLEEP : 0u));
}

/* Neither waits nor breaks anybody's capture; after a reset there is nothing to do. */
static void end(struct event_object *object)
{
    struct sluice_event event = { atomic_exchange(&object->handle, 0) };

    (void)sluice_event_destroy(&event);
}

static void dealloc(PyObject *self)
{
    struct event_object *object = (struct event_object *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (object->weak)
        PyObject_ClearWeakRefs(self);
    end(object);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *close_event(PyObject *self, PyObject *Py_UNUSED(none))
{
    end((struct event_object *)self);
    Py_RETURN_NONE;
}

/* -1 with an exception once it is closed. */
static int handle_of(PyObject *self, struct sluice_event *event)
{
    struct event_object *object = (struct event_object *)self;

    event->id = atomic_load(&object->handle);
    if (event->id != 0)
        return 0;
    PyErr_Format(object->state->event_closed, "%R was closed: make another one", self);
    return -1;
}

/* ---- work ---- */

static int said(PyObject *self, int r)
{
    const struct state *state = ((struct event_object *)self)->state;

    if (r == SLUICE_E_NOT_RECORDED)
        raise_as(state, ERROR_E_NOT_RECORDED,
                 "%R was never recorded: mark a point of a stream first, by event.record(stream) or stream.record(event)", self);
    else if (r == SLUICE_E_NO_TIMING)
        raise_as(state, ERROR_E_NO_TIMING, "%R takes no times: make it by sluice.Event(\"%s\", timing=True)", self,
                 ((struct event_object *)self)->device);
    else if (r != 0)
        raise_handle(state, r);
    return r == 0 ? 0 : -1;
}

int event_record(PyObject *self, struct stream *stream)
{
    struct sluice_event event;
    int r;

    if (handle_of(self, &event) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_record(event, stream_handle(stream));
    Py_END_ALLOW_THREADS return said(self, r);
}

int event_wait(PyObject *self, struct stream *stream)
{
    struct sluice_event event;
    int r;

    if (handle_of(self, &event) < 0)
        return -1;
    Py_BEGIN_ALLOW_THREADS r = sluice_stream_wait_event(stream_handle(stream), event);
    Py_END_ALLOW_THREADS return said(self, r);
}

/* The stream that was given, or else this thread's. */
static struct stream *parse_stream(PyObject *self, PyObject *args, PyObject *keywords,
                                   const char *format)
{
    static char *names[] = { "stream", NULL };
    struct event_object *object = (struct event_object *)self;
    PyObject *given = Py_None;
    struct stream *stream;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &given))
        return NULL;
    if (given != Py_None && Py_TYPE(given) == object->state->stream)
        return stream_object_use(given);
    if (given != Py_None)
        return stream_of_any(object->state, given, object->device);
    if (stream_current(object->state, object->device, &stream) < 0 || stream)
        return stream;
    PyErr_Format(
        PyExc_TypeError,
        "on which stream? This thread has no current Sluice stream of \"%s\": give stream=, "
        "or enter one by `with`",
        object->device);
    return NULL;
}

static PyObject *record(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct stream *stream = parse_stream(self, args, keywords, "|O:record");
    int r = stream ? event_record(self, stream) : -1;

    stream_drop(stream);
    return r < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *wait_for(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct stream *stream = parse_stream(self, args, keywords, "|O:wait");
    int r = stream ? event_wait(self, stream) : -1;

    stream_drop(stream);
    return r < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *query(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct sluice_event event;
    int r;

    if (handle_of(self, &event) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_query(event);
    Py_END_ALLOW_THREADS if (r < 0) return said(self, r), NULL;
    return PyBool_FromLong(r == 0);
}

static PyObject *synchronize(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct sluice_event event;
    int r;

    if (handle_of(self, &event) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_synchronize(event);
    Py_END_ALLOW_THREADS return said(self, r) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Which of two is it that elapsed() cannot do with? */
static PyObject *to_blame(PyObject *start, struct sluice_event from, PyObject *stop, int r)
{
    bool good = r == SLUICE_E_NO_TIMING ? ((struct event_object *)start)->timing
                                        : sluice_event_query(from) != SLUICE_E_NOT_RECORDED;

    return good ? stop : start;
}

static PyObject *elapsed(PyObject *self, PyObject *stop)
{
    struct event_object *object = (struct event_object *)self;
    struct sluice_event from, to;
    double milliseconds = 0;
    int r;

    if (Py_TYPE(stop) != object->state->event)
        return PyErr_Format(PyExc_TypeError, "%R is no sluice.Event", stop);
    if (handle_of(self, &from) < 0 || handle_of(stop, &to) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_elapsed(from, to, &milliseconds);
    Py_END_ALLOW_THREADS if (r == SLUICE_E_NOT_RECORDED || r == SLUICE_E_NO_TIMING) self = to_blame(self, from, stop, r);
    return said(self, r) < 0 ? NULL : PyFloat_FromDouble(milliseconds);
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct sluice_event event;

    return handle_of(self, &event) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *const *Py_UNUSED(args),
                       Py_ssize_t Py_UNUSED(count))
{
    end((struct event_object *)self);
    Py_RETURN_FALSE;
}

/* ---- what it is ---- */

enum field { DEVICE, TIMING, IS_CLOSED };

static PyObject *get(PyObject *self, void *field)
{
    struct event_object *object = (struct event_object *)self;

    switch ((enum field)(intptr_t)field) {
    case DEVICE: return PyUnicode_FromString(object->device);
    case TIMING: return PyBool_FromLong(object->timing);
    case IS_CLOSED: return PyBool_FromLong(atomic_load(&object->handle) == 0);
    }
    Py_RETURN_NONE;
}

static PyObject *repr(PyObject *self)
{
    struct event_object *object = (struct event_object *)self;
    char id[24]; /* as the library's sentences have it */

    PyOS_snprintf(id, sizeof id, "0x%llx", (unsigned long long)object->id);
    return PyUnicode_FromFormat("<sluice.Event: %s of %s%s>", id, object->device,
                                atomic_load(&object->handle) ? "" : ", closed");
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    bool same;

    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE))
        return Py_NewRef(Py_NotImplemented);
    same = ((struct event_object *)a)->id == ((struct event_object *)b)->id;
    return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)(((struct event_object *)self)->id & (uint64_t)(PY_SSIZE_T_MAX >> 1));
}

static PyObject *no_pickle(PyObject *self, PyObject *Py_UNUSED(none))
{
    return PyErr_Format(PyExc_TypeError,
                        "%R cannot be pickled or copied: it is of this process alone", self);
}

static PyMethodDef methods[] = {
    { "record", METHOD(record), METH_VARARGS | METH_KEYWORDS,
      "record($self, stream=None)\n--\n\n"
      "Marks the point behind the work that a stream was given so far (None: this thread's current\n"
      "Sluice stream; TypeError if it has none). Again moves the mark; waits that were queued before\n"
      "keep the old one. Raises WrongDeviceError." },
    { "wait", METHOD(wait_for), METH_VARARGS | METH_KEYWORDS,
      "wait($self, stream=None)\n--\n\n"
      "What a stream is given from now on waits for the mark. The CPU does not wait: synchronize()\n"
      "does. Raises NotRecordedError, WrongDeviceError, CaptureError." },
    { "query", METHOD(query), METH_NOARGS,
      "query($self)\n--\n\n"
      "-> bool: whether the mark has been reached. Raises NotRecordedError, CaptureError." },
    { "synchronize", METHOD(synchronize), METH_NOARGS,
      "synchronize($self)\n--\n\n"
      "Waits until the mark has been reached; other threads run meanwhile. Raises NotRecordedError,\n"
      "CaptureError." },
    { "elapsed", METHOD(elapsed), METH_O,
      "elapsed($self, stop, /)\n--\n\n"
      "-> float\n\n"
      "Milliseconds from this mark to that of `stop`, by the device's clock. Raises NotReady,\n"
      "NotRecordedError, NoTimingError, WrongDeviceError." },
    { "close", METHOD(close_event), METH_NOARGS,
      "close($self)\n--\n\n"
      "Ends it; waits that were queued stay. Again does nothing." },
    { "__enter__", METHOD(enter), METH_NOARGS, "__enter__($self)\n--\n\n" },
    { "__exit__", METHOD(leave), METH_FASTCALL, "__exit__($self, kind, error, traceback, /)\n--\n\n" },
    { "__reduce__", METHOD(no_pickle), METH_NOARGS, "__reduce__($self)\n--\n\n" },
    { NULL, NULL, 0, NULL },
};

#define FIELD(name, what, text) FIELD_BY(get, name, what, text)
static PyGetSetDef fields[] = {
    FIELD("device", DEVICE, "\"host\" or \"cuda:N\""),
    FIELD("timing", TIMING, "whether it takes times"),
    FIELD("closed", IS_CLOSED, "True once close() was called or `with` was left"),
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct event_object, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, make),
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_repr, repr),
    SLOT(Py_tp_hash, hash),
    SLOT(Py_tp_richcompare, compare),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_members, members),
    { Py_tp_doc, (void *)"Event(device=\"cuda:0\", timing=False, sleep=False)\n--\n\n"
                         "A marker in a stream: other streams can wait for it, the CPU can ask or "
                         "wait, and two of\nthem made with `timing` measure the time between. "
                         "`sleep`: synchronize() takes no CPU while\nit waits, and is done a little later.\n\n"
                         "Raises UnsupportedError where there is no such device." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice.Event",
    .basicsize = sizeof(struct event_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int event_type_init(PyObject *module, struct state *state)
{
    state->event = add_type(module, &spec);
    return state->event ? 0 : -1;
}

/* ---- of a whole device ---- */

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

PyObject *reset_device(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", NULL };
    struct state *state = PyModule_GetState(module);
    const struct opened *opened;
    const char *device;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s:reset", names, &device) ||
        !(opened = device_open(state, device)))
        return NULL;
    stream_settle(state);
    Py_BEGIN_ALLOW_THREADS native_forget(opened, false);
    r = sluice_device_reset(opened->device);
    Py_END_ALLOW_THREADS PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_result(state, r);
    if (r != SLUICE_E_CAPTURING && r != SLUICE_E_FORKED) { /* also if the driver failed */
        device_was_reset(opened);
        native_forget(opened, true);
    }
    return none;
}

PyObject *synchronize_device(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", NULL };
    struct state *state = PyModule_GetState(module);
    const struct opened *opened;
    const char *device;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s:synchronize", names, &device) ||
        !(opened = device_open(state, device)))
        return NULL;
    stream_settle(state);
    Py_BEGIN_ALLOW_THREADS native_forget(opened, false);
    r = sluice_device_synchronize(opened->device);
    Py_END_ALLOW_THREADS return r == 0 ? Py_NewRef(Py_None) : raise_result(state, r);
}
