/* SPDX-License-Identifier: MIT
 *
 * sluice._sluice._LinkReader: opening, closing, and what it knows. sluice/cuda_link/importer.py makes them.
 */
#include "cuda_link.h"

#include <sluice/cipd.h>

#include "view.h"

/* ---- letting go ---- */

void link_forget(struct link *link)
{
    for (int kind = 0; kind < 2; kind++) {
        for (int slot = 0; slot < LINK_SLOTS; slot++) {
            struct shown shown = link->shown[kind][slot];
            link->shown[kind][slot] = (struct shown){ NULL, NULL };
            Py_XDECREF(shown.view);
            Py_XDECREF(shown.result);
        }
    }
    link_forget_landings(link);
    if (link->reader.channel)
        views_clear(link->reader.channel);
}

/* What a call that is under way has, that call ends. */
static void let_go(struct link *link)
{
    link_forget(link);
    (void)lease_drop(link->pending);
    (void)lease_drop(link->held);
    link->pending = link->held = NULL;
}

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link *link = (struct link *)self;
    bool idle = !atomic_exchange(&link->busy, true);

    if (idle) {
        let_go(link);
        atomic_store(&link->busy, false);
    }
    if (reader_close(&link->reader) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    struct link *link = (struct link *)self;
    PyTypeObject *type = Py_TYPE(self);

    let_go(link);
    if (link->reader.channel && reader_close(&link->reader) < 0)
        PyErr_Clear();
    Py_XDECREF(link->result);
    Py_XDECREF(link->none);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- opening ---- */

static int open_channel(struct link *link, struct sluice_reader_params *params, int64_t wait_ns)
{
    static const uint32_t holds[] = { 4, 2, 1 }; /* what the program has, what is copied, what comes */
    int r = SLUICE_E_LIMIT;

    for (size_t i = 0; r == SLUICE_E_LIMIT && i < sizeof holds / sizeof holds[0]; i++) {
        params->hold = holds[i];
        r = reader_open(link->reader.channel, params, wait_ns);
    }
    if (r == 0 && params->hold == 1)
        link->pipelined = false;
    return r;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "name",       "device",   "result",    "none",     "later",  "timeout_ns",
                             "spin_ns",    "writable", "pageable",  "pipelined", "gpu_wait", "window",
                             "threshold", NULL };
    struct state *state = PyType_GetModuleState(type);
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    int later, writable, pageable, pipelined, gpu_wait, r;
    long long timeout_ns, spin_ns;
    unsigned window, threshold;
    PyObject *result, *none;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "szOOpLLppppII:_LinkReader", names, &params.name,
                                     &params.device, &result, &none, &later, &timeout_ns, &spin_ns,
                                     &writable, &pageable, &pipelined, &gpu_wait, &window, &threshold))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct link *link = (struct link *)allocate(type, 0);
    if (!link)
        return NULL;
    link->reader.state = state;
    link->result = Py_NewRef(result);
    link->none = Py_NewRef(none);
    link->timeout_ns = timeout_ns;
    link->spin_ns = spin_ns > 0 ? spin_ns : 0;
    link->pageable = pageable;
    link->pipelined = pipelined;
    link->gpu_wait = gpu_wait;
    link->window = window;
    link->threshold = threshold;
    params.writable = writable != 0;
    params.ahead = 1;
    params.spin_ns = spin_ns > 0 ? spin_ns : -1;
    cipd.wait_spin_ns = params.spin_ns;
    cipd.wait_ns = timeout_ns;
    if (channel_is_foreign(params.name))
        params.cipd = &cipd;
    link->foreign = params.cipd != NULL;
    link->copies = !params.cipd && !writable;
    if (!(link->reader.channel = channel_new(params.name))) {
        Py_DECREF((PyObject *)link);
        return NULL;
    }
    link->reader.channel->writable = writable != 0;
    link->reader.ahead = true;
    r = open_channel(link, &params, later ? SLUICE_LATER : 0);
    if (r != 0 || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            raise_result(state, r);
        Py_DECREF((PyObject *)link);
        return NULL;
    }
    return (PyObject *)link;
}

/* ---- looking ---- */

static PyObject *counts(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link *link = (struct link *)self;

    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsLsOsKsO}", "frames", link->frames, "missed", link->missed,
                         "overruns", link->overruns, "timeouts", link->timeouts, "renewals",
                         link->renewals, "spin_hits", link->spin_hits, "sleep_hits", link->sleep_hits,
                         "spun_ns", link->spun_ns, "slept_ns", link->slept_ns, "latency_ns",
                         (long long)link->latency_ns, "gpu_wait", link->gpu_wait ? Py_True : Py_False,
                         "latched", link->latched, "pinned", link->pinned ? Py_True : Py_False);
}

