/* SPDX-License-Identifier: MIT
 *
 * sluice._sluice._LinkWriter: memory that a program has on a GPU, published by one call.
 * sluice/cuda_link/exporter.py makes them.
 */
#include <string.h>

#include <sluice/cipd.h>

#include "cuda_link.h"

#define PATIENCE (10 * SLUICE_S)

enum { WIRE_BFLOAT16 = 1, WIRE_MONO_ALPHA = 2, WIRE_BGRA = 4 };

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link_writer *link = (struct link_writer *)self;
    struct channel *channel = link->channel;
    sluice_writer *writer = NULL;

    if (!channel)
        Py_RETURN_NONE;
    if (channel_enter(link->state, channel) < 0)
        return NULL;
    writer = channel->writer;
    channel->writer = NULL;
    channel_leave(channel);
    channel_object_closed(channel);
    stream_drop(link->marked);
    stream_drop(link->usual);
    link->marked = link->usual = NULL;
    Py_BEGIN_ALLOW_THREADS(void) sluice_writer_close(&writer);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    struct link_writer *link = (struct link_writer *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *kind, *value, *traceback;

    PyErr_Fetch(&kind, &value, &traceback); /* why it could not be opened, or what the program is at */
    Py_XDECREF(close_(self, NULL));
    PyErr_Restore(kind, value, traceback);
    channel_drop(link->channel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- opening ---- */

static void choose(struct sluice_cipd_writer_params *cipd, int block, int graph, int barrier,
                   int strict, int priority, int doorbell)
{
    cipd->block = block != 0;
    cipd->graph = graph ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    cipd->barrier = barrier ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    cipd->strict_device = strict != 0;
    cipd->priority = priority ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    cipd->doorbell = doorbell ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
}

/* The wire's flags as a program ors them in: three of them have names of their own in C. */
static void choose_flags(struct sluice_cipd_writer_params *cipd, const char *dtype)
{
    if (cipd->flags & WIRE_BGRA)
        cipd->order = SLUICE_CIPD_BGRA;
    cipd->mono_alpha = (cipd->flags & WIRE_MONO_ALPHA) != 0;
    cipd->flags &= ~(uint32_t)(WIRE_BGRA | WIRE_MONO_ALPHA | (strcmp(dtype, "bfloat16") == 0 ? WIRE_BFLOAT16 : 0));
}

static int open_writer(struct link_writer *link, struct sluice_writer_params *params,
                       const int64_t *shape, const char *dtype)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_dtype type;
    int r = sluice_dtype_parse(dtype, &type);

    if (r == 0)
        r = sluice_format_add_tensor(&format, "image", type, 3, shape);
    if (r == 0)
        r = sluice_array_wrap(&link->array, NULL, NULL, type, 3, shape, NULL);
    if (r == 0) {
        params->format = &format;
        Py_BEGIN_ALLOW_THREADS r = sluice_writer_open(&link->channel->writer, params);
        Py_END_ALLOW_THREADS
    }
    if (r == 0)
        return 0;
    raise_result(link->state, r);
    return -1;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "name",    "device",   "shape",    "dtype",  "slots",
                             "flags",   "block",    "graph",    "barrier", "stale_ns",
                             "strict",  "priority", "doorbell", "settles", "barrier_name", NULL };
    struct state *state = PyType_GetModuleState(type);
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    int block, graph, barrier, strict, priority, doorbell, settles;
    long long stale_ns, shape[3];
    const char *dtype;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "ss(LLL)sIIpppLpppps:_LinkWriter", names, &params.name,
                                     &params.device, &shape[0], &shape[1], &shape[2], &dtype,
                                     &params.slots, &cipd.flags, &block, &graph, &barrier, &stale_ns,
                                     &strict, &priority, &doorbell, &settles, &cipd.barrier_name))
        return NULL;
    choose(&cipd, block, graph, barrier, strict, priority, doorbell);
    choose_flags(&cipd, dtype);
    cipd.barrier_stale_ns = stale_ns;
    params.no_graphs = !graph;
    if (channel_is_foreign(params.name)) {
        params.cipd = &cipd;
    } else {
        params.writable = 1; /* as programs of cuda-link may write to what they read */
        if (params.slots && params.slots < 3)
            params.slots = 3;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct link_writer *link = (struct link_writer *)allocate(type, 0);
    if (!link)
        return NULL;
    link->state = state;
    link->blocks = block != 0;
    link->settles = settles != 0;
    const int64_t sizes[3] = { shape[0], shape[1], shape[2] };
    link->channel = channel_new(params.name);
    if (link->channel)
        link->channel->device = device_open(state, params.device);
    if (!link->channel || !link->channel->device || open_writer(link, &params, sizes, dtype) < 0) {
        Py_DECREF((PyObject *)link);
        return NULL;
    }
    return (PyObject *)link;
}

/* ---- on which stream ---- */

/* Most programs name the default one, which never ends: it is looked for once. Others live as long as the call, whoever owns
 * them: nobody is asked. */
