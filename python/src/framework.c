/* SPDX-License-Identifier: MIT
 *
 * Array frameworks of the process: their types, exchange tables and current streams.
 */
#include "framework.h"

#include <string.h>

/* ---- types ---- */

/* By where it, or a class that it is derived from, was defined. */
static enum framework classify(struct state *state, PyTypeObject *type)
{
    PyObject *interop = imported(&state->interop, "sluice._interop");
    PyObject *found = interop ? PyObject_CallMethod(interop, "framework_of", "O", type) : NULL;
    long framework = found ? PyLong_AsLong(found) : FRAMEWORK_NONE;

    Py_XDECREF(found);
    PyErr_Clear();
    return (enum framework)framework;
}

static const struct dl_exchange *read_exchange(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const struct dl_exchange *table = NULL;

    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    while (table && table->version.major > 1)
        table = table->previous;
    if (table && (table->version.major != 1 || !table->from_object || !table->to_object))
        table = NULL;
    PyErr_Clear();
    Py_XDECREF(capsule);
    return table; /* it lives as long as the process */
}

/* An attribute of a module that is imported already; NULL, without an exception, if it is not. */
static PyObject *loaded(const char *module, const char *attribute)
{
    PyObject *name = PyUnicode_FromString(module);
    PyObject *found = name ? PyImport_GetModule(name) : NULL;
    PyObject *value = found ? PyObject_GetAttrString(found, attribute) : NULL;

    Py_XDECREF(name);
    Py_XDECREF(found);
    PyErr_Clear();
    return value;
}

static bool is_torch_stream(PyTypeObject *type)
{
    PyObject *found = loaded("torch.cuda", "Stream");

    Py_XDECREF(found);
    return found == (PyObject *)type;
}

static bool is_known(struct state *state, PyTypeObject *type, struct known_type *out)
{
    unsigned n = __atomic_load_n(&state->known_count, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < n; i++)
        if (state->known[i].type == type) {
            *out = state->known[i];
            return true;
        }
    return false;
}

/* Entries are filled in before they are counted, and stay. When all are in use, further types are classified each time.
 */
static struct known_type remember(struct state *state, PyTypeObject *type)
{
    struct known_type known;

    if (is_known(state, type, &known))
        return known;
    known = (struct known_type){ .type = type,
                                 .framework = (int)classify(state, type),
                                 .exchange = read_exchange(type),
                                 .torch_stream = is_torch_stream(type) };
    streams_lock();
    unsigned n = state->known_count;
    if (n < KNOWN_TYPES) {
        state->known[n] = known;
        Py_INCREF((PyObject *)type);
        __atomic_store_n(&state->known_count, n + 1, __ATOMIC_RELEASE);
    }
    streams_unlock();
    return known;
}

enum framework framework_of(struct state *state, PyObject *object)
{
    return (enum framework)remember(state, Py_TYPE(object)).framework;
}

const struct dl_exchange *framework_exchange(struct state *state, PyTypeObject *type)
{
    return remember(state, type).exchange;
}

const struct dl_exchange *framework_exchange_of(struct state *state, PyObject *object, enum framework *framework)
{
    struct known_type known = remember(state, Py_TYPE(object));

    *framework = (enum framework)known.framework;
    return known.exchange;
}

bool framework_torch_stream(struct state *state, PyObject *object)
{
    return remember(state, Py_TYPE(object)).torch_stream;
}

/* ---- current streams ---- */

/* What loaded() finds, kept in *kept once it is there. Borrowed. */
static PyObject *kept_loaded(PyObject **kept, const char *module, const char *attribute)
{
    PyObject *value = kept_now(kept);

    if (!value && (value = loaded(module, attribute)))
        value = keep_first(kept, value);
    return value;
}

static int parse_native(PyObject *number, uintptr_t *native)
{
    long long value = number ? PyLong_AsLongLong(number) : -1;

    Py_XDECREF(number);
    if (value == -1 && PyErr_Occurred())
        return -1;
    *native = (uintptr_t)value;
    return 1;
}

