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
    PyObject *last;          /* the iterator's frame, which it releases itself */
    bool in_order;
    bool ahead;
};

PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords);

/* The channel, kept; NULL once closed, with an exception or without. */
struct channel *reader_channel(struct reader *reader);
struct channel *reader_keep_channel(struct reader *reader);

/* A frame, or NULL with *result, and an exception unless a caller wants `quiet`; of a stream of another device always. `stream`: NULL, or what
 * next() was given. */
PyObject *reader_next_frame(struct reader *reader, int64_t timeout_ns, PyObject *stream, bool quiet,
                      int *result);

/* Acquires into `lease`, on the first of its streams, within the time: what the library said, maybe with an
 * exception. */
int reader_acquire(struct reader *reader, struct channel *channel, struct lease *lease,
                   int64_t timeout_ns);

/* Is that a result after which a frame may come yet? */
bool reader_may_come(int result);

/* Closes it; frames and arrays that live keep the library's reader. -1 with an exception. */
int reader_close(struct reader *reader);

/* Ends the frame of the iterator's step before, if there is one. */
int reader_release_last(struct reader *reader);

#endif
