/* SPDX-License-Identifier: MIT
 *
 * sluice.Stream and sluice.Event: what names streams and events in Python.
 */
#ifndef SLUICE_PYTHON_STREAM_OBJECT_H
#define SLUICE_PYTHON_STREAM_OBJECT_H

#include "stream.h"

struct stream_object {
    PyObject_HEAD struct state *state;
    struct stream *stream; /* NULL once closed */
    PyObject *weak;
    uint64_t id;       /* the handle's, for sentences; what follows outlives the end too */
    uint64_t identity; /* what == is about */
    const char *device;
    enum sluice_stream_kind kind;
};

/* A sluice.Stream that takes `stream` over; NULL with an exception (also of `stream` being NULL).
 */
PyObject *stream_object(struct state *state, struct stream *stream);

/* One of ours that captures has to stay until the capture has ended: -1 with CaptureError. */
int stream_object_may_close(const struct stream_object *object, const struct stream *stream);

/* Its stream, for a call that works on it now: a new reference. NULL with StreamClosedError or StaleHandleError, or if it
 * is another thread's default stream. */
struct stream *stream_object_use(PyObject *object);

/* As stream_of, but where nothing else says of what device a foreign stream is, it is `device`; of
 * whatever device it may be in the end. */
struct stream *stream_of_any(struct state *state, PyObject *object, const char *device);

/* Methods of sluice.Stream (stream_foreign.c). */
PyObject *stream_from_handle(PyObject *type, PyObject *args, PyObject *keywords);
PyObject *stream_wrap(PyObject *type, PyObject *args, PyObject *keywords);
PyObject *stream_to_torch(PyObject *self, PyObject *none);
PyObject *stream_to_cupy(PyObject *self, PyObject *none);

/* What the library said of a stream or an event, as an exception. NULL. */
PyObject *raise_handle(const struct state *state, int result);

/* Leaves what was there of an exception to `error` (may be None), the body's: an exception of our
 * own joins its context, and the body's is the one that is seen. What __exit__ returns. */
PyObject *leave_with(PyObject *error);

/* sluice.Event's, by a stream's record() and wait(). */
PyObject *event_new(struct state *state, const char *device, uint32_t flags);
int event_record(PyObject *event, struct stream *stream);
int event_wait(PyObject *event, struct stream *stream);

/* `with s.use()`, and what `with s` has in common with it (stream_scope.c). */
PyObject *stream_enter(PyObject *object);
PyObject *stream_exit(PyObject *object, PyObject *error);
PyObject *stream_use(PyObject *object, PyObject *none);
void stream_let_go(struct stream_object *object);

#endif