/* Has PyTorch used a GPU? Asking for its stream before would initialize it. Once true, it stays true. */
static int torch_is_up(struct state *state)
{
    PyObject *ask, *answer;
    int up;

    if (__atomic_load_n(&state->torch_up, __ATOMIC_RELAXED))
        return 1;
    if (!(ask = loaded("torch.cuda", "is_initialized")))
        return 0;
    answer = PyObject_CallNoArgs(ask);
    up = answer ? PyObject_IsTrue(answer) : -1;
    Py_DECREF(ask);
    Py_XDECREF(answer);
    if (up == 1)
        __atomic_store_n(&state->torch_up, true, __ATOMIC_RELAXED);
    return up;
}

static PyObject *call_for(PyObject *ask, int ordinal)
{
    PyObject *number = PyLong_FromLong(ordinal);
    PyObject *answer = number ? PyObject_CallFunctionObjArgs(ask, number, NULL) : NULL;

    Py_XDECREF(number);
    return answer;
}

static int torch_stream(struct state *state, int ordinal, uintptr_t *native)
{
    int up = torch_is_up(state);
    PyObject *tensor = up > 0 ? kept_loaded(&state->torch_tensor, "torch", "Tensor") : NULL, *ask;
    const struct dl_exchange *table = tensor ? framework_exchange(state, (PyTypeObject *)tensor) : NULL;

    if (up <= 0)
        return up;
    if (table && table->current_stream) {
        void *stream = NULL;
        if (table->current_stream(DL_CUDA, ordinal, &stream) != 0)
            return -1;
        *native = (uintptr_t)stream;
        return 1;
    }
    if ((ask = kept_loaded(&state->torch_raw, "torch._C", "_cuda_getCurrentRawStream")))
        return parse_native(call_for(ask, ordinal), native);
    if (!(ask = kept_loaded(&state->torch_current, "torch.cuda", "current_stream")))
        return 0;
    PyObject *stream = call_for(ask, ordinal);
    PyObject *number = stream ? known_attribute(stream, &state->cuda_stream, "cuda_stream") : NULL;
    Py_XDECREF(stream);
    return parse_native(number, native);
}

/* CuPy's current stream, a new reference; NULL with or without an exception. */
static PyObject *cupy_stream(struct state *state, int ordinal)
{
    PyObject *ask = kept_loaded(&state->cupy_current, "cupy.cuda", "get_current_stream");

    return ask ? call_for(ask, ordinal) : NULL;
}

static int cupy_current(struct state *state, int ordinal, uintptr_t *native, PyObject **stream)
{
    int r;

    if (!(*stream = cupy_stream(state, ordinal)))
        return PyErr_Occurred() ? -1 : 0;
    r = parse_native(known_attribute(*stream, &state->ptr, "ptr"), native);
    if (r < 0)
        Py_CLEAR(*stream);
    return r;
}

int framework_stream(struct state *state, enum framework framework, int ordinal, uintptr_t *native)
{
    PyObject *stream = NULL;
    int r;

    if (ordinal < 0)
        return 0;
    if (framework == FRAMEWORK_TORCH)
        return torch_stream(state, ordinal, native);
    if (framework != FRAMEWORK_CUPY)
        return 0;
    r = cupy_current(state, ordinal, native, &stream);
    Py_XDECREF(stream);
    return r;
}

int framework_current(struct state *state, enum framework framework, const char *device, struct stream **out)
{
    int ordinal = device_ordinal(device), r;
    PyObject *owner = NULL;
    uintptr_t native = 0;

    *out = NULL;
    if (framework == FRAMEWORK_CUPY && ordinal >= 0)
        r = cupy_current(state, ordinal, &native, &owner);
    else
        r = framework_stream(state, framework, ordinal, &native);
    if (r > 0) /* PyTorch may work on a stream of CuPy's */
        *out = owner ? stream_view(state, native, device, owner) : stream_of_native(state, native, device);
    Py_XDECREF(owner);
    return r <= 0 ? r : *out ? 0 : -1;
}

PyObject *framework_owner(struct state *state, int ordinal, uintptr_t native)
{
    PyObject *stream = NULL;
    uintptr_t now = 0;

    if (ordinal >= 0 && cupy_current(state, ordinal, &now, &stream) > 0 && now == native)
        return stream;
    Py_XDECREF(stream);
    PyErr_Clear();
    return NULL;
}
