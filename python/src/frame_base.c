/* SPDX-License-Identifier: MIT
 *
 * What a reader's and a writer's frame have in common.
 */
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "frame.h"
#include "view.h"

struct parts {
    struct lease *lease;
    PyObject *views;
    struct slot_views *kept;
};

/* The frame's place in its reader's table: the library numbers the frames that a reader holds. */
static _Atomic(struct frame *) *place_of(const struct frame *frame, struct channel *channel)
{
    return &channel->frames[frame->header.opaque[2] % SLUICE_MAX_SLOTS];
}

PyObject *frame_new(struct state *state, PyTypeObject *type, struct lease *lease)
{
    struct frame *frame = PyObject_New(struct frame, type);

    if (!frame) {
        (void)lease_drop(lease);
        return NULL;
    }
    frame->state = state;
    frame->lease = lease;
    frame->past = NULL;
    frame->device = lease->device;
    frame->header = lease->frame;
    frame->views = NULL;
    frame->kept = NULL;
    if (lease->channel->reader)
        atomic_store_explicit(place_of(frame, lease->channel), frame, memory_order_release);
    return (PyObject *)frame;
}

static struct parts take_parts(struct frame *frame)
{
    struct parts parts;

    GUARD(frame)
    parts = (struct parts){ frame->lease, frame->views, frame->kept };
    frame->lease = NULL;
    frame->views = NULL;
    frame->kept = NULL;
    UNGUARD()
    return parts;
}

static struct frame busy; /* in the table: another thread, where there is no GIL, ends the frame, and it may not go */

/* The same, out of the table. */
static struct parts take(struct frame *frame)
{
    struct parts parts = take_parts(frame);
    struct frame *there = frame;

    if (parts.lease && parts.lease->channel->reader)
        while (!atomic_compare_exchange_weak(place_of(frame, parts.lease->channel), &there, NULL) &&
               (there == frame || there == &busy))
            there = frame;
    return parts;
}

void frame_dealloc(PyObject *self)
{
    struct frame *frame = (struct frame *)self;
    struct parts parts = take(frame);
    PyTypeObject *type = Py_TYPE(self);

    (void)lease_drop(parts.lease);
    lease_weak_drop(frame->past);
    Py_XDECREF(parts.views);
    slot_views_drop(parts.kept);
    PyObject_Free(self);
    Py_DECREF(type);
}

static struct lease *said_to_have_ended(const struct frame *frame)
{
    raise_as(frame->state, ERROR_E_STALE, "frame %llu has ended: it was %s", (unsigned long long)frame->header.sequence,
             Py_TYPE((PyObject *)frame) == frame->state->frame ? "released" : "committed or cancelled");
    return NULL;
}

struct lease *frame_lease(struct frame *frame)
{
    struct lease *lease;

    GUARD(frame)
    lease = frame->lease ? lease_keep(frame->lease) : NULL;
    UNGUARD()
    return lease ? lease : said_to_have_ended(frame);
}

/* Works after release() as well, as long as an array keeps the lease. */
static struct lease *lease_in_use(struct frame *frame)
{
    struct lease *lease;

    GUARD(frame)
    lease = frame->lease ? lease_keep(frame->lease) : lease_from_weak(frame->past);
    UNGUARD()
    return lease ? lease : said_to_have_ended(frame);
}

/* A memoryview with dependent views cannot be released: those keep the lease, as arrays do. */
static void end_views(PyObject *views)
{
    for (Py_ssize_t i = 0, n = PyList_Size(views); i < n; i++) {
        PyObject *done = PyObject_CallMethod(PyList_GetItem(views, i), "release", NULL);
        if (!done)
            PyErr_Clear();
        Py_XDECREF(done);
    }
    Py_DECREF(views);
}

static void end_parts(struct parts *parts)
{
    PyObject *type, *value, *traceback;

    if (!parts->views && !parts->kept)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (parts->views)
        end_views(parts->views);
    slot_views_drop(parts->kept);
    PyErr_Restore(type, value, traceback);
}

struct lease *frame_end(struct frame *frame)
{
    struct parts parts = take(frame);

    end_parts(&parts);
    return parts.lease;
}

static int end_lease(const struct state *state, struct lease *lease)
{
    int r = lease_drop(lease);

    if (r == 0 || r == SLUICE_E_CAPTURING || r == SLUICE_E_FORKED) /* deferred; or the lease is the parent process's */
        return 0;
    raise_result(state, r);
    return -1;
}

int frame_release(struct frame *frame)
{
    struct lease *lease = frame_end(frame);

    if (lease && lease_weak_ref(lease)) {
        GUARD(frame)
        frame->past = lease;
        UNGUARD()
    }
    return end_lease(frame->state, lease);
}

