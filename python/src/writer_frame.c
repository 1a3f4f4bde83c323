/* SPDX-License-Identifier: MIT
 *
 * sluice.WriterFrame: a slot to fill, from writer.frame() to commit or cancel.
 */
#include "frame.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

#define CLOSED "channel '%s': this writer is closed, which has cancelled the frame: commit before close()"

/* ---- metadata ---- */

static int inherit(struct state *state, struct sluice_frame *frame, PyObject *like)
{
    if (!Py_IS_TYPE(like, state->frame)) {
        PyErr_Format(PyExc_TypeError, "like must be a Frame that a reader holds, not %R", (PyObject *)Py_TYPE(like));
        return -1;
    }
    struct lease *lease = frame_lease((struct frame *)like);
    if (!lease)
        return -1;
    uint32_t size = lease->frame.meta_size;
    frame->capture_ns = lease->frame.capture_ns;
    frame->capture_clock = lease->frame.capture_clock;
    frame->meta_size = size;
    if (size)
        memcpy(frame->meta, lease->frame.meta, size);
    (void)lease_drop(lease);
    return 0;
}

int header_fill(struct state *state, struct sluice_frame *frame, PyObject *meta, PyObject *like, PyObject *capture_ns)
{
    if (like && like != Py_None && inherit(state, frame, like) < 0)
        return -1;
    if (meta && meta != Py_None && meta_set(state, frame, meta) < 0)
        return -1;
    if (!capture_ns || capture_ns == Py_None)
        return 0;
    long long value = PyLong_AsLongLong(capture_ns);
    if (value == -1 && PyErr_Occurred())
        return -1;
    frame->capture_ns = value;
    return 0;
}

/* Enters the channel to access the slot: a closed writer has unmapped it, and another thread may have ended the frame.
 * False with an exception. */
static bool enter_slot(const struct frame *frame, const struct lease *lease)
{
    struct channel *channel = lease->channel;

    if (channel_enter(frame->state, channel) < 0)
        return false;
    if (channel->writer && lease_is_open(lease))
        return true;
    if (!channel->writer)
        raise_as(frame->state, ERROR_E_CLOSED, CLOSED, channel->name);
    else
        raise_as(frame->state, ERROR_E_STALE, "this frame was committed or cancelled already");
    channel_leave(channel);
    return false;
}

static PyObject *get_meta(PyObject *self, void *Py_UNUSED(closure))
{
    struct frame *frame = (struct frame *)self;
    struct lease *lease = frame_lease(frame);
    PyObject *meta = NULL;

    if (lease && enter_slot(frame, lease)) {
        meta = PyBytes_FromStringAndSize(lease->frame.meta, lease->frame.meta_size);
        channel_leave(lease->channel);
    }
    (void)lease_drop(lease);
    return meta;
}

/* Reading an object's buffer may run any code, so it happens outside of the channel. */
static int set_meta(const struct frame *frame, struct lease *lease, PyObject *value)
{
    unsigned char bytes[SLUICE_MAX_META];
    struct sluice_frame copy = { .meta = bytes };

    if (meta_set(frame->state, &copy, value) < 0 || !enter_slot(frame, lease))
        return -1;
    memcpy(lease->frame.meta, bytes, copy.meta_size);
    lease->frame.meta_size = copy.meta_size;
    channel_leave(lease->channel);
    return 0;
}

/* ---- commit, cancel ---- */

/* The frame stays begun, as a capture prevents its end. */
static void put_back(struct frame *frame, struct lease *lease)
{
    GUARD(frame)
    frame->lease = lease;
    UNGUARD()
}

/* After a failed commit: cancels the frame, so that arrays made from it are stale. If a capture prevents that, the
 * frame stays with its arrays and ends with the last of them. The exception is set. */
static void give_up(const struct state *state, struct lease *lease)
{
    struct channel *channel = lease->channel;
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (channel_enter(state, channel) == 0) {
        if (lease_cancel(lease) == 0 || !channel->writer) /* closing the writer has cancelled it */
            atomic_store_explicit(&lease->ended, true, memory_order_relaxed);
        channel_leave(channel);
    }
    PyErr_Restore(type, value, traceback);
}

