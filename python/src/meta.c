/* SPDX-License-Identifier: MIT
 *
 * Metadata of frames, which the CPU copies.
 */
#include <string.h>

#include "frame.h"

/* The bytes of a str, or of what JSON can hold; NULL with an exception that says how to give others. */
static PyObject *encode(struct state *state, PyObject *meta)
{
    PyErr_Clear(); /* Python's, for an object without a buffer */
    PyObject *interop = imported(&state->interop, "sluice._interop");
    return interop ? PyObject_CallMethod(interop, "encode_meta", "(O)", meta) : NULL;
}

/* Through the library's own copy, which checks that the CPU can access what an object claims it can. */
static int copy_checked(const struct state *state, void *to, const Py_buffer *from)
{
    const struct sluice_dtype bytes = { .code = SLUICE_UINT, .bits = 8, .lanes = 1 };
    const int64_t size = from->len;
    struct sluice_array target, source;
    int r = sluice_array_wrap(&target, "meta", to, bytes, 1, &size, NULL);

    if (r == 0)
        r = sluice_array_wrap(&source, "meta", from->buf, bytes, 1, &size, NULL);
    if (r == 0)
        r = sluice_array_copy(&target, &source);
    return check_result(state, r);
}

int meta_set(struct state *state, struct sluice_frame *frame, PyObject *meta)
{
    Py_buffer buffer;
    int r = 0;

    if (PyObject_GetBuffer(meta, &buffer, PyBUF_SIMPLE) < 0) {
        PyObject *encoded = encode(state, meta);
        r = encoded ? meta_set(state, frame, encoded) : -1;
        Py_XDECREF(encoded);
        return r;
    }
    if (buffer.len > SLUICE_MAX_META) {
        PyErr_Format(PyExc_ValueError, "%zd bytes of metadata: at most %d are possible", buffer.len, SLUICE_MAX_META);
        r = -1;
    } else if (PyBytes_CheckExact(meta) || PyByteArray_CheckExact(meta) || buffer.len == 0) {
        memcpy(frame->meta, buffer.buf, (size_t)buffer.len);
    } else {
        r = copy_checked(state, frame->meta, &buffer);
    }
    if (r == 0)
        frame->meta_size = (uint32_t)buffer.len;
    PyBuffer_Release(&buffer);
    return r;
}