int frame_release_all(const struct state *state, struct channel *channel)
{
    int r = 0;

    for (size_t i = 0; i < SLUICE_MAX_SLOTS; i++) {
        struct frame *frame = atomic_load(&channel->frames[i]);
        if (!frame || frame == &busy || !atomic_compare_exchange_strong(&channel->frames[i], &frame, &busy))
            continue;
        struct parts parts = take_parts(frame);
        atomic_store(&channel->frames[i], NULL);
        end_parts(&parts);
        r = end_lease(state, parts.lease) < 0 ? -1 : r;
    }
    return r;
}

/* ---- arrays ---- */

static PyObject *get_array(PyObject *self, PyObject *which)
{
    struct frame *frame = (struct frame *)self;
    struct lease *lease = frame_lease(frame);
    PyObject *array = lease ? array_of_frame(frame->state, lease, which) : NULL;

    (void)lease_drop(lease);
    return array;
}

PyObject *frame_numpy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "name", "pixel_format", NULL };
    PyObject *values[2];

    if (parse_fast("numpy", names, 2, args, count, keywords, values) < 0)
        return NULL;
    PyObject *array = get_array(self, values[0]);
    PyObject *made = array ? array_numpy(array, values[1]) : NULL;
    Py_XDECREF(array);
    return made;
}

/* Keeps a memoryview, to release it with the frame. */
static int keep_view(struct frame *frame, PyObject *view)
{
    PyObject *fresh = PyList_New(0), *views;

    if (!fresh)
        return -1;
    GUARD(frame)
    views = frame->views ? frame->views : fresh;
    frame->views = views;
    Py_INCREF(views);
    UNGUARD()
    int r = PyList_Append(views, view);
    if (views != fresh)
        Py_DECREF(fresh);
    Py_DECREF(views);
    return r;
}

static PyObject *host_view(struct frame *frame, struct lease *lease, PyObject *name)
{
    PyObject *array = array_of_frame(frame->state, lease, name);
    PyObject *view = array ? PyMemoryView_FromObject(array) : NULL;

    Py_XDECREF(array);
    if (view && keep_view(frame, view) < 0)
        Py_CLEAR(view);
    return view;
}

static PyObject *gpu_view(struct frame *frame, struct lease *lease, PyObject *name, enum framework framework)
{
    struct slot_views *kept, *other;
    struct sluice_array a;
    PyObject *view;

    if (array_find(frame->state, lease, name, &a) < 0)
        return NULL;
    GUARD(frame) /* taken out: another thread may end the frame meanwhile */
    kept = frame->kept;
    frame->kept = NULL;
    UNGUARD()
    view = view_of(frame->state, lease, &a, framework, &kept);
    GUARD(frame)
    other = frame->lease ? frame->kept : kept;
    if (frame->lease)
        frame->kept = kept;
    UNGUARD()
    slot_views_drop(other);
    return view;
}

/* -1 with an exception. */
static int parse_kind(PyObject *kind, bool on_gpu, enum framework *framework)
{
    bool text = on_gpu && kind && PyUnicode_Check(kind);

    *framework = text && PyUnicode_CompareWithASCIIString(kind, "cupy") == 0 ? FRAMEWORK_CUPY : FRAMEWORK_TORCH;
    if (!kind || kind == Py_None || *framework == FRAMEWORK_CUPY ||
        (text && PyUnicode_CompareWithASCIIString(kind, "torch") == 0))
        return 0;
    PyErr_Format(PyExc_ValueError,
                 on_gpu ? "kind is %R: it must be \"torch\" or \"cupy\""
                        : "kind is %R: a view of a frame in host memory is a memoryview",
                 kind);
    return -1;
}

PyObject *frame_view(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "name", "kind", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *values[2] = { NULL }, *view = NULL;
    enum framework framework;
    struct lease *lease;

    if (((count || keywords) && parse_fast("view", names, 1, args, count, keywords, values) < 0) ||
        !(lease = frame_lease(frame)))
        return NULL;
    if (parse_kind(values[1], lease->device != NULL, &framework) == 0)
        view = lease->device ? gpu_view(frame, lease, values[0], framework) : host_view(frame, lease, values[0]);
    (void)lease_drop(lease);
    return view;
}

PyObject *frame_copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "name", NULL };
    PyObject *values[1];

    if (parse_fast("copy", names, 1, args, count, keywords, values) < 0)
        return NULL;
    PyObject *array = get_array(self, values[0]);
    PyObject *made = array ? array_copy(array) : NULL;
    Py_XDECREF(array);
    return made;
}

