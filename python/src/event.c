/* SPDX-License-Identifier: MIT
 *
 * What sluice._events.Event calls.
 */
#include "stream_object.h"

PyObject *event_create(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    const struct opened *opened;
    struct sluice_event event;
    const char *device;
    int timing, sleep, r;

    if (!PyArg_ParseTuple(args, "spp:Event", &device, &timing, &sleep) || !(opened = device_open(state, device)))
        return NULL;
    uint32_t flags = (timing ? SLUICE_EVENT_TIMING : 0u) | (sleep ? SLUICE_EVENT_SLEEP : 0u);
    Py_BEGIN_ALLOW_THREADS r = sluice_event_create(opened->device, flags, &event);
    Py_END_ALLOW_THREADS if (r != 0) return raise_handle(state, r);
    return Py_BuildValue("(Ks)", (unsigned long long)event.id, opened->name);
}

/* -1 with an exception if it is no int. */
static int handle_of(PyObject *object, struct sluice_event *event)
{
    event->id = PyLong_AsUnsignedLongLong(object);
    return PyErr_Occurred() ? -1 : 0;
}

/* Neither waits nor invalidates a capture; does nothing to one that has ended. */
PyObject *event_destroy(PyObject *Py_UNUSED(module), PyObject *handle)
{
    struct sluice_event event;

    if (handle_of(handle, &event) < 0)
        return NULL;
    (void)sluice_event_destroy(&event);
    Py_RETURN_NONE;
}

/* -> bool: done, or not yet. */
static PyObject *ask(PyObject *module, PyObject *handle, int (*call)(struct sluice_event))
{
    struct sluice_event event;
    int r;

    if (handle_of(handle, &event) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = call(event);
    Py_END_ALLOW_THREADS return r < 0 ? raise_handle(PyModule_GetState(module), r) : PyBool_FromLong(r == 0);
}

PyObject *event_query(PyObject *module, PyObject *handle)
{
    return ask(module, handle, sluice_event_query);
}

PyObject *event_synchronize(PyObject *module, PyObject *handle)
{
    return ask(module, handle, sluice_event_synchronize);
}

/* (handle, stream, device of the event) */
static PyObject *on_stream(PyObject *module, PyObject *args, int (*call)(struct sluice_event, struct sluice_stream))
{
    struct state *state = PyModule_GetState(module);
    struct stream *stream;
    struct sluice_event event;
    const char *device;
    PyObject *given, *none;
    int r;

    if (!PyArg_ParseTuple(args, "OOs", &none, &given, &device) || handle_of(none, &event) < 0 ||
        !(stream = stream_of_any(state, given, device)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = call(event, stream_handle(stream));
    Py_END_ALLOW_THREADS none = r == 0 ? Py_NewRef(Py_None) : raise_handle(state, r);
    stream_drop(stream); /* after that: it may change the thread's last error */
    return none;
}

PyObject *event_record(PyObject *module, PyObject *args)
{
    return on_stream(module, args, sluice_event_record);
}

static int wait_event(struct sluice_event event, struct sluice_stream stream)
{
    return sluice_stream_wait_event(stream, event);
}

PyObject *event_wait(PyObject *module, PyObject *args)
{
    return on_stream(module, args, wait_event);
}

PyObject *event_elapsed(PyObject *module, PyObject *args)
{
    struct sluice_event start, stop;
    PyObject *from, *to;
    double milliseconds;
    int r;

    if (!PyArg_ParseTuple(args, "OO", &from, &to) || handle_of(from, &start) < 0 || handle_of(to, &stop) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_event_elapsed(start, stop, &milliseconds);
    Py_END_ALLOW_THREADS return r == 0 ? PyFloat_FromDouble(milliseconds) : raise_handle(PyModule_GetState(module), r);
}
