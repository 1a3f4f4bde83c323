/* SPDX-License-Identifier: MIT
 *
 * One exception a result, made from the library's own table: there is no second list. Where Python
 * has an exception of the same meaning, ours is one of that too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

/* Where the name that follows from the table would be a built-in's, or where Python has a word for
 * it. */
struct rule {
    int result;
    const char *name; /* NULL: from the table */
    PyObject **base;  /* NULL: none */
};

static const char *named(int result, const struct rule *rule, char *text, size_t size)
{
    const char *from = sluice_result_name(result);
    size_t at = 0;

    if (rule && rule->name)
        return rule->name;
    if (strncmp(from, "E_", 2) == 0)
        from += 2;
    for (bool upper = true; *from && at < size - 6; from++) {
        if (*from == '_') {
            upper = true;
            continue;
        }
        text[at++] = (char)(upper || *from < 'A' ? *from : *from + ('a' - 'A'));
        upper = false;
    }
    memcpy(text + at, result < 0 ? "Error" : "", result < 0 ? 6 : 1);
    return text;
}

static PyObject *make(const struct state *state, int result, const struct rule *rule,
                      const char *name)
{
    char full[64];
    PyObject *made = NULL, *bases, *fields = PyDict_New(), *number = PyLong_FromLong(result);

    if (rule && rule->base)
        bases = PyObject_IsSubclass(*rule->base, state->error) == 1 ? PyTuple_Pack(1, *rule->base)
                                                                    : PyTuple_Pack(2, state->error, *rule->base);
    else
        bases = PyTuple_Pack(1, state->error);
    snprintf(full, sizeof full, "sluice.%s", name);
    if (bases && fields && number && PyDict_SetItemString(fields, "result", number) == 0)
        made = PyErr_NewExceptionWithDoc(full, sluice_result_text(result), bases, fields);
    Py_XDECREF(bases);
    Py_XDECREF(fields);
    Py_XDECREF(number);
    return made;
}

/* Kinds of ClosedError and StaleError: what has ended is a stream or an event. */
static PyObject *make_ended(PyObject *module, PyObject *kind, const char *name, const char *text)
{
    char full[64];
    PyObject *bases = PyTuple_Pack(2, kind, PyExc_RuntimeError), *made;

    snprintf(full, sizeof full, "sluice.%s", name);
    made = bases ? PyErr_NewExceptionWithDoc(full, text, bases, NULL) : NULL;
    Py_XDECREF(bases);
    if (made && PyModule_AddObjectRef(module, name, made) < 0)
        Py_CLEAR(made);
    return made;
}

int errors_init(PyObject *module, struct state *state)
{
    const struct rule rules[] = {
        { SLUICE_TIMEOUT, NULL, &PyExc_TimeoutError },
        { SLUICE_NO_SLOT, "NoFreeSlot", NULL },
        { SLUICE_NO_WRITER, NULL, &PyExc_TimeoutError },
        { SLUICE_NOT_READY, NULL, &PyExc_BlockingIOError },
        { SLUICE_CLOSED, NULL, &PyExc_EOFError },
        { SLUICE_AGAIN, NULL, &PyExc_TimeoutError },
        { SLUICE_E_INVALID, NULL, &PyExc_ValueError },
        { SLUICE_E_HANDLE, NULL, &PyExc_ValueError },
        { SLUICE_E_STALE, NULL, &PyExc_ValueError },
        { SLUICE_E_NAME, "ChannelNameError", &PyExc_ValueError },
        { SLUICE_E_FORMAT, NULL, &PyExc_ValueError },
        { SLUICE_E_CAPACITY, NULL, &PyExc_BufferError },
        { SLUICE_E_NOT_FOUND, NULL, &PyExc_FileNotFoundError },
        { SLUICE_E_EXISTS, NULL, &PyExc_FileExistsError },
        { SLUICE_E_PERMISSION, "AccessError", &PyExc_PermissionError },
        { SLUICE_E_VERSION, NULL, &PyExc_ConnectionError },
        { SLUICE_E_PROTOCOL, NULL, &PyExc_ConnectionError },
        { SLUICE_E_NO_MEMORY, NULL, &PyExc_MemoryError },
        { SLUICE_E_NO_DESCRIPTORS, NULL, &PyExc_OSError },
        { SLUICE_E_SYSTEM, "SystemCallError", &PyExc_OSError },
        { SLUICE_E_UNSUPPORTED, NULL, &PyExc_NotImplementedError },
        { SLUICE_E_LOST, NULL, &PyExc_RuntimeError },
        { SLUICE_E_FORKED, NULL, &PyExc_RuntimeError },
        { SLUICE_E_BUSY, NULL, &PyExc_RuntimeError },
        { SLUICE_E_CAPTURING, "CaptureError", NULL },
        { SLUICE_E_CLOSED, NULL, &state->errors[ERROR_E_STALE] }, /* also "used after its end" */
    };
    static const int results[] = {
#define RESULT(name, number, text) SLUICE_##name,
        SLUICE_RESULTS(RESULT)
#undef RESULT
    };

    state->error = PyErr_NewExceptionWithDoc(
        "sluice.Error", "The base of all exceptions of Sluice. `result` is the library's number.",
        PyExc_Exception, NULL);
    if (!state->error || PyModule_AddObjectRef(module, "Error", state->error) < 0)
        return -1;
    for (size_t i = 0; i < ERROR_COUNT; i++) {
        const struct rule *rule = NULL;
        char text[48];
        if (results[i] == SLUICE_OK)
            continue;
        for (size_t j = 0; j < sizeof rules / sizeof rules[0]; j++)
            if (rules[j].result == results[i])
                rule = &rules[j];
        const char *name = named(results[i], rule, text, sizeof text);
        state->errors[i] = make(state, results[i], rule, name);
        if (!state->errors[i] || PyModule_AddObjectRef(module, name, state->errors[i]) < 0)
            return -1;
    }
    PyObject *closed = state->errors[ERROR_E_CLOSED], *stale = state->errors[ERROR_E_STALE];
    state->stream_closed =
        make_ended(module, closed, "StreamClosedError", "a stream was used after it was closed");
    state->event_closed =
        make_ended(module, closed, "EventClosedError", "an event was used after it was closed");
    state->stale_handle = make_ended(module, stale, "StaleHandleError",
                                     "a stream or an event was used after its device was reset");
    return state->stream_closed && state->event_closed && state->stale_handle ? 0 : -1;
}

static PyObject *class_of(const struct state *state, int result)
{
    switch (result) {
#define CLASS(name, number, text) \
    case number: return state->errors[ERROR_##name];
        SLUICE_RESULTS(CLASS)
#undef CLASS
    default: return state->error;
    }
}

PyObject *raise_result(const struct state *state, int result)
{
    const char *sentence = sluice_last_error();

    PyErr_Format(class_of(state, result), "%s%s", *sentence ? sentence : sluice_result_text(result),
                 result == SLUICE_E_FORKED ? " (multiprocessing: use the spawn method)" : "");
    return NULL;
}

PyObject *raise_as(const struct state *state, enum error_index index, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    PyErr_FormatV(state->errors[index], format, arguments);
    va_end(arguments);
    return NULL;
}
