/* SPDX-License-Identifier: MIT
 *
 * The base of sluice.Reader: calls for frames, iteration, and inspection.
 */
#include "reader.h"

#include <string.h>

#include "cipd.h"
#include "frame.h"
#include "source.h"
#include "view.h"

static PyObject *next(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "timeout", "stream", NULL };
    struct reader *reader = (struct reader *)self;
    PyObject *values[2] = { NULL };
    int64_t timeout_ns = SLUICE_FOREVER;
    int r;

    if ((count || keywords) && (parse_fast("next", names, 1, args, count, keywords, values) < 0 ||
                                parse_seconds(values[0], "timeout", SLUICE_FOREVER, &timeout_ns) < 0))
        return NULL;
    return reader_next_frame(reader, timeout_ns, values[1], false, &r);
}

/* The number of frames committed after the last one taken. */
static uint64_t lag(struct reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct channel *channel = reader_keep_channel(reader);
    bool known = channel && sluice_reader_stats(channel->reader, &stats) == 0;

    channel_drop(channel);
    return known ? stats.lag : 0;
}

static PyObject *latest(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "stream", NULL };
    struct reader *reader = (struct reader *)self;
    PyObject *frame, *values[1] = { NULL };
    int r;

    if ((count || keywords) && parse_fast("latest", names, 0, args, count, keywords, values) < 0)
        return NULL;
    while ((frame = reader_next_frame(reader, 0, values[0], true, &r)) && reader->in_order && lag(reader) > 0) {
        if (frame_release((struct frame *)frame) < 0)
            PyErr_Clear(); /* it was not read */
        Py_DECREF(frame);
    }
    if (frame || PyErr_Occurred())
        return frame;
    if (reader_may_come(r))
        Py_RETURN_NONE;
    return raise_result(reader->state, r);
}

/* ---- iterating ---- */

int reader_release_last(struct reader *reader)
{
    PyObject *last;
    int r;

    GUARD(reader)
    last = reader->last;
    reader->last = NULL;
    UNGUARD()
    if (!last)
        return 0;
    r = frame_release((struct frame *)last);
    Py_DECREF(last);
    return r;
}

static PyObject *keep_last(struct reader *reader, PyObject *frame)
{
    PyObject *before = NULL;

    if (!frame)
        return NULL;
    GUARD(reader)
    before = reader->last;
    reader->last = Py_NewRef(frame);
    UNGUARD()
    Py_XDECREF(before);
    return frame;
}

static PyObject *iter_next(PyObject *self)
{
    struct reader *reader = (struct reader *)self;
    int r;

    if (reader_release_last(reader) < 0)
        return NULL;
    PyObject *frame = reader_next_frame(reader, SLUICE_FOREVER, NULL, true, &r);
    if (!frame && r != SLUICE_CLOSED && !PyErr_Occurred())
        raise_result(reader->state, r);
    return keep_last(reader, frame);
}

/* _poll(iterates, stream), for sluice._asyncio: a frame, or None if there is none now. An iterator's call ends the
 * frame of its step before. */
static PyObject *poll(PyObject *self, PyObject *args)
{
    struct reader *reader = (struct reader *)self;
    PyObject *stream;
    int keeps, r;

    if (!PyArg_ParseTuple(args, "pO", &keeps, &stream) || (keeps && reader_release_last(reader) < 0))
        return NULL;
    PyObject *frame = reader_next_frame(reader, 0, stream == Py_None ? NULL : stream, true, &r);
    if (frame)
        return keeps ? keep_last(reader, frame) : frame;
    if (PyErr_Occurred())
        return NULL;
    if (reader_may_come(r))
        Py_RETURN_NONE;
    return raise_result(reader->state, r);
}

/* -1 with an exception. */
static int descriptor_of(struct reader *reader, struct channel *channel)
{
    int r;

    if (channel_enter(reader->state, channel) < 0)
        return -1;
    r = sluice_reader_fd(channel->reader);
    channel_leave(channel);
    if (r < 0)
        raise_result(reader->state, r);
    return r < 0 ? -1 : r;
}

static void drop_keeper(PyObject *capsule)
{
    struct channel *channel = PyCapsule_GetPointer(capsule, "sluice.channel");

    channel_drop(channel);
}

/* _descriptor(), for sluice._asyncio: the descriptor, and an object that keeps it open. A loop that waits for a closed
 * descriptor is never woken, even if another reader gets the same number. close() makes it readable. */
