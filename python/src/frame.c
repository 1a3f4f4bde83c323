/* SPDX-License-Identifier: MIT
 *
 * sluice.Frame: a frame that a reader holds.
 */
#include "frame.h"

#include <stddef.h>
#include <structmember.h>

static PyObject *release(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (frame_release((struct frame *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct lease *lease = frame_lease((struct frame *)self);

    if (!lease)
        return NULL;
    (void)lease_drop(lease);
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (frame_release((struct frame *)self) < 0) {
        if (count == 0 || args[0] == Py_None)
            return NULL;
        PyErr_Clear(); /* the exception of the body matters more */
    }
    Py_RETURN_FALSE;
}

static PyObject *get_flag(PyObject *self, void *flag)
{
    return PyBool_FromLong(((struct frame *)self)->header.flags & (uint32_t)(uintptr_t)flag);
}

static PyObject *get_released(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(!((struct frame *)self)->lease);
}

static PyObject *repr(PyObject *self)
{
    const struct frame *frame = (const struct frame *)self;

    return PyUnicode_FromFormat("<sluice.Frame %llu in slot %u%s>", (unsigned long long)frame->header.sequence,
                                (unsigned)frame->header.slot, frame->lease ? "" : ", released");
}

static PyMethodDef methods[] = {
    FRAME_METHODS,
    { "fetch", METHOD(frame_fetch), METH_FASTCALL | METH_KEYWORDS,
      "fetch($self, name=None)\n--\n\n-> awaitable numpy.ndarray\n\n"
      "A writable copy of an array, as copy(), while the event loop goes on: the copy is queued by this call. The "
      "frame may\n"
      "be released meanwhile, and the task that waits may be cancelled.\n\n" COPY_WAITS },
    { "copy_to", METHOD(frame_copy_to), METH_FASTCALL | METH_KEYWORDS,
      "copy_to($self, target, name=None, *, stream=None)\n--\n\n"
      "Copies an array, or several (a mapping of names to targets), into the program's own memory: of NumPy, PyTorch, "
      "CuPy,\n"
      "or anything with a buffer, DLPack or an array interface, with any strides, also negative ones. In host memory "
      "the copy\n"
      "is done on return. On a GPU it is queued on `stream`, the thread's Sluice stream, or the current stream of the "
      "target's\n"
      "framework; it is always ordered with the latter. The frame ends behind it.\n\n" COPY_WAITS
      "\nThe target may still be written to until it has finished.\n\n"
      "Raises CaptureError if such a stream captures a graph: nothing was queued." },
    { "release", METHOD(release), METH_NOARGS,
      "release($self)\n--\n\n"
      "Ends the lease: at once, or, if arrays made from the frame live, with the last of them. The frame itself cannot "
      "be\n"
      "used any more. A second call does nothing.\n\n"
      "Raises LostError if the writer took the frame back while it was read; the driver's error if the end cannot be "
      "queued\n"
      "behind the work on the frame's streams: then the frame ends once that work is done." },
    { "__enter__", METHOD(enter), METH_NOARGS, "__enter__($self)\n--\n\n" },
    { "__exit__", METHOD(leave), METH_FASTCALL, "__exit__($self, kind, error, traceback, /)\n--\n\n" },
    { NULL, NULL, 0, NULL },
};

#define MEMBER(name, type, text) \
    { \
#name, type, offsetof(struct frame, header.name), READONLY, text \
    }
static PyMemberDef members[] = {
    MEMBER(sequence, T_ULONGLONG, "1, 2, 3... in the order of commits"),
    MEMBER(session, T_ULONGLONG, "one life of a writer; random, never 0"),
    MEMBER(missed, T_ULONGLONG, "frames that this reader did not get since the one before"),
    MEMBER(capture_ns, T_LONGLONG, "when the content was captured, in nanoseconds of `capture_clock`"),
    MEMBER(capture_clock, T_UINT, CAPTURE_CLOCK_TEXT),
    MEMBER(commit_ns, T_LONGLONG, "when it was committed, in time.monotonic_ns of this process"),
    MEMBER(slot, T_UINT, SLOT_TEXT),
    MEMBER(generation, T_UINT, GENERATION_TEXT),
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef fields[] = {
    FRAME_FIELDS,
    { "new_session", get_flag, NULL, "True for the first frame of a session other than the last one's",
      (void *)SLUICE_FRAME_NEW_SESSION },
    { "new_format", get_flag, NULL, "True for the first frame of a generation", (void *)SLUICE_FRAME_NEW_FORMAT },
    { "released", get_released, NULL, "True once release() was called or `with` was left", NULL },
    { "meta", frame_meta, NULL, "the writer's metadata, as bytes", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    FRAME_SLOTS,
    SLOT(Py_tp_repr, repr),
    SLOT(Py_tp_methods, methods),
    { Py_tp_members, members },
    SLOT(Py_tp_getset, fields),
    { Py_tp_doc,
      (void *)"A frame that a reader holds, in place. Its arrays: frame[\"depth\"], frame[0], or, for the first one,\n"
              "the frame itself: numpy(), the buffer protocol, DLPack.\n\n"
              "The lease ends when the frame is released, by release(), `with` or its end, but not while an\n"
              "array made from it lives." },
    { 0, NULL },
};

TYPE_SPEC(frame, "sluice.Frame", struct frame, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
