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

static PyMethodDef methods[] = {
    FRAME_METHODS,
    { "fetch", METHOD(frame_fetch), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_fetch },
    { "copy_to", METHOD(frame_copy_to), METH_FASTCALL | METH_KEYWORDS, DOC_Frame_copy_to },
    { "release", METHOD(release), METH_NOARGS, DOC_Frame_release },
    { "__enter__", METHOD(enter), METH_NOARGS, DOC_Frame_enter },
    { "__exit__", METHOD(leave), METH_FASTCALL, DOC_Frame_exit },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
    FRAME_MEMBERS,
    FRAME_MEMBER(sequence, T_ULONGLONG, DOC_Frame_sequence),
    FRAME_MEMBER(session, T_ULONGLONG, DOC_Frame_session),
    FRAME_MEMBER(missed, T_ULONGLONG, DOC_Frame_missed),
    FRAME_MEMBER(capture_ns, T_LONGLONG, DOC_Frame_capture_ns),
    FRAME_MEMBER(capture_clock, T_UINT, DOC_Frame_capture_clock),
    FRAME_MEMBER(commit_ns, T_LONGLONG, DOC_Frame_commit_ns),
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef fields[] = {
    FRAME_FIELDS,
    FIELD_BY(get_flag, "new_session", SLUICE_FRAME_NEW_SESSION, DOC_Frame_new_session),
    FIELD_BY(get_flag, "new_format", SLUICE_FRAME_NEW_FORMAT, DOC_Frame_new_format),
    { "released", get_released, NULL, DOC_Frame_released, NULL },
    { "meta", frame_meta, NULL, DOC_Frame_meta, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    FRAME_SLOTS,
    SLOT(Py_tp_methods, methods),
    { Py_tp_members, members },
    SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_doc, DOC_Frame),
    { 0, NULL },
};

TYPE_SPEC(frame, "sluice.Frame", struct frame, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
