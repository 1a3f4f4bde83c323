/* SPDX-License-Identifier: MIT
 *
 * Inside sluice.Reader: reader.c takes frames, reader_open.c opens and closes.
 */
#ifndef SLUICE_PYTHON_READER_H
#define SLUICE_PYTHON_READER_H

#include "lease.h"

struct reader {
    PyObject_HEAD struct state *state;
    struct channel *channel; /* NULL once closed */
    PyObject *last;          /* the iterator's frame, which it releases itself */
    bool in_order;
    bool ahead;
};

PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

/* Closes it; frames and arrays that live keep the library's reader. -1 with an exception. */
int reader_close(struct reader *reader);

/* Ends the frame of the iterator's step before, if there is one. */
int reader_release_last(struct reader *reader);

#endif