static PyObject *descriptor(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    int descriptor = channel ? descriptor_of(reader, channel) : -1;
    PyObject *keeper = descriptor < 0 ? NULL : PyCapsule_New(channel, "sluice.channel", drop_keeper);

    if (!keeper) {
        channel_drop(channel);
        return NULL;
    }
    return Py_BuildValue("(iN)", descriptor, keeper);
}

/* ---- methods ---- */

static PyObject *release_all(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_keep_channel(reader);
    int r = channel ? frame_release_all(reader->state, channel) : 0;

    channel_drop(channel);
    if (r < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (reader_close((struct reader *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void reader_dealloc(PyObject *self)
{
    struct reader *reader = (struct reader *)self;
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(reader->last);
    if (reader->channel) { /* arrays may still keep it open */
        (void)sluice_reader_stop(reader->channel->reader);
        channel_object_closed(reader->channel);
        views_clear(reader->channel);
    }
    channel_drop(reader->channel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- inspection ---- */

/* C's struct. */
static PyObject *stats(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct sluice_reader_stats s = { .size = sizeof s };
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);

    if (!channel)
        return NULL;
    int r = sluice_reader_stats(channel->reader, &s);
    channel_drop(channel);
    return struct_or_raise(reader->state, r, &s, sizeof s);
}

/* C's struct, or None. */
static PyObject *format(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    struct sluice_format format = SLUICE_FORMAT_INIT;

    if (!channel || channel_enter(reader->state, channel) < 0) {
        channel_drop(channel);
        return NULL;
    }
    int r = sluice_reader_format(channel->reader, &format);
    channel_leave(channel);
    channel_drop(channel);
    if (r == SLUICE_NO_WRITER)
        Py_RETURN_NONE;
    return struct_or_raise(reader->state, r, &format, sizeof format);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    const struct opened *device = NULL;
    char name[DEVICE_NAME];

    if (!channel)
        return NULL;
    int r = sluice_reader_device(channel->reader, name, sizeof name);
    channel_drop(channel);
    if (r == SLUICE_NO_WRITER)
        Py_RETURN_NONE;
    if (r != 0)
        return raise_result(reader->state, r);
    if (strcmp(name, "host") != 0 && !(device = device_open(reader->state, name)))
        return NULL;
    return PyUnicode_FromString(device_text(device));
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(!((struct reader *)self)->channel);
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
    struct channel *channel = reader_channel((struct reader *)self);
    PyObject *name = channel ? PyUnicode_FromString(channel->name) : NULL;

    channel_drop(channel);
    return name;
}

static PyObject *get_mode(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((struct reader *)self)->in_order ? "in_order" : "newest");
}

/* Of a channel of cuda-link's protocol: the next call looks for a writer at once. */
static PyObject *retry(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct channel *channel = reader_keep_channel((struct reader *)self);

    if (channel)
        (void)sluice_cipd_retry(channel->reader);
    channel_drop(channel);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "next", METHOD(next), METH_FASTCALL | METH_KEYWORDS, DOC_Reader_next },
    { "latest", METHOD(latest), METH_FASTCALL | METH_KEYWORDS, DOC_Reader_latest },
    { "release_all", METHOD(release_all), METH_NOARGS, DOC_Reader_release_all },
    { "close", METHOD(close_), METH_NOARGS, DOC_Reader_close },
    { "_poll", METHOD(poll), METH_VARARGS, NULL },
    { "_descriptor", METHOD(descriptor), METH_NOARGS, NULL },
    { "_stats", METHOD(stats), METH_NOARGS, NULL },
    { "_format", METHOD(format), METH_NOARGS, NULL },
    { "_cipd_info", METHOD(cipd_reader_info), METH_NOARGS, NULL },
    { "_retry", METHOD(retry), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "name", get_name, NULL, DOC_Reader_name, NULL },
    { "mode", get_mode, NULL, DOC_Reader_mode, NULL },
    { "closed", get_closed, NULL, DOC_Reader_closed, NULL },
    { "device", get_device, NULL, DOC_Reader_device, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, reader_new),
    SLOT(Py_tp_dealloc, reader_dealloc),
    SLOT(Py_tp_iternext, iter_next),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    SLOT(Py_tp_doc, DOC_Reader),
    { 0, NULL },
};

TYPE_SPEC(reader, "sluice._sluice._Reader", struct reader, Py_TPFLAGS_BASETYPE, slots);
