/* SPDX-License-Identifier: MIT
 *
 * Arrays on the CPU: buffer protocol, NumPy.
 */
#include "array.h"

#include "fetch.h"

/* ---- the buffer protocol ---- */

int array_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    struct array *array = (struct array *)self;

    view->obj = NULL;
    if (array_check(array) < 0)
        return -1;
    if (array->lease->device) {
        PyErr_Format(PyExc_BufferError,
                     "this array is on \"%s\", where the CPU cannot access it: numpy() copies it, torch() and cupy() "
                     "return it in place",
                     array->lease->device->name);
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) && array->a.read_only) {
        PyErr_SetObject(PyExc_BufferError, array->state->read_only);
        return -1;
    }
    if (!array->format && (flags & PyBUF_FORMAT)) {
        PyErr_SetString(PyExc_BufferError, "the buffer protocol does not have this data type: use numpy() or DLPack");
        return -1;
    }
    bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    if (!array->contiguous && (!strided || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS)) {
        PyErr_SetString(PyExc_BufferError, "the array's rows are padded: it is not contiguous");
        return -1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && array->ndim > 1) {
        PyErr_SetString(PyExc_BufferError, "the array is in C order, not in Fortran order");
        return -1;
    }
    view->buf = array->a.data;
    view->obj = Py_NewRef(self);
    view->len = array->nbytes;
    view->readonly = array->a.read_only != 0;
    view->itemsize = array->itemsize;
    view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)array->format : NULL;
    view->ndim = flags & PyBUF_ND ? array->ndim : 1;
    view->shape = flags & PyBUF_ND ? array->shape : NULL;
    view->strides = strided ? array->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    return 0;
}

/* ---- NumPy ---- */

static int check_pixel_format(const struct array *array, PyObject *pixel_format)
{
    uint32_t have = array->a.image.pixel_format;
    const char *name;

    if (!pixel_format || pixel_format == Py_None)
        return 0;
    if (!(name = parse_pixel_format(pixel_format)))
        return -1;
    if (have == sluice_pixel_format_find(name))
        return 0;
    if (have)
        raise_as(array->state, ERROR_E_FORMAT, "array '%s' has pixel format %s, not %s: convert it, or ask for %s",
                 array->a.name, sluice_pixel_format_name(have), name, sluice_pixel_format_name(have));
    else
        raise_as(array->state, ERROR_E_FORMAT, "array '%s' is not an image, and has no pixel format: %s was asked for",
                 array->a.name, name);
    return -1;
}

PyObject *array_over(struct state *state, PyObject *shape, PyObject *dtype, PyObject *buffer)
{
    PyObject *made = shape && dtype ? PyObject_CallFunctionObjArgs(state->ndarray, shape, dtype, buffer, NULL) : NULL;

    Py_XDECREF(shape);
    return made;
}

PyObject *array_numpy(PyObject *self, PyObject *pixel_format)
{
    struct array *array = (struct array *)self;
    PyObject *dtype;

    if (array_check(array) < 0 || check_pixel_format(array, pixel_format) < 0 ||
        !(dtype = dtype_numpy(array->state, array->a.dtype)))
        return NULL;
    if (array->lease->device)
        return fetch_array(array);
    if (array->contiguous)
        return array_over(array->state, array_shape(array), dtype, self); /* `self` has the lease */
    /* padded rows: NumPy reads their strides from the buffer protocol */
    PyObject *numpy = import_framework(array->state, "numpy", "numpy");
    PyObject *made = numpy ? PyObject_CallMethod(numpy, "asarray", "O", self) : NULL;
    Py_XDECREF(numpy);
    return made;
}

PyObject *array_interface(PyObject *self)
{
    struct array *array = (struct array *)self;

    if (array->lease->device) {
        PyErr_Format(PyExc_AttributeError, "__array_interface__: this array is on \"%s\"", array->lease->device->name);
        return NULL;
    }
    if (array_check(array) < 0)
        return NULL;
    if (!array->format) { /* without the attribute NumPy calls __array__(), which has ml_dtypes */
        PyErr_SetString(PyExc_AttributeError, "__array_interface__ does not have this data type: use numpy() or "
                                              "DLPack");
        return NULL;
    }
    return array_interface_dict(array, array->a.read_only != 0);
}

PyObject *array_interface_dict(struct array *array, bool read_only)
{
    char typestr[16];

    PyOS_snprintf(typestr, sizeof typestr, "%c%c%d", array->itemsize == 1 ? '|' : '<', dtype_kind(array->a.dtype),
                  (int)array->itemsize);
    PyObject *shape = array_shape(array), *strides = array->contiguous ? Py_NewRef(Py_None) : array_strides(array);
    if (!shape || !strides) {
        Py_XDECREF(shape);
        Py_XDECREF(strides);
        return NULL;
    }
    return Py_BuildValue("{s:N,s:s,s:(KO),s:N,s:i}", "shape", shape, "typestr", typestr, "data",
                         (unsigned long long)(uintptr_t)array->a.data, read_only ? Py_True : Py_False, "strides",
                         strides, "version", 3);
}

PyObject *array_copy(PyObject *self)
{
    PyObject *view = array_numpy(self, NULL), *made;

    if (!view || ((struct array *)self)->lease->device) /* it is a copy already */
        return view;
    made = PyObject_CallMethod(view, "copy", NULL);
    Py_DECREF(view);
    return made;
}

/* __array__(): without it NumPy would make an object array of no dimensions of an array that the CPU cannot access. */
PyObject *array_for_numpy(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct array *array = (struct array *)self;
    PyObject *formats, *view, *method, *made = NULL;

    if (array->lease->device)
        return PyErr_Format(PyExc_TypeError,
                            "this array is on \"%s\", where NumPy cannot access it: numpy() copies "
                            "it",
                            array->lease->device->name);
    if (!(view = array_numpy(self, NULL)))
        return NULL;
    formats = PyImport_ImportModule("sluice._formats");
    method = formats ? PyObject_CallMethod(formats, "as_asked", "O", view) : NULL;
    if (method)
        made = PyObject_Call(method, args, keywords);
    Py_XDECREF(method);
    Py_XDECREF(formats);
    Py_DECREF(view);
    return made;
}
