/* SPDX-License-Identifier: MIT
 *
 * Data types, as Python's buffers, array interfaces and NumPy name them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define CODES (SLUICE_BOOL + 1) /* those that have letters */

/* Of the buffer protocol: by code, and by log2 of the bytes. */
static const char *const letters[CODES][DTYPE_WIDTHS] = {
    [SLUICE_INT] = { "b", "h", "i", "q" },
    [SLUICE_UINT] = { "B", "H", "I", "Q" },
    [SLUICE_FLOAT] = { NULL, "e", "f", "d" },
    [SLUICE_COMPLEX] = { NULL, NULL, NULL, "Zf", "Zd" },
    [SLUICE_BOOL] = { "?" },
};
static const char kinds[CODES + 1] = "iuf??cb"; /* of array interfaces */

static int width_of(int bits)
{
    int width = 0;

    while (width < DTYPE_WIDTHS - 1 && 8 << width < bits)
        width++;
    return width;
}

const char *dtype_letter(struct sluice_dtype dtype)
{
    return dtype.code < CODES ? letters[dtype.code][width_of(dtype.bits)] : NULL;
}

char dtype_kind(struct sluice_dtype dtype)
{
    return dtype.code < CODES ? kinds[dtype.code] : '?';
}

static int make_dtype(int code, long bytes, struct sluice_dtype *dtype)
{
    if (code >= CODES || bytes < 1 || bytes > 16)
        return -1;
    *dtype = (struct sluice_dtype){ (uint8_t)code, (uint8_t)(bytes * 8), 1 };
    return sluice_dtype_size(*dtype) ? 0 : -1;
}

int dtype_from_letter(const char *format, Py_ssize_t itemsize, struct sluice_dtype *dtype)
{
    static const char *const single[CODES] = { "bhilqn", "BHILQN", "efd", "", "", "", "?" };
    int code = 0;

    if (!format)
        format = "B";
    if (*format == '@' || *format == '=' || *format == '<' || ((*format == '>' || *format == '!') && itemsize == 1))
        format++;
    if (*format == 'Z' && (format[1] == 'f' || format[1] == 'd') && !format[2])
        return make_dtype(SLUICE_COMPLEX, (long)itemsize, dtype);
    if (!*format || format[1])
        return -1;
    while (code < CODES && !strchr(single[code], *format))
        code++;
    return make_dtype(code, (long)itemsize, dtype);
}

int dtype_from_typestr(const char *typestr, struct sluice_dtype *dtype)
{
    long bytes = strlen(typestr) > 2 ? strtol(typestr + 2, NULL, 10) : 0;
    const char *kind = bytes ? strchr(kinds, typestr[1]) : NULL;

    if (!kind || (*typestr != '<' && *typestr != '|' && !(*typestr == '>' && bytes == 1)))
        return -1;
    return make_dtype((int)(kind - kinds), bytes, dtype);
}

PyObject *dtype_text(const struct state *state, struct sluice_dtype dtype)
{
    char text[SLUICE_DTYPE_TEXT];
    int r = sluice_dtype_format(dtype, text, sizeof text);

    return r == 0 ? PyUnicode_FromString(text) : raise_result(state, r);
}

PyObject *dtype_numpy(struct state *state, struct sluice_dtype dtype)
{
    char text[SLUICE_DTYPE_TEXT];
    PyObject **kept = &state->dtypes[dtype.code % DTYPE_CODES][width_of(dtype.bits)], *made = kept_now(kept);
    PyObject *formats, *pair;
    int r;

    if (made)
        return made;
    dtype.lanes = 1;
    if ((r = sluice_dtype_format(dtype, text, sizeof text)) != 0)
        return raise_result(state, r);
    formats = PyImport_ImportModule("sluice._formats");
    pair = formats ? PyObject_CallMethod(formats, "numpy_types", "si", text, dtype.bits) : NULL;
    Py_XDECREF(formats);
    if (!pair)
        return NULL;
    (void)keep_first(&state->ndarray, Py_NewRef(PyTuple_GetItem(pair, 0)));
    made = keep_first(kept, Py_NewRef(PyTuple_GetItem(pair, 1))); /* last: its users find both */
    Py_DECREF(pair);
    return made;
}
