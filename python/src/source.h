/* SPDX-License-Identifier: MIT
 *
 * Arrays that programs pass in: anything with the buffer protocol, DLPack or an array interface.
 */
#ifndef SLUICE_PYTHON_SOURCE_H
#define SLUICE_PYTHON_SOURCE_H

#include "array.h"

struct source {
    struct sluice_array array; /* without a name */
    Py_buffer buffer;          /* obj NULL: not used */
    PyObject *keeper;          /* what keeps the memory otherwise */
};

/* Raises TypeError, BufferError or one of ours. */
int source_open(struct state *state, PyObject *object, struct source *source);
void source_close(struct source *source);

/* describe(array) -> (dtype text, shape) */
PyObject *source_describe(struct state *state, PyObject *object);

/* ---- format.c ---- */

/* From what Writer() was given. */
int format_parse(struct state *state, PyObject *format, PyObject *shape, PyObject *dtype,
                 unsigned pitch_align, struct sluice_format *out);

/* {name: Tensor or Image} */
PyObject *format_object(struct state *state, const struct sluice_format *format);

#endif
