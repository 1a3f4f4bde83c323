/* SPDX-License-Identifier: MIT
 *
 * sluice.Stream.
 */
#include "stream_object.h"

#include <string.h>
#include <structmember.h>

/* ---- the object ---- */

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
    struct stream_object *object =
        stream ? (struct stream_object *)allocate(state->stream, 0) : NULL;

    if (!object) {
        stream_drop(stream);
        return NULL;
    }
    object->state = state;
    object->stream = stream;
    object->id = stream_handle(stream).id;
    object->identity = stream_identity(stream);
    object->device = stream_device(stream);
    object->kind = stream_kind(stream);
    return (PyObject *)object;
}

void stream_let_go(struct stream_object *object)
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

/* A stream that is kept alive and keeps ours. */
static int clear(PyObject *self)
{
    stream_let_go((struct stream_object *)self);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct state *state = object->state;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (object->weak)
        PyObject_ClearWeakRefs(self);
    stream_drop(object->stream);
    if (state && state->ground)
        stream_settle(state);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static struct stream *keep(struct stream_object *object)
{
    struct stream *stream;

    GUARD(object)
    stream = object->stream ? stream_keep(object->stream) : NULL;
    UNGUARD()
    return stream;
}

/* A new reference; NULL with StreamClosedError. */
static struct stream *stream_object_keep(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = keep(object);

    if (stream && stream_check(object->state, stream) == 0)
        return stream;
    if (!stream)
        PyErr_Format(object->state->stream_closed,
                     "%R was closed: work goes to a stream that is open; make another one", self);
    stream_drop(stream);
    return NULL;
}

struct stream *stream_object_use(PyObject *self)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = stream_object_keep(self);

    if (!stream)
        return NULL;
    if (!stream_direct(stream))
        raise_as(object->state, ERROR_E_INVALID,
                 "%R is the default stream of the thread that named it, and nobody else can use "
                 "it: name this thread's, or make a stream",
                 self);
    else if (stream_fresh(object->state, stream) == 0)
        return stream;
    stream_drop(stream);
    return NULL;
}

/* What the library said, as None or an exception. Drops `stream`. */
static PyObject *done(struct stream_object *object, struct stream *stream, int r)
{
    PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_handle(object->state, r);

    stream_drop(stream); /* behind that: the library has one last sentence a thread */
    return none;
}

/* ---- making ---- */

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", "priority", "blocking", "sync_on_exit", NULL };
    struct state *state = PyType_GetModuleState(type);
    struct sluice_stream_params params = { .size = sizeof params };
    const char *device = "cuda:0";
    int priority = 0, blocking = 0, sync_on_exit = 1;
    struct stream *stream;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s$ipp:Stream", names, &device, &priority,
                                     &blocking, &sync_on_exit))
        return NULL;
    params.priority = priority;
    params.blocking = blocking != 0;
    stream = stream_create(state, device, &params);
    if (stream && !sync_on_exit)
        stream_leave_at_once(stream);
    return stream_object(state, stream);
}

static PyObject *make_default(PyObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "device", NULL };
    struct state *state = PyType_GetModuleState((PyTypeObject *)type);
    const char *device = "cuda:0";

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s:default", names, &device))
        return NULL;
    return stream_object(state, stream_view(state, 0, device, NULL));
}

/* ---- work ---- */

static PyObject *wait_for(PyObject *self, PyObject *other)
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = stream_object_use(self), *others;
    int r;

    if (!stream)
        return NULL;
    if (Py_TYPE(other) == object->state->event) {
        r = event_wait(other, stream);
        stream_drop(stream);
        return r < 0 ? NULL : Py_NewRef(Py_None);
    }
    if (!(others = stream_of_any(object->state, other, object->device))) {
        stream_drop(stream);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS r =
        sluice_stream_wait_stream(stream_handle(stream), stream_handle(others));
    Py_END_ALLOW_THREADS PyObject *none = done(object, stream, r);
    stream_drop(others);
    return none;
}

