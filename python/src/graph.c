/* SPDX-License-Identifier: MIT
 *
 * What sluice._graphs calls, and the streams of sluice._parallel.
 */
#include "kernel.h"
#include "stream_object.h"

/* ---- captures ---- */

/* -> None. The stream is a sluice.Stream. */
PyObject *capture_begin(PyObject *module, PyObject *given)
{
    struct stream *stream = stream_object_use(given);
    int r;

    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_capture_begin(stream_handle(stream));
    Py_END_ALLOW_THREADS PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_handle(PyModule_GetState(module), r);
    stream_drop(stream);
    return none;
}

/* (stream, graph) -> the graph, or a new one if that is 0 */
PyObject *capture_end(PyObject *module, PyObject *args)
{
    unsigned long long id;
    PyObject *given;
    int r;

    if (!PyArg_ParseTuple(args, "OK:capture", &given, &id))
        return NULL;
    struct sluice_graph graph = { id };
    struct stream *stream = stream_object_use(given);
    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_capture_end(stream_handle(stream), &graph);
    Py_END_ALLOW_THREADS PyObject *made =
        r == 0 ? PyLong_FromUnsignedLongLong(graph.id) : raise_handle(PyModule_GetState(module), r);
    stream_drop(stream);
    return made;
}

/* ---- graphs ---- */

/* (graph, stream, device of the graph) */
PyObject *graph_launch(PyObject *module, PyObject *args)
{
    struct state *state = PyModule_GetState(module);
    unsigned long long id;
    struct stream *stream;
    const char *device;
    PyObject *given;
    int r;

    if (!PyArg_ParseTuple(args, "KOs:launch", &id, &given, &device) || !(stream = stream_of(state, given, device)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_graph_launch((struct sluice_graph){ id }, stream_handle(stream));
    Py_END_ALLOW_THREADS PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_handle(state, r);
    stream_drop(stream);
    return none;
}

/* -> (nodes, edges, updates, rebuilds) */
PyObject *graph_info(PyObject *module, PyObject *handle)
{
    struct sluice_graph_info info = { .size = sizeof info };
    struct sluice_graph graph = { PyLong_AsUnsignedLongLong(handle) };

    if (PyErr_Occurred())
        return NULL;
    int r = sluice_graph_info(graph, &info);
    if (r != 0)
        return raise_handle(PyModule_GetState(module), r);
    return Py_BuildValue("(IIII)", info.nodes, info.edges, info.updates, info.rebuilds);
}

/* Does nothing to one that has ended. */
PyObject *graph_destroy(PyObject *Py_UNUSED(module), PyObject *handle)
{
    struct sluice_graph graph = { PyLong_AsUnsignedLongLong(handle) };

    if (PyErr_Occurred())
        return NULL;
    (void)sluice_graph_destroy(&graph);
    Py_RETURN_NONE;
}

/* ---- parallel sections ---- */

/* -> Stream, whose work runs beside what is queued on `given` from now on */
PyObject *branch_fork(PyObject *module, PyObject *given)
{
    struct state *state = PyModule_GetState(module);
    struct stream *from = stream_object_use(given), *stream = NULL;
    int r;

    if (!from)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = stream_fork(from, &stream);
    Py_END_ALLOW_THREADS PyObject *made = r == 0 ? stream_object(state, stream) : raise_handle(state, r);
    stream_drop(from);
    return made;
}

/* (stream, what it branched off): that waits for it, also if it was closed meanwhile, which is an exception then. */
PyObject *branch_join(PyObject *module, PyObject *args)
{
    PyObject *given, *onto;
    int r;

    if (!PyArg_ParseTuple(args, "OO:join", &given, &onto))
        return NULL;
    struct stream *stream = stream_object_use(given);
    if (!stream)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = stream_join_back(stream);
    Py_END_ALLOW_THREADS PyObject *none = r == 0 ? Py_NewRef(Py_None) : raise_handle(PyModule_GetState(module), r);
    stream_drop(stream);
    struct stream *from = none ? stream_object_use(onto) : NULL;
    if (none && !from)
        Py_CLEAR(none);
    stream_drop(from);
    return none;
}
