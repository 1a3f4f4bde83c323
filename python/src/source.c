/* SPDX-License-Identifier: MIT
 *
 * Arrays that programs pass in. Our own are known as what they are, images with their colour order.
 * Of others the buffer protocol is tried first, as it is the cheapest; then NumPy's array
 * interface, which also carries types that buffers have not; then DLPack (PyTorch, JAX, CuPy).
 */
#include "source.h"

#include <string.h>

static int bad_dtype(const struct state *state, PyObject *object, const char *letter)
{
    raise_as(state, ERROR_E_FORMAT,
             "elements of type '%s' in %R cannot be sent: use native numbers (e.g. "
             ".astype(\"float32\")), no strings, "
             "records, dates or foreign byte orders",
             letter, (PyObject *)Py_TYPE(object));
    return -1;
}

static int wrap(const struct state *state, struct source *source, void *data,
                struct sluice_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
    int r = sluice_array_wrap(&source->array, NULL, data, dtype, ndim, shape, strides);

    if (r == 0)
        return 0;
    raise_result(state, r);
    return -1;
}

/* An array of a frame. */
static int from_own(PyObject *object, struct source *source)
{
    struct array *array = (struct array *)object;

    if (array_check(array) < 0)
        return -1;
    source->keeper = Py_NewRef(object);
    source->array = array->a;
    source->array.name[0] = '\0';
    return 0;
}

/* Of numpy arrays whose type the protocols have no letter for (ml_dtypes): by its name. */
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

/* 1: it has no buffer that can be used, without an exception. */
static int from_buffer(const struct state *state, PyObject *object, struct source *source)
{
    int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
    Py_buffer *buffer = &source->buffer;
    struct sluice_dtype dtype;

    if (!PyObject_CheckBuffer(object))
        return 1;
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) < 0) {
        buffer->obj = NULL;
        if (PyErr_ExceptionMatches(PyExc_MemoryError))
            return -1;
        PyErr_Clear();
        return 1;
    }
    if (dtype_from_letter(buffer->format, buffer->itemsize, &dtype) < 0)
        return bad_dtype(state, object, buffer->format ? buffer->format : "?");
    if (buffer->ndim > SLUICE_MAX_DIMS) {
        raise_as(state, ERROR_E_FORMAT, "an array of %d dimensions: %d at most", buffer->ndim,
                 SLUICE_MAX_DIMS);
        return -1;
    }
    int64_t tight = buffer->itemsize;
    for (int d = buffer->ndim - 1; d >= 0; d--) {
        shape[d] = buffer->shape[d];
        /* Without strides it is contiguous; ctypes leaves them out though they were asked for. */
        strides[d] = buffer->strides ? buffer->strides[d] : tight;
        tight *= buffer->shape[d];
    }
    return wrap(state, source, buffer->buf, dtype, buffer->ndim, shape, strides);
}

static int from_dlpack(const struct state *state, PyObject *object, struct source *source)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__"), *args, *keywords;

    if (!method) {
        PyErr_Clear();
        return 1;
    }
    args = PyTuple_New(0);
    keywords = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);
    source->keeper = args && keywords ? PyObject_Call(method, args, keywords) : NULL;
    if (!source->keeper && args &&
        PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than version 1 */
        PyErr_Clear();
        source->keeper = PyObject_Call(method, args, NULL);
    }
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    Py_DECREF(method);
    if (!source->keeper)
        return -1;
    return dlpack_import(state, source->keeper, &source->array);
}

static int sizes(PyObject *object, int64_t *values, int *count)
{
    Py_ssize_t n = PySequence_Size(object);

    if (n < 0 || n > SLUICE_MAX_DIMS) {
        if (n >= 0)
            PyErr_Format(PyExc_ValueError, "an array of %zd dimensions: %d at most", n,
                         SLUICE_MAX_DIMS);
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

/* (address, read_only), or an object with a buffer (PIL). NULL may be an address: look for an
 * exception. */
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

static int from_interface(const struct state *state, PyObject *object, struct source *source)
{
    PyObject *interface = PyObject_GetAttrString(object, "__array_interface__");
    int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
    struct sluice_dtype dtype;
    int ndim = 0, stride_count, r = -1;

    if (!interface) {
        PyErr_Clear();
        return 1;
    }
    PyObject *typestr = NULL, *data = NULL, *step = NULL;
    const char *text;
    source->keeper = Py_NewRef(interface);
    if (!PyDict_Check(interface) || !(typestr = PyDict_GetItemString(interface, "typestr")) ||
        !(data = PyDict_GetItemString(interface, "data")) ||
        !PyDict_GetItemString(interface, "shape")) {
        PyErr_SetString(PyExc_TypeError, "its __array_interface__ lacks typestr, shape or data");
        goto out;
    }
    if (!(text = PyUnicode_AsUTF8AndSize(typestr, NULL)))
        goto out;
    if (dtype_from_typestr(text, &dtype) < 0 && dtype_of_name(object, &dtype) < 0) {
        bad_dtype(state, object, text);
        goto out;
    }
    void *address = interface_data(data, source);
    if (PyErr_Occurred() || sizes(PyDict_GetItemString(interface, "shape"), shape, &ndim) < 0)
        goto out;
    step = PyDict_GetItemString(interface, "strides");
    if (step == Py_None)
        step = NULL;
    if (step && sizes(step, strides, &stride_count) < 0)
        goto out;
    if (step && stride_count != ndim) {
        PyErr_SetString(PyExc_TypeError,
                        "its __array_interface__ has another number of strides than of extents");
        goto out;
    }
    r = wrap(state, source, address, dtype, ndim, shape, step ? strides : NULL);
out:
    Py_DECREF(interface);
    return r;
}

int source_open(struct state *state, PyObject *object, struct source *source)
{
    int r;

    source->buffer.obj = NULL;
    source->keeper = NULL;
    r = Py_IS_TYPE(object, state->array) ? from_own(object, source)
                                         : from_buffer(state, object, source);
    bool numpy_like = r == 1 && PyObject_HasAttrString(object, "__array_interface__");
    if (r == 1 && numpy_like)
        r = from_interface(state, object, source);
    if (r == 1)
        r = from_dlpack(state, object, source);
    if (r == 1) {
        PyErr_Format(PyExc_TypeError,
                     "%R is no array: it has no buffer, no __dlpack__ and no __array_interface__",
                     (PyObject *)Py_TYPE(object));
        r = -1;
    }
    if (r < 0)
        source_close(source);
    return r;
}

void source_close(struct source *source)
{
    if (source->buffer.obj)
        PyBuffer_Release(&source->buffer);
    Py_CLEAR(source->keeper);
}

PyObject *source_describe(struct state *state, PyObject *object)
{
    struct source source;

    if (source_open(state, object, &source) < 0)
        return NULL;
    PyObject *dtype = dtype_text(state, source.array.dtype);
    PyObject *shape = sizes_tuple(source.array.shape, source.array.ndim), *made = NULL;
    if (dtype && shape)
        made = PyTuple_Pack(2, dtype, shape);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    source_close(&source);
    return made;
}