static PyObject *query(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = stream_object_use(self);
    int r;

    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_stream_query(stream_handle(stream));
    Py_END_ALLOW_THREADS PyObject *answer =
        done((struct stream_object *)self, stream, r < 0 ? r : 0);
    Py_XDECREF(answer);
    return answer ? PyBool_FromLong(r == 0) : NULL;
}

static PyObject *synchronize(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream *stream = stream_object_use(self);
    int r;

    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_stream_synchronize(stream_handle(stream));
    Py_END_ALLOW_THREADS return done((struct stream_object *)self, stream, r);
}

static PyObject *record(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "event", NULL };
    struct stream_object *object = (struct stream_object *)self;
    PyObject *event = Py_None;
    struct stream *stream;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:record", names, &event))
        return NULL;
    if (event != Py_None && Py_TYPE(event) != object->state->event) {
        PyErr_Format(PyExc_TypeError, "%R is no sluice.Event", event);
        return NULL;
    }
    if (!(stream = stream_object_use(self)))
        return NULL;
    event = event == Py_None ? event_new(object->state, object->device, 0) : Py_NewRef(event);
    if (event && event_record(event, stream) < 0)
        Py_CLEAR(event);
    stream_drop(stream);
    return event;
}

int stream_object_may_close(const struct stream_object *object, const struct stream *stream)
{
    struct sluice_stream_info info = { .size = sizeof info };

    if (object->kind != SLUICE_STREAM_OWNED ||
        sluice_stream_info(stream_handle(stream), &info) != 0 || !info.capturing)
        return 0;
    raise_as(object->state, ERROR_E_CAPTURING,
             "%R is capturing a graph: it cannot be closed until the capture ends",
             (PyObject *)object);
    return -1;
}

static PyObject *close_stream(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct stream_object *object = (struct stream_object *)self;
    struct stream *stream = keep(object);

    if (!stream)
        Py_RETURN_NONE;
    if (stream_object_may_close(object, stream) < 0 || stream_close(object->state, stream) < 0) {
        stream_drop(stream);
        return NULL;
    }
    stream_drop(stream);
    stream_let_go(object);
    stream_settle(object->state);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return stream_enter(self);
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return stream_exit(self, count > 1 ? args[1] : Py_None);
}

/* ---- for other libraries ---- */

static PyObject *native_of(PyObject *self)
{
    struct stream *stream = stream_object_keep(self);
    uintptr_t native;
    int r;

    if (!stream)
        return NULL;
    r = sluice_stream_native(stream_handle(stream), &native); /* and not after a reset */
    PyObject *none = done((struct stream_object *)self, stream, r);
    Py_XDECREF(none);
    return none ? PyLong_FromSize_t(native) : NULL;
}

static PyObject *cuda_stream(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyObject *native = native_of(self), *version = PyLong_FromLong(0);
    PyObject *made = native && version ? PyTuple_Pack(2, version, native) : NULL;

    Py_XDECREF(native);
    Py_XDECREF(version);
    return made;
}

static PyMethodDef cuda_stream_method = {
    "__cuda_stream__", METHOD(cuda_stream), METH_NOARGS,
    "__cuda_stream__($self)\n--\n\n"
    "-> (0, native stream), by which other libraries use it"
};

/* ---- what it is ---- */

enum field { NATIVE, DEVICE, CLOSED_FIELD, IS_DEFAULT, IS_EXTERNAL, CUDA_STREAM };

/* By whichever of its names. */
static bool is_closed(struct stream_object *object, bool *stale)
{
    struct stream *stream = keep(object);
    bool closed = !stream || stream_closed(stream);

    *stale = !closed && stream_stale(stream);
    stream_drop(stream);
    return closed;
}

