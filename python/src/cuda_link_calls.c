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

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

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

/* The only argument of a call. Borrowed; NULL with an exception if it is missing and required (`must`). */
static PyObject *single_argument(const char *function, const char *name, PyObject *const *args, Py_ssize_t count,
                                 PyObject *keywords, bool must)
{
    const char *const names[] = { name, NULL };
    PyObject *value = NULL;

    if (count == 1 && !keywords)
        return args[0];
    if (parse_fast(function, names, 1, args, count, keywords, &value) < 0)
        return NULL;
    if (!value && must)
        PyErr_Format(PyExc_TypeError, "%s() is missing its argument '%s'", function, name);
    return value;
}

/* ---- a frame to export ---- */

struct frame {
    PyObject_HEAD PyObject *ptr, *size, *stream;
};

/* The arguments are for __init__, its own or a subclass's. */
static PyObject *frame_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(keywords))
{
    return PyType_GenericAlloc(type, 0);
}

static int frame_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "ptr", "size", "producer_stream", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *ptr, *size, *stream = Py_None, *before[3] = { frame->ptr, frame->size, frame->stream };
    Py_ssize_t count = PyTuple_Size(args);

    if (!keywords && (count == 2 || count == 3)) { /* the fast path of the usual call */
        ptr = PyTuple_GetItem(args, 0);
        size = PyTuple_GetItem(args, 1);
        stream = count == 3 ? PyTuple_GetItem(args, 2) : stream;
    } else if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:GpuFrame", names, &ptr, &size, &stream)) {
        return -1;
    }
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
    SLOT(Py_tp_new, frame_new),
    SLOT(Py_tp_init, frame_init),
    SLOT(Py_tp_dealloc, frame_dealloc),
    { Py_tp_members, frame_members },
    SLOT(Py_tp_doc, "_LinkFrame(ptr, size, producer_stream=None)\n--\n\n" DOC_LinkFrame),
    { 0, NULL },
};

TYPE_SPEC(link_frame, "sluice._sluice._LinkFrame", struct frame, Py_TPFLAGS_BASETYPE, frame_slots);

/* ---- an exporter ---- */

struct exporter {
    PyObject_HEAD struct link_writer *link; /* NULL: Python handles each frame */
    PyObject *outcome;                      /* the result for a published frame */
    size_t bytes;                           /* of a frame */
    bool unnamed;                           /* frames without a stream are usual */
    unsigned long long published;           /* by this call */
};

static bool is_usual(const struct exporter *exporter, PyObject *object, uintptr_t *address)
{
    const struct frame *frame = (const struct frame *)object;

    if (!PyObject_TypeCheck(object, exporter->link->writer->state->link_frame) || !frame->ptr || !frame->size ||
        !frame->stream || (frame->stream == Py_None && !exporter->unnamed))
        return false;
    *address = PyLong_AsSize_t(frame->ptr); /* raises for anything but an int */
    if (*address != (size_t)-1 && PyLong_AsSize_t(frame->size) == exporter->bytes)
        return true;
    PyErr_Clear();
    return false;
}

/* The library's error, as the Python class reports it. */
static PyObject *failed(PyObject *self, const struct state *state)
{
    PyObject *error = catch_error(state->error), *said;

    if (!error)
        return NULL;
    said = PyObject_CallMethod(self, "_failed", "O", error);
    Py_DECREF(error);
    return said;
}

static PyObject *export(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct exporter *exporter = (struct exporter *)self;
    PyObject *frame = single_argument("export", "frame", args, count, keywords, true), *said;
    struct link_writer *link = exporter->link;
    uintptr_t address;
    int r;

    if (!frame)
        return NULL;
    if (!link || !is_usual(exporter, frame, &address))
        return PyObject_CallMethod(self, "_export", "O", frame);
    Py_INCREF((PyObject *)link);
    r = link_send(link, address, ((struct frame *)frame)->stream);
    if (r == 0) {
        exporter->published++;
        said = Py_NewRef(exporter->outcome);
    } else {
        said = r == LINK_RAISED ? failed(self, link->writer->state) : PyObject_CallMethod(self, "_skipped", "i", r);
    }
    Py_DECREF((PyObject *)link);
    return said;
}

/* _usually(link, bytes, outcome, unnamed); link None: never */
static PyObject *export_usually(PyObject *self, PyObject *args)
{
    struct exporter *exporter = (struct exporter *)self;
    PyObject *link, *outcome, *before[2] = { (PyObject *)exporter->link, exporter->outcome };
    unsigned long long bytes;
    int unnamed;

    if (!PyArg_ParseTuple(args, "OKOp:_usually", &link, &bytes, &outcome, &unnamed))
        return NULL;
    if (link != Py_None) {
        const struct state *state = PyType_GetModuleState(Py_TYPE(link));
        if (!state || Py_TYPE(link) != state->link_writer)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%R is not a _LinkWriter", link);
    }
    exporter->link = link == Py_None ? NULL : (struct link_writer *)Py_NewRef(link);
    exporter->outcome = Py_NewRef(outcome);
    exporter->bytes = (size_t)bytes;
    exporter->unnamed = unnamed != 0;
    Py_XDECREF(before[0]);
    Py_XDECREF(before[1]);
    Py_RETURN_NONE;
}

