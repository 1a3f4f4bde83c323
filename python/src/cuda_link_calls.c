/* SPDX-License-Identifier: MIT
 *
 * The bases of sluice.cuda_link's Exporter, Importer and GpuFrame: the calls that programs make for each frame, on the
 * usual path. After a pause between two frames a program's code and data have left the caches, and Python's part is the
 * largest to fetch again; so the usual path runs no Python code. For the rest it calls methods of the Python classes:
 * _export, _skipped and _failed of an exporter, _other and _failed of an importer.
 */
#include "cuda_link.h"

#include <stddef.h>
#include <structmember.h>

/* Catches an exception of this kind: returns it, and clears the error. NULL: it is of another kind, and stays raised.
 */
static PyObject *catch_error(PyObject *wanted)
{
    PyObject *kind, *value, *traceback;

    if (!PyErr_ExceptionMatches(wanted))
        return NULL;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    if (traceback)
        (void)PyException_SetTraceback(value, traceback);
    Py_XDECREF(kind);
    Py_XDECREF(traceback);
    return value;
}

/* ---- a frame to export ---- */

struct frame {
    PyObject_HEAD PyObject *ptr, *size, *stream;
};

static int frame_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "ptr", "size", "producer_stream", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *ptr, *size, *stream = Py_None, *before[3] = { frame->ptr, frame->size, frame->stream };
    Py_ssize_t count = PyTuple_Size(args);

    bool usual = !keywords && (count == 2 || count == 3); /* the other way takes longer */
    if (usual ? !PyArg_UnpackTuple(args, "GpuFrame", 2, 3, &ptr, &size, &stream)
              : !PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:GpuFrame", names, &ptr, &size, &stream))
        return -1;
    frame->ptr = Py_NewRef(ptr);
    frame->size = Py_NewRef(size);
    frame->stream = Py_NewRef(stream);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(before[i]);
    return 0;
}

static void frame_dealloc(PyObject *self)
{
    struct frame *frame = (struct frame *)self;

    Py_XDECREF(frame->ptr);
    Py_XDECREF(frame->size);
    Py_XDECREF(frame->stream);
    free_object(self);
}

