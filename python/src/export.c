/* SPDX-License-Identifier: MIT
 *
 * Frames on a GPU as arrays of frameworks.
 */
#include "export.h"

#include "stream_choice.h"

static PyObject *from_dlpack(struct state *state, enum framework framework);

/* ---- the stream ---- */

int export_stream(struct state *state, const char *device, PyObject *given, struct stream **out)
{
    *out = NULL;
    if (given && given != Py_None) {
        if (!(*out = stream_of(state, given, device)))
            return -1;
    } else if ((!device || device_ordinal(device) >= 0) && stream_current_usable(state, device, out) < 0) {
        return -1;
    }
    if (*out && device_ordinal(stream_device(*out)) < 0) { /* nothing is queued on host */
        stream_drop(*out);
        *out = NULL;
    }
    return 0;
}

/* Must another stream wait before it uses the frame? For the writer's work, or for what this program may have queued to
 * write it. */
static bool has_work(const struct lease *lease)
{
    return lease->first && (lease->channel->writable || (lease->frame.flags & SLUICE_FRAME_AHEAD));
}

static int raise_wait(struct state *state, const struct lease *lease, int r)
{
    if (r == SLUICE_E_CAPTURING)
        raise_as(state, ERROR_E_CAPTURING,
                 "channel '%s': another stream works on this frame, and one of the two is capturing a graph, so "
                 "neither can wait "
                 "for the other: take the array before the capture begins",
                 lease->channel->name);
    else
        raise_result(state, r);
    return -1;
}

int export_on_stream(struct state *state, struct lease *lease, struct stream *stream)
{
    int r = has_work(lease) ? lease_wait_for(lease, stream) : 0;

    if (r == 0)
        return lease_use(lease, stream);
    stream_drop(stream);
    return raise_wait(state, lease, r);
}

int export_on(struct state *state, struct lease *lease, uintptr_t native)
{
    struct stream *stream;

    if (native == 1)
        native = 0;
    if (native != 2 && lease_uses(lease, native) && !(has_work(lease) && lease->several))
        return 0;
    stream = stream_of_native(state, native, lease->device->name);
    return stream ? export_on_stream(state, lease, stream) : -1;
}

int export_to(struct state *state, struct lease *lease, enum framework framework)
{
    struct stream *stream = NULL;
    uintptr_t native = 0;

    if (framework == FRAMEWORK_TORCH) { /* 0, the default stream, while it uses no GPU yet */
        int found = framework_stream(state, framework, lease->device->ordinal, &native);
        return found < 0 ? -1 : export_on(state, lease, native);
    }
    if (!from_dlpack(state, framework) || /* an absent framework is the better message */
        framework_current(state, framework, lease->device->name, &stream) < 0)
        return -1;
    return stream ? export_on_stream(state, lease, stream) : export_unnamed(state, lease);
}

int export_unnamed(struct state *state, struct lease *lease)
{
    static const enum framework all[] = { FRAMEWORK_TORCH, FRAMEWORK_CUPY };
    struct stream *stream;
    int found = 0;

    if (lease->named)
        return 0;
    if (stream_current_usable(state, lease->device->name, &stream) < 0)
        return -1;
    if (stream)
        return export_on_stream(state, lease, stream);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (framework_current(state, all[i], lease->device->name, &stream) < 0 ||
            (stream && export_on_stream(state, lease, stream) < 0))
            return -1;
        found += stream != NULL;
    }
    if (found)
        return 0;
    raise_as(state, ERROR_E_INVALID,
             "channel '%s': the consumer did not pass a stream, so the slot could be written again while it still uses "
             "the frame: "
             "give next(stream=...) or frame(stream=...), or enter a stream: with sluice.Stream(\"%s\")",
             lease->channel->name, lease->device->name);
    return -1;
}

int lease_used_on(struct state *state, struct lease *lease, PyObject *given)
{
    struct stream *stream = stream_of(state, given, lease->device ? lease->device->name : "host");

    if (!stream)
        return -1;
    if (lease->device)
        return lease_use(lease, stream);
    stream_drop(stream);
    return 0;
}

/* ---- the form ---- */