static PyObject *get_published(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(((struct exporter *)self)->published);
}

static void exporter_dealloc(PyObject *self)
{
    struct exporter *exporter = (struct exporter *)self;

    Py_XDECREF((PyObject *)exporter->link);
    Py_XDECREF(exporter->outcome);
    free_object(self);
}

static PyMethodDef exporter_methods[] = {
    { "export", METHOD(export), METH_FASTCALL | METH_KEYWORDS, DOC_LinkExporter_export },
    { "_usually", METHOD(export_usually), METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef exporter_fields[] = {
    { "_published", get_published, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot exporter_slots[] = {
    SLOT(Py_tp_dealloc, exporter_dealloc),
    { Py_tp_methods, exporter_methods },
    { Py_tp_getset, exporter_fields },
    SLOT(Py_tp_doc, DOC_LinkExporter),
    { 0, NULL },
};

TYPE_SPEC(link_exporter, "sluice._sluice._LinkExporter", struct exporter, Py_TPFLAGS_BASETYPE, exporter_slots);

/* ---- an importer ---- */

struct importer {
    PyObject_HEAD struct link *link; /* NULL: closed, or not open yet */
};

/* Returns a result as it is; a number or an error goes to the Python class. */
static PyObject *report_outcome(struct importer *importer, const struct link *link, PyObject *result,
                                const char *framework, PyObject *stream)
{
    PyObject *self = (PyObject *)importer, *said, *error;

    if (result && !PyLong_Check(result))
        return result;
    if (result) {
        said = PyObject_CallMethod(self, "_other", "O", result);
        Py_DECREF(result);
        return said;
    }
    if (!link) /* Python knows why */
        return PyObject_CallMethod(self, "_failed", "OsO", Py_None, framework, stream ? stream : Py_None);
    if (!(error = catch_error(PyExc_Exception)))
        return NULL;
    said = PyObject_CallMethod(self, "_failed", "OsO", error, framework, stream ? stream : Py_None);
    Py_DECREF(error);
    return said;
}

static PyObject *get(PyObject *self, enum framework framework, const char *function, PyObject *const *args,
                     Py_ssize_t count, PyObject *keywords)
{
    struct importer *importer = (struct importer *)self;
    struct link *link = importer->link;
    PyObject *stream = NULL, *result = NULL;

    if ((count || keywords) && !(stream = single_argument(function, "stream", args, count, keywords, false)) &&
        PyErr_Occurred())
        return NULL;
    Py_XINCREF((PyObject *)link);
    if (link)
        result = link_show(link, framework, stream == Py_None ? NULL : stream);
    result = report_outcome(importer, link, result, framework == FRAMEWORK_CUPY ? "cupy" : "torch", stream);
    Py_XDECREF((PyObject *)link);
    return result;
}

static PyObject *get_frame(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return get(self, FRAMEWORK_TORCH, "get_frame", args, count, keywords);
}

static PyObject *get_frame_cupy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return get(self, FRAMEWORK_CUPY, "get_frame_cupy", args, count, keywords);
}

static PyObject *get_frame_numpy(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct importer *importer = (struct importer *)self;
    struct link *link = importer->link;
    PyObject *result = NULL;

    Py_XINCREF((PyObject *)link);
    if (link)
        result = link_numpy(link);
    result = report_outcome(importer, link, result, "numpy", NULL);
    Py_XDECREF((PyObject *)link);
    return result;
}

/* _usually(link), or None */
static PyObject *import_usually(PyObject *self, PyObject *link)
{
    struct importer *importer = (struct importer *)self;
    PyObject *before = (PyObject *)importer->link;

    if (link != Py_None) {
        const struct state *state = PyType_GetModuleState(Py_TYPE(link));
        if (!state || Py_TYPE(link) != state->link_reader)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%R is not a _LinkReader", link);
    }
    importer->link = link == Py_None ? NULL : (struct link *)Py_NewRef(link);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static void importer_dealloc(PyObject *self)
{
    Py_XDECREF((PyObject *)((struct importer *)self)->link);
    free_object(self);
}

static PyMethodDef importer_methods[] = {
    { "get_frame", METHOD(get_frame), METH_FASTCALL | METH_KEYWORDS, DOC_LinkImporter_get_frame },
    { "get_frame_cupy", METHOD(get_frame_cupy), METH_FASTCALL | METH_KEYWORDS, DOC_LinkImporter_get_frame_cupy },
    { "get_frame_numpy", METHOD(get_frame_numpy), METH_NOARGS, DOC_LinkImporter_get_frame_numpy },
    { "_usually", METHOD(import_usually), METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot importer_slots[] = {
    SLOT(Py_tp_dealloc, importer_dealloc),
    { Py_tp_methods, importer_methods },
    SLOT(Py_tp_doc, DOC_LinkImporter),
    { 0, NULL },
};

TYPE_SPEC(link_importer, "sluice._sluice._LinkImporter", struct importer, Py_TPFLAGS_BASETYPE, importer_slots);
