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
    struct unwritten *unwritten; /* SLUICE_DEBUG: what tells whether anything was written */
};

/* A frame that takes over `lease`; NULL with an exception, and the lease dropped. */
PyObject *frame_new(struct state *state, PyTypeObject *type, struct lease *lease);

/* The lease, kept; NULL with an exception once the frame has ended. */
struct lease *frame_lease(struct frame *frame);

/* Removes the lease from the frame and ends its memoryviews; NULL if it has ended already. */
struct lease *frame_end(struct frame *frame);

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
PyObject *frame_array(PyObject *self, PyObject *args, PyObject *keywords);
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
    FIELD_INTERFACE,
    FIELD_CUDA_INTERFACE
};
PyObject *frame_field(PyObject *self, void *field); /* of its first array */

PyObject *frame_meta(PyObject *self, void *closure);
PyObject *frame_device(PyObject *self, void *closure);

#define FRAME_METHODS \
    { "numpy", METHOD(frame_numpy), METH_FASTCALL | METH_KEYWORDS, \
      "numpy($self, name=None, pixel_format=None)\n--\n\n-> numpy.ndarray\n\n" \
      "An array of the frame (the first one, or `name`) in place, without a copy. Read-only for readers. On a GPU it " \
      "is\n" \
      "a copy in pinned memory. See Array.numpy.\n\n" COPY_WAITS }, \
        { "view", METHOD(frame_view), METH_FASTCALL | METH_KEYWORDS, \
          "view($self, name=None, *, kind=None)\n--\n\n-> memoryview | torch.Tensor | cupy.ndarray\n\n" \
          "The cheaper form, valid until the frame ends. On host a memoryview, which raises ValueError after that. " \
          "On a GPU\n" \
          "a tensor of PyTorch (kind=\"cupy\": an array of CuPy), made once for each slot, array and shape of a " \
          "generation: it\n" \
          "holds no lease, and it keeps the slot's memory mapped while it lives, so that a CUDA graph captured with " \
          "it can be\n" \
          "replayed. After the end of the frame it shows whatever is in the slot. The CPU waits for " \
          "nothing.\n" OWN_MEMORY }, \
        { "copy", METHOD(frame_copy), METH_FASTCALL | METH_KEYWORDS, \
          "copy($self, name=None)\n--\n\n-> numpy.ndarray\n\nA writable copy of an array, which needs no " \
          "lease.\n\n" COPY_WAITS }, \
        { "torch", METHOD(frame_torch), METH_FASTCALL | METH_KEYWORDS, \
          "torch($self, name=None, copy=False)\n--\n\n" TORCH_WARNS "-> torch.Tensor\n\n" \
          "An array of the frame in place." TAKEN_BY("PyTorch") }, \
        { "cupy", METHOD(frame_cupy), METH_FASTCALL | METH_KEYWORDS, \
          "cupy($self, name=None, copy=False)\n--\n\n-> cupy.ndarray\n\n" \
          "An array of the frame in place, on a GPU. CuPy has no read-only arrays.\n" OWN_MEMORY TAKEN_BY("CuPy") }, \
        { "jax", METHOD(frame_jax), METH_FASTCALL | METH_KEYWORDS, \
          "jax($self, name=None)\n--\n\n-> jax.Array\n\n" \
          "An array of the frame, in place if JAX can, else a copy." TAKEN_BY("JAX") }, \
        { "used_on", METHOD(frame_used_on), METH_VARARGS, \
          "used_on($self, *streams)\n--\n\n" \
          "Work on these streams uses the frame, too: its end, by release, commit, cancel or the last reference, " \
          "comes after\n" \
          "what they have queued by then. After release() it can be called as long as an array made from the frame " \
          "lives. On\n" \
          "host it does nothing." }, \
        { "__array__", METHOD(frame_array), METH_VARARGS | METH_KEYWORDS, \
          "__array__($self, dtype=None, copy=None)\n--\n\nWhat NumPy calls: numpy() on host; a TypeError on a GPU." }, \
        { "keys", METHOD(frame_keys), METH_NOARGS, "keys($self)\n--\n\n-> tuple of the arrays' names" }, \
        { "__dlpack__", METHOD(frame_dlpack), METH_FASTCALL | METH_KEYWORDS, \
          "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nOf the first " \
          "array. " OWN_MEMORY }, \
        { "__reduce__", METHOD(array_no_pickle), METH_NOARGS, "__reduce__($self)\n--\n\n" }, \
    { \
        "__dlpack_device__", METHOD(frame_dlpack_device), METH_NOARGS, \
            "__dlpack_device__($self)\n--\n\n-> (1, 0): the CPU; (2, N): the GPU \"cuda:N\"" \
    }

#define CAPTURE_CLOCK_TEXT \
    "0 time.monotonic_ns (the default), 1 time.time_ns, 2 TAI, 3 position in a recording, 255 another"
#define SLOT_TEXT                     "number of its slot; the slot's memory stays where it is for a generation"
#define GENERATION_TEXT               "1, 2... in a session; changes with the format"
#define FRAME_FIELD(name, what, text) FIELD_BY(frame_field, name, what, text)
#define FRAME_FIELDS \
    FRAME_FIELD("shape", FIELD_SHAPE, "of the first array"), \
        FRAME_FIELD("dtype", FIELD_DTYPE, "of the first array, as text"), \
        FRAME_FIELD("nbytes", FIELD_NBYTES, "of the first array"), \
        FRAME_FIELD("pixel_format", FIELD_PIXEL_FORMAT, \
                    "of the first array: \"bgr24\", \"nv12\", ...; None if it is not an image"), \
        FRAME_FIELD("planes", FIELD_PLANES, "of the first array: a tuple of Arrays; () if it is not an image"), \
        FRAME_FIELD("__array_interface__", FIELD_INTERFACE, "NumPy's array interface, of the first array"), \
        FRAME_FIELD("__cuda_array_interface__", FIELD_CUDA_INTERFACE, \
                    "the CUDA array interface, of the first array, on a GPU. " OWN_MEMORY), \
    { \
        "device", frame_device, NULL, "where it lies: \"host\", \"cuda:0\"", NULL \
    }

#define FRAME_SLOTS \
    SLOT(Py_tp_dealloc, frame_dealloc), SLOT(Py_tp_iter, frame_iter), SLOT(Py_mp_subscript, frame_subscript), \
        SLOT(Py_mp_length, frame_length), SLOT(Py_sq_contains, frame_contains), SLOT(Py_bf_getbuffer, frame_getbuffer)

/* ---- writer_frame.c ---- */

/* Copies `meta`, bytes or something like them, into a frame that is being written. -1 with an exception (meta.c). */
int meta_set(struct state *state, struct sluice_frame *frame, PyObject *meta);

/* Fills in what frame(meta=, like=, capture_ns=) were given; each may be NULL or None. */
int header_fill(struct state *state, struct sluice_frame *frame, PyObject *meta, PyObject *like, PyObject *capture_ns);

/* Begins one; *result says why there is none if that is not an error yet (SLUICE_NO_SLOT). */
PyObject *writer_frame_new(struct state *state, struct lease *lease);

#endif