/* Closing the writer has cancelled it. */
static PyObject *end_closed(const struct frame *frame, struct lease *lease, bool commit)
{
    atomic_store_explicit(&lease->ended, true, memory_order_relaxed);
    if (commit)
        raise_as(frame->state, ERROR_E_CLOSED, CLOSED, lease->channel->name);
    (void)lease_drop(lease);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Takes over `lease`; puts it back if a capture prevents its end and it `may_stay`. */
static PyObject *end(struct frame *frame, struct lease *lease, bool commit, bool may_stay)
{
    struct channel *channel = lease->channel;
    int r;

    if (channel_enter(frame->state, channel) < 0) {
        (void)lease_drop(lease);
        return NULL;
    }
    if (!channel->writer) {
        channel_leave(channel);
        return end_closed(frame, lease, commit);
    }
    if (commit && channel->slow) {
        Py_BEGIN_ALLOW_THREADS r = lease_commit(lease);
        Py_END_ALLOW_THREADS
    } else {
        r = commit ? lease_commit(lease) : lease_cancel(lease);
    }
    channel_leave(channel);
    if (r == SLUICE_E_CAPTURING) {
        if (!PyErr_Occurred())
            raise_capturing(frame->state, lease, commit ? "it cannot be committed" : "it cannot be cancelled");
        if (may_stay)
            put_back(frame, lease);
        else
            (void)lease_drop(lease); /* it is cancelled as soon as possible */
        return NULL;
    }
    if (r == 0)
        atomic_store_explicit(&lease->ended, true, memory_order_relaxed);
    frame->header.sequence = lease->frame.sequence;
    frame->header.commit_ns = lease->frame.commit_ns;
    if (r != 0 && !PyErr_Occurred())
        raise_result(frame->state, r);
    if (r != 0 && commit)
        give_up(frame->state, lease);
    (void)lease_drop(lease);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *end_now(PyObject *self, bool commit)
{
    struct frame *frame = (struct frame *)self;
    struct lease *lease = frame_end(frame);

    if (!lease)
        return raise_as(frame->state, ERROR_E_STALE, "this frame was committed or cancelled already");
    return end(frame, lease, commit, true);
}

static PyObject *commit(PyObject *self, PyObject *Py_UNUSED(none))
{
    return end_now(self, true);
}
static PyObject *cancel(PyObject *self, PyObject *Py_UNUSED(none))
{
    return end_now(self, false);
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct lease *lease = frame_end((struct frame *)self);
    PyObject *done;

    if (!lease) /* the body ended it */
        Py_RETURN_FALSE;
    bool raised = count > 0 && args[0] != Py_None;
    done = end((struct frame *)self, lease, !raised, !raised);
    if (!done && raised)
        PyErr_Clear();
    else if (!done)
        return NULL;
    Py_XDECREF(done);
    Py_RETURN_FALSE;
}

/* ---- shapes ---- */

static PyObject *reshape(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "shape", "name", NULL };
    struct frame *frame = (struct frame *)self;
    PyObject *shape;
    const char *name = NULL;
    int64_t sizes[SLUICE_MAX_DIMS];

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|z:reshape", names, &shape, &name))
        return NULL;
    Py_ssize_t count = PyLong_Check(shape) ? 1 : PySequence_Size(shape);
    if (count < 0)
        return NULL;
    if (count > SLUICE_MAX_DIMS)
        return raise_as(frame->state, ERROR_E_FORMAT, "a shape of %zd dimensions: at most %d are possible", count,
                        SLUICE_MAX_DIMS);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *size = PyLong_Check(shape) ? Py_NewRef(shape) : PySequence_GetItem(shape, i);
        sizes[i] = size ? PyLong_AsLongLong(size) : -1;
        Py_XDECREF(size);
        if (sizes[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    struct lease *lease = frame_lease(frame);
    if (!lease)
        return NULL;
    int r = sluice_frame_reshape(&lease->frame, name, (int)count, sizes);
    (void)lease_drop(lease);
    if (r != 0)
        return raise_result(frame->state, r);
    Py_RETURN_NONE;
}

static PyObject *resize(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "width", "height", "name", NULL };
    struct frame *frame = (struct frame *)self;
    uint32_t width, height;
    const char *name = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&O&|z:resize", names, parse_u32, &width, parse_u32, &height,
                                     &name))
        return NULL;
    struct lease *lease = frame_lease(frame);
    if (!lease)
        return NULL;
    int r = sluice_frame_resize(&lease->frame, name, width, height);
    (void)lease_drop(lease);
    if (r != 0)
        return raise_result(frame->state, r);
    Py_RETURN_NONE;
}

