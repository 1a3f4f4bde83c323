/* SPDX-License-Identifier: MIT
 *
 * Arrays by DLPack: read in place through the exchange table of their type, else through a capsule. On a GPU Sluice
 * orders the copy behind the work that makes the array: with the current stream of a framework that has one; other
 * libraries are asked to make the channel's copy stream wait.
 */
#include <string.h>

#include "fetch.h"
#include "source.h"

static bool on_gpu(struct dl_device device)
{
    return device.type == DL_CUDA || device.type == DL_CUDA_MANAGED;
}

/* ---- what a tensor is ---- */

static int wrap_tensor(const struct state *state, const struct dl_tensor *tensor, struct source *source)
{
    int64_t strides[SLUICE_MAX_DIMS], element = sluice_dtype_size(tensor->dtype);

    if (!on_gpu(tensor->device) && tensor->device.type != DL_CPU && tensor->device.type != DL_CUDA_HOST) {
        raise_as(state, ERROR_E_UNSUPPORTED,
                 "the array is on an unsupported device (DLPack type %d): copy it to an NVIDIA GPU or to host memory "
                 "first",
                 (int)tensor->device.type);
        return -1;
    }
    if (tensor->ndim < 0 || tensor->ndim > SLUICE_MAX_DIMS) {
        raise_as(state, ERROR_E_FORMAT, "an array of %d dimensions: at most %d are possible", (int)tensor->ndim,
                 SLUICE_MAX_DIMS);
        return -1;
    }
    for (int d = 0; tensor->strides && d < tensor->ndim; d++)
        strides[d] = tensor->strides[d] * element;
    return source_wrap(state, source, tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL, tensor->dtype,
                       tensor->ndim, tensor->shape, tensor->strides ? strides : NULL);
}

static int wrap_capsule(const struct state *state, PyObject *capsule, struct source *source)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        source->read_only = versioned->flags & DL_READ_ONLY;
        if (versioned->version.major == 1)
            return wrap_tensor(state, &versioned->tensor, source);
        raise_as(state, ERROR_E_UNSUPPORTED, "DLPack version %u is not supported: this release reads version 1",
                 (unsigned)versioned->version.major);
        return -1;
    }
    struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor"); /* raises if it is not one */
    return managed ? wrap_tensor(state, &managed->tensor, source) : -1;
}

/* ---- what a framework does for us ---- */

static int leave_to_framework(struct source *source, PyObject *object, int ordinal)
{
    PyObject *before = source->keeper;

    memset(&source->array, 0, sizeof source->array); /* not examined */
    source->odd = true;
    source->ordinal = ordinal;
    source->keeper = Py_NewRef(object);
    Py_XDECREF(before);
    return 0;
}

static int is_true(PyObject *object, const char *method)
{
    PyObject *answer = PyObject_CallMethod(object, method, NULL);
    int is = answer ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return is;
}

/* Are elements of a PyTorch tensor yet to be negated or conjugated? Their memory does not show it. */
static int is_lazy(PyObject *object, struct sluice_dtype dtype)
{
    int lazy = 0;

    if (dtype.code == SLUICE_COMPLEX)
        lazy = is_true(object, "is_conj");
    if (lazy == 0 && (dtype.code == SLUICE_COMPLEX || dtype.code == SLUICE_FLOAT))
        lazy = is_true(object, "is_neg");
    return lazy;
}

/* `ordinal`: of its GPU, or -1. */
static int check_elements(PyObject *object, struct source *source, int ordinal)
{
    enum framework framework = source->framework;
    int lazy = framework == FRAMEWORK_TORCH ? is_lazy(object, source->array.dtype) : 0;

    bool knows = framework == FRAMEWORK_TORCH || framework == FRAMEWORK_CUPY;
    if (lazy <= 0 && (lazy < 0 || ordinal < 0 || !knows || source_is_plain(&source->array)))
        return lazy;
    return leave_to_framework(source, object, ordinal);
}

/* A copy by the framework: in host memory for a channel there, else contiguous. A new reference. */
static PyObject *copy_by_framework(struct state *state, const struct user *user, const struct source *source)
{
    PyObject *module = imported(&state->copies, "sluice._copies");

    if (!module)
        return NULL;
    if (user->channel && source->ordinal >= 0 && device_ordinal(user->device) < 0)
        return PyObject_CallMethod(module, "to_host", "Os", source->keeper, user->channel->name);
    return PyObject_CallMethod(module, "plain", "OO", source->keeper,
                               source->framework == FRAMEWORK_TORCH ? Py_True : Py_False);
}

int source_make_plain(struct state *state, const struct user *user, struct source *source)
{
    PyObject *copy = copy_by_framework(state, user, source);
    int r = -1;

    source_close(source);
    if (copy)
        r = source_open(state, copy, user, source);
    Py_XDECREF(copy);
    return r;
}

static const char *name_gpu(struct source *source, int ordinal, char made[static DEVICE_NAME])
{
    source->ordinal = ordinal;
    return device_numbered(ordinal, made);
}

/* ---- without a capsule ---- */

static int exchange_stream(struct state *state, const struct dl_exchange *table, const char *device,
                           struct source *source)
{
    bool torch = source->framework == FRAMEWORK_TORCH;
    void *native = NULL;

