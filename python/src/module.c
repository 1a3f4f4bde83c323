/* SPDX-License-Identifier: MIT
 *
 * The module: its types, its exceptions, and what they need to be in several interpreters at once.
 */
#include <stdlib.h>
#include <string.h>

#include "cipd.h"
#include "clock.h"
#include "cuda_link.h"
#include "kernel.h"
#include "pinned.h"
#include "source.h"
#include "stream_object.h"

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

/* _pixel_format(which): the name of a pixel format, by one of its names or by its number; None if there is none. */
static PyObject *pixel_format(PyObject *Py_UNUSED(module), PyObject *which)
{
    const char *name = PyUnicode_Check(which) ? PyUnicode_AsUTF8AndSize(which, NULL) : NULL;
    uint32_t number = name ? sluice_pixel_format_find(name) : 0;

    if (PyErr_Occurred() || (!PyUnicode_Check(which) && !parse_u32(which, &number)))
        return NULL;
    const char *text = sluice_pixel_format_name(number);
    return strcmp(text, "none") == 0 ? Py_NewRef(Py_None) : PyUnicode_FromString(text);
}

/* ---- what there is: C's structs, which sluice/_registry.py unpacks ---- */

/* _registry_list(folder): the entries, one after the other. */
static PyObject *registry_list(PyObject *module, PyObject *args)
{
    struct sluice_registry_entry *entries = NULL;
    const char *folder = NULL;
    size_t capacity, count = 0;
    int r;

    if (!PyArg_ParseTuple(args, "z:channels", &folder))
        return NULL;
    do {
        capacity = count + 64;
        free(entries);
        if (!(entries = malloc(capacity * sizeof *entries)))
            return PyErr_NoMemory();
        Py_BEGIN_ALLOW_THREADS r = sluice_registry_list(folder, entries, capacity, &count);
        Py_END_ALLOW_THREADS
    } while (r == 0 && count > capacity);
    PyObject *made = struct_or_raise(PyModule_GetState(module), r, entries, count * sizeof *entries);
    free(entries);
    return made;
}

