/* SPDX-License-Identifier: MIT
 *
 * Metadata that a program gives a frame: the CPU copies it.
 */
#include <string.h>

#include "frame.h"

#define DLPACK_CUDA 2

/* Does it say that it is on a GPU? Without an exception. */
static bool says_gpu(PyObject *object)
{
    PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__"), *device, *kind;
    bool gpu = interface;

    PyErr_Clear();
    Py_XDECREF(interface);
    if (!gpu && (device = PyObject_CallMethod(object, "__dlpack_device__", NULL))) {
        kind = PySequence_GetItem(device, 0);
        gpu = kind && PyLong_AsLong(kind) == DLPACK_CUDA;
        Py_XDECREF(kind);
        Py_DECREF(device);
    }
    PyErr_Clear();
    return gpu;
}

/* Why it has no buffer; with the exception that says so in Python's words. */
static void explain(PyObject *meta)
{
    PyObject *kind, *value, *traceback;

    PyErr_Fetch(&kind, &value, &traceback);
    if (!says_gpu(meta)) {
        PyErr_Restore(kind, value, traceback);
        return;
    }
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    PyErr_Format(PyExc_TypeError,
                 "meta is a %R in a GPU's memory, where the CPU does not look: pass bytes (of a tensor of PyTorch: "
                 "bytes(tensor.cpu().numpy()))",
                 (PyObject *)Py_TYPE(meta));
}

/* Through the library's own copy, which looks whether the CPU can access what an object says that it can. */
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
    if (r == 0)
        return 0;
    raise_result(state, r);
    return -1;
}

int meta_set(const struct state *state, struct sluice_frame *frame, PyObject *meta)
{
    Py_buffer buffer;
    int r = 0;

    if (PyObject_GetBuffer(meta, &buffer, PyBUF_SIMPLE) < 0) {
        explain(meta);
        return -1;
    }
    if (buffer.len > SLUICE_MAX_META) {
        PyErr_Format(PyExc_ValueError, "%zd bytes of metadata: %d at most", buffer.len, SLUICE_MAX_META);
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
