/* SPDX-License-Identifier: MIT
 *
 * sluice.Array: how it is made, its methods and attributes. array_host.c has the buffer protocol and NumPy.
 */
#include "array.h"

#include "export.h"

/* ---- making ---- */

static void derive(struct array *array)
{
    const struct sluice_array *a = &array->a;

    array->ndim = a->ndim;
    array->itemsize = a->dtype.bits / 8;
    array->format = dtype_letter(a->dtype);
    for (int d = 0; d < a->ndim; d++) {
        array->shape[d] = (Py_ssize_t)a->shape[d];
        array->strides[d] = (Py_ssize_t)a->strides[d];
    }
    if (a->dtype.lanes > 1) { /* consumers without vectors see one more dimension */
        array->shape[array->ndim] = a->dtype.lanes;
        array->strides[array->ndim++] = array->itemsize;
    }
    array->nbytes = array->itemsize;
    array->contiguous = true;
    for (int d = array->ndim - 1; d >= 0; d--) {
        if (array->shape[d] != 1 && array->strides[d] != array->nbytes)
            array->contiguous = false;
        array->nbytes *= array->shape[d];
    }
    if (array->nbytes == 0)
        array->contiguous = true;
}

PyObject *array_new(struct state *state, struct lease *lease, const struct sluice_array *a)
{
    struct array *array = lease_pin(state, lease) == 0 ? PyObject_New(struct array, state->array) : NULL;

    if (!array)
        return NULL;
    array->state = state;
    array->lease = lease_keep(lease);
    array->a = *a;
    derive(array);
    return (PyObject *)array;
}

int array_find(struct state *state, struct lease *lease, PyObject *which, struct sluice_array *a)
{
    int r;

    if (!which || which == Py_None) {
        r = sluice_frame_array_at(&lease->frame, 0, a);
    } else if (PyUnicode_Check(which)) {
        const char *name = PyUnicode_AsUTF8AndSize(which, NULL);
        if (!name)
            return -1;
        r = sluice_frame_array(&lease->frame, name, a);
        if (r == SLUICE_E_NOT_FOUND || (r == 0 && !*name)) {
            PyErr_SetString(PyExc_KeyError, r ? sluice_last_error() : "");
            return -1;
        }
    } else {
        Py_ssize_t index = PyNumber_AsSsize_t(which, PyExc_IndexError);
        if (index == -1 && PyErr_Occurred())
            return -1;
        if (index < 0)
            index += lease->frame.array_count;
        if (index < 0 || index >= (Py_ssize_t)lease->frame.array_count) {
            PyErr_Format(PyExc_IndexError, "the frame has %u arrays", (unsigned)lease->frame.array_count);
            return -1;
        }
        r = sluice_frame_array_at(&lease->frame, (uint32_t)index, a);
    }
    if (r != 0)
        raise_result(state, r);
    return r == 0 ? 0 : -1;
}

PyObject *array_of_frame(struct state *state, struct lease *lease, PyObject *which)
{
    struct sluice_array a;

    return array_find(state, lease, which, &a) == 0 ? array_new(state, lease, &a) : NULL;
}

static void array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    (void)lease_drop(((struct array *)self)->lease);
    PyObject_Free(self);
    Py_DECREF(type);
}

int array_check(struct array *array)
{
    if (!atomic_load_explicit(&array->lease->ended, memory_order_relaxed))
        return 0;
    PyErr_SetString(PyExc_BufferError,
                    "this frame was committed or cancelled: its memory no longer belongs to the writer");
    return -1;
}

/* ---- what it is ---- */

PyObject *array_shape(const struct array *array)
{
    int64_t sizes[SLUICE_MAX_DIMS + 1];

    for (int d = 0; d < array->ndim; d++)
        sizes[d] = array->shape[d];
    return sizes_tuple(sizes, array->ndim);
}

PyObject *array_strides(const struct array *array)
{
    int64_t sizes[SLUICE_MAX_DIMS + 1];

    for (int d = 0; d < array->ndim; d++)
        sizes[d] = array->strides[d];
    return sizes_tuple(sizes, array->ndim);
}

/* ---- methods and attributes ---- */

static PyObject *method_numpy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "pixel_format", NULL };
    PyObject *values[1];

    if (parse_fast("numpy", names, 1, args, count, keywords, values) < 0)
        return NULL;
    return array_numpy(self, values[0]);
}

static PyObject *method_copy(PyObject *self, PyObject *Py_UNUSED(none))
{
    return array_copy(self);
}

static PyObject *method_framework(const char *name, enum framework framework, PyObject *self, PyObject *const *args,
                                  Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "copy", NULL };
    PyObject *values[1];
    int copy = 0;

    if (parse_fast(name, names, framework != FRAMEWORK_JAX, args, count, keywords, values) < 0 ||
        (values[0] && (copy = PyObject_IsTrue(values[0])) < 0))
        return NULL;
    return export_array((struct array *)self, framework, copy);
}

static PyObject *method_torch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return method_framework("torch", FRAMEWORK_TORCH, self, args, count, keywords);
}

static PyObject *method_cupy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return method_framework("cupy", FRAMEWORK_CUPY, self, args, count, keywords);
}

static PyObject *method_jax(PyObject *self, PyObject *Py_UNUSED(none))
{
    return export_array((struct array *)self, FRAMEWORK_JAX, false);
}

