/* SPDX-License-Identifier: MIT
 *
 * The base of sluice.Writer: frames, closing, and inspection.
 */
#include "writer.h"

#include "cipd.h"
#include "clock.h"
#include "export.h"
#include "frame.h"
#include "source.h"
#include "view.h"

struct channel *writer_enter(struct writer *writer)
{
    struct channel *channel = writer->channel;

    if (channel_enter(writer->state, channel) < 0)
        return NULL;
    if (channel->writer)
        return channel;
    channel_leave(channel);
    raise_as(writer->state, ERROR_E_CLOSED, "channel '%s': this writer is closed", channel->name);
    return NULL;
}

/* ---- slots ---- */

int writer_wait_for_slot(struct writer *writer, int64_t timeout_ns)
{
    struct patience patience;
    struct channel *channel;
    int r, again;

    /* Mostly there is one: checking takes less time than releasing the GIL. */
    if (!(channel = writer_enter(writer)))
        return SLUICE_E_STALE;
    if ((r = sluice_writer_wait(channel->writer, 0)) != SLUICE_NO_SLOT)
        return r;
    channel_leave(channel);
    patience = patience_new(timeout_ns);
    do {
        if (!(channel = writer_enter(writer)))
            return SLUICE_E_STALE;
        Py_BEGIN_ALLOW_THREADS r = sluice_writer_wait(channel->writer, patience.slice);
        Py_END_ALLOW_THREADS if (r != SLUICE_NO_SLOT) return r;
        channel_leave(channel);
    } while ((again = patience_next(&patience, channel)) > 0);
    if (again < 0 || !writer_enter(writer))
        return SLUICE_E_STALE;
    return SLUICE_NO_SLOT;
}

/* Begins a frame into `lease` within the time; SLUICE_DEFAULT: by the policy. */
static int begin(struct writer *writer, struct lease *lease, int64_t timeout_ns)
{
    int r = 0;

    if (timeout_ns == SLUICE_DEFAULT)
        timeout_ns = writer->wait_ns;
    if (timeout_ns > 0)
        r = writer_wait_for_slot(writer, timeout_ns);
    else if (!writer_enter(writer))
        return SLUICE_E_STALE;
    if (PyErr_Occurred())
        return SLUICE_E_STALE;
    if (r == 0 || r == SLUICE_NO_SLOT) /* 1 ns: keeps what in-order readers have not read */
        r = sluice_writer_begin(lease->channel->writer, timeout_ns > 0, &lease->frame);
    channel_leave(lease->channel);
    return r;
}

/* Puts frame()'s stream, or the thread's, into the lease. -1 with an exception. */
static int name_stream(struct writer *writer, struct lease *lease, PyObject *given)
{
    struct stream *stream;

    if (!given && !lease->device)
        return 0;
    if (export_stream(writer->state, device_text(lease->device), given, &stream) < 0)
        return -1;
    return stream ? lease_use_named(lease, stream) : 0;
}

/* `values`: meta, like, capture_ns, stream. */
static PyObject *begin_frame(struct writer *writer, int64_t timeout_ns, PyObject **values, int *result)
{
    PyObject *meta = values[0], *like = values[1], *capture_ns = values[2];
    struct lease *lease = lease_new(writer->channel);

    if (!lease)
        return NULL;
    *result = SLUICE_E_STALE;
    if (name_stream(writer, lease, values[3]) == 0)
        *result = begin(writer, lease, timeout_ns);
    if (*result != 0) {
        lease_discard(lease);
        return NULL;
    }
    lease_begun(lease);
    if ((meta || like || capture_ns) && header_fill(writer->state, &lease->frame, meta, like, capture_ns) < 0) {
        (void)lease_drop(lease);
        return NULL;
    }
    return frame_new(writer->state, writer->state->writer_frame, lease);
}

static PyObject *frame(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "timeout", "meta", "like", "capture_ns", "stream", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *values[5] = { NULL };
    int64_t timeout_ns = SLUICE_DEFAULT;
    int r = 0;

    if ((count || keywords) && (parse_fast("frame", names, 1, args, count, keywords, values) < 0 ||
                                parse_seconds(values[0], "timeout", SLUICE_DEFAULT, &timeout_ns) < 0))
        return NULL;
    PyObject *made = begin_frame(writer, timeout_ns, values + 1, &r);
    if (!made && !PyErr_Occurred())
        raise_result(writer->state, r);
    return made;
}

