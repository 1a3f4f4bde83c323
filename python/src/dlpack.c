/* SPDX-License-Identifier: MIT
 *
 * DLPack, both ways. A deleter may run on any thread, with or without the GIL: it drops a lease and
 * frees, no more.
 */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "dlpack.h"

/* ---- out ---- */

/* What a capsule points to, in either version. */
struct export
{
    union {
        struct dl_managed managed;
        struct dl_versioned versioned;
    } u;
    struct lease *lease; /* NULL for a copy */
    void *copy;
    int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
};

static void export_free(struct export *export)
{
    (void)lease_drop(export->lease);
    free(export->copy);
    free(export);
}

static void delete_managed(struct dl_managed *managed)
{
    export_free(managed->context);
}
static void delete_versioned(struct dl_versioned *versioned)
{
    export_free(versioned->context);
}

/* A capsule that nobody consumed. */
static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}

static int fill(struct export *export, const struct array *array, struct dl_tensor *tensor)
{
    const struct sluice_array *a = &array->a;
    int64_t element = sluice_dtype_size(a->dtype);

    *tensor = (struct dl_tensor){ .data = a->data,
                                  .device = { DL_CPU, 0 },
                                  .ndim = a->ndim,
                                  .dtype = a->dtype,
                                  .shape = export->shape,
                                  .strides = export->strides };
    for (int d = 0; d < a->ndim; d++) {
        export->shape[d] = a->shape[d];
        export->strides[d] = a->strides[d] / element;
        if (a->strides[d] % element) {
            PyErr_SetString(PyExc_BufferError,
                            "DLPack has strides in whole elements, this array has none such");
            return -1;
        }
    }
    return 0;
}

static int make_copy(struct export *export, const struct array *array, struct dl_tensor *tensor)
{
    struct sluice_array to, from = array->a;
    int r;

    memset(&from.image, 0, sizeof from.image); /* the elements, not the picture */
    export->copy = malloc(from.nbytes ? (size_t)from.nbytes : 1);
    if (!export->copy) {
        PyErr_NoMemory();
        return -1;
    }
    r = sluice_array_wrap(&to, NULL, export->copy, from.dtype, from.ndim, from.shape, NULL);
    if (r == 0)
        r = sluice_array_copy(&to, &from);
    if (r != 0) {
        raise_result(array->state, r);
        return -1;
    }
    for (int d = 0; d < to.ndim; d++)
        export->strides[d] = to.strides[d] / (int64_t)sluice_dtype_size(to.dtype);
    tensor->data = export->copy;
    return 0;
}

static PyObject *make_capsule(struct array *array, bool versioned, bool copy)
{
    struct export *export = calloc(1, sizeof *export);
    struct dl_tensor *tensor;
    PyObject *capsule = NULL;

    if (!export)
        return PyErr_NoMemory();
    tensor = versioned ? &export->u.versioned.tensor : &export->u.managed.tensor;
    if (fill(export, array, tensor) < 0 || (copy && make_copy(export, array, tensor) < 0))
        goto fail;
    if (versioned) {
        export->u.versioned.version.major = 1;
        export->u.versioned.version.minor = 0;
        export->u.versioned.context = export;
        export->u.versioned.deleter = delete_versioned;
        export->u.versioned.flags = copy ? DL_COPIED : array->a.read_only ? DL_READ_ONLY : 0;
        capsule = PyCapsule_New(&export->u.versioned, "dltensor_versioned", drop_capsule);
    } else {
        export->u.managed.context = export;
        export->u.managed.deleter = delete_managed;
        capsule = PyCapsule_New(&export->u.managed, "dltensor", drop_capsule);
    }
    if (!capsule)
        goto fail;
    if (!copy)
        export->lease = lease_keep(array->lease);
    return capsule;
fail:
    export_free(export);
    return NULL;
}

PyObject *dlpack_export(struct array *array, PyObject *const *args, Py_ssize_t count,
                        PyObject *keywords)
{
    static const char *const names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *values[4];
    long major = 0;
    int type = DL_CPU, id = 0, copy = 0;

    if (parse_fast("__dlpack__", names, 0, args, count, keywords, values) < 0 ||
        array_check(array) < 0)
        return NULL;
    if (values[0] && values[0] != Py_None) {
        PyErr_Format(PyExc_BufferError,
                     "this array is in host memory: its stream must be None, not %R", values[0]);
        return NULL;
    }
    if (values[1] && values[1] != Py_None) {
        PyObject *first = PySequence_GetItem(values[1], 0);
        major = first ? PyLong_AsLong(first) : -1;
        Py_XDECREF(first);
        if (major == -1 && PyErr_Occurred())
            return NULL;
    }
    if (values[2] && values[2] != Py_None) {
        if (!PyTuple_Check(values[2])) {
            PyErr_Format(PyExc_TypeError, "dl_device must be a tuple of two ints, not %R",
                         values[2]);
            return NULL;
        }
        if (!PyArg_ParseTuple(values[2], "ii", &type, &id))
            return NULL;
    }
    if (type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError,
                        "this array is in host memory, and this release copies to no other device");
        return NULL;
    }
    if (values[3] && values[3] != Py_None && (copy = PyObject_IsTrue(values[3])) < 0)
        return NULL;
    return make_capsule(array, major >= 1, copy);
}

/* ---- in ---- */

static int import_tensor(const struct state *state, const struct dl_tensor *tensor,
                         struct sluice_array *array)
{
    int64_t strides[SLUICE_MAX_DIMS], element = sluice_dtype_size(tensor->dtype);
    int r;

    if (tensor->device.type != DL_CPU && tensor->device.type != DL_CUDA_HOST) {
        raise_as(state, ERROR_E_UNSUPPORTED,
                 "the array is on a device (DLPack type %d), and this release takes host memory "
                 "only: copy it there first",
                 (int)tensor->device.type);
        return -1;
    }
    if (tensor->ndim < 0 || tensor->ndim > SLUICE_MAX_DIMS) {
        raise_as(state, ERROR_E_FORMAT, "an array of %d dimensions: %d at most", (int)tensor->ndim,
                 SLUICE_MAX_DIMS);
        return -1;
    }
    for (int d = 0; tensor->strides && d < tensor->ndim; d++)
        strides[d] = tensor->strides[d] * element;
    r = sluice_array_wrap(
        array, NULL, tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL,
        tensor->dtype, tensor->ndim, tensor->shape, tensor->strides ? strides : NULL);
    if (r == 0)
        return 0;
    raise_result(state, r);
    return -1;
}

int dlpack_import(const struct state *state, PyObject *capsule, struct sluice_array *array)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (versioned->version.major == 1)
            return import_tensor(state, &versioned->tensor, array);
        raise_as(state, ERROR_E_UNSUPPORTED, "DLPack version %u: this release reads version 1",
                 (unsigned)versioned->version.major);
        return -1;
    }
    struct dl_managed *managed =
        PyCapsule_GetPointer(capsule, "dltensor"); /* raises if it is none */
    return managed ? import_tensor(state, &managed->tensor, array) : -1;
}
