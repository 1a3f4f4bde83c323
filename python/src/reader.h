/* SPDX-License-Identifier: MIT
 *
 * Inside sluice.Reader: reader_acquire.c takes frames, reader_open.c opens and closes.
 */
#ifndef SLUICE_PYTHON_READER_H
#define SLUICE_PYTHON_READER_H

#include "lease.h"

struct reader {
    PyObject_HEAD struct state *state;
    struct channel *channel; /* NULL once closed */
    PyObject *last;          /* the iterator's frame, which its next step releases */
    bool in_order;
    bool ahead;
};

PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

/* The channel, kept; NULL once closed, with an exception or without. */
struct channel *reader_channel(struct reader *reader);
struct channel *reader_keep_channel(struct reader *reader);

/* A frame, or NULL with *result, and with an exception unless `quiet`; for a stream of another device always with one.
 * `stream`: next()'s argument, or NULL. */
PyObject *reader_next_frame(struct reader *reader, int64_t timeout_ns, PyObject *stream, bool quiet, int *result);

/* Acquires into `lease`, on the first of its streams, within the time: what the library said, maybe with an
 * exception. */
int reader_acquire(struct reader *reader, struct channel *channel, struct lease *lease, int64_t timeout_ns);

/* May a frame still come after this result? */
bool reader_may_come(int result);

/* Closes it; frames and arrays that live keep the library's reader. -1 with an exception. */
int reader_close(struct reader *reader);

/* Releases the frame of the iterator's last step, if there is one. */
int reader_release_last(struct reader *reader);

#endif
