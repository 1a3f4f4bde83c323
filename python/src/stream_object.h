/* SPDX-License-Identifier: MIT
 *
 * Streams and events as Python has them: sluice._streams.Stream is a class over _sluice._Stream, sluice._events.Event
 * one over the functions of event.c.
 */
#ifndef SLUICE_PYTHON_STREAM_OBJECT_H
#define SLUICE_PYTHON_STREAM_OBJECT_H

#include "stream.h"

/* A sluice.Stream that takes `stream` over; NULL with an exception, also if `stream` is NULL. */
PyObject *stream_object(struct state *state, struct stream *stream);

/* Its stream, for a call that works on it now: a new reference. NULL with StreamClosedError or StaleHandleError, or if
 * it is another thread's default stream. */
struct stream *stream_object_use(PyObject *object);

/* As stream_of, but a foreign stream that names no device is one of `device`; any device is accepted. */
struct stream *stream_of_any(struct state *state, PyObject *object, const char *device);

/* An error of the library about a stream or an event, as an exception. Returns NULL. */
PyObject *raise_handle(const struct state *state, int result);

/* Functions of the module, for the Python classes. */
PyObject *stream_create_object(PyObject *module, PyObject *args);
PyObject *stream_from_handle(PyObject *module, PyObject *args);
PyObject *stream_wrap(PyObject *module, PyObject *args);
PyObject *use_stream_class(PyObject *module, PyObject *type);
PyObject *current_stream(PyObject *module, PyObject *args, PyObject *keywords);
PyObject *reset_device(PyObject *module, PyObject *name);
PyObject *synchronize_device(PyObject *module, PyObject *name);

/* event.c: an event is an int, the library's handle; 0 is none. */
PyObject *event_create(PyObject *module, PyObject *args);
PyObject *event_destroy(PyObject *module, PyObject *handle);
PyObject *event_elapsed(PyObject *module, PyObject *args);
PyObject *event_query(PyObject *module, PyObject *handle);
PyObject *event_record(PyObject *module, PyObject *args);
PyObject *event_synchronize(PyObject *module, PyObject *handle);
PyObject *event_wait(PyObject *module, PyObject *args);

#endif