static PyMemberDef frame_members[] = {
    /* the Python class is frozen */
    { "ptr", T_OBJECT_EX, offsetof(struct frame, ptr), 0, NULL },
    { "size", T_OBJECT_EX, offsetof(struct frame, size), 0, NULL },
    { "producer_stream", T_OBJECT_EX, offsetof(struct frame, stream), 0, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot frame_slots[] = {
    SLOT(Py_tp_new, PyType_GenericNew), /* the arguments are for __init__, this one or a subclass's */
    SLOT(Py_tp_init, frame_init),
    SLOT(Py_tp_dealloc, frame_dealloc),
    { Py_tp_members, frame_members },
    SLOT(Py_tp_doc, "_LinkFrame(ptr, size, producer_stream=None)\n--\n\n" DOC_LinkFrame),
    { 0, NULL },
};

TYPE_SPEC(link_frame, "sluice._sluice._LinkFrame", struct frame, Py_TPFLAGS_BASETYPE, frame_slots);

/* ---- an exporter ---- */

static bool is_usual(const struct link_writer *link, PyObject *object, uintptr_t *address)
{
    const struct frame *frame = (const struct frame *)object;

    if (!PyObject_TypeCheck(object, link->writer->state->link_frame) || !frame->ptr || !frame->size || !frame->stream ||
        (frame->stream == Py_None && !link->unnamed))
        return false;
    *address = PyLong_AsSize_t(frame->ptr); /* raises for anything but an int */
    if (*address != (size_t)-1 && PyLong_AsSize_t(frame->size) == link->array.nbytes)
        return true;
    PyErr_Clear();
    return false;
}

static PyObject *export(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "frame", NULL };
    struct link_writer *link = (struct link_writer *)self;
    PyObject *frame, *error;
    uintptr_t address;
    int r;

    if (parse_fast("export", names, 1, args, count, keywords, &frame) < 0)
        return NULL;
    if (!frame)
        return PyErr_Format(PyExc_TypeError, "export() is missing its argument 'frame'");
    if (!link->in_c || !is_usual(link, frame, &address))
        return PyObject_CallMethod(self, "_export", "O", frame);
    r = link_send(link, address, ((struct frame *)frame)->stream);
    if (r == 0) {
        link->published++;
        return Py_NewRef(link->outcome);
    }
    if (r != LINK_RAISED)
        return PyObject_CallMethod(self, "_skipped", "i", r);
    error = catch_error(link->writer->state->error); /* the library's: as the Python class reports it */
    return error ? PyObject_CallMethod(self, "_failed", "N", error) : NULL;
}

/* _send(address, stream): as link_send */
static PyObject *send(PyObject *self, PyObject *args)
{
    unsigned long long address;
    PyObject *stream;
    int r;

    if (!PyArg_ParseTuple(args, "KO:_send", &address, &stream))
        return NULL;
    r = link_send((struct link_writer *)self, (uintptr_t)address, stream);
    return r == LINK_RAISED ? NULL : PyLong_FromLong(r);
}

/* _usually(outcome, in_c, unnamed) */
static PyObject *export_usually(PyObject *self, PyObject *args)
{
    struct link_writer *link = (struct link_writer *)self;
    PyObject *outcome, *before = link->outcome;
    int in_c, unnamed;

    if (!PyArg_ParseTuple(args, "Opp:_usually", &outcome, &in_c, &unnamed))
        return NULL;
    link->outcome = Py_NewRef(outcome);
    link->in_c = in_c;
    link->unnamed = unnamed;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyMethodDef exporter_methods[] = {
    { "export", METHOD(export), METH_FASTCALL | METH_KEYWORDS, DOC_LinkExporter_export },
    { "_usually", METHOD(export_usually), METH_VARARGS, NULL },
    { "_send", METHOD(send), METH_VARARGS, NULL },
    { "_mark", METHOD(link_mark), METH_O, NULL },
    { "_attach", METHOD(link_writer_attach), METH_VARARGS, NULL },
    { "_detach", METHOD(link_writer_detach), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef exporter_members[] = {
    { "_published", T_ULONGLONG, offsetof(struct link_writer, published), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot exporter_slots[] = {
    SLOT(Py_tp_dealloc, link_writer_dealloc),
    { Py_tp_methods, exporter_methods },
    { Py_tp_members, exporter_members },
    SLOT(Py_tp_doc, DOC_LinkExporter),
    { 0, NULL },
};

TYPE_SPEC(link_exporter, "sluice._sluice._LinkExporter", struct link_writer, Py_TPFLAGS_BASETYPE, exporter_slots);

/* ---- an importer ---- */

/* Returns a result as it is; a number or an error goes to the Python class. */
static PyObject *report_outcome(PyObject *self, PyObject *result, enum framework framework, PyObject *stream)
{
    static const char *const names[] = { "numpy", "torch", "cupy" };
    PyObject *error;

    if (result && !PyLong_Check(result))
        return result;
    if (result)
        return PyObject_CallMethod(self, "_other", "N", result);
    error = PyErr_Occurred() ? catch_error(PyExc_Exception) : Py_NewRef(Py_None); /* not open: Python knows why */
    if (!error)
        return NULL;
    return PyObject_CallMethod(self, "_failed", "NsO", error, names[framework], stream ? stream : Py_None);
}

/* FRAMEWORK_NONE: in host memory. */
static PyObject *get(PyObject *self, enum framework framework, PyObject *stream)
{
    struct link *link = (struct link *)self;
    PyObject *result = NULL;
    struct channel *channel;

    if (link->open && link_enter(link) == 0) {
        if (!(channel = reader_keep_channel(link->reader)))
            result = PyLong_FromLong(SLUICE_E_CLOSED);
        else if (framework == FRAMEWORK_NONE)
            result = link_numpy(link, channel);
        else
            result = link_show(link, channel, framework, stream == Py_None ? NULL : stream);
        channel_drop(channel);
        link_leave(link);
    }
    return report_outcome(self, result, framework, stream);
}

static PyObject *get_on(PyObject *self, enum framework framework, const char *function, PyObject *const *args,
                        Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "stream", NULL };
    PyObject *stream;

    if (parse_fast(function, names, 1, args, count, keywords, &stream) < 0)
        return NULL;
    return get(self, framework, stream);
}

static PyObject *get_frame(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return get_on(self, FRAMEWORK_TORCH, "get_frame", args, count, keywords);
}

static PyObject *get_frame_cupy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return get_on(self, FRAMEWORK_CUPY, "get_frame_cupy", args, count, keywords);
}

static PyObject *get_frame_numpy(PyObject *self, PyObject *Py_UNUSED(none))
{
    return get(self, FRAMEWORK_NONE, NULL);
}

static PyMethodDef importer_methods[] = {
    { "get_frame", METHOD(get_frame), METH_FASTCALL | METH_KEYWORDS, DOC_LinkImporter_get_frame },
    { "get_frame_cupy", METHOD(get_frame_cupy), METH_FASTCALL | METH_KEYWORDS, DOC_LinkImporter_get_frame_cupy },
    { "get_frame_numpy", METHOD(get_frame_numpy), METH_NOARGS, DOC_LinkImporter_get_frame_numpy },
    { "_wait", METHOD(link_wait), METH_O, NULL },
    { "_counts", METHOD(link_counts), METH_NOARGS, NULL },
    { "_attach", METHOD(link_attach), METH_VARARGS | METH_KEYWORDS, NULL },
    { "_detach", METHOD(link_detach), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef importer_members[] = {
    { "_frames", T_ULONGLONG, offsetof(struct link, frames), READONLY, NULL },
    { "_latency_ns", T_LONGLONG, offsetof(struct link, latency_ns), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot importer_slots[] = {
    SLOT(Py_tp_dealloc, link_dealloc),
    { Py_tp_methods, importer_methods },
    { Py_tp_members, importer_members },
    SLOT(Py_tp_doc, DOC_LinkImporter),
    { 0, NULL },
};

TYPE_SPEC(link_importer, "sluice._sluice._LinkImporter", struct link, Py_TPFLAGS_BASETYPE, importer_slots);
