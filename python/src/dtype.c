/* SPDX-License-Identifier: MIT
 *
 * Data types, as Python's buffers, array interfaces and NumPy name them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

const char *dtype_letter(struct sluice_dtype dtype)
{
    switch (dtype.code << 8 | dtype.bits) {
    case SLUICE_INT << 8 | 8: return "b";
    case SLUICE_INT << 8 | 16: return "h";
    case SLUICE_INT << 8 | 32: return "i";
    case SLUICE_INT << 8 | 64: return "q";
    case SLUICE_UINT << 8 | 8: return "B";
    case SLUICE_UINT << 8 | 16: return "H";
    case SLUICE_UINT << 8 | 32: return "I";
    case SLUICE_UINT << 8 | 64: return "Q";
    case SLUICE_FLOAT << 8 | 16: return "e";
    case SLUICE_FLOAT << 8 | 32: return "f";
    case SLUICE_FLOAT << 8 | 64: return "d";
    case SLUICE_COMPLEX << 8 | 64: return "Zf";
    case SLUICE_COMPLEX << 8 | 128: return "Zd";
    case SLUICE_BOOL << 8 | 8: return "?";
    default: return NULL;
    }
}

int dtype_from_letter(const char *format, Py_ssize_t itemsize, struct sluice_dtype *dtype)
{
    static const char ints[] = "bhilqn", uints[] = "BHILQN";
    int code;

    if (!format)
        format = "B";
    if (*format == '@' || *format == '=' || *format == '<' || ((*format == '>' || *format == '!') && itemsize == 1))
        format++;
    if (*format == 'Z' && (format[1] == 'f' || format[1] == 'd') && !format[2])
        code = SLUICE_COMPLEX;
    else if (!*format || format[1])
        return -1;
    else if (strchr(ints, *format))
        code = SLUICE_INT;
    else if (strchr(uints, *format))
        code = SLUICE_UINT;
    else if (strchr("efd", *format))
        code = SLUICE_FLOAT;
    else if (*format == '?')
        code = SLUICE_BOOL;
    else
        return -1;
    if (itemsize < 1 || itemsize > 16)
        return -1;
    *dtype = (struct sluice_dtype){ (uint8_t)code, (uint8_t)(itemsize * 8), 1 };
    return sluice_dtype_size(*dtype) ? 0 : -1;
}

int dtype_from_typestr(const char *typestr, struct sluice_dtype *dtype)
{
    static const struct {
        char kind;
        uint8_t code;
    } kinds[] = {
        { 'i', SLUICE_INT }, { 'u', SLUICE_UINT }, { 'f', SLUICE_FLOAT }, { 'c', SLUICE_COMPLEX }, { 'b', SLUICE_BOOL },
    };
    long bytes = strlen(typestr) > 2 ? strtol(typestr + 2, NULL, 10) : 0;

    if (bytes < 1 || bytes > 16 || (*typestr != '<' && *typestr != '|' && !(*typestr == '>' && bytes == 1)))
        return -1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].kind != typestr[1])
            continue;
        *dtype = (struct sluice_dtype){ kinds[i].code, (uint8_t)(bytes * 8), 1 };
        return sluice_dtype_size(*dtype) ? 0 : -1;
    }
    return -1;
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
    int width = 0, r;

    while (width < DTYPE_WIDTHS - 1 && 8 << width < dtype.bits)
        width++;
    PyObject **kept = &state->dtypes[dtype.code % DTYPE_CODES][width], *made = kept_now(kept), *formats, *pair;
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
