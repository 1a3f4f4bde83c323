/* SPDX-License-Identifier: MIT
 *
 * Exports to DLPack. A deleter may run on any thread, with or without the GIL: it only drops a lease and frees memory.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "dlpack.h"
#include "export.h"

/* ---- out ---- */

/* What a capsule of either version points to, and what it keeps alive. */
struct export
{
    union {
        struct dl_managed managed;
        struct dl_versioned versioned;
    } u;
    struct lease *lease; /* NULL for a copy or a view */
    sluice_pin *pin;
    void *copy;
    int64_t shape[SLUICE_MAX_DIMS], strides[SLUICE_MAX_DIMS];
};

static void export_free(struct export *export)
{
    lease_drop_without_gil(export->lease);
    (void)sluice_pin_drop(&export->pin);
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

static int fill(struct export *export, const struct sluice_array *a, int ordinal, struct dl_tensor *tensor)
{
    int64_t element = sluice_dtype_size(a->dtype);

    *tensor = (struct dl_tensor){ .data = a->data,
                                  .device = { ordinal < 0 ? DL_CPU : DL_CUDA, ordinal < 0 ? 0 : ordinal },
                                  .ndim = a->ndim,
                                  .dtype = a->dtype,
                                  .shape = export->shape,
                                  .strides = export->strides };
    for (int d = 0; d < a->ndim; d++) {
        export->shape[d] = a->shape[d];
        export->strides[d] = a->strides[d] / element;
        if (a->strides[d] % element) {
            PyErr_SetString(PyExc_BufferError, "DLPack's strides are in whole elements, this array's are not");
            return -1;
        }
    }
    return 0;
}

static int make_copy(const struct state *state, struct export *export, const struct sluice_array *a,
                     struct dl_tensor *tensor)
{
    struct sluice_array to, from = *a;
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
        raise_result(state, r);
        return -1;
    }
    for (int d = 0; d < to.ndim; d++)
        export->strides[d] = to.strides[d] / (int64_t)sluice_dtype_size(to.dtype);
    tensor->data = export->copy;
    return 0;
}

static struct export *new_export(const struct sluice_array *a, int ordinal, bool versioned)
{
    struct export *export = malloc(sizeof *export);

    if (!export) {
        PyErr_NoMemory();
        return NULL;
    }
    export->lease = NULL;
    export->pin = NULL;
    export->copy = NULL;
    if (versioned)
        export->u.versioned = (struct dl_versioned){ .version = { 1, 0 },
                                                     .context = export,
                                                     .deleter = delete_versioned,
                                                     .flags = a->read_only ? DL_READ_ONLY : 0 };
    else
        export->u.managed = (struct dl_managed){ .context = export, .deleter = delete_managed };
    if (fill(export, a, ordinal, versioned ? &export->u.versioned.tensor : &export->u.managed.tensor) == 0)
        return export;
    export_free(export);
    return NULL;
}

/* Takes over `pin` if there is one, else keeps the lease. */
static struct export *export_in_place(struct lease *lease, const struct sluice_array *a, bool versioned,
                                      sluice_pin **pin)
{
    struct export *export = new_export(a, lease->device ? lease->device->ordinal : -1, versioned);

    if (export && pin) {
        export->pin = *pin;
        *pin = NULL;
    } else if (export) {
        export->lease = lease_keep(lease);
    }
    return export;
}

struct dl_versioned *dlpack_versioned(struct lease *lease, const struct sluice_array *a, sluice_pin **pin)
{
    struct export *export = export_in_place(lease, a, true, pin);

    return export ? &export->u.versioned : NULL;
}

static PyObject *capsule_of(struct export *export, bool versioned)
{
    PyObject *capsule = versioned ? PyCapsule_New(&export->u.versioned, "dltensor_versioned", drop_capsule)
                                  : PyCapsule_New(&export->u.managed, "dltensor", drop_capsule);

    if (!capsule)
        export_free(export);
    return capsule;
}

PyObject *dlpack_capsule(struct lease *lease, const struct sluice_array *a, bool versioned, sluice_pin **pin)
{
    struct export *export = export_in_place(lease, a, versioned, pin);

    return export ? capsule_of(export, versioned) : NULL;
}