static PyObject *get_frames(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(((struct link *)self)->frames);
}

static PyObject *get_latency(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((struct link *)self)->latency_ns);
}

static PyObject *get_pipelined(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((struct link *)self)->pipelined);
}

static PyObject *addresses(const struct sluice_cipd_info *info)
{
    PyObject *made = PyTuple_New(info->slot_count);

    for (uint32_t i = 0; made && i < info->slot_count; i++) {
        PyObject *address = PyLong_FromUnsignedLongLong(info->slots[i].address);
        if (!address || PyTuple_SetItem(made, (Py_ssize_t)i, address) < 0)
            Py_CLEAR(made);
    }
    return made;
}

PyObject *link_info(const struct state *state, const struct sluice_cipd_info *info)
{
    PyObject *slots = addresses(info);
    PyObject *dtype = slots && info->width ? dtype_text(state, info->dtype) : Py_NewRef(Py_None);
    PyObject *made = NULL;

    if (slots && dtype)
        made = Py_BuildValue("{sIsssKsIsIs(III)sIsOsOsIsOsKsK}", "state", info->state, "why", info->why,
                             "version", info->version, "index", info->index, "slots", info->slot_count,
                             "shape", info->height, info->width, info->components, "flags", info->flags,
                             "dtype", dtype, "addresses", slots, "writer_pid", info->writer_pid,
                             "by_sluice", info->by_sluice ? Py_True : Py_False, "barrier_skips",
                             info->barrier_skips, "graph_frames", info->graph_frames);
    Py_XDECREF(slots);
    Py_XDECREF(dtype);
    return made;
}

/* Of a native channel: as far as it has such things. */
static PyObject *native_info(struct link *link, struct channel *channel)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_cipd_info info = { .size = sizeof info };
    const struct sluice_array *first = &format.arrays[0];

    (void)sluice_reader_stats(channel->reader, &stats);
    info.state = stats.connected ? SLUICE_CIPD_RUNNING : SLUICE_CIPD_ABSENT;
    info.version = stats.session;
    info.by_sluice = 1;
    if (sluice_reader_format(channel->reader, &format) == 0) {
        info.dtype = first->dtype;
        info.height = first->ndim > 0 ? (uint32_t)first->shape[0] : 1;
        info.width = first->ndim > 1 ? (uint32_t)first->shape[1] : 1;
        info.components = first->ndim > 2 ? (uint32_t)first->shape[2] : 1;
    }
    PyObject *made = link_info(link->reader.state, &info);
    PyObject *slots = made ? PyLong_FromUnsignedLong(stats.slots) : NULL;
    if (!slots || PyDict_SetItemString(made, "slots", slots) < 0)
        Py_CLEAR(made);
    Py_XDECREF(slots);
    return made;
}

static PyObject *info_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link *link = (struct link *)self;
    struct channel *channel = reader_channel(&link->reader);
    struct sluice_cipd_info info = { .size = sizeof info };
    PyObject *made = NULL;
    int r;

    if (channel && channel_enter(link->reader.state, channel) == 0) {
        r = sluice_cipd_reader_info(channel->reader, &info);
        if (r == SLUICE_E_UNSUPPORTED)
            made = native_info(link, channel);
        else
            made = r == 0 ? link_info(link->reader.state, &info) : raise_result(link->reader.state, r);
        channel_leave(channel);
    }
    channel_drop(channel);
    return made;
}

static PyObject *retry(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct channel *channel = reader_keep_channel(&((struct link *)self)->reader);

    if (channel)
        (void)sluice_cipd_retry(channel->reader);
    channel_drop(channel);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "counts", METHOD(counts), METH_NOARGS, NULL },
    { "info", METHOD(info_), METH_NOARGS, NULL },
    { "retry", METHOD(retry), METH_NOARGS, NULL },
    { "wait", METHOD(link_wait), METH_O, NULL },
    { "close", METHOD(close_), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "frames", get_frames, NULL, NULL, NULL },
    { "latency_ns", get_latency, NULL, NULL, NULL },
    { "pipelined", get_pipelined, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, new),
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    { Py_tp_doc, (void *)"What sluice.cuda_link.Importer works with." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice._sluice._LinkReader",
    .basicsize = sizeof(struct link),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int link_types_init(PyObject *module, struct state *state)
{
    state->link_reader = add_type(module, &spec);
    if (!state->link_reader || link_writer_type_init(module, state) < 0)
        return -1;
    return link_call_types_init(module, state);
}