/* ---- attributes ---- */

enum field { META, CAPTURE_NS, CAPTURE_CLOCK };

static PyObject *get(PyObject *self, void *field)
{
    struct frame *frame = (struct frame *)self;
    int64_t capture_ns;
    uint32_t capture_clock;

    GUARD(frame)
    const struct sluice_frame *now = frame->lease ? &frame->lease->frame : &frame->header;
    capture_ns = now->capture_ns;
    capture_clock = now->capture_clock;
    UNGUARD()
    return (enum field)(intptr_t)field == CAPTURE_NS ? PyLong_FromLongLong(capture_ns)
                                                     : PyLong_FromUnsignedLong(capture_clock);
}

static PyObject *get_ended(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(!((struct frame *)self)->lease);
}

static int set(PyObject *self, PyObject *value, void *field)
{
    struct frame *frame = (struct frame *)self;
    int r = 0;

    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "cannot be deleted");
        return -1;
    }
    struct lease *lease = frame_lease(frame);
    if (!lease)
        return -1;
    if ((enum field)(intptr_t)field == META) {
        r = set_meta(frame, lease, value);
    } else if ((enum field)(intptr_t)field == CAPTURE_CLOCK) {
        r = parse_u32(value, &lease->frame.capture_clock) ? 0 : -1;
    } else {
        long long number = PyLong_AsLongLong(value);
        if (number == -1 && PyErr_Occurred())
            r = -1;
        else
            lease->frame.capture_ns = number;
    }
    (void)lease_drop(lease);
    return r;
}

static PyMethodDef methods[] = {
    FRAME_METHODS,
    { "commit", METHOD(commit), METH_NOARGS, DOC_WriterFrame_commit },
    { "cancel", METHOD(cancel), METH_NOARGS, DOC_WriterFrame_cancel },
    { "reshape", METHOD(reshape), METH_VARARGS | METH_KEYWORDS, DOC_WriterFrame_reshape },
    { "resize", METHOD(resize), METH_VARARGS | METH_KEYWORDS, DOC_WriterFrame_resize },
    { "__enter__", METHOD(enter), METH_NOARGS, DOC_WriterFrame_enter },
    { "__exit__", METHOD(leave), METH_FASTCALL, DOC_WriterFrame_exit },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
    FRAME_MEMBERS,
    FRAME_MEMBER(sequence, T_ULONGLONG, DOC_WriterFrame_sequence),
    { NULL, 0, 0, 0, NULL },
};

static PyGetSetDef fields[] = {
    FRAME_FIELDS,
    { "ended", get_ended, NULL, DOC_WriterFrame_ended, NULL },
    { "capture_ns", get, set, DOC_WriterFrame_capture_ns, (void *)(intptr_t)CAPTURE_NS },
    { "capture_clock", get, set, DOC_WriterFrame_capture_clock, (void *)(intptr_t)CAPTURE_CLOCK },
    { "meta", get_meta, set, DOC_WriterFrame_meta, (void *)(intptr_t)META },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    FRAME_SLOTS,
    SLOT(Py_tp_methods, methods),
    { Py_tp_members, members },
    SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_doc, DOC_WriterFrame),
    { 0, NULL },
};

TYPE_SPEC(writer_frame, "sluice.WriterFrame", struct frame, Py_TPFLAGS_DISALLOW_INSTANTIATION, slots);
