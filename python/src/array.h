/* SPDX-License-Identifier: MIT
 *
 * sluice.Array: one array of a frame, in place. It keeps the lease; NumPy's views, memoryviews and
 * DLPack's tensors keep it, or the lease itself.
 */
#ifndef SLUICE_PYTHON_ARRAY_H
#define SLUICE_PYTHON_ARRAY_H

#include "lease.h"

struct array {
    PyObject_HEAD struct state *state;
    struct lease *lease;
    struct sluice_array a; /* as the library said, or one plane of it */
    int ndim;              /* with one more dimension where elements have lanes */
    Py_ssize_t itemsize, nbytes;
    const char *format; /* of the buffer protocol; NULL: it has no letter for this data type */
    bool contiguous;    /* in C order */
    Py_ssize_t shape[SLUICE_MAX_DIMS + 1], strides[SLUICE_MAX_DIMS + 1];
};

/* The array `which` of a frame: NULL or None the first, a name, or a number. -1 with an exception. */
int array_find(struct state *state, struct lease *lease, PyObject *which, struct sluice_array *a);
PyObject *array_of_frame(struct state *state, struct lease *lease, PyObject *which);
PyObject *array_new(struct state *state, struct lease *lease, const struct sluice_array *a);

PyObject *array_shape(const struct array *array);
PyObject *array_strides(const struct array *array);
PyObject *array_planes(PyObject *array);

/* Is the array stale (its writer's frame was committed)? Then raises. */
int array_check(struct array *array);

/* ---- array_host.c ---- */

int array_getbuffer(PyObject *self, Py_buffer *view, int flags);

/* Views of an array. `pixel_format`: NULL, None, or the name that it must have. */
PyObject *array_numpy(PyObject *array, PyObject *pixel_format);
PyObject *array_copy(PyObject *array);
PyObject *array_interface(PyObject *array);
PyObject *array_interface_dict(struct array *array, bool read_only);

/* numpy.ndarray(shape, dtype, buffer), which keeps `buffer`. Takes `shape` over. NULL with an exception, also if shape
 * or dtype are NULL. */
PyObject *array_over(struct state *state, PyObject *shape, PyObject *dtype, PyObject *buffer);

/* Its method __array__. */
PyObject *array_for_numpy(PyObject *self, PyObject *args, PyObject *keywords);

/* ---- dtype.c ---- */

/* The letters of the buffer protocol, NULL where there are none; the kind of __array_interface__. */
const char *dtype_letter(struct sluice_dtype dtype);
char dtype_kind(struct sluice_dtype dtype);
int dtype_from_letter(const char *format, Py_ssize_t itemsize, struct sluice_dtype *dtype); /* 0 if it has one */
int dtype_from_typestr(const char *typestr, struct sluice_dtype *dtype);
PyObject *dtype_text(const struct state *state, struct sluice_dtype dtype);

/* NumPy's dtype; borrowed. Imports numpy, and ml_dtypes where NumPy has no such type. */
PyObject *dtype_numpy(struct state *state, struct sluice_dtype dtype);

/* ---- dlpack.c ---- */

struct dl_versioned;

/* An array of a frame, for a framework whose stream is recorded already (export.h). It keeps the lease, or takes over
 * `pin` if there is one and it does not fail. */
struct dl_versioned *dlpack_versioned(struct lease *lease, const struct sluice_array *a, sluice_pin **pin);
PyObject *dlpack_capsule(struct lease *lease, const struct sluice_array *a, bool versioned, sluice_pin **pin);

PyObject *dlpack_export(struct array *array, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

#endif
