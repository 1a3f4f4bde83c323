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
    PyObject *keeper;          /* what keeps the memory otherwise */
    struct lease *lease;       /* of a frame's array, on a GPU: until the copy has used it */
    struct stream *stream;     /* on a GPU: its memory is in order behind this; NULL: it is ready */
    int ordinal;               /* CUDA's, of the GPU that it lies on; -1: in host memory */
    enum framework framework;
    bool lasting; /* no stream orders its end: kept until the copy is done */
    bool read_only;
    bool odd; /* its framework's to copy, which does it better or is the only one that can: `keeper` is the array */
};

/* For whom: a channel, and where its frames are. Without a channel an array is only described. */
struct user {
    struct channel *channel;
    const char *device;
    bool writes; /* into the array */
};

/* Raises TypeError, BufferError or one of ours. Nothing is copied: what is odd is left as it is. */
int source_open(struct state *state, PyObject *object, const struct user *user,
                struct source *source);
void source_close(struct source *source);

/* Has the framework of an odd one, which is to be read, make an array that the library can copy, and opens that in its
 * place: when nothing else can be refused (stream_choice.h). -1 with an exception. */
int source_make_plain(struct state *state, const struct user *user, struct source *source);

/* Names and arrays? Arrays (PyTorch's) may look like mappings too, but have no items(). */
bool is_mapping(PyObject *object);

/* One of the items that a mapping gave, borrowed. -1 with a TypeError if it is no pair: any class may have an items(). */
int mapping_item(PyObject *items, Py_ssize_t i, PyObject **name, PyObject **array);

/* describe(array) -> (dtype text, shape) */
PyObject *source_describe(struct state *state, PyObject *object);

/* ---- source_interface.c: 1 without an exception if the object has no such thing ---- */

/* NumPy's array interface, and CUDA's. */
int source_interface(struct state *state, PyObject *object, struct source *source);
int source_cuda_interface(struct state *state, PyObject *object, const struct user *user,
                          struct source *source);

/* ---- source_dlpack.c: the same ---- */

int source_exchange(struct state *state, PyObject *object, const struct user *user,
                    struct source *source);
int source_dlpack(struct state *state, PyObject *object, const struct user *user,
                  struct source *source);

/* ---- among them ---- */

int source_wrap(const struct state *state, struct source *source, void *data,
                struct sluice_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides);
int source_bad_dtype(const struct state *state, PyObject *object, const char *letter);

/* Is it one piece of memory, or rows that are worth a call of the driver for all? Else a framework
 * copies it better than the library would. */
bool source_is_plain(const struct sluice_array *array);

/* ---- format.c ---- */

/* From a sequence of sluice/_formats.py's entries. -1 with an exception. */
int format_parse(struct state *state, PyObject *entries, unsigned pitch_align, struct sluice_format *out);

/* Such entries, as a tuple. */
PyObject *format_entries(const struct state *state, const struct sluice_format *format);

#endif
