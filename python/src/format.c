/* SPDX-License-Identifier: MIT
 *
 * Formats of Python programs. sluice/_formats.py converts what they write to a sequence of tuples: (name, dtype, shape)
 * for a tensor; (name, pixel format, width, height, (primaries, transfer, matrix, range), row order, alpha) for an
 * image.
 */
#include "source.h"

static int add_tensor(struct state *state, PyObject *entry, struct sluice_format *format)
{
    const char *name, *text;
    PyObject *shape;
    int64_t sizes[SLUICE_MAX_DIMS];
    struct sluice_dtype dtype;
    int r;

    if (!PyArg_ParseTuple(entry, "ssO!", &name, &text, &PyTuple_Type, &shape))
        return -1;
    Py_ssize_t ndim = PyTuple_Size(shape);
    for (Py_ssize_t i = 0; i < ndim && i < SLUICE_MAX_DIMS; i++) {
        sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (sizes[i] == -1 && PyErr_Occurred())
            return -1;
    }
    r = sluice_dtype_parse(text, &dtype);
    if (r == 0)
        r = sluice_format_add_tensor(format, name, dtype, ndim > SLUICE_MAX_DIMS ? SLUICE_MAX_DIMS + 1 : (int)ndim,
                                     sizes);
    return check_result(state, r);
}

static int add_image(struct state *state, PyObject *entry, struct sluice_format *format)
{
    const char *name, *text;
    uint32_t width, height;
    struct sluice_image image, *added;

    if (!PyArg_ParseTuple(entry, "ssO&O&(bbbb)bb", &name, &text, parse_u32, &width, parse_u32, &height,
                          &image.colour.primaries, &image.colour.transfer, &image.colour.matrix, &image.colour.range,
                          &image.row_order, &image.alpha))
        return -1;
    uint32_t pixel_format = sluice_pixel_format_find(text);
    if (!pixel_format) {
        raise_as(state, ERROR_E_FORMAT, "array '%s': there is no pixel format '%s'", name, text);
        return -1;
    }
    int r = sluice_format_add_image(format, name, (enum sluice_pixel_format)pixel_format, width, height);
    if (r == 0) {
        added = &format->arrays[format->array_count - 1].image;
        added->colour = image.colour;
        added->row_order = image.row_order;
        added->alpha = image.alpha;
        r = sluice_format_complete(format);
    }
    return check_result(state, r);
}

int format_parse(struct state *state, PyObject *entries, unsigned pitch_align, struct sluice_format *out)
{
    Py_ssize_t count = PySequence_Size(entries);

    *out = (struct sluice_format)SLUICE_FORMAT_INIT;
    out->pitch_align = pitch_align;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *entry = PySequence_GetItem(entries, i);
        int r = !entry ? -1 : PyTuple_Size(entry) == 3 ? add_tensor(state, entry, out) : add_image(state, entry, out);
        Py_XDECREF(entry);
        if (r < 0)
            count = -1;
    }
    return count < 0 ? -1 : 0;
}