/* An array that has nothing but a capsule: from_dlpack() of CuPy and JAX takes no bare one. */
struct capsule_holder {
    PyObject_HEAD PyObject *capsule;
    int ordinal;
};

static void capsule_holder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct capsule_holder *)self)->capsule);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *capsule_holder_dlpack(PyObject *self, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(keywords))
{
    return Py_NewRef(((struct capsule_holder *)self)->capsule);
}

static PyObject *capsule_holder_device(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("(ii)", DL_CUDA, ((struct capsule_holder *)self)->ordinal);
}

static PyMethodDef capsule_holder_methods[] = {
    { "__dlpack__", METHOD(capsule_holder_dlpack), METH_VARARGS | METH_KEYWORDS, NULL },
    { "__dlpack_device__", METHOD(capsule_holder_device), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot capsule_holder_slots[] = {
    SLOT(Py_tp_dealloc, capsule_holder_dealloc),
    SLOT(Py_tp_methods, capsule_holder_methods),
    { 0, NULL },
};

TYPE_SPEC(capsule_holder, "sluice._DLPackCapsule", struct capsule_holder, Py_TPFLAGS_DISALLOW_INSTANTIATION,
          capsule_holder_slots);

/* A framework's from_dlpack(), kept. Borrowed. */
static PyObject *from_dlpack(struct state *state, enum framework framework)
{
    static const char *const packages[] = {
        [FRAMEWORK_TORCH] = "torch", [FRAMEWORK_CUPY] = "cupy", [FRAMEWORK_JAX] = "jax"
    };
    const char *package = packages[framework];
    PyObject **kept = &state->from_dlpack[framework], *function = kept_now(kept), *module;

    if (function || !(module = import_framework(state, package, framework == FRAMEWORK_JAX ? "jax.dlpack" : package)))
        return function;
    if ((function = PyObject_GetAttrString(module, "from_dlpack")))
        function = keep_first(kept, function);
    Py_DECREF(module);
    return function;
}

static PyObject *call(PyObject *function, PyObject *argument)
{
    return function ? PyObject_CallFunctionObjArgs(function, argument, NULL) : NULL;
}

static const struct dl_exchange *torch_exchange(struct state *state)
{
    PyObject *type = kept_now(&state->torch_tensor), *module;

    if (!type && (module = import_framework(state, "torch", "torch"))) {
        if ((type = PyObject_GetAttrString(module, "Tensor")))
            type = keep_first(&state->torch_tensor, type);
        Py_DECREF(module);
    }
    return type ? framework_exchange(state, (PyTypeObject *)type) : NULL;
}

static PyObject *by_exchange(const struct dl_exchange *table, struct lease *lease, const struct sluice_array *a,
                             sluice_pin **pin)
{
    struct dl_versioned *tensor = dlpack_versioned(lease, a, pin);
    void *made = NULL;

    return tensor && table->to_object(tensor, &made) == 0 ? made : NULL;
}

static PyObject *by_holder(struct state *state, PyObject *function, struct lease *lease, PyObject *capsule)
{
    struct capsule_holder *holder = PyObject_New(struct capsule_holder, state->capsule_holder);
    PyObject *made = NULL;

    if (!holder)
        return NULL;
    holder->capsule = Py_NewRef(capsule);
    holder->ordinal = lease->device->ordinal;
    made = call(function, (PyObject *)holder);
    Py_DECREF((PyObject *)holder);
    return made;
}

PyObject *export_as(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                    sluice_pin **pin)
{
    const struct dl_exchange *table = framework == FRAMEWORK_TORCH && state->torch_up ? torch_exchange(state) : NULL;
    PyObject *function, *capsule, *made;

    if (table)
        return by_exchange(table, lease, a, pin);
    if (PyErr_Occurred() || !(function = from_dlpack(state, framework)) ||
        !(capsule = dlpack_capsule(lease, a, false, pin)))
        return NULL;
    made = framework == FRAMEWORK_TORCH ? call(function, capsule) : by_holder(state, function, lease, capsule);
    Py_DECREF(capsule);
    return made;
}

static PyObject *copy_of(struct state *state, PyObject *made, enum framework framework)
{
    PyObject *copies = made && framework == FRAMEWORK_CUPY ? imported(&state->copies, "sluice._copies") : NULL,
             *copy = NULL;

    if (copies)
        copy = PyObject_CallMethod(copies, "copy_of_cupy", "O", made);
    else if (made && framework != FRAMEWORK_CUPY)
        copy = PyObject_CallMethod(made, framework == FRAMEWORK_TORCH ? "clone" : "copy", NULL);
    Py_XDECREF(made);
    return copy;
}

PyObject *export_first(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                       bool copy)
{
    PyObject *made;

    if (copy && check_framework_captures(state, framework, lease->device->ordinal) < 0)
        return NULL;
    made = lease_pin(state, lease) == 0 && export_to(state, lease, framework) == 0
               ? export_as(state, lease, a, framework, NULL)
               : NULL;
    if (made && framework == FRAMEWORK_TORCH && lease->channel->reader)
        atomic_store_explicit(&lease->channel->as_tensor, a->data, memory_order_relaxed);
    return copy ? copy_of(state, made, framework) : made;
}

/* With a lease of no frame, and a tensor of the last frame's memory that keeps nothing. */
void export_warm_up(struct state *state, struct channel *channel)
{
    static const int64_t shape[] = { 1, 1, 1 };
    void *address = atomic_load_explicit(&channel->as_tensor, memory_order_relaxed);
    struct sluice_array a;
    struct lease *lease;
    sluice_pin *pin = NULL;
    PyObject *made = NULL;

    if (!address || !channel->device || !state->torch_up || !torch_exchange(state) ||
        sluice_array_wrap(&a, NULL, address, (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 3, shape, NULL) != 0) {
        PyErr_Clear();
        return;
    }
    if ((lease = lease_new(channel))) {
        if (export_to(state, lease, FRAMEWORK_TORCH) == 0)
            made = export_as(state, lease, &a, FRAMEWORK_TORCH, &pin);
        Py_XDECREF(made);
        lease_discard(lease);
    }
    PyErr_Clear();
}

PyObject *export_array(struct array *array, enum framework framework, bool copy)
{
    PyObject *made;

    if (array_check(array) < 0)
        return NULL;
    if (array->lease->device && framework == FRAMEWORK_TORCH)
        return export_first(array->state, array->lease, &array->a, framework, copy);
    if (!array->lease->device && framework == FRAMEWORK_CUPY)
        return raise_as(array->state, ERROR_E_UNSUPPORTED,
                        "this array is in host memory, and CuPy's arrays are on GPUs: cupy.asarray(frame.numpy()) "
                        "copies it to one");
    if (copy && array->lease->device &&
        check_framework_captures(array->state, framework, array->lease->device->ordinal) < 0)
        return NULL;
    made = call(from_dlpack(array->state, framework), (PyObject *)array);
    return copy ? copy_of(array->state, made, framework) : made;
}

/* ---- the CUDA array interface ---- */

/* The stream that a consumer must wait for; None if the frame is ready. */
static PyObject *interface_stream(struct state *state, struct lease *lease)
{
    uintptr_t native = 0;
    int r;

    if (!has_work(lease))
        return Py_NewRef(Py_None);
    if ((r = lease_join(lease, &native)) != 0) {
        raise_wait(state, lease, r);
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(native ? native : 1);
}

PyObject *export_interface(struct array *array)
{
    PyObject *stream = NULL, *made;

    if (!array->lease->device || !array->format) {
        PyErr_SetString(PyExc_AttributeError,
                        array->format ? "__cuda_array_interface__: this array is in host memory"
                                      : "__cuda_array_interface__ does not have this data type: use DLPack");
        return NULL;
    }
    if (array_check(array) < 0 || !(stream = interface_stream(array->state, array->lease)) ||
        export_unnamed(array->state, array->lease) < 0) {
        Py_XDECREF(stream);
        return NULL;
    }
    made = array_interface_dict(array, false);
    if (made && PyDict_SetItemString(made, "stream", stream) < 0)
        Py_CLEAR(made);
    Py_DECREF(stream);
    return made;
}