static PyObject *get(PyObject *self, void *field)
{
    struct stream_object *object = (struct stream_object *)self;
    bool stale;

    switch ((enum field)(intptr_t)field) {
    case NATIVE: return native_of(self);
    case DEVICE: return PyUnicode_FromString(object->device);
    case CLOSED_FIELD: return PyBool_FromLong(is_closed(object, &stale));
    case IS_DEFAULT: return PyBool_FromLong(object->kind == SLUICE_STREAM_DEFAULT);
    case IS_EXTERNAL: return PyBool_FromLong(object->kind == SLUICE_STREAM_BORROWED);
    case CUDA_STREAM:
        if (strcmp(object->device, "host") != 0)
            return PyCFunction_NewEx(&cuda_stream_method, self, NULL);
        PyErr_SetString(PyExc_AttributeError,
                        "a stream of \"host\" is no CUDA stream: it has no __cuda_stream__");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *repr(PyObject *self)
{
    static const char *const kinds[] = { "stream", "external stream", "default stream" };
    struct stream_object *object = (struct stream_object *)self;
    char id[24]; /* as the library's sentences have it */
    bool stale, closed = is_closed(object, &stale);

    PyOS_snprintf(id, sizeof id, "0x%llx", (unsigned long long)object->id);
    return PyUnicode_FromFormat("<sluice.Stream: %s %s of %s%s>", kinds[object->kind], id, object->device,
                                closed  ? ", closed"
                                : stale ? ", which was reset"
                                        : "");
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    bool same;

    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE))
        return Py_NewRef(Py_NotImplemented);
    same = ((struct stream_object *)a)->identity == ((struct stream_object *)b)->identity;
    return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)(((struct stream_object *)self)->identity & (uint64_t)(PY_SSIZE_T_MAX >> 1));
}

static PyObject *same_native(PyObject *self, PyObject *other)
{
    struct stream_object *object = (struct stream_object *)self;
    struct state *state = object->state;
    struct stream *stream = stream_object_keep(self), *others = NULL;
    PyObject *answer = NULL;

    if (stream)
        others = Py_TYPE(other) == state->stream ? stream_object_keep(other)
                                                 : stream_of_any(state, other, object->device);
    if (others && stream_fresh(state, stream) == 0 && stream_fresh(state, others) == 0)
        answer = PyBool_FromLong(stream_same(stream, others));
    stream_drop(others);
    stream_drop(stream);
    return answer;
}

static PyObject *no_pickle(PyObject *self, PyObject *Py_UNUSED(none))
{
    PyErr_Format(PyExc_TypeError, "%R cannot be pickled or copied: it is of this process alone",
                 self);
    return NULL;
}