static PyObject *method_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return dlpack_export((struct array *)self, args, count, keywords);
}

static PyObject *method_dlpack_device(PyObject *self, PyObject *Py_UNUSED(none))
{
    return lease_dlpack_device(((struct array *)self)->lease->device);
}

enum field { NAME, DTYPE, SHAPE, STRIDES, NBYTES, NDIM, READ_ONLY, ADDRESS, DEVICE, INTERFACE, CUDA_INTERFACE };

static PyObject *array_get(PyObject *self, void *field)
{
    struct array *array = (struct array *)self;

    switch ((enum field)(intptr_t)field) {
    case NAME: return PyUnicode_FromString(array->a.name);
    case DTYPE: return dtype_text(array->state, array->a.dtype);
    case SHAPE: return array_shape(array);
    case STRIDES: return array_strides(array);
    case NBYTES: return PyLong_FromSsize_t(array->nbytes);
    case NDIM: return PyLong_FromLong(array->ndim);
    case READ_ONLY: return PyBool_FromLong(array->a.read_only != 0);
    case ADDRESS: return PyLong_FromVoidPtr(array->a.data);
    case DEVICE: return PyUnicode_FromString(device_text(array->lease->device));
    case INTERFACE: return array_interface(self);
    case CUDA_INTERFACE: return export_interface(array);
    }
    Py_RETURN_NONE;
}

enum image_field { PIXEL_FORMAT, PLANES, WIDTH, HEIGHT, COLOUR, ROW_ORDER, ALPHA };

static PyObject *image_get(PyObject *self, void *field)
{
    static const char *const rows[] = { "top-down", "bottom-up" };
    static const char *const alphas[] = { "unknown", "straight", "premultiplied", "opaque" };
    const struct sluice_image *i = &((struct array *)self)->a.image;

    switch ((enum image_field)(intptr_t)field) {
    case PIXEL_FORMAT:
        return i->pixel_format ? PyUnicode_FromString(sluice_pixel_format_name(i->pixel_format)) : Py_NewRef(Py_None);
    case PLANES: return array_planes(self);
    case WIDTH: return i->pixel_format ? PyLong_FromUnsignedLong(i->width) : Py_NewRef(Py_None);
    case HEIGHT: return i->pixel_format ? PyLong_FromUnsignedLong(i->height) : Py_NewRef(Py_None);
    case COLOUR:
        return Py_BuildValue("(iiii)", i->colour.primaries, i->colour.transfer, i->colour.matrix, i->colour.range);
    case ROW_ORDER: return PyUnicode_FromString(rows[i->row_order & 1]);
    case ALPHA: return PyUnicode_FromString(alphas[i->alpha & 3]);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "numpy", METHOD(method_numpy), METH_FASTCALL | METH_KEYWORDS, DOC_Array_numpy },
    { "copy", METHOD(method_copy), METH_NOARGS, DOC_Array_copy },
    { "torch", METHOD(method_torch), METH_FASTCALL | METH_KEYWORDS, DOC_Array_torch },
    { "cupy", METHOD(method_cupy), METH_FASTCALL | METH_KEYWORDS, DOC_Array_cupy },
    { "jax", METHOD(method_jax), METH_NOARGS, DOC_Array_jax },
    { "__array__", METHOD(array_for_numpy), METH_VARARGS | METH_KEYWORDS, DOC_Views_array },
    { "__dlpack__", METHOD(method_dlpack), METH_FASTCALL | METH_KEYWORDS, DOC_Array_dlpack },
    { "__dlpack_device__", METHOD(method_dlpack_device), METH_NOARGS, DOC_Views_dlpack_device },
    { NULL, NULL, 0, NULL },
};

#define FIELD(name, what)       FIELD_BY(array_get, #name, what, DOC_Array_##name)
#define IMAGE_FIELD(name, what) FIELD_BY(image_get, #name, what, DOC_Array_##name)
static PyGetSetDef fields[] = {
    FIELD(name, NAME),
    FIELD(dtype, DTYPE),
    FIELD(shape, SHAPE),
    FIELD(strides, STRIDES),
    FIELD(nbytes, NBYTES),
    FIELD(ndim, NDIM),
    FIELD(read_only, READ_ONLY),
    FIELD(address, ADDRESS),
    IMAGE_FIELD(pixel_format, PIXEL_FORMAT),
    IMAGE_FIELD(planes, PLANES),
    IMAGE_FIELD(width, WIDTH),
    IMAGE_FIELD(height, HEIGHT),
    IMAGE_FIELD(colour, COLOUR),
    IMAGE_FIELD(row_order, ROW_ORDER),
    IMAGE_FIELD(alpha, ALPHA),
    FIELD_BY(array_get, "device", DEVICE, DOC_Views_device),
    FIELD_BY(array_get, "__array_interface__", INTERFACE, DOC_Array_array_interface),
    FIELD_BY(array_get, "__cuda_array_interface__", CUDA_INTERFACE, DOC_Array_cuda_array_interface),
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, array_dealloc),     SLOT(Py_tp_methods, methods), SLOT(Py_tp_getset, fields),
    SLOT(Py_bf_getbuffer, array_getbuffer), SLOT(Py_tp_doc, DOC_Array),   { 0, NULL },
};

TYPE_SPEC(array, "sluice.Array", struct array, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
