/* SPDX-License-Identifier: MIT
 *
 * Arrays that programs pass in: anything with the buffer protocol, DLPack or an array interface, in
 * host memory or on a GPU.
 */
#ifndef SLUICE_PYTHON_SOURCE_H
#define SLUICE_PYTHON_SOURCE_H

#include "array.h"
#include "framework.h"

struct source {
    struct sluice_array array; /* without a name */
    Py_buffer buffer;          /* obj NULL: not used */
    PyObject *keeper;          /* keeps the memory alive, if not `buffer` */
    struct lease *lease;       /* of a frame's array, on a GPU: until the copy has used it */
    struct stream *stream;     /* on a GPU: the memory is ready in this stream's order; NULL: it is ready */
    int ordinal;               /* of the GPU that it lies on, by CUDA; -1: in host memory */
    enum framework framework;
    bool lasting; /* its owner does not order its end in a stream: kept until the copy is done */
    bool read_only;
    bool odd; /* its framework copies it, better or as the only one that can: `keeper` is the array */
};

/* The user of an array: a channel, or a kernel, and its device. Without either an array is only described. */
struct user {
    struct channel *channel;
    const char *device;
    bool writes;             /* into the array */
    struct stream *consumer; /* of a kernel, which uses the array in place: where it may run */
};

static inline bool user_reads(const struct user *user)
{
    return user->channel || user->consumer;
}

/* Raises TypeError, BufferError or one of ours. Nothing is copied: what is odd is left as it is. */
int source_open(struct state *state, PyObject *object, const struct user *user, struct source *source);
void source_close(struct source *source);

/* Has an odd array's framework make one that the library can copy, and opens that instead: after all other checks
 * (stream_choice.h). -1 with an exception. */
int source_make_plain(struct state *state, const struct user *user, struct source *source);

/* Is it a mapping of names to arrays? Arrays (PyTorch's) may look like mappings, but have no items(). */
bool is_mapping(PyObject *object);

/* An item of a mapping, borrowed. -1 with a TypeError if it is not a pair: any class may have an items(). */
int mapping_item(PyObject *items, Py_ssize_t i, PyObject **name, PyObject **array);

/* describe(array) -> (dtype text, shape) */
PyObject *source_describe(struct state *state, PyObject *object);

/* ---- source_interface.c: 1 without an exception if the object has no such thing ---- */

/* NumPy's array interface, and CUDA's. */
int source_interface(struct state *state, PyObject *object, struct source *source);
int source_cuda_interface(struct state *state, PyObject *object, const struct user *user, struct source *source);

/* ---- source_dlpack.c: the same ---- */

int source_exchange(struct state *state, PyObject *object, const struct user *user, struct source *source);
int source_dlpack(struct state *state, PyObject *object, const struct user *user, struct source *source);

/* ---- among them ---- */

int source_wrap(const struct state *state, struct source *source, void *data, struct sluice_dtype dtype, int ndim,
                const int64_t *shape, const int64_t *strides);
int source_bad_dtype(const struct state *state, PyObject *object, const char *letter);

/* Is it contiguous, or of rows long enough for one call of the driver? Else a framework copies it better than the
 * library. */
bool source_is_plain(const struct sluice_array *array);

/* ---- format.c ---- */

/* From a sequence of sluice/_formats.py's entries. -1 with an exception. */
int format_parse(struct state *state, PyObject *entries, unsigned pitch_align, struct sluice_format *out);

#endif