    /* PyTorch has a tensor on that GPU, so it is initialized: its table has the current stream. */
    if (source->framework != FRAMEWORK_OTHER && !(torch && table->current_stream))
        return framework_current(state, source->framework, device, &source->stream);
    source->lasting = !torch;
    if (!table->current_stream)
        return 0;
    if (table->current_stream(DL_CUDA, source->ordinal, &native) != 0)
        return -1;
    source->stream = stream_of_native(state, (uintptr_t)native, device);
    return source->stream ? 0 : -1;
}

int source_exchange(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    enum framework framework;
    const struct dl_exchange *table = framework_exchange_of(state, object, &framework);
    struct dl_tensor tensor;
    char device[DEVICE_NAME];

    if (!table || !table->borrow)
        return 1;
    source->framework = framework;
    source->keeper = Py_NewRef(object);
    if (table->borrow(object, &tensor) != 0 || wrap_tensor(state, &tensor, source) < 0)
        return -1;
    bool gpu = on_gpu(tensor.device);
    if (!user_reads(user))
        return 0;
    if (gpu && device_ordinal(user->device) < 0)
        return leave_to_framework(source, object, tensor.device.id);
    if (check_elements(object, source, gpu ? tensor.device.id : -1) < 0)
        return -1;
    return gpu ? exchange_stream(state, table, name_gpu(source, tensor.device.id, device), source) : 0;
}

/* ---- by a capsule ---- */

/* The array's own DLPack device. */
static int read_device(PyObject *object, struct dl_device *device)
{
    PyObject *said = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    PyObject *type = said ? PySequence_GetItem(said, 0) : NULL; /* perhaps an enum */
    PyObject *id = type ? PySequence_GetItem(said, 1) : NULL;

    device->type = type && id ? (int32_t)PyLong_AsLong(type) : 0;
    device->id = id && !PyErr_Occurred() ? (int32_t)PyLong_AsLong(id) : 0;
    Py_XDECREF(type);
    Py_XDECREF(id);
    Py_XDECREF(said);
    return PyErr_Occurred() ? -1 : 0;
}

/* A stream of its own for a library that has none; NULL with an exception. */
static struct stream *stream_for(struct state *state, const struct user *user, const char *device)
{
    if (user->channel)
        return copy_stream(state, user->channel, device);
    if (strcmp(stream_device(user->consumer), device) == 0)
        return stream_keep(user->consumer);
    return stream_of_native(state, 0, device); /* the caller refuses the array */
}

/* The stream to ask the array for, and the one behind which its memory is then ready. */
static int consumer_stream(struct state *state, const struct user *user, struct source *source, const char *device,
                           PyObject **number)
{
    if (user_reads(user) && framework_current(state, source->framework, device, &source->stream) < 0)
        return -1;
    if (!user_reads(user) || source->stream) { /* Sluice orders it */
        *number = PyLong_FromLong(-1);
    } else {
        source->lasting = true;
        source->stream = stream_for(state, user, device);
        *number = source->stream ? PyLong_FromUnsignedLongLong(stream_native(source->stream)) : NULL;
    }
    return *number ? 0 : -1;
}

static PyObject *call_dlpack(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *args = PyTuple_New(0), *made = NULL;
    PyObject *keywords = Py_BuildValue("{s(ii)}", "max_version", 1, 0);

    if (method && args && keywords && (!stream || PyDict_SetItemString(keywords, "stream", stream) == 0)) {
        made = PyObject_Call(method, args, keywords);
        if (!made && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than version 1 */
            PyErr_Clear();
            if (PyDict_DelItemString(keywords, "max_version") == 0)
                made = PyObject_Call(method, args, keywords);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return made;
}

static bool has(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);

    if (!value)
        PyErr_Clear();
    Py_XDECREF(value);
    return value != NULL;
}

static int open_capsule(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    struct dl_device where = { DL_CPU, 0 };
    char device[DEVICE_NAME];
    PyObject *stream = NULL;

    if (has(object, "__dlpack_device__") && read_device(object, &where) < 0)
        return -1;
    bool gpu = on_gpu(where);
    if (gpu && user_reads(user) && device_ordinal(user->device) < 0)
        return leave_to_framework(source, object, where.id);
    if (gpu && consumer_stream(state, user, source, name_gpu(source, where.id, device), &stream) < 0)
        return -1;
    source->keeper = call_dlpack(object, stream);
    Py_XDECREF(stream);
    if (!source->keeper || wrap_capsule(state, source->keeper, source) < 0)
        return -1;
    return user_reads(user) ? check_elements(object, source, gpu ? where.id : -1) : 0;
}

/* A tensor whose elements are yet to be negated, or conjugated, has no capsule. */
static int open_lazy(PyObject *object, struct source *source)
{
    struct dl_device where = { DL_CPU, 0 };

    if (read_device(object, &where) < 0)
        return -1;
    return leave_to_framework(source, object, on_gpu(where) ? where.id : -1);
}

int source_dlpack(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    PyObject *detached;
    int r, lazy;

    if (!has(object, "__dlpack__"))
        return 1;
    source->framework = framework_of(state, object);
    if (source->framework != FRAMEWORK_TORCH)
        return open_capsule(state, object, user, source);
    if ((lazy = is_true(object, "is_conj")) == 0) /* before a capsule is requested: that would fail */
        lazy = is_true(object, "is_neg");
    if (lazy != 0)
        return lazy < 0 ? -1 : open_lazy(object, source);
    detached = PyObject_CallMethod(object, "detach", NULL); /* tensors that require gradients refuse otherwise */
    r = detached ? open_capsule(state, detached, user, source) : -1;
    Py_XDECREF(detached);
    return r;
}
