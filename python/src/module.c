/* SPDX-License-Identifier: MIT
 *
 * The module: its types, its exceptions, and what they need to be in several interpreters at once.
 */
#include <stdlib.h>

#include "link.h"
#include "pinned.h"
#include "source.h"
#include "stream.h"

PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

    if (type && PyModule_AddType(module, (PyTypeObject *)type) < 0)
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

static PyObject *describe(PyObject *module, PyObject *object)
{
    return source_describe(PyModule_GetState(module), object);
}

/* For tests: what the pool of pinned memory keeps. */
static PyObject *pinned(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uint64_t count, bytes;

    pinned_kept(&count, &bytes);
    return Py_BuildValue("(KK)", (unsigned long long)count, (unsigned long long)bytes);
}

/* For tests, which put stand-ins in the places of frameworks: what they said is forgotten. */
static PyObject *forget(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *state = PyModule_GetState(module);

    Py_CLEAR(state->torch_tensor);
    Py_CLEAR(state->torch_raw);
    Py_CLEAR(state->torch_current);
    Py_CLEAR(state->cupy_current);
    Py_CLEAR(state->cuda_stream);
    Py_CLEAR(state->device_index);
    Py_CLEAR(state->ptr);
    for (size_t i = 0; i < sizeof state->from_dlpack / sizeof state->from_dlpack[0]; i++)
        Py_CLEAR(state->from_dlpack[i]);
    state->torch_up = false;
    Py_RETURN_NONE;
}

