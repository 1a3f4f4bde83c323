/* SPDX-License-Identifier: MIT
 *
 * What a reader's and a writer's frame have in common: arrays by name or number, in place.
 */
#ifndef SLUICE_PYTHON_FRAME_H
#define SLUICE_PYTHON_FRAME_H

#include "array.h"

struct frame {
    PyObject_HEAD struct state *state;
    struct lease *lease;         /* NULL once the frame has ended */
    struct sluice_frame header;  /* as it began; its numbers outlive the lease */
    PyObject *views;             /* a list of memoryviews to end with the frame; NULL: none */
    struct unwritten *unwritten; /* SLUICE_DEBUG: what tells whether anything was written */
};

/* A frame that takes over `lease`; NULL with an exception, and the lease dropped. */
PyObject *frame_new(struct state *state, PyTypeObject *type, struct lease *lease);

/* The lease, kept; NULL with an exception once the frame has ended. */
struct lease *frame_lease(struct frame *frame);

/* Takes the lease away from the frame and ends its memoryviews; NULL if it has ended already. */
struct lease *frame_end(struct frame *frame);

/* Ends a reader's frame. -1 with an exception if it was taken back while it was read. */
int frame_release(struct frame *frame);

void frame_dealloc(PyObject *self);

/* ---- of both types ---- */
PyObject *frame_numpy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_view(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_torch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_dlpack_device(PyObject *self, PyObject *none);
PyObject *frame_keys(PyObject *self, PyObject *none);
PyObject *frame_subscript(PyObject *self, PyObject *which);
PyObject *frame_iter(PyObject *self);
Py_ssize_t frame_length(PyObject *self);
int frame_contains(PyObject *self, PyObject *name);
int frame_getbuffer(PyObject *self, Py_buffer *view, int flags);

enum frame_field {
    FIELD_SHAPE,
    FIELD_DTYPE,
    FIELD_NBYTES,
    FIELD_PIXEL_FORMAT,
    FIELD_PLANES,
    FIELD_INTERFACE
};
PyObject *frame_field(PyObject *self, void *field); /* of its first array */

PyObject *frame_meta(PyObject *self, void *closure);

#define FRAME_METHODS \
    { "numpy", METHOD(frame_numpy), METH_FASTCALL | METH_KEYWORDS, \
      "numpy(name=None, pixel_format=None) -> numpy.ndarray\n\n" \
      "An array of the frame in place (the first one, or `name`): nothing is copied. See\n" \
      "Array.numpy." }, \
        { "view", METHOD(frame_view), METH_FASTCALL | METH_KEYWORDS, \
          "view(name=None) -> memoryview\n\n" \
      "The cheaper form, valid until the frame ends: after that it raises ValueError." }, \
        { "copy", METHOD(frame_copy), METH_FASTCALL | METH_KEYWORDS, \
          "copy(name=None) -> numpy.ndarray\n\n" \
      "A writable copy of an array, which needs no lease." }, \
        { "torch", METHOD(frame_torch), METH_FASTCALL | METH_KEYWORDS, \
          "torch(name=None) -> torch.Tensor\n\n" \
      "An array of the frame in place. See Array.torch." }, \
        { "keys", METHOD(frame_keys), METH_NOARGS, "keys() -> tuple of the arrays' names" }, \
        { "__dlpack__", METHOD(frame_dlpack), METH_FASTCALL | METH_KEYWORDS, \
          "of the first array" }, \
    { \
        "__dlpack_device__", METHOD(frame_dlpack_device), METH_NOARGS, \
            "__dlpack_device__() -> (1, 0): the CPU" \
    }

#define FRAME_FIELD(name, what, text) \
    { \
        name, frame_field, NULL, text, (void *)(intptr_t)what \
    }
#define FRAME_FIELDS \
    FRAME_FIELD("shape", FIELD_SHAPE, "of the first array"), \
        FRAME_FIELD("dtype", FIELD_DTYPE, "of the first array, as text"), \
        FRAME_FIELD("nbytes", FIELD_NBYTES, "of the first array"), \
        FRAME_FIELD("pixel_format", FIELD_PIXEL_FORMAT, \
                    "of the first array: \"bgr24\", \"nv12\", ...; None if it is no image"), \
        FRAME_FIELD("planes", FIELD_PLANES, \
                    "of the first array: a tuple of Arrays; () if it is no image"), \
        FRAME_FIELD("__array_interface__", FIELD_INTERFACE, \
                    "NumPy's array interface, of the first array")

#define FRAME_SLOTS \
    SLOT(Py_tp_dealloc, frame_dealloc), SLOT(Py_tp_iter, frame_iter), \
        SLOT(Py_mp_subscript, frame_subscript), SLOT(Py_mp_length, frame_length), \
        SLOT(Py_sq_contains, frame_contains), SLOT(Py_bf_getbuffer, frame_getbuffer)

/* ---- writer_frame.c ---- */

/* Fills in what frame(meta=, like=, capture_ns=) were given; each may be NULL or None. */
int header_fill(struct state *state, struct sluice_frame *frame, PyObject *meta, PyObject *like,
                PyObject *capture_ns);

/* Begins one; *result says why there is none if that is not an error yet (SLUICE_NO_SLOT). */
PyObject *writer_frame_new(struct state *state, struct lease *lease);

#endif
