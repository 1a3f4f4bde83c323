/* SPDX-License-Identifier: MIT
 *
 * Arrays by an array interface: NumPy's, or CUDA's, which also has the stream behind which the memory is ready.
 */
#include <string.h>

#include "source.h"

/* By its name: the data type of NumPy's arrays that the protocols have no letter for (ml_dtypes). */
static int dtype_of_name(PyObject *object, struct sluice_dtype *dtype)
{
    PyObject *type = PyObject_GetAttrString(object, "dtype");
    PyObject *name = type ? PyObject_GetAttrString(type, "name") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int r = text && sluice_dtype_parse(text, dtype) == 0 ? 0 : -1;

    Py_XDECREF(type);
    Py_XDECREF(name);
    PyErr_Clear();
    return r;
}

static int sizes(PyObject *object, int64_t *values, int *count)
{
    Py_ssize_t n = PySequence_Size(object);

    if (n < 0 || n > SLUICE_MAX_DIMS) {
        if (n >= 0)
            PyErr_Format(PyExc_ValueError, "an array of %zd dimensions: at most %d are possible", n, SLUICE_MAX_DIMS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        values[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
    }
    *count = (int)n;
    return 0;
}

/* (address, read_only), or an object with a buffer (PIL). NULL may be a valid address: check for an exception. */
static void *interface_data(PyObject *data, struct source *source)
{
    if (PyTuple_Check(data)) {
        PyObject *address = PyTuple_GetItem(data, 0);
        return address ? PyLong_AsVoidPtr(address) : NULL;
    }
    if (PyObject_GetBuffer(data, &source->buffer, PyBUF_SIMPLE) < 0) {
        source->buffer.obj = NULL;
        return NULL;
    }
    return source->buffer.buf;
}

static int refuse(const char *name, const char *what)
{
    PyErr_Format(PyExc_TypeError, "its %s %s", name, what);
    return -1;
}

/* What both interfaces have in common. */
static int read_interface(struct state *state, PyObject *object, const char *name, PyObject *interface,
                          struct source *source)
{
    int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
    struct sluice_dtype dtype;
    int ndim = 0, stride_count;
    PyObject *typestr, *data, *extents, *step;
    const char *text;

    if (!PyDict_Check(interface) || !(typestr = PyDict_GetItemString(interface, "typestr")) ||
        !(data = PyDict_GetItemString(interface, "data")) || !(extents = PyDict_GetItemString(interface, "shape")))
        return refuse(name, "lacks typestr, shape or data");
    if (!(text = PyUnicode_AsUTF8AndSize(typestr, NULL)))
        return -1;
    if (dtype_from_typestr(text, &dtype) < 0 && dtype_of_name(object, &dtype) < 0)
        return source_bad_dtype(state, object, text);
    void *address = interface_data(data, source);
    if (PyErr_Occurred() || sizes(extents, shape, &ndim) < 0)
        return -1;
    if (PyTuple_Check(data) && PyTuple_Size(data) > 1)
        source->read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
    step = PyDict_GetItemString(interface, "strides");
    if (step == Py_None)
        step = NULL;
    if (step && sizes(step, strides, &stride_count) < 0)
        return -1;
    if (step && stride_count != ndim)
        return refuse(name, "has a different number of strides than of extents");
    return source_wrap(state, source, address, dtype, ndim, shape, step ? strides : NULL);
}

int source_interface(struct state *state, PyObject *object, struct source *source)
{
    const char *name = "__array_interface__";
    PyObject *interface = PyObject_GetAttrString(object, name);

    if (!interface) {
        PyErr_Clear();
        return 1;
    }
    source->keeper = interface;
    return read_interface(state, object, name, interface, source);
}

/* The interface's stream. Without one the memory is ready. */
static int read_stream(struct state *state, PyObject *interface, const char *name, const char *device,
                       struct source *source)
{
    PyObject *stream = PyDict_GetItemString(interface, "stream");

    if (!stream || stream == Py_None)
        return 0;
    unsigned long long native = PyLong_Check(stream) ? PyLong_AsUnsignedLongLong(stream) : 0;
    if (PyErr_Occurred())
        return -1;
    if (native == 0)
        return refuse(name, "has stream 0: use 1 for the legacy default stream, 2 for the per-thread one");
    source->stream = stream_of_native(state, (uintptr_t)native, device);
    return source->stream ? 0 : -1;
}

/* The interface does not have the GPU: the library finds it by the address. */
int source_cuda_interface(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    const char *name = "__cuda_array_interface__";
    PyObject *interface = PyObject_GetAttrString(object, name), *mask;
    int r;

    if (!interface) {
        PyErr_Clear();
        return 1;
    }
    source->keeper = Py_NewRef(object);
    source->lasting = true;
    r = read_interface(state, object, name, interface, source);
    if (r == 0 && (mask = PyDict_GetItemString(interface, "mask")) && mask != Py_None) {
        raise_as(state, ERROR_E_UNSUPPORTED, "%R has a mask: send its data", (PyObject *)Py_TYPE(object));
        r = -1;
    }
    source->ordinal = user_reads(user) ? device_ordinal(user->device) : 0;
    if (r == 0 && user->channel && source->ordinal < 0) {
        raise_as(state, ERROR_E_UNSUPPORTED,
                 "%R is on a GPU, and channel '%s' is in host memory: copy it to host memory first",
                 (PyObject *)Py_TYPE(object), user->channel->name);
        r = -1;
    }
    if (r == 0 && user->consumer && source->ordinal < 0)
        source->ordinal = 0; /* some GPU: the caller refuses it */
    else if (r == 0 && user_reads(user))
        r = read_stream(state, interface, name, user->device, source);
    Py_DECREF(interface);
    return r;
}