/* _channel_info(name, seconds): its info, and its readers'. */
static PyObject *channel_info(PyObject *module, PyObject *args)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    struct state *state = PyModule_GetState(module);
    const char *name;
    double seconds;
    int r;

    if (!PyArg_ParseTuple(args, "sd:info", &name, &seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_channel_info(name, (int64_t)(seconds * 1e9), &info, readers, SLUICE_MAX_READERS);
    Py_END_ALLOW_THREADS if (r != 0) return raise_result(state, r);
    size_t count = info.readers < SLUICE_MAX_READERS ? info.readers : SLUICE_MAX_READERS;
    return Py_BuildValue("(NN)", struct_or_raise(state, r, &info, sizeof info),
                         struct_or_raise(state, r, readers, count * sizeof readers[0]));
}

static void close_watch(PyObject *capsule)
{
    sluice_watch *watch = PyCapsule_GetPointer(capsule, "sluice.watch");

    (void)sluice_registry_watch_close(&watch);
}

static PyObject *watch_open(PyObject *module, PyObject *args)
{
    const char *folder = NULL;
    sluice_watch *watch;

    if (!PyArg_ParseTuple(args, "z:watch", &folder))
        return NULL;
    int r = sluice_registry_watch_open(&watch, folder);
    return r == 0 ? PyCapsule_New(watch, "sluice.watch", close_watch) : raise_result(PyModule_GetState(module), r);
}

/* _watch_next(watch): waits for a moment. True if something changed. */
static PyObject *watch_next(PyObject *module, PyObject *capsule)
{
    sluice_watch *watch = PyCapsule_GetPointer(capsule, "sluice.watch");
    int r;

    if (!watch)
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_registry_watch_next(watch, SLICE);
    Py_END_ALLOW_THREADS return r < 0 ? raise_result(PyModule_GetState(module), r) : PyBool_FromLong(r == 0);
}

/* _own_methods(class): gives a class in Python the methods of its base as its own. Interpreters specialize calls of
 * methods only if the object is exactly of the class that has them. Returns the class. */
static PyObject *own_methods(PyObject *Py_UNUSED(module), PyObject *class)
{
    PyTypeObject *base = PyType_GetSlot((PyTypeObject *)class, Py_tp_base);
    PyMethodDef *method = PyType_GetSlot(base, Py_tp_methods);

    for (; method && method->ml_name; method++) {
        PyObject *own = PyDescr_NewMethod((PyTypeObject *)class, method);
        int r = own ? PyObject_SetAttrString(class, method->ml_name, own) : -1;
        Py_XDECREF(own);
        if (r < 0)
            return NULL;
    }
    return Py_NewRef(class);
}

static PyMethodDef methods[] = {
    { "_own_methods", METHOD(own_methods), METH_O, NULL },
    { "_describe", METHOD(describe), METH_O, NULL },
    { "_pinned", METHOD(pinned), METH_NOARGS, NULL },
    { "_forget", METHOD(forget), METH_NOARGS, NULL },
    { "_pixel_format", METHOD(pixel_format), METH_O, NULL },
    { "_registry_list", METHOD(registry_list), METH_VARARGS, NULL },
    { "_channel_info", METHOD(channel_info), METH_VARARGS, NULL },
    { "_watch_open", METHOD(watch_open), METH_VARARGS, NULL },
    { "_watch_next", METHOD(watch_next), METH_O, NULL },
    { "_cipd_look", METHOD(cipd_look), METH_VARARGS, NULL },
    { "current_stream", METHOD(current_stream), METH_VARARGS | METH_KEYWORDS, DOC_current_stream },
    { "_device_reset", METHOD(reset_device), METH_O, NULL },
    { "_device_synchronize", METHOD(synchronize_device), METH_O, NULL },
    { "_event_create", METHOD(event_create), METH_VARARGS, NULL },
    { "_event_destroy", METHOD(event_destroy), METH_O, NULL },
    { "_event_elapsed", METHOD(event_elapsed), METH_VARARGS, NULL },
    { "_event_query", METHOD(event_query), METH_O, NULL },
    { "_event_record", METHOD(event_record), METH_VARARGS, NULL },
    { "_event_synchronize", METHOD(event_synchronize), METH_O, NULL },
    { "_event_wait", METHOD(event_wait), METH_VARARGS, NULL },
    { "_stream_create", METHOD(stream_create_object), METH_VARARGS, NULL },
    { "_stream_from_handle", METHOD(stream_from_handle), METH_VARARGS, NULL },
    { "_stream_wrap", METHOD(stream_wrap), METH_VARARGS, NULL },
    { "_module_load", METHOD(module_load), METH_VARARGS, NULL },
    { "_module_unload", METHOD(module_unload), METH_O, NULL },
    { "_module_kernels", METHOD(module_kernels), METH_O, NULL },
    { "_module_kernel", METHOD(module_kernel), METH_VARARGS, NULL },
    { "_compile_log", METHOD(compile_log), METH_NOARGS, NULL },
    { "_nvrtc_folder", METHOD(nvrtc_folder), METH_O, NULL },
    { "_capture_begin", METHOD(capture_begin), METH_O, NULL },
    { "_capture_end", METHOD(capture_end), METH_VARARGS, NULL },
    { "_graph_launch", METHOD(graph_launch), METH_VARARGS, NULL },
    { "_graph_info", METHOD(graph_info), METH_O, NULL },
    { "_graph_destroy", METHOD(graph_destroy), METH_O, NULL },
    { "_branch_fork", METHOD(branch_fork), METH_O, NULL },
    { "_branch_join", METHOD(branch_join), METH_VARARGS, NULL },
    { "_convert", METHOD(convert), METH_VARARGS, NULL },
    { "_use_stream_class", METHOD(use_stream_class), METH_O, NULL },
    { NULL, NULL, 0, NULL },
};

static int add_types(PyObject *module, struct state *state)
{
    struct {
        PyType_Spec *spec;
        PyTypeObject **type;
    } const types[] = {
#define PLACE(name) { &name##_spec, &state->name },
        STATE_TYPES(PLACE)
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        *types[i].type = (PyTypeObject *)PyType_FromModuleAndSpec(module, types[i].spec, NULL);
        if (!*types[i].type || PyModule_AddType(module, *types[i].type) < 0)
            return -1;
        forbid_instances(*types[i].type);
    }
    return 0;
}

static int execute(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    state->read_only = PyUnicode_FromString("the frame belongs to a reader and is read-only (open the reader with "
                                            "writable=True if the writer allows it)");
    if (!state->read_only || errors_init(module, state) < 0 || streams_init(state) < 0 || add_types(module, state) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", sluice_version());
}

/* What the state refers to besides; the others are in STATE_TYPES and STATE_OBJECTS. (owners is not an object; it has
 * streams_clear.) */
#define EACH_OBJECT(ONE) \
    do { \
        ONE(state->stream); \
        for (size_t i = 0; i < ERROR_COUNT; i++) \
            ONE(state->errors[i]); \
        for (size_t i = 0; i < DTYPE_CODES * DTYPE_WIDTHS; i++) \
            ONE(state->dtypes[i / DTYPE_WIDTHS][i % DTYPE_WIDTHS]); \
        for (size_t i = 0; i < state->known_count; i++) \
            ONE(state->known[i].type); \
        for (size_t i = 0; i < sizeof state->from_dlpack / sizeof state->from_dlpack[0]; i++) \
            ONE(state->from_dlpack[i]); \
    } while (0)

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);

#define VISIT(name) Py_VISIT(state->name);
    STATE_TYPES(VISIT)
    STATE_OBJECTS(VISIT)
    EACH_OBJECT(Py_VISIT);
    return 0;
}

static int clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);

    streams_clear(state);
#define CLEAR(name) Py_CLEAR(state->name);
    STATE_TYPES(CLEAR)
    STATE_OBJECTS(CLEAR)
    EACH_OBJECT(Py_CLEAR);
    state->known_count = 0;
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
        slots[1] = (PyModuleDef_Slot){ SLOT_MULTIPLE_INTERPRETERS, (void *)2 }; /* a GIL of its own is fine */
    if (Py_Version >= 0x030d0000)
        slots[2] = (PyModuleDef_Slot){ SLOT_GIL, (void *)1 }; /* and so is none */
    return PyModuleDef_Init(&definition);
}
