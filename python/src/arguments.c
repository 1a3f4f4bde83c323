/* SPDX-License-Identifier: MIT
 *
 * Arguments of calls, and objects that are kept once they are found.
 */
#include <math.h>
#include <string.h>

#include "state.h"

int parse_seconds(PyObject *object, const char *what, int64_t none, int64_t *ns)
{
    if (!object || object == Py_None) {
        *ns = none;
        return 0;
    }
    double seconds = PyFloat_AsDouble(object);
    if (seconds == -1.0 && PyErr_Occurred())
        return -1;
    if (isnan(seconds) || seconds < 0) {
        PyErr_Format(PyExc_ValueError, "%s is %R: it must be seconds, 0 or more, or None", what, object);
        return -1;
    }
    *ns = seconds >= 9e9 ? SLUICE_FOREVER : (int64_t)(seconds * 1e9);
    return 0;
}

static Py_ssize_t find_name(const char *const *names, PyObject *keyword)
{
    for (Py_ssize_t i = 0; names[i]; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, names[i]) == 0)
            return i;
    return -1;
}

int parse_fast(const char *function, const char *const *names, Py_ssize_t positional, PyObject *const *args,
               Py_ssize_t count, PyObject *keywords, PyObject **values)
{
    if (count > positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd positional arguments, but %zd were given", function, positional,
                     count);
        return -1;
    }
    for (Py_ssize_t i = 0; names[i]; i++)
        values[i] = i < count ? args[i] : NULL;
    for (Py_ssize_t k = 0, n = keywords ? PyTuple_Size(keywords) : 0; k < n; k++) {
        PyObject *keyword = PyTuple_GetItem(keywords, k);
        Py_ssize_t at = find_name(names, keyword);
        if (at < 0 || values[at]) {
            PyErr_Format(PyExc_TypeError,
                         at < 0 ? "%s() got an unexpected argument %R" : "%s() got multiple values for argument %R",
                         function, keyword);
            return -1;
        }
        values[at] = args[count + k];
    }
    return 0;
}

PyObject *sizes_tuple(const int64_t *values, int count)
{
    PyObject *tuple = PyTuple_New(count);

    for (int i = 0; tuple && i < count; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *kept_now(PyObject **kept)
{
    return __atomic_load_n(kept, __ATOMIC_ACQUIRE);
}

PyObject *keep_first(PyObject **kept, PyObject *made)
{
    PyObject *there = NULL;

    if (__atomic_compare_exchange_n(kept, &there, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    Py_DECREF(made);
    return there;
}

PyObject *known_attribute(PyObject *object, PyObject **kept, const char *text)
{
    PyObject *name = kept_now(kept);

    if (!name && (name = PyUnicode_InternFromString(text)))
        name = keep_first(kept, name);
    return name ? PyObject_GetAttr(object, name) : NULL;
}

PyObject *imported(PyObject **kept, const char *name)
{
    PyObject *module = kept_now(kept);

    if (!module && (module = PyImport_ImportModule(name)))
        module = keep_first(kept, module);
    return module;
}

PyObject *import_framework(struct state *state, const char *package, const char *module)
{
    PyObject *interop = imported(&state->interop, "sluice._interop");

    return interop ? PyObject_CallMethod(interop, "load", "ss", package, module) : NULL;
}

const char *parse_pixel_format(PyObject *object)
{
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;

    if (PyErr_Occurred() || (name && sluice_pixel_format_find(name)))
        return name;
    PyObject *formats = PyImport_ImportModule("sluice._formats");
    PyObject *done = formats ? PyObject_CallMethod(formats, "check_pixel_format", "(O)", object) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(formats);
    return NULL;
}

int parse_u32(PyObject *object, void *out)
{
    long long value = PyLong_AsLongLong(object);

    if (value == -1 && PyErr_Occurred())
        return 0;
    if (value < 0 || value > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%lld is %s", value, value < 0 ? "negative" : "too large");
        return 0;
    }
    *(uint32_t *)out = (uint32_t)value;
    return 1;
}

int parse_ids(PyObject *object, uint32_t *ids, uint32_t *count)
{
    Py_ssize_t n = PyBytes_Size(object);

    if (n < 0 || n > MAX_IDS * (Py_ssize_t)sizeof *ids)
        return -1;
    memcpy(ids, PyBytes_AsString(object), (size_t)n);
    *count = (uint32_t)((size_t)n / sizeof *ids);
    return 0;
}