/* A copy in memory of its own. */
static PyObject *copied_capsule(const struct state *state, const struct sluice_array *a, bool versioned)
{
    struct export *export = new_export(a, -1, versioned);

    if (!export)
        return NULL;
    if (versioned)
        export->u.versioned.flags = DL_COPIED;
    if (make_copy(state, export, a, versioned ? &export->u.versioned.tensor : &export->u.managed.tensor) == 0)
        return capsule_of(export, versioned);
    export_free(export);
    return NULL;
}

/* Numbers beyond a long become its limits, which equal no valid value. */
static int parse_pair(const char *what, PyObject *pair, long *first, long *second)
{
    long *numbers[] = { first, second };
    bool good = PySequence_Check(pair) && PySequence_Size(pair) == 2;

    for (Py_ssize_t i = 0; good && i < 2; i++) {
        PyObject *item = PySequence_GetItem(pair, i), *number = item ? PyNumber_Index(item) : NULL;
        int beyond = 0;
        if (number && (*numbers[i] = PyLong_AsLongAndOverflow(number, &beyond)) == -1 && beyond)
            *numbers[i] = beyond > 0 ? LONG_MAX : LONG_MIN;
        good = number != NULL;
        Py_XDECREF(item);
        Py_XDECREF(number);
    }
    if (good)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s must be a tuple of two ints, or None, not %R", what, pair);
    return -1;
}

static int parse_major(PyObject *version, long *major)
{
    long minor;

    return version && version != Py_None ? parse_pair("max_version", version, major, &minor) : 0;
}

/* The consumer's device must be where the array lies. */
static int check_device(const struct lease *lease, PyObject *device)
{
    long type = DL_CPU, id = 0;

    if (!device || device == Py_None)
        return 0;
    if (parse_pair("dl_device", device, &type, &id) < 0)
        return -1;
    if (lease->device ? type == DL_CUDA && id == lease->device->ordinal : type == DL_CPU)
        return 0;
    if (lease->device)
        PyErr_Format(PyExc_BufferError,
                     "this array is on \"%s\", and DLPack does not copy it to another device: use it there, or copy "
                     "it to host memory by numpy()",
                     lease->device->name);
    else
        PyErr_SetString(PyExc_BufferError,
                        "this array is in host memory, and DLPack does not copy it to another device");
    return -1;
}

/* Orders the export on the consumer's stream, by DLPack's numbers. */
static int export_for_consumer(struct array *array, PyObject *stream)
{
    long long value = 1;
    int beyond = 0;

    if (!array->lease->device) {
        if (!stream || stream == Py_None)
            return 0;
        PyErr_Format(PyExc_BufferError, "this array is in host memory: its stream must be None, not %R", stream);
        return -1;
    }
    if (stream && stream != Py_None) {
        value = PyLong_AsLongLongAndOverflow(stream, &beyond);
        if (value == -1 && PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError,
                         "stream must be an int, as in DLPack, or None, not %R: pass stream objects to "
                         "next(stream=...)",
                         stream);
        if (value == -1 && PyErr_Occurred())
            return -1;
    }
    if (value == 0 || value < -1 || beyond) {
        PyErr_Format(PyExc_ValueError,
                     "stream is %R: it must be 1 for the default stream, 2 for the per-thread default stream, a "
                     "stream's address, or -1 for no stream",
                     stream);
        return -1;
    }
    return value == -1 ? export_unnamed(array->state, array->lease)
                       : export_on(array->state, array->lease, (uintptr_t)value);
}

PyObject *dlpack_export(struct array *array, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *values[4];
    long major = 0;
    int copy = 0;

    if (parse_fast("__dlpack__", names, 0, args, count, keywords, values) < 0 || array_check(array) < 0 ||
        parse_major(values[1], &major) < 0 || check_device(array->lease, values[2]) < 0)
        return NULL;
    if (values[3] && values[3] != Py_None && (copy = PyObject_IsTrue(values[3])) < 0)
        return NULL;
    if (copy && array->lease->device) {
        PyErr_SetString(PyExc_BufferError,
                        "DLPack does not copy on a GPU: take the array in place and copy it on your stream, for "
                        "example by torch(copy=True)");
        return NULL;
    }
    if (export_for_consumer(array, values[0]) < 0)
        return NULL;
    return copy ? copied_capsule(array->state, &array->a, major >= 1)
                : dlpack_capsule(array->lease, &array->a, major >= 1, NULL);
}
