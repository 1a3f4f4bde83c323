/* SPDX-License-Identifier: MIT
 *
 * The base of sluice.cuda_link.Exporter: memory that a program has on a GPU, published by one call.
 */
#include "cuda_link.h"

#define PATIENCE (10 * SLUICE_S)

PyObject *link_writer_detach(PyObject *self, PyObject *Py_UNUSED(none))
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

void link_writer_dealloc(PyObject *self)
{
    struct link_writer *link = (struct link_writer *)self;

    stream_drop(link->marked);
    stream_drop(link->usual);
    Py_XDECREF((PyObject *)link->writer);
    Py_XDECREF(link->outcome);
    free_object(self);
}

PyObject *link_writer_attach(PyObject *self, PyObject *args)
{
    struct link_writer *link = (struct link_writer *)self;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct writer *writer, *before = link->writer;
    PyObject *object;
    int settles, r;

    if (!PyArg_ParseTuple(args, "Op:_attach", &object, &settles) || !writer_enter(writer = (struct writer *)object))
        return NULL;
    if ((r = sluice_writer_format(writer->channel->writer, &format)) == 0)
        r = sluice_array_wrap(&link->array, NULL, NULL, format.arrays[0].dtype, format.arrays[0].ndim,
                              format.arrays[0].shape, NULL);
    channel_leave(writer->channel);
    if (r != 0)
        return raise_result(writer->state, r);
    link->writer = (struct writer *)Py_NewRef(object);
    link->settles = settles;
    Py_XDECREF((PyObject *)before);
    Py_RETURN_NONE;
}

/* ---- on which stream ---- */

/* Most programs name the default stream, which never ends: it is looked up once. Any other lives at least as long as
 * the call, so its owner is not needed. */
static struct stream *named_stream(struct link_writer *link, const struct writer *to, PyObject *given)
{
    const char *device = to->channel->device->name;
    size_t native;

    if (!PyLong_Check(given))
        return stream_of(to->state, given, device);
    if (link_native(given, &native) < 0)
        return NULL;
    if (native > 1)
        return stream_view(to->state, native, device, NULL);
    if (!link->usual)
        link->usual = stream_view(to->state, 0, device, NULL);
    return link->usual ? stream_keep(link->usual) : NULL;
}

/* The named stream, else the marked one, else the framework's current one. Work queued on it later runs after the copy,
 * so it may overwrite the memory. *out NULL: none is known. -1 with an exception. */
static int stream_for(struct link_writer *link, const struct writer *to, PyObject *given, struct stream **out)
{
    const char *device = to->channel->device->name;

    *out = NULL;
    if (given != Py_None)
        return (*out = named_stream(link, to, given)) ? 0 : -1;
    if (link->marked) {
        *out = stream_keep(link->marked);
        return 0;
    }
    if (framework_current(to->state, FRAMEWORK_TORCH, device, out) < 0)
        return -1;
    return *out ? 0 : framework_current(to->state, FRAMEWORK_CUPY, device, out);
}

/* Without a `named` stream the program may overwrite the memory on another one: with `settles` the call waits for the
 * copy. */
static int send_now(struct link_writer *link, const struct writer *to, struct stream *stream, bool named)
{
    struct sluice_stream handle = stream ? stream_handle(stream) : SLUICE_ON_CPU;
    bool settles = link->settles && !named;
    struct sluice_ticket ticket;
    int r;

    if (!to->channel->slow && !settles)
        return sluice_writer_send(to->channel->writer, &link->array, 1, handle, NULL);
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_send(to->channel->writer, &link->array, 1, handle, &ticket);
    if (r == 0 && settles)
        (void)sluice_ticket_wait(ticket, PATIENCE);
    Py_END_ALLOW_THREADS return r;
}

/* Waits until the GPU has finished one of the last frames, so that readers have one. 0, or SLUICE_NO_SLOT. Mostly at
 * once. */
static int wait_for_gpu(const struct writer *to)
{
    int r = sluice_writer_wait(to->channel->writer, 0);

    if (r != SLUICE_NO_SLOT)
        return r;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_wait(to->channel->writer, SLUICE_S);
    Py_END_ALLOW_THREADS return r;
}

/* With the channel entered. */
static int publish(struct link_writer *link, const struct writer *to, uintptr_t address, PyObject *given)
{
    bool named = given != Py_None || link->marked;
    struct stream *stream = NULL;
    int r;

    if (!to->channel->writer)
        return SLUICE_E_CLOSED;
    if (stream_for(link, to, given, &stream) < 0)
        return SLUICE_E_INVALID;
    link->array.data = (void *)address;
    r = wait_for_gpu(to);
    r = r == SLUICE_NO_SLOT ? SLUICE_NOT_READY : r != 0 ? r : send_now(link, to, stream, named);
    if (r == 0) {
        stream_drop(link->marked);
        link->marked = NULL;
    }
    stream_drop(stream);
    return r;
}

int link_send(struct link_writer *link, uintptr_t address, PyObject *given)
{
    struct writer *to = link->writer; /* another thread may close the exporter, and open it again */
    int r = LINK_RAISED;

    Py_INCREF((PyObject *)to);
    if (channel_enter(to->state, to->channel) == 0) {
        r = publish(link, to, address, given);
        channel_leave(to->channel);
    }
    if (r == SLUICE_E_CLOSED && !PyErr_Occurred())
        raise_as(to->state, ERROR_E_CLOSED, "channel '%s': this exporter is closed", to->channel->name);
    else if (r < 0 && r != SLUICE_E_CAPTURING && !PyErr_Occurred())
        raise_result(to->state, r);
    Py_DECREF((PyObject *)to);
    return r < 0 && PyErr_Occurred() ? LINK_RAISED : r;
}

PyObject *link_mark(PyObject *self, PyObject *given)
{
    struct link_writer *link = (struct link_writer *)self;
    struct writer *writer = link->writer;
    struct stream *before, *stream = link_stream(writer->state, given, writer->channel->device->name);

    if (!stream)
        return NULL;
    if (channel_enter(writer->state, writer->channel) < 0) {
        stream_drop(stream);
        return NULL;
    }
    before = link->marked;
    link->marked = stream;
    channel_leave(writer->channel);
    stream_drop(before);
    Py_RETURN_NONE;
}
