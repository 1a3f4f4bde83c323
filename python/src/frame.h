/* SPDX-License-Identifier: MIT
 *
 * What a reader's and a writer's frame have in common: arrays by name or number, in place.
 */
#ifndef SLUICE_PYTHON_FRAME_H
#define SLUICE_PYTHON_FRAME_H

#include "export.h"

struct frame {
    PyObject_HEAD struct state *state;
    struct lease *lease;         /* NULL once the frame has ended */
    struct lease *past;          /* after release(), a weak reference while others have it; or NULL */
    const struct opened *device; /* NULL: host */
    struct sluice_frame header;  /* as it began; its numbers outlive the lease */
    PyObject *views;             /* a list of memoryviews to end with the frame; NULL: none */
    struct slot_views *kept;     /* on a GPU, what view() gave (view.h); NULL: nothing */
};

/* A frame that takes over `lease`; NULL with an exception, and the lease dropped. */
PyObject *frame_new(struct state *state, PyTypeObject *type, struct lease *lease);

/* The lease, kept; NULL with an exception once the frame has ended. */
struct lease *frame_lease(struct frame *frame);

/* Removes the lease from the frame and ends its memoryviews; NULL if it has ended already. */
struct lease *frame_end(struct frame *frame);

/* Ends all frames that the reader has given out: frame_release of each. -1 with an exception, of the last that failed.
 */
int frame_release_all(const struct state *state, struct channel *channel);

/* Ends a reader's frame. -1 with an exception if the writer overwrote it while it was read, or if its end could not be
 * queued: then it ends once the work on its streams is done. */
int frame_release(struct frame *frame);

void frame_dealloc(PyObject *self);

/* ---- a reader's: fetch.c, copy_to.c ---- */
PyObject *frame_fetch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_copy_to(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

/* ---- of both types ---- */
PyObject *frame_numpy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_view(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_torch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_cupy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_jax(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_used_on(PyObject *self, PyObject *streams);
PyObject *frame_copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *frame_dlpack_device(PyObject *self, PyObject *none);
PyObject *frame_keys(PyObject *self, PyObject *none);
PyObject *frame_subscript(PyObject *self, PyObject *which);
Py_ssize_t frame_length(PyObject *self);
int frame_getbuffer(PyObject *self, Py_buffer *view, int flags);

PyObject *frame_field(PyObject *self, void *name); /* of its first array */

PyObject *frame_meta(PyObject *self, void *closure);
PyObject *frame_device(PyObject *self, void *closure);

#define FRAME_METHODS \
    { "numpy", METHOD(frame_numpy), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_numpy }, \
        { "view", METHOD(frame_view), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_view }, \
        { "copy", METHOD(frame_copy), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_copy }, \
        { "torch", METHOD(frame_torch), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_torch }, \
        { "cupy", METHOD(frame_cupy), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_cupy }, \
        { "jax", METHOD(frame_jax), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_jax }, \
        { "used_on", METHOD(frame_used_on), METH_VARARGS, DOC_Frame_used_on }, \
        { "keys", METHOD(frame_keys), METH_NOARGS, DOC_Frame_keys }, \
        { "__dlpack__", METHOD(frame_dlpack), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_dlpack }, \
    { \
        "__dlpack_device__", METHOD(frame_dlpack_device), METH_NOARGS, DOC_Views_dlpack_device \
    }

/* A number of the frame's header. */
#define FRAME_MEMBER(name, type, text) \
    { \
#name, type, offsetof(struct frame, header.name), READONLY, text \
    }
#define FRAME_MEMBERS FRAME_MEMBER(slot, T_UINT, DOC_Frame_slot), FRAME_MEMBER(generation, T_UINT, DOC_Frame_generation)

#define FRAME_FIELD(name, doc) \
    { \
        name, frame_field, NULL, doc, (void *)name \
    }
#define FRAME_FIELDS \
    FRAME_FIELD("shape", DOC_Frame_shape), FRAME_FIELD("dtype", DOC_Frame_dtype), \
        FRAME_FIELD("nbytes", DOC_Frame_nbytes), FRAME_FIELD("pixel_format", DOC_Frame_pixel_format), \
        FRAME_FIELD("planes", DOC_Frame_planes), FRAME_FIELD("__array_interface__", DOC_Frame_array_interface), \
        FRAME_FIELD("__cuda_array_interface__", DOC_Frame_cuda_array_interface), \
        FIELD_BY(frame_device, "device", 0, DOC_Views_device)

#define FRAME_SLOTS \
    SLOT(Py_tp_dealloc, frame_dealloc), SLOT(Py_mp_subscript, frame_subscript), SLOT(Py_mp_length, frame_length), \
        SLOT(Py_bf_getbuffer, frame_getbuffer)

/* ---- writer_frame.c ---- */

/* Copies `meta`, bytes or something like them, into a frame that is being written. -1 with an exception (meta.c). */
int meta_set(struct state *state, struct sluice_frame *frame, PyObject *meta);

/* Fills in what frame(meta=, like=, capture_ns=) were given; each may be NULL or None. */
int header_fill(struct state *state, struct sluice_frame *frame, PyObject *meta, PyObject *like, PyObject *capture_ns);

#endif
