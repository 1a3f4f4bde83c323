/* SPDX-License-Identifier: MIT
 *
 * What the files of the extension share: the module's state, results as exceptions, and the small
 * things that each type needs. Nothing here is global: every interpreter has a state of its own.
 */
#ifndef SLUICE_PYTHON_STATE_H
#define SLUICE_PYTHON_STATE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sluice/sluice.h>

#include "docstrings.h" /* made of the stubs by ../docstrings.py */
#include "older.h"

enum error_index {
#define ERROR_INDEX(name, number, text) ERROR_##name,
    SLUICE_RESULTS(ERROR_INDEX)
#undef ERROR_INDEX
        ERROR_COUNT
};

/* What a type of arrays is (enum framework), and its exchange table of DLPack or NULL; or that it
 * is PyTorch's own type of streams. */
struct known_type {
    PyTypeObject *type;
    int framework;
    const struct dl_exchange *exchange;
    bool torch_stream;
};
#define KNOWN_TYPES 64

#define DTYPE_CODES  16
#define DTYPE_WIDTHS 5 /* 8 to 128 bits */

/* The types of the extension: each has a TYPE_SPEC in its own file. */
#define STATE_TYPES(X) \
    X(array) \
    X(frame) \
    X(writer_frame) \
    X(reader) \
    X(writer) \
    X(fetch) \
    X(pinned) \
    X(capsule_holder) \
    X(stream_base) \
    X(kernel) \
    X(link_frame) \
    X(link_exporter) \
    X(link_importer)

/* Objects that are made or found once. Of the package: exceptions, the BufferError's text, modules that are imported
 * when needed. Of frameworks, as far as they were found (framework.c): classes, functions, and names that are asked for
 * often. */
#define STATE_OBJECTS(X) \
    X(error) \
    X(stream_closed) \
    X(event_closed) \
    X(stale_handle) \
    X(read_only) \
    X(coroutines) \
    X(interop) \
    X(copies) \
    X(ndarray) \
    X(torch_tensor) \
    X(torch_raw) \
    X(torch_current) \
    X(cupy_current) \
    X(cuda_stream) \
    X(device_index) \
    X(ptr)

struct state {
#define STATE_TYPE(name)   PyTypeObject *name;
#define STATE_OBJECT(name) PyObject *name;
    STATE_TYPES(STATE_TYPE)
    STATE_OBJECTS(STATE_OBJECT)
    PyTypeObject *stream;                        /* sluice.Stream, a class in Python */
    PyObject *errors[ERROR_COUNT];               /* by enum error_index; OK has none */
    PyObject *dtypes[DTYPE_CODES][DTYPE_WIDTHS]; /* numpy's, by data type */
    PyObject *from_dlpack[4];                    /* by enum framework */
    struct known_type known[KNOWN_TYPES];        /* framework.c's */
    unsigned known_count;
    bool torch_up;
    struct owner_queue *owners; /* stream.c's */
};

/* Of a class in Python on one of our types. */
static inline struct state *state_of_class(PyTypeObject *type)
{
    return PyType_GetModuleState((PyTypeObject *)PyType_GetSlot(type, Py_tp_base));
}

/* The end of a dealloc, of an object that tp_alloc made. */
static inline void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type);
}

/* What needs a lock of its own where there is no GIL. Nothing between the two runs Python. */
#ifdef Py_GIL_DISABLED
#define GUARD(object) Py_BEGIN_CRITICAL_SECTION((PyObject *)(object));
#define UNGUARD()     Py_END_CRITICAL_SECTION();
#else
#define GUARD(object) \
    { \
        (void)(object);
#define UNGUARD() }
#endif

#define METHOD(f) ((PyCFunction)(void (*)(void))(f))
/* A read-only attribute; `get` has `what` as its closure. */
#define FIELD_BY(get, name, what, text) \
    { \
        name, get, NULL, text, (void *)(intptr_t)what \
    }
#define TYPE_SPEC(name_, full_name, struct_, flags_, slots_) \
    PyType_Spec name_##_spec = { \
        .name = full_name, .basicsize = sizeof(struct_), .flags = Py_TPFLAGS_DEFAULT | (flags_), .slots = slots_ \
    }
#define SLOT(id, f) \
    { \
        id, (void *)(f) \
    }

/* ---- errors.c ---- */

int errors_init(PyObject *module, struct state *state);

/* Raises the exception of a result, with the library's sentence. Returns NULL. */
PyObject *raise_result(const struct state *state, int result);

/* The same with a sentence of ours. */
PyObject *raise_as(const struct state *state, enum error_index index, const char *format, ...);

/* 0 for 0; for others -1, with the exception of the result. */
int check_result(const struct state *state, int result);

/* ---- arguments.c ---- */

/* None: `none`; seconds, as int or float: nanoseconds, at least 0; infinity: SLUICE_FOREVER. */
int parse_seconds(PyObject *object, const char *what, int64_t none, int64_t *ns);

/* Keywords and positions of a fast call into `values` (borrowed, or NULL). `names` ends in NULL. */
int parse_fast(const char *function, const char *const *names, Py_ssize_t positional, PyObject *const *args,
               Py_ssize_t count, PyObject *keywords, PyObject **values);

/* For "O&": an int that fits. */
int parse_u32(PyObject *object, void *out);

#define MAX_IDS 64

/* A struct of C's, for sluice/_structs.py to unpack; NULL with the exception of `r`. */
static inline PyObject *struct_or_raise(const struct state *state, int r, const void *data, size_t size)
{
    return r == 0 ? PyBytes_FromStringAndSize(data, (Py_ssize_t)size) : raise_result(state, r);
}

/* The name of a pixel format; NULL with an exception, which has the name that was meant. */
const char *parse_pixel_format(PyObject *object);

/* User or group ids, as sluice/_checks.py packs them. */
int parse_ids(PyObject *object, uint32_t *ids, uint32_t *count);

PyObject *sizes_tuple(const int64_t *values, int count);

/* A module of the package, kept in *kept. Borrowed. */
PyObject *imported(PyObject **kept, const char *name);

/* A module of a package that programs install if they like: if it is not there, the exception says how. A new
 * reference. */
PyObject *import_framework(struct state *state, const char *package, const char *module);

/* What is made once and kept for ever after, in the state. Making it may let another thread be
 * first: then that one's stays, and `made` is dropped. Both give a borrowed reference. */
PyObject *kept_now(PyObject **kept);
PyObject *keep_first(PyObject **kept, PyObject *made);

/* An attribute, by its name, which is made once and kept. A new reference. */
PyObject *known_attribute(PyObject *object, PyObject **kept, const char *text);

/* ---- each type's own file ---- */

#define STATE_SPEC(name) extern PyType_Spec name##_spec;
STATE_TYPES(STATE_SPEC)

#endif
