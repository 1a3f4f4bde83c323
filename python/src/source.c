/* SPDX-License-Identifier: MIT
 *
 * Arrays that programs pass in. Sluice's own are used directly, images with their pixel format. For others the buffer
 * protocol is tried first, as the cheapest; then DLPack's exchange table (PyTorch), which allocates nothing; then
 * NumPy's array interface, which has more data types than buffers; then DLPack (PyTorch, JAX, CuPy), and CUDA's array
 * interface.
 */
#include "source.h"

#include <string.h>

#include "fetch.h"
#include "stream_choice.h"

#define SHORTEST_ROW 256 /* bytes: copies of shorter ones are slow */

int source_bad_dtype(const struct state *state, PyObject *object, const char *letter)
{
    raise_as(state, ERROR_E_FORMAT,
             "elements of type '%s' in %R cannot be sent: convert them to native numbers, e.g. by "
             ".astype(\"float32\"); strings, records, dates and foreign byte orders are not supported",
             letter, (PyObject *)Py_TYPE(object));
    return -1;
}

int source_wrap(const struct state *state, struct source *source, void *data, struct sluice_dtype dtype, int ndim,
                const int64_t *shape, const int64_t *strides)
{
    return check_result(state, sluice_array_wrap(&source->array, NULL, data, dtype, ndim, shape, strides));
}

/* 1, without an exception: it has no usable buffer. */
static int from_buffer(struct state *state, PyObject *object, struct source *source)
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
        return source_bad_dtype(state, object, buffer->format ? buffer->format : "?");
    if (buffer->ndim > SLUICE_MAX_DIMS) {
        raise_as(state, ERROR_E_FORMAT, "an array of %d dimensions: at most %d are possible", buffer->ndim,
                 SLUICE_MAX_DIMS);
        return -1;
    }
    int64_t tight = buffer->itemsize;
    for (int d = buffer->ndim - 1; d >= 0; d--) {
        shape[d] = buffer->shape[d];
        /* Without strides it is contiguous; ctypes omits them though they were requested. */
        strides[d] = buffer->strides ? buffer->strides[d] : tight;
        tight *= buffer->shape[d];
    }
    source->read_only = buffer->readonly;
    return source_wrap(state, source, buffer->buf, dtype, buffer->ndim, shape, strides);
}

/* An array of a frame. On a GPU its lease ends behind the copy. */
static int from_own(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    struct array *array = (struct array *)object;
    const char *device = device_text(array->lease->device);

    if (array_check(array) < 0)
        return -1;
    source->ordinal = device_ordinal(device);
    if (source->ordinal >= 0 && user->channel && device_ordinal(user->device) < 0) {
        PyObject *copy = user->writes ? raise_as(state, ERROR_E_UNSUPPORTED,
                                                 "the array is on %s, and the frame in host memory", device)
                                      : fetch_array(array);
        int r = copy ? from_buffer(state, copy, source) : -1;
        source->ordinal = -1;
        Py_XDECREF(copy);
        return r;
    }
    source->keeper = Py_NewRef(object);
    source->lease = source->ordinal >= 0 ? array->lease : NULL;
    source->read_only = array->a.read_only != 0;
    source->array = array->a;
    source->array.name[0] = '\0';
    return 0;
}

bool source_is_plain(const struct sluice_array *array)
{
    int64_t run = sluice_dtype_size(array->dtype);
    int gaps = 0;

    for (int d = array->ndim - 1; d >= 0; d--) {
        if (array->shape[d] == 0)
            return true;
        if (array->shape[d] == 1)
            continue;
        if (array->strides[d] < run)
            return false;
        if (gaps == 0 && array->strides[d] == run)
            run *= array->shape[d];
        else if (run < SHORTEST_ROW || ++gaps > 1)
            return false;
    }
    return true;
}

int source_open(struct state *state, PyObject *object, const struct user *user, struct source *source)
{
    int r;

    source->buffer.obj = NULL;
    source->keeper = NULL;
    source->lease = NULL;
    source->stream = NULL;
    source->ordinal = -1;
    source->framework = FRAMEWORK_NONE;
    source->lasting = source->read_only = source->odd = false;
    r = Py_IS_TYPE(object, state->array) ? from_own(state, object, user, source) : from_buffer(state, object, source);
    if (r == 1)
        r = source_exchange(state, object, user, source);
    if (r == 1)
        r = source_interface(state, object, source);
    if (r == 1)
        r = source_dlpack(state, object, user, source);
    if (r == 1)
        r = source_cuda_interface(state, object, user, source);
    if (r == 1) {
        PyErr_Format(PyExc_TypeError, "%R is not an array: it has no buffer, no __dlpack__ and no __array_interface__",
                     (PyObject *)Py_TYPE(object));
        r = -1;
    }
    if (r < 0)
        source_close(source);
    return r;
}

void source_close(struct source *source)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback); /* others' code may run below */
    if (source->buffer.obj)
        PyBuffer_Release(&source->buffer);
    Py_CLEAR(source->keeper);
    PyErr_Restore(type, value, traceback);
    stream_drop(source->stream);
    source->stream = NULL;
}

PyObject *source_describe(struct state *state, PyObject *object)
{
    const struct user nobody = { NULL, "host", false, NULL };
    struct source source;

    if (source_open(state, object, &nobody, &source) < 0)
        return NULL;
    PyObject *dtype = NULL, *shape = NULL, *made = NULL;
    if (!source.odd || (check_copy_captures(state, source.framework, source.ordinal, NULL) == 0 &&
                        source_make_plain(state, &nobody, &source) == 0)) {
        dtype = dtype_text(state, source.array.dtype);
        shape = sizes_tuple(source.array.shape, source.array.ndim);
    }
    if (dtype && shape)
        made = PyTuple_Pack(2, dtype, shape);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    source_close(&source);
    return made;
}

bool is_mapping(PyObject *object)
{
    return PyDict_Check(object) ||
           (!PyObject_CheckBuffer(object) && PyMapping_Check(object) && PyObject_HasAttrString(object, "items"));
}

int mapping_item(PyObject *items, Py_ssize_t i, PyObject **name, PyObject **array)
{
    PyObject *item = PyList_GetItem(items, i);

    if (!item || !PyTuple_Check(item) || PyTuple_Size(item) != 2) {
        PyErr_Format(PyExc_TypeError, "items() of a mapping of names to arrays must give pairs, as tuples, not %R",
                     item);
        return -1;
    }
    *name = PyTuple_GetItem(item, 0);
    *array = PyTuple_GetItem(item, 1);
    return 0;
}
