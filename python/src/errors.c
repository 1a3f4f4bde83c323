/* SPDX-License-Identifier: MIT
 *
 * Results as exceptions, one for each. sluice/_errors.py makes them from the library's own table: there is no second
 * one.
 */
#include <stdarg.h>

#include "state.h"

#define NUMBER(name, number, text) number,
#define LINE(name, number, text)   #name " " #number " " text "\n"
static const int results[] = { SLUICE_RESULTS(NUMBER) }; /* in the order of enum error_index */
static const char lines[] = SLUICE_RESULTS(LINE);

static int keep_classes(PyObject *module, struct state *state, PyObject *classes)
{
    PyObject **named[] = { &state->error, &state->stream_closed, &state->event_closed, &state->stale_handle };
    Py_ssize_t next = 0;

    for (size_t i = 0; i < ERROR_COUNT; i++)
        if (results[i] != SLUICE_OK)
            state->errors[i] = Py_XNewRef(PyTuple_GetItem(classes, next++));
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        *named[i] = Py_XNewRef(PyTuple_GetItem(classes, next++));
    for (Py_ssize_t i = 0; i < next; i++) {
        PyObject *class = PyTuple_GetItem(classes, i);
        if (!class || PyModule_AddType(module, (PyTypeObject *)class) < 0)
            return -1;
    }
    return 0;
}

int errors_init(PyObject *module, struct state *state)
{
    PyObject *makers = PyImport_ImportModule("sluice._errors");
    PyObject *classes = makers ? PyObject_CallMethod(makers, "make", "s", lines) : NULL;
    int r = classes ? keep_classes(module, state, classes) : -1;

    Py_XDECREF(classes);
    Py_XDECREF(makers);
    return r;
}

static PyObject *class_of(const struct state *state, int result)
{
    for (size_t i = 0; i < ERROR_COUNT; i++)
        if (results[i] == result && state->errors[i])
            return state->errors[i];
    return state->error;
}

PyObject *raise_result(const struct state *state, int result)
{
    const char *sentence = sluice_last_error();

    PyErr_Format(class_of(state, result), "%s%s", *sentence ? sentence : sluice_result_text(result),
                 result == SLUICE_E_FORKED ? " (multiprocessing: use the spawn method)" : "");
    return NULL;
}

int check_result(const struct state *state, int result)
{
    if (result == 0)
        return 0;
    raise_result(state, result);
    return -1;
}

PyObject *raise_as(const struct state *state, enum error_index index, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    PyErr_FormatV(state->errors[index], format, arguments);
    va_end(arguments);
    return NULL;
}