static PyObject *try_frame(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "meta", "like", "capture_ns", "stream", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *values[4] = { NULL };
    int r = 0;

    if (parse_fast("try_frame", names, 0, args, count, keywords, values) < 0)
        return NULL;
    PyObject *made = begin_frame(writer, 0, values, &r);
    if (made || PyErr_Occurred())
        return made;
    if (r == SLUICE_NO_SLOT)
        Py_RETURN_NONE;
    return raise_result(writer->state, r);
}

/* ---- reformat, close ---- */

/* _reformat(entries, pitch_align) */
static PyObject *reformat(PyObject *self, PyObject *args)
{
    struct writer *writer = (struct writer *)self;
    struct sluice_format format;
    uint32_t pitch_align;
    PyObject *entries;
    int r;

    if (!PyArg_ParseTuple(args, "OO&:reformat", &entries, parse_u32, &pitch_align) ||
        format_parse(writer->state, entries, pitch_align, &format) < 0 || !writer_enter(writer))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_reformat(writer->channel->writer, &format);
    Py_END_ALLOW_THREADS channel_leave(writer->channel);
    if (r != 0)
        return raise_result(writer->state, r);
    Py_RETURN_NONE;
}

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct channel *channel = writer->channel;
    int r = 0;

    if (!atomic_load(&channel->closed)) {
        if (channel_enter(writer->state, channel) < 0)
            return NULL;
        atomic_store(&channel->closed, true);
        Py_BEGIN_ALLOW_THREADS r = sluice_writer_close(&channel->writer);
        Py_END_ALLOW_THREADS channel_leave(channel);
        views_clear(channel);
        writer_drop_kept(writer);
    }
    if (r != 0)
        return raise_result(writer->state, r);
    Py_RETURN_NONE;
}

/* The channel ends with the last frame that is still begun. */
static void writer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    if (((struct writer *)self)->channel) {
        channel_object_closed(((struct writer *)self)->channel);
        views_clear(((struct writer *)self)->channel);
    }
    writer_drop_kept((struct writer *)self);
    channel_drop(((struct writer *)self)->channel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- inspection ---- */

/* C's struct. */
static PyObject *stats(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct sluice_writer_stats s = { .size = sizeof s };

    if (!writer_enter(writer))
        return NULL;
    int r = sluice_writer_stats(writer->channel->writer, &s);
    channel_leave(writer->channel);
    return struct_or_raise(writer->state, r, &s, sizeof s);
}

/* _has_readers(count) */
static PyObject *has_readers(PyObject *self, PyObject *count)
{
    struct writer *writer = (struct writer *)self;
    uint32_t wanted;

    if (!parse_u32(count, &wanted) || !writer_enter(writer))
        return NULL;
    int r = sluice_writer_wait_readers(writer->channel->writer, wanted, 0);
    channel_leave(writer->channel);
    return r < 0 ? raise_result(writer->state, r) : PyBool_FromLong(r == 0);
}

/* C's struct. */
static PyObject *format(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct sluice_format format = SLUICE_FORMAT_INIT;

    if (!writer_enter(writer))
        return NULL;
    int r = sluice_writer_format(writer->channel->writer, &format);
    channel_leave(writer->channel);
    return struct_or_raise(writer->state, r, &format, sizeof format);
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct writer *)self)->channel->closed));
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(device_text(((struct writer *)self)->channel->device));
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((struct writer *)self)->channel->name);
}

static PyMethodDef methods[] = {
    { "frame", METHOD(frame), METH_FASTCALL | METH_KEYWORDS, DOC_Writer_frame },
    { "try_frame", METHOD(try_frame), METH_FASTCALL | METH_KEYWORDS, DOC_Writer_try_frame },
    { "send", METHOD(writer_send), METH_FASTCALL | METH_KEYWORDS, DOC_Writer_send },
    { "close", METHOD(close_), METH_NOARGS, DOC_Writer_close },
    { "_reformat", METHOD(reformat), METH_VARARGS, NULL },
    { "_has_readers", METHOD(has_readers), METH_O, NULL },
    { "_stats", METHOD(stats), METH_NOARGS, NULL },
    { "_format", METHOD(format), METH_NOARGS, NULL },
    { "_cipd_info", METHOD(cipd_writer_info), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "name", get_name, NULL, DOC_Writer_name, NULL },
    { "device", get_device, NULL, DOC_Writer_device, NULL },
    { "closed", get_closed, NULL, DOC_Writer_closed, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, writer_new), SLOT(Py_tp_dealloc, writer_dealloc), SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),  SLOT(Py_tp_doc, DOC_Writer),         { 0, NULL },
};

TYPE_SPEC(writer, "sluice._sluice._Writer", struct writer, Py_TPFLAGS_BASETYPE, slots);
