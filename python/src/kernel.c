/* SPDX-License-Identifier: MIT
 *
 * Modules, and sluice.Kernel.
 */
#include "kernel.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "stream_object.h"

/* ---- modules: capsules, which end with their last kernel ---- */

#define CAPSULE   "sluice.module"
#define MOST_NAME 1024

struct module {
    struct sluice_module handle; /* 0: unloaded */
    const struct opened *device;
};

static struct module *module_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, CAPSULE);
}

static void end_module(PyObject *capsule)
{
    struct module *module = module_of(capsule);

    (void)sluice_module_unload(&module->handle);
    free(module);
}

/* Makes an array of C strings from a list of str, in one block; NULL with an exception. The list owns the strings. */
static const char **strings(PyObject *list, uint32_t *count)
{
    Py_ssize_t n = PyList_Size(list);
    const char **all = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *all);

    if (!all)
        return n < 0 ? NULL : (const char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        if ((all[i] = PyUnicode_AsUTF8AndSize(PyList_GetItem(list, i), NULL)))
            continue;
        free(all);
        return NULL;
    }
    *count = (uint32_t)n;
    return all;
}

static PyObject *load(struct state *state, const struct opened *device, const void *image, size_t bytes,
                      const struct sluice_module_params *params)
{
    struct module *module = calloc(1, sizeof *module);
    PyObject *capsule;
    int r;

    if (!module)
        return PyErr_NoMemory();
    module->device = device;
    Py_BEGIN_ALLOW_THREADS r = sluice_module_load(device->device, image, bytes, params, &module->handle);
    Py_END_ALLOW_THREADS capsule = r == 0 ? PyCapsule_New(module, CAPSULE, end_module) : raise_result(state, r);
    if (!capsule) {
        (void)sluice_module_unload(&module->handle);
        free(module);
    }
    return capsule;
}

/* _module_load(image, device, name, options, kernels, cache) -> capsule. An empty list of kernels: all. */
PyObject *module_load(PyObject *self, PyObject *args)
{
    struct state *state = PyModule_GetState(self);
    struct sluice_module_params params = { .size = sizeof params };
    const struct opened *device = NULL;
    PyObject *options, *kernels, *capsule = NULL;
    const char *image, *name;
    Py_ssize_t bytes;
    int cache;

    if (!PyArg_ParseTuple(args, "y#szO!O!p:Kernels", &image, &bytes, &name, &params.name, &PyList_Type, &options,
                          &PyList_Type, &kernels, &cache) ||
        !(device = device_open(state, name)))
        return NULL;
    params.flags = cache ? 0 : SLUICE_MODULE_NO_CACHE;
    const char **option_list = strings(options, &params.option_count);
    const char **kernel_list = option_list ? strings(kernels, &params.kernel_count) : NULL;
    params.options = option_list;
    params.kernels = kernel_list;
    if (kernel_list)
        capsule = load(state, device, image, (size_t)bytes, &params);
    free(option_list);
    free(kernel_list);
    return capsule;
}

/* Queued launches still run. A second call does nothing. */
PyObject *module_unload(PyObject *self, PyObject *capsule)
{
    struct module *module = module_of(capsule);
    int r = module ? sluice_module_unload(&module->handle) : 0;

    if (!module || (r != 0 && r != SLUICE_E_CLOSED && r != SLUICE_E_STALE))
        return module ? raise_result(PyModule_GetState(self), r) : NULL;
    Py_RETURN_NONE;
}