/* A tensor of PyTorch is made without an Array in between. */
static PyObject *make_form(struct frame *frame, struct lease *lease, PyObject *name, enum framework framework,
                           bool copy)
{
    struct sluice_array a;
    PyObject *array, *made;

    if (lease->device && framework == FRAMEWORK_TORCH)
        return array_find(frame->state, lease, name, &a) == 0 ? export_first(frame->state, lease, &a, framework, copy)
                                                              : NULL;
    array = array_of_frame(frame->state, lease, name);
    made = array ? export_array((struct array *)array, framework, copy) : NULL;
    Py_XDECREF(array);
    return made;
}

static PyObject *frame_form(const char *function, enum framework framework, PyObject *self, PyObject *const *args,
                            Py_ssize_t count, PyObject *keywords)
{
    static const char *const with_copy[] = { "name", "copy", NULL };
    static const char *const without[] = { "name", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *values[2] = { NULL }, *made;
    struct lease *lease;
    int copy = 0;
    bool jax = framework == FRAMEWORK_JAX;

    if (((count || keywords) &&
         parse_fast(function, jax ? without : with_copy, jax ? 1 : 2, args, count, keywords, values) < 0) ||
        (values[1] && (copy = PyObject_IsTrue(values[1])) < 0) || !(lease = frame_lease(frame)))
        return NULL;
    made = make_form(frame, lease, values[0], framework, copy);
    (void)lease_drop(lease);
    return made;
}

PyObject *frame_torch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return frame_form("torch", FRAMEWORK_TORCH, self, args, count, keywords);
}
PyObject *frame_cupy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return frame_form("cupy", FRAMEWORK_CUPY, self, args, count, keywords);
}
PyObject *frame_jax(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return frame_form("jax", FRAMEWORK_JAX, self, args, count, keywords);
}

PyObject *frame_used_on(PyObject *self, PyObject *streams)
{
    struct frame *frame = (struct frame *)self;
    struct lease *lease = lease_in_use(frame);
    int r = lease ? 0 : -1;

    for (Py_ssize_t i = 0, n = PyTuple_Size(streams); r == 0 && i < n; i++)
        r = lease_used_on(frame->state, lease, PyTuple_GetItem(streams, i));
    (void)lease_drop(lease);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyObject *frame_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    PyObject *array = get_array(self, NULL);
    PyObject *made = array ? dlpack_export((struct array *)array, args, count, keywords) : NULL;

    Py_XDECREF(array);
    return made;
}

PyObject *frame_dlpack_device(PyObject *self, PyObject *Py_UNUSED(none))
{
    return lease_dlpack_device(((struct frame *)self)->device);
}

PyObject *frame_device(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(device_text(((struct frame *)self)->device));
}

int frame_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    PyObject *array = get_array(self, NULL);
    if (!array) {
        if (!PyErr_ExceptionMatches(PyExc_MemoryError)) { /* callers of getbuffer expect this one */
            PyErr_Clear();
            PyErr_SetString(PyExc_BufferError, "the frame has ended");
        }
        return -1;
    }
    int r = PyObject_GetBuffer(array, view, flags);
    Py_DECREF(array);
    return r;
}

/* ---- as a mapping ---- */

PyObject *frame_subscript(PyObject *self, PyObject *which)
{
    return get_array(self, which);
}

Py_ssize_t frame_length(PyObject *self)
{
    return ((struct frame *)self)->header.array_count;
}

PyObject *frame_keys(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct lease *lease = frame_lease((struct frame *)self);
    PyObject *names = lease ? PyTuple_New(lease->frame.array_count) : NULL;

    for (uint32_t i = 0; names && i < lease->frame.array_count; i++) {
        struct sluice_array a;
        int r = sluice_frame_array_at(&lease->frame, i, &a);
        PyObject *name = r == 0 ? PyUnicode_FromString(a.name) : raise_result(((struct frame *)self)->state, r);
        if (!name || PyTuple_SetItem(names, i, name) < 0)
            Py_CLEAR(names);
    }
    (void)lease_drop(lease);
    return names;
}

PyObject *frame_field(PyObject *self, void *name)
{
    PyObject *array = get_array(self, NULL);
    PyObject *value = array ? PyObject_GetAttrString(array, name) : NULL;

    Py_XDECREF(array);
    return value;
}

PyObject *frame_meta(PyObject *self, void *Py_UNUSED(closure))
{
    struct lease *lease = frame_lease((struct frame *)self);
    PyObject *meta = NULL;

    if (lease)
        meta = PyBytes_FromStringAndSize(lease->frame.meta_size ? lease->frame.meta : "", lease->frame.meta_size);
    (void)lease_drop(lease);
    return meta;
}