static PyObject *pixel_formats(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    static const char *const names[] = {
#define NAME(name, number, text) text,
        SLUICE_PIXEL_FORMATS(NAME)
#undef NAME
    };
    PyObject *made = PyTuple_New(sizeof names / sizeof names[0]);

    for (size_t i = 0; made && i < sizeof names / sizeof names[0]; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (!name || PyTuple_SetItem(made, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *channels(PyObject *module, PyObject *args)
{
    struct sluice_registry_entry *entries = NULL;
    const char *folder = NULL;
    size_t capacity = 64, count = 0;
    int r;

    if (!PyArg_ParseTuple(args, "|z:channels", &folder))
        return NULL;
    for (;; capacity = count + 16) {
        free(entries);
        if (!(entries = malloc(capacity * sizeof *entries)))
            return PyErr_NoMemory();
        Py_BEGIN_ALLOW_THREADS r = sluice_registry_list(folder, entries, capacity, &count);
        Py_END_ALLOW_THREADS if (r != 0 || count <= capacity) break;
    }
    PyObject *made = r == 0 ? PyList_New(0) : raise_result(PyModule_GetState(module), r);
    for (size_t i = 0; made && i < count; i++) {
        PyObject *name = entries[i].live ? PyUnicode_FromString(entries[i].name) : NULL;
        if (entries[i].live && (!name || PyList_Append(made, name) < 0))
            Py_CLEAR(made);
        Py_XDECREF(name);
    }
    free(entries);
    return made;
}

static PyMethodDef methods[] = {
    { "_describe", METHOD(describe), METH_O, NULL },
    { "_pinned", METHOD(pinned), METH_NOARGS, NULL },
    { "_forget", METHOD(forget), METH_NOARGS, NULL },
    { "pixel_formats", METHOD(pixel_formats), METH_NOARGS,
      "pixel_formats() -> tuple of the names of all pixel formats" },
    { "channels", METHOD(channels), METH_VARARGS,
      "channels(folder=None, /) -> list of str\n\n"
      "The channels of a folder (None: this process's own) that have a writer. Raises AccessError for\n"
      "a folder that cannot be read." },
    { "current_stream", METHOD(current_stream), METH_VARARGS | METH_KEYWORDS,
      "current_stream(device=None) -> Stream or None\n\n"
      "This thread's current stream: of the `with` that was entered last, of this device (None: of\n"
      "any). None where no `with` has one." },
    { "reset", METHOD(reset_device), METH_VARARGS | METH_KEYWORDS,
      "reset(device)\n\n"
      "Waits for the work of all Streams of a device, then ends them and its Events: their use raises\n"
      "StaleHandleError. Streams of other libraries are let go of. Channels and frames stay. Raises\n"
      "CaptureError, with nothing done, while a stream of it captures a graph." },
    { "synchronize", METHOD(synchronize_device), METH_VARARGS | METH_KEYWORDS,
      "synchronize(device)\n\n"
      "Waits for the work queued so far on all Streams of a device, on streams of other libraries that\n"
      "Sluice was given, and on its default stream. Raises CaptureError while one of them captures a\n"
      "graph." },
    { NULL, NULL, 0, NULL },
};

static int execute(PyObject *module)
{
    struct state *state = PyModule_GetState(module);
    const char *debug = getenv("SLUICE_DEBUG");

    state->debug = debug && *debug;
    if (errors_init(module, state) < 0 || streams_init(state) < 0 || take_init(module, state) < 0 || array_type_init(module, state) < 0 ||
        frame_type_init(module, state) < 0 || writer_frame_type_init(module, state) < 0 ||
        reader_type_init(module, state) < 0 || writer_type_init(module, state) < 0 ||
        stats_types_init(module, state) < 0 || stream_type_init(module, state) < 0 ||
        stream_scope_type_init(module, state) < 0 || event_type_init(module, state) < 0 ||
        pinned_type_init(module, state) < 0 || fetch_type_init(module, state) < 0 ||
        link_types_init(module, state) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", sluice_version());
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);

    Py_VISIT(state->array);
    Py_VISIT(state->frame);
    Py_VISIT(state->writer_frame);
    Py_VISIT(state->reader);
    Py_VISIT(state->writer);
    Py_VISIT(state->stream);
    Py_VISIT(state->stream_scope);
    Py_VISIT(state->event);
    Py_VISIT(state->pinned);
    Py_VISIT(state->fetch);
    Py_VISIT(state->copies);
    Py_VISIT(state->reader_stats);
    Py_VISIT(state->writer_stats);
    Py_VISIT(state->error);
    for (size_t i = 0; i < ERROR_COUNT; i++)
        Py_VISIT(state->errors[i]);
    Py_VISIT(state->stream_closed);
    Py_VISIT(state->event_closed);
    Py_VISIT(state->stale_handle);
    Py_VISIT(state->formats);
    Py_VISIT(state->coroutines);
    Py_VISIT(state->interop);
    Py_VISIT(state->ndarray);
    Py_VISIT(state->dtype);
    for (size_t i = 0; i < state->known_count; i++)
        Py_VISIT(state->known[i].type);
    Py_VISIT(state->torch_tensor);
    Py_VISIT(state->torch_raw);
    Py_VISIT(state->torch_current);
    Py_VISIT(state->cupy_current);
    Py_VISIT(state->cuda_stream);
    Py_VISIT(state->device_index);
    Py_VISIT(state->ptr);
    Py_VISIT(state->parcel);
    Py_VISIT(state->link_reader);
    Py_VISIT(state->link_writer);
    Py_VISIT(state->link_frame);
    for (size_t i = 0; i < 4; i++)
        Py_VISIT(state->from_dlpack[i]);
    return 0;
}

static int clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    Py_CLEAR(state->array);
    Py_CLEAR(state->frame);
    Py_CLEAR(state->writer_frame);
    Py_CLEAR(state->reader);
    Py_CLEAR(state->writer);
    Py_CLEAR(state->stream);
    Py_CLEAR(state->stream_scope);
    Py_CLEAR(state->event);
    Py_CLEAR(state->pinned);
    Py_CLEAR(state->fetch);
    Py_CLEAR(state->copies);
    Py_CLEAR(state->reader_stats);
    Py_CLEAR(state->writer_stats);
    Py_CLEAR(state->error);
    for (size_t i = 0; i < ERROR_COUNT; i++)
        Py_CLEAR(state->errors[i]);
    Py_CLEAR(state->stream_closed);
    Py_CLEAR(state->event_closed);
    Py_CLEAR(state->stale_handle);
    Py_CLEAR(state->read_only);
    Py_CLEAR(state->formats);
    Py_CLEAR(state->coroutines);
    Py_CLEAR(state->interop);
    Py_CLEAR(state->ndarray);
    Py_CLEAR(state->dtype);
    streams_clear(state);
    for (; state->known_count > 0; state->known_count--)
        Py_CLEAR(state->known[state->known_count - 1].type);
    Py_CLEAR(state->torch_tensor);
    Py_CLEAR(state->torch_raw);
    Py_CLEAR(state->torch_current);
    Py_CLEAR(state->cupy_current);
    Py_CLEAR(state->cuda_stream);
    Py_CLEAR(state->device_index);
    Py_CLEAR(state->ptr);
    Py_CLEAR(state->parcel);
    Py_CLEAR(state->link_reader);
    Py_CLEAR(state->link_writer);
    Py_CLEAR(state->link_frame);
    for (size_t i = 0; i < 4; i++)
        Py_CLEAR(state->from_dlpack[i]);
    for (size_t i = 0; i < DTYPE_CODES * DTYPE_WIDTHS; i++)
        Py_CLEAR(state->dtypes[i / DTYPE_WIDTHS][i % DTYPE_WIDTHS]);
    return 0;
}

static void release(void *module)
{
    (void)clear(module);
}

/* The last two are newer than the limited API that this is built for; older Pythons refuse slots
 * that they do not know, so they are filled in when the interpreter that runs knows them. */
enum { SLOT_MULTIPLE_INTERPRETERS = 3, SLOT_GIL = 4 };
static PyModuleDef_Slot slots[] = {
    SLOT(Py_mod_exec, execute),
    { 0, NULL },
    { 0, NULL },
    { 0, NULL },
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "sluice._sluice",
    .m_doc = "The C half of sluice.",
    .m_size = sizeof(struct state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__sluice(void);

PyMODINIT_FUNC PyInit__sluice(void)
{
    if (Py_Version >= 0x030c0000)
        slots[1] = (PyModuleDef_Slot){ SLOT_MULTIPLE_INTERPRETERS,
                                       (void *)2 }; /* a GIL of its own is fine */
    if (Py_Version >= 0x030d0000)
        slots[2] = (PyModuleDef_Slot){ SLOT_GIL, (void *)1 }; /* and so is none */
    return PyModuleDef_Init(&definition);
}