/* -> list of the names of all kernels */
PyObject *module_kernels(PyObject *self, PyObject *capsule)
{
    struct module *module = module_of(capsule);
    PyObject *names = module ? PyList_New(0) : NULL;
    char text[MOST_NAME];
    int r = 0;

    for (uint32_t i = 0; names && (r = sluice_module_kernel(module->handle, i, text, sizeof text)) == 0; i++) {
        PyObject *name = PyUnicode_FromString(text);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    if (names && r != SLUICE_E_NOT_FOUND) {
        Py_DECREF(names);
        return raise_handle(PyModule_GetState(self), r);
    }
    return names;
}

/* The compiler's output of this thread's last load. */
PyObject *compile_log(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t size = sluice_compile_log(NULL, 0) + 1;
    char *text = malloc(size);

    if (!text)
        return PyErr_NoMemory();
    (void)sluice_compile_log(text, size);
    PyObject *made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return made;
}

int sl_nvrtc_add_folder(const char *folder); /* of the library, which is part of the extension */

PyObject *nvrtc_folder(PyObject *module, PyObject *folder)
{
    const char *text = PyUnicode_AsUTF8AndSize(folder, NULL);

    if (!text || check_result(PyModule_GetState(module), sl_nvrtc_add_folder(text)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- kernels ---- */

static PyObject *kernel_new(struct state *state, PyObject *capsule, PyObject *name, const struct opened *device)
{
    struct kernel *kernel = PyObject_New(struct kernel, state->kernel);

    if (!kernel)
        return NULL;
    kernel->state = state;
    kernel->module = Py_NewRef(capsule);
    kernel->name = Py_NewRef(name);
    kernel->stream = NULL;
    kernel->device = device;
    return (PyObject *)kernel;
}

/* _module_kernel(capsule, name) -> Kernel */
PyObject *module_kernel(PyObject *self, PyObject *args)
{
    struct state *state = PyModule_GetState(self);
    PyObject *capsule, *name;
    struct module *module;
    const char *text;
    int r;

    if (!PyArg_ParseTuple(args, "OU:kernel", &capsule, &name) || !(module = module_of(capsule)) ||
        !(text = PyUnicode_AsUTF8AndSize(name, NULL)))
        return NULL;
    PyObject *made = kernel_new(state, capsule, name, module->device);
    struct kernel *kernel = (struct kernel *)made;
    if (!kernel)
        return NULL;
    kernel->info.size = sizeof kernel->info;
    Py_BEGIN_ALLOW_THREADS r = sluice_kernel_get(module->handle, text, &kernel->handle);
    if (r == 0)
        r = sluice_kernel_info(kernel->handle, &kernel->info);
    Py_END_ALLOW_THREADS if (r == 0) return made;
    if (r == SLUICE_E_NOT_FOUND)
        PyErr_SetString(PyExc_KeyError, sluice_last_error());
    else
        raise_handle(state, r);
    Py_DECREF(made);
    return NULL;
}

static void kernel_dealloc(PyObject *self)
{
    struct kernel *kernel = (struct kernel *)self;
    PyTypeObject *type = Py_TYPE(self);

    Py_DECREF(kernel->module);
    Py_DECREF(kernel->name);
    stream_drop(kernel->stream);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The same kernel, for a stream. */
static PyObject *on(PyObject *self, PyObject *stream)
{
    struct kernel *kernel = (struct kernel *)self;
    struct stream *checked = stream_of(kernel->state, stream, kernel->device->name);
    PyObject *made = checked ? kernel_new(kernel->state, kernel->module, kernel->name, kernel->device) : NULL;

    if (!made) {
        stream_drop(checked);
        return NULL;
    }
    ((struct kernel *)made)->handle = kernel->handle;
    ((struct kernel *)made)->info = kernel->info;
    ((struct kernel *)made)->stream = checked;
    return made;
}

static PyObject *parameters(const struct kernel *kernel)
{
    uint32_t count = kernel->info.parameter_count;
    PyObject *all;

    if (count == UINT32_MAX)
        Py_RETURN_NONE;
    all = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; all && i < count; i++) {
        PyObject *text = parameter_text(kernel->state, &kernel->info.parameters[i]);
        if (!text || PyTuple_SetItem(all, (Py_ssize_t)i, text) < 0)
            Py_CLEAR(all);
    }
    return all;
}

static PyObject *get_parameters(PyObject *self, void *Py_UNUSED(closure))
{
    return parameters((struct kernel *)self);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((struct kernel *)self)->device->name);
}

static PyObject *represent(PyObject *self)
{
    struct kernel *kernel = (struct kernel *)self;
    PyObject *all = parameters(kernel), *comma = PyUnicode_FromString(", ");
    PyObject *text = all == Py_None ? PyUnicode_FromString("...") : all && comma ? PyUnicode_Join(comma, all) : NULL;
    PyObject *made =
        text ? PyUnicode_FromFormat("<sluice.Kernel: %U(%U) on %s>", kernel->name, text, kernel->device->name) : NULL;

    Py_XDECREF(text);
    Py_XDECREF(comma);
    Py_XDECREF(all);
    return made;
}

static PyMethodDef methods[] = {
    { "on", METHOD(on), METH_O, DOC_Kernel_on },
    { NULL, NULL, 0, NULL },
};

#define NUMBER(field, text) \
    { \
#field, T_UINT, offsetof(struct kernel, info.field), READONLY, text \
    }
static PyMemberDef members[] = {
    { "name", T_OBJECT, offsetof(struct kernel, name), READONLY, DOC_Kernel_name },
    NUMBER(most_threads, DOC_Kernel_most_threads),
    NUMBER(registers, DOC_Kernel_registers),
    NUMBER(shared, DOC_Kernel_shared),
    NUMBER(local, DOC_Kernel_local),
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "parameters", get_parameters, NULL, DOC_Kernel_parameters, NULL },
    { "device", get_device, NULL, DOC_Kernel_device, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_dealloc, kernel_dealloc), SLOT(Py_tp_call, kernel_call),
    SLOT(Py_tp_repr, represent),         SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_members, members),        SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_doc, DOC_Kernel),         { 0, NULL },
};

TYPE_SPEC(kernel, "sluice.Kernel", struct kernel, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
