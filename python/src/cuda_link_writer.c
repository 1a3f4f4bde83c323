/* SPDX-License-Identifier: MIT
 *
 * sluice._sluice._LinkWriter: memory that a program has on a GPU, published by one call.
 * sluice/cuda_link/exporter.py makes them.
 */
#include "cuda_link.h"

#define PATIENCE (10 * SLUICE_S)

/* close(): drops its streams. The owner closes the writer. */
static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link_writer *link = (struct link_writer *)self;
    struct stream *streams[] = { NULL, NULL };

    if (channel_enter(link->writer->state, link->writer->channel) < 0)
        return NULL;
    streams[0] = link->marked;
    streams[1] = link->usual;
    link->marked = link->usual = NULL;
    channel_leave(link->writer->channel);
    stream_drop(streams[0]);
    stream_drop(streams[1]);
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    struct link_writer *link = (struct link_writer *)self;
    PyTypeObject *type = Py_TYPE(self);

    stream_drop(link->marked);
    stream_drop(link->usual);
    Py_DECREF((PyObject *)link->writer);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* _LinkWriter(writer, settles) */
static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    const struct state *state = PyType_GetModuleState(type);
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_array array;
    PyObject *writer;
    int settles, r;

    if (!PyArg_ParseTuple(args, "O!p:_LinkWriter", state->writer, &writer, &settles) ||
        !writer_enter((struct writer *)writer))
        return NULL;
    struct channel *channel = ((struct writer *)writer)->channel;
    if ((r = sluice_writer_format(channel->writer, &format)) == 0)
        r = sluice_array_wrap(&array, NULL, NULL, format.arrays[0].dtype, format.arrays[0].ndim, format.arrays[0].shape,
                              NULL);
    channel_leave(channel);
    if (r != 0)
        return raise_result(state, r);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct link_writer *link = (struct link_writer *)allocate(type, 0);
    if (link) {
        link->writer = (struct writer *)Py_NewRef(writer);
        link->array = array;
        link->settles = settles;
    }
    return (PyObject *)link;
}

/* ---- on which stream ---- */

/* Most programs name the default stream, which never ends: it is looked up once. Any other lives at least as long as
 * the call, so its owner is not needed. */
static struct stream *named_stream(struct link_writer *link, PyObject *given)
{
    const char *device = link->writer->channel->device->name;
    size_t native;

    if (!PyLong_Check(given))
        return stream_of(link->writer->state, given, device);
    if (link_native(given, &native) < 0)
        return NULL;
    if (native > 1)
        return stream_view(link->writer->state, native, device, NULL);
    if (!link->usual)
        link->usual = stream_view(link->writer->state, 0, device, NULL);
    return link->usual ? stream_keep(link->usual) : NULL;
}

/* The named stream, else the marked one, else the framework's current one. Work queued on it later runs after the copy,
 * so it may overwrite the memory. *out NULL: none is known. -1 with an exception. */
static int stream_for(struct link_writer *link, PyObject *given, struct stream **out)
{
    const struct opened *device = link->writer->channel->device;

    *out = NULL;
    if (given != Py_None)
        return (*out = named_stream(link, given)) ? 0 : -1;
    if (link->marked) {
        *out = stream_keep(link->marked);
        return 0;
    }
    if (framework_current(link->writer->state, FRAMEWORK_TORCH, device->name, out) < 0)
        return -1;
    return *out ? 0 : framework_current(link->writer->state, FRAMEWORK_CUPY, device->name, out);
}

/* Without a `named` stream the program may overwrite the memory on another one: with `settles` the call waits for the
 * copy. */
static int send_now(struct link_writer *link, struct stream *stream, bool named)
{
    struct sluice_stream handle = stream ? stream_handle(stream) : SLUICE_ON_CPU;
    bool settles = link->settles && !named;
    struct sluice_ticket ticket;
    int r;

    if (!link->writer->channel->slow && !settles)
        return sluice_writer_send(link->writer->channel->writer, &link->array, 1, handle, NULL);
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_send(link->writer->channel->writer, &link->array, 1, handle, &ticket);
    if (r == 0 && settles)
        (void)sluice_ticket_wait(ticket, PATIENCE);
    Py_END_ALLOW_THREADS return r;
}

/* Waits until the GPU has finished one of the last frames, so that readers have one. 0, or SLUICE_NO_SLOT. Mostly at
 * once. */
static int wait_for_gpu(struct link_writer *link)
{
    int r = sluice_writer_wait(link->writer->channel->writer, 0);

    if (r != SLUICE_NO_SLOT)
        return r;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_wait(link->writer->channel->writer, SLUICE_S);
    Py_END_ALLOW_THREADS return r;
}

/* With the channel entered. */
static int publish(struct link_writer *link, uintptr_t address, PyObject *given)
{
    bool named = given != Py_None || link->marked;
    struct stream *stream = NULL;
    int r;

    if (!link->writer->channel->writer)
        return SLUICE_E_CLOSED;
    if (stream_for(link, given, &stream) < 0)
        return SLUICE_E_INVALID;
    link->array.data = (void *)address;
    r = wait_for_gpu(link);
    r = r == SLUICE_NO_SLOT ? SLUICE_NOT_READY : r != 0 ? r : send_now(link, stream, named);
    if (r == 0) {
        stream_drop(link->marked);
        link->marked = NULL;
    }
    stream_drop(stream);
    return r;
}

int link_send(struct link_writer *link, uintptr_t address, PyObject *given)
{
    int r;

    if (channel_enter(link->writer->state, link->writer->channel) < 0)
        return LINK_RAISED;
    r = publish(link, address, given);
    channel_leave(link->writer->channel);
    if (r >= 0)
        return r;
    if (PyErr_Occurred())
        return LINK_RAISED;
    if (r == SLUICE_E_CAPTURING)
        return r;
    if (r == SLUICE_E_CLOSED)
        raise_as(link->writer->state, ERROR_E_CLOSED, "channel '%s': this exporter is closed",
                 link->writer->channel->name);
    else
        raise_result(link->writer->state, r);
    return LINK_RAISED;
}

/* send(address, stream): as link_send */
static PyObject *send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    size_t address;
    int r;

    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "send() takes an address and a stream");
        return NULL;
    }
    address = PyLong_AsSize_t(args[0]);
    if (PyErr_Occurred())
        return NULL;
    r = link_send((struct link_writer *)self, address, args[1]);
    return r == LINK_RAISED ? NULL : PyLong_FromLong(r);
}

/* mark(stream): its work so far makes the next frame */
static PyObject *mark(PyObject *self, PyObject *given)
{
    struct link_writer *link = (struct link_writer *)self;
    struct stream *stream, *before;

    if (!(stream = link_stream(link->writer->state, given, link->writer->channel->device->name)))
        return NULL;
    if (channel_enter(link->writer->state, link->writer->channel) < 0) {
        stream_drop(stream);
        return NULL;
    }
    before = link->marked;
    link->marked = stream;
    channel_leave(link->writer->channel);
    stream_drop(before);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "send", METHOD(send), METH_FASTCALL, NULL },
    { "mark", METHOD(mark), METH_O, NULL },
    { "close", METHOD(close_), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, new), SLOT(Py_tp_dealloc, dealloc), SLOT(Py_tp_methods, methods), SLOT(Py_tp_doc, DOC_LinkWriter),
    { 0, NULL },
};

TYPE_SPEC(link_writer, "sluice._sluice._LinkWriter", struct link_writer, 0, slots);