static struct stream *named_stream(struct link_writer *link, PyObject *given)
{
    const char *device = link->channel->device->name;
    size_t native;

    if (!PyLong_Check(given))
        return stream_of(link->state, given, device);
    if (link_native(given, &native) < 0)
        return NULL;
    if (native > 1)
        return stream_view(link->state, native, device, NULL);
    if (!link->usual)
        link->usual = stream_view(link->state, 0, device, NULL);
    return link->usual ? stream_keep(link->usual) : NULL;
}

/* The one that is named, else the one that the program marked, else that on which its framework works
 * now. What comes behind on it finds the copy made, so the memory may be written again. *out NULL:
 * none is known. -1 with an exception. */
static int stream_for(struct link_writer *link, PyObject *given, struct stream **out)
{
    const struct opened *device = link->channel->device;

    *out = NULL;
    if (given != Py_None)
        return (*out = named_stream(link, given)) ? 0 : -1;
    if (link->marked) {
        *out = stream_keep(link->marked);
        return 0;
    }
    if (framework_current(link->state, FRAMEWORK_TORCH, device->name, out) < 0)
        return -1;
    return *out ? 0 : framework_current(link->state, FRAMEWORK_CUPY, device->name, out);
}

/* Of a stream that nobody `named` it is not known whether the memory is written again behind it: whoever wants to be sure waits for
 * the copy. */
static int send_now(struct link_writer *link, struct stream *stream, bool named)
{
    struct sluice_stream handle = stream ? stream_handle(stream) : SLUICE_ON_CPU;
    bool settles = link->settles && !named;
    struct sluice_ticket ticket;
    int r;

    if (!link->blocks && !settles)
        return sluice_writer_send(link->channel->writer, &link->array, 1, handle, NULL);
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_send(link->channel->writer, &link->array, 1, handle, &ticket);
    if (r == 0 && settles)
        (void)sluice_ticket_wait(ticket, PATIENCE);
    Py_END_ALLOW_THREADS return r;
}

/* Until one of the last frames is finished, of which one is left to readers: 0, SLUICE_NO_SLOT. Mostly it is. */
static int wait_for_gpu(struct link_writer *link)
{
    int r = sluice_writer_wait(link->channel->writer, 0);

    if (r != SLUICE_NO_SLOT)
        return r;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_wait(link->channel->writer, SLUICE_S);
    Py_END_ALLOW_THREADS return r;
}

/* With the channel entered. */
static int publish(struct link_writer *link, uintptr_t address, PyObject *given)
{
    bool named = given != Py_None || link->marked;
    struct stream *stream = NULL;
    int r;

    if (!link->channel->writer)
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

    if (channel_enter(link->state, link->channel) < 0)
        return LINK_RAISED;
    r = publish(link, address, given);
    channel_leave(link->channel);
    if (r >= 0)
        return r;
    if (PyErr_Occurred())
        return LINK_RAISED;
    if (r == SLUICE_E_CAPTURING)
        return r;
    if (r == SLUICE_E_CLOSED)
        raise_as(link->state, ERROR_E_CLOSED, "channel '%s': this exporter is closed", link->channel->name);
    else
        raise_result(link->state, r);
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

    if (!(stream = link_stream(link->state, given, link->channel->device->name)))
        return NULL;
    if (channel_enter(link->state, link->channel) < 0) {
        stream_drop(stream);
        return NULL;
    }
    before = link->marked;
    link->marked = stream;
    channel_leave(link->channel);
    stream_drop(before);
    Py_RETURN_NONE;
}

/* ---- looking ---- */

static PyObject *info_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link_writer *link = (struct link_writer *)self;
    struct sluice_cipd_info info = { .size = sizeof info };
    struct sluice_writer_stats stats = { .size = sizeof stats };
    PyObject *made = NULL;
    int r = SLUICE_E_CLOSED;

    if (channel_enter(link->state, link->channel) < 0)
        return NULL;
    if (link->channel->writer)
        r = sluice_cipd_writer_info(link->channel->writer, &info);
    if (r == SLUICE_E_UNSUPPORTED && (r = sluice_writer_stats(link->channel->writer, &stats)) == 0) {
        info.index = (uint32_t)stats.committed;
        info.version = stats.session;
    }
    channel_leave(link->channel);
    if (r == SLUICE_E_CLOSED)
        Py_RETURN_NONE;
    made = r == 0 ? link_info(link->state, &info) : raise_result(link->state, r);
    return made;
}

static PyMethodDef methods[] = {
    { "send", METHOD(send), METH_FASTCALL, NULL },
    { "mark", METHOD(mark), METH_O, NULL },
    { "info", METHOD(info_), METH_NOARGS, NULL },
    { "close", METHOD(close_), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, new),
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_methods, methods),
    { Py_tp_doc, (void *)"What sluice.cuda_link.Exporter works with." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice._sluice._LinkWriter",
    .basicsize = sizeof(struct link_writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int link_writer_type_init(PyObject *module, struct state *state)
{
    state->link_writer = add_type(module, &spec);
    return state->link_writer ? 0 : -1;
}