static PyMethodDef methods[] = {
    { "default", METHOD(make_default), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "default($type, device=\"cuda:0\")\n--\n\n"
      "-> Stream\n\n"
      "The device's default stream: CUDA's legacy one, native 0, on which PyTorch and CuPy work\n"
      "unless told otherwise." },
    { "from_handle", METHOD(stream_from_handle), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "from_handle($type, handle, device=\"cuda:0\", owner=None)\n--\n\n"
      "-> Stream\n\n"
      "A native stream by its address (a CUstream as an int; 0 and 1: the default one, 2: this\n"
      "thread's default one), which somebody else made and will end. `owner` is kept alive as long\n"
      "as a frame or a Stream needs it. Raises WrongDeviceError if it is another device's." },
    { "wrap", METHOD(stream_wrap), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "wrap($type, stream, device=None)\n--\n\n"
      "-> Stream\n\n"
      "A stream of PyTorch, CuPy, cuda.core or any library whose streams have __cuda_stream__. It is\n"
      "kept alive, and never ended by Sluice. `device`: of which it must be (None: what it says\n"
      "itself, else \"cuda:0\"). Raises TypeError for what is no stream, WrongDeviceError for one of\n"
      "another device." },
    { "use", METHOD(stream_use), METH_NOARGS,
      "use($self)\n--\n\n"
      "-> context manager\n\n"
      "Within `with stream.use():` it is this thread's current stream; nothing is waited for or\n"
      "closed behind that. May be entered again and again, on any thread." },
    { "wait", METHOD(wait_for), METH_O,
      "wait($self, other, /)\n--\n\n"
      "What is queued from now on waits for `other`: an Event, as it was recorded last, or all that a\n"
      "stream (of ours or of another library) was given so far. The CPU does not wait. Raises\n"
      "NotRecordedError, WrongDeviceError between a GPU and \"host\", CaptureError." },
    { "query", METHOD(query), METH_NOARGS,
      "query($self)\n--\n\n"
      "-> bool: whether all work queued so far is done. Raises CaptureError." },
    { "synchronize", METHOD(synchronize), METH_NOARGS,
      "synchronize($self)\n--\n\n"
      "Waits until all work queued so far is done; other threads run meanwhile. Raises CaptureError\n"
      "while the stream captures a graph." },
    { "record", METHOD(record), METH_VARARGS | METH_KEYWORDS,
      "record($self, event=None)\n--\n\n"
      "-> Event\n\n"
      "Marks the point behind the work queued so far, in `event` or a new one." },
    { "close", METHOD(close_stream), METH_NOARGS,
      "close($self)\n--\n\n"
      "Ends it at once: queued work still runs, and frames that it works on keep it until they end.\n"
      "One of another library, or a default one, is only let go of. Again does nothing. Raises\n"
      "BusyError while it is a thread's current stream, CaptureError while it captures a graph." },
    { "same_native", METHOD(same_native), METH_O,
      "same_native($self, other, /)\n--\n\n"
      "-> bool\n\n"
      "Whether `other`, a Stream or a stream of another library, stands for the same native stream.\n"
      "== asks for less than that: two names of one, each with an end of its own, are not equal.\n"
      "Raises StreamClosedError, StaleHandleError, TypeError for what is no stream." },
    { "to_torch", METHOD(stream_to_torch), METH_NOARGS,
      "to_torch($self)\n--\n\n"
      "-> torch.cuda.Stream\n\n"
      "The same stream for PyTorch. It keeps the native stream alive, also when this is closed." },
    { "to_cupy", METHOD(stream_to_cupy), METH_NOARGS,
      "to_cupy($self)\n--\n\n"
      "-> cupy.cuda.Stream\n\n"
      "The same stream for CuPy. It keeps the native stream alive, also when this is closed." },
    { "__enter__", METHOD(enter), METH_NOARGS, "__enter__($self)\n--\n\n" },
    { "__exit__", METHOD(leave), METH_FASTCALL, "__exit__($self, kind, error, traceback, /)\n--\n\n" },
    { "__reduce__", METHOD(no_pickle), METH_NOARGS, "__reduce__($self)\n--\n\n" },
    { NULL, NULL, 0, NULL },
};

#define FIELD(name, what, text) FIELD_BY(get, name, what, text)
static PyGetSetDef fields[] = {
    FIELD("native", NATIVE, "the native stream's address; 0 for a default one, and on \"host\""),
    FIELD("device", DEVICE, "\"host\" or \"cuda:N\""),
    FIELD("closed", CLOSED_FIELD, "True once close() was called or `with` was left"),
    FIELD("is_default", IS_DEFAULT, "True for the device's default stream"),
    FIELD("is_external", IS_EXTERNAL, "True for a stream that another library made"),
    FIELD("__cuda_stream__", CUDA_STREAM, "the CUDA stream protocol's; none on \"host\""),
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct stream_object, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, make),
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_traverse, traverse),
    SLOT(Py_tp_clear, clear),
    SLOT(Py_tp_repr, repr),
    SLOT(Py_tp_hash, hash),
    SLOT(Py_tp_richcompare, compare),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_members, members),
    { Py_tp_doc, (void *)"Stream(device=\"cuda:0\", *, priority=0, blocking=False, "
                         "sync_on_exit=True)\n--\n\n"
                         "A device's ordered queue of work, made by Sluice. `priority`: lower is "
                         "sooner.\n`blocking`: ordered with the device's default stream. "
                         "`sync_on_exit`: False: leaving\n`with` closes it and waits for nothing.\n\n"
                         "`with Stream() as s:` makes it this thread's current stream, on which "
                         "Sluice puts what is\n"
                         "given no other; leaving it waits for its work and closes it. A stream of "
                         "another library,\n"
                         "or a default one, is neither waited for nor closed there.\n\n"
                         "Raises UnsupportedError where there is no such device." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice.Stream",
    .basicsize = sizeof(struct stream_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int stream_type_init(PyObject *module, struct state *state)
{
    state->stream = add_type(module, &spec);
    return state->stream ? 0 : -1;
}
