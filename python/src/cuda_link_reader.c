/* SPDX-License-Identifier: MIT
 *
 * sluice._sluice._LinkReader: what it keeps, and its counters. sluice/cuda_link/importer.py makes them.
 */
#include "cuda_link.h"

#include <stddef.h>
#include <structmember.h>

#include "view.h"

/* ---- letting go ---- */

void link_forget(struct link *link)
{
    for (int kind = 0; kind < 2; kind++) {
        for (int slot = 0; slot < LINK_SLOTS; slot++) {
            struct slot_result made = link->slot_results[kind][slot];
            link->slot_results[kind][slot] = (struct slot_result){ NULL, NULL };
            Py_XDECREF(made.view);
            Py_XDECREF(made.result);
        }
    }
    link_forget_copies(link);
    if (link->reader->channel)
        views_clear(link->reader->channel);
}

/* Not while a call runs: that call releases what it holds. */
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
    if (reader_close(link->reader) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void dealloc(PyObject *self)
{
    struct link *link = (struct link *)self;
    PyTypeObject *type = Py_TYPE(self);

    let_go(link);
    Py_DECREF((PyObject *)link->reader);
    Py_XDECREF(link->result);
    Py_XDECREF(link->none);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "reader",    "result",   "none",   "timeout_ns", "spin_ns", "pageable",
                             "pipelined", "gpu_wait", "window", "threshold",  NULL };
    const struct state *state = PyType_GetModuleState(type);
    int pageable, pipelined, gpu_wait;
    long long timeout_ns, spin_ns;
    unsigned window, threshold;
    PyObject *reader, *result, *none;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!OOLLpppII:_LinkReader", names, state->reader, &reader, &result,
                                     &none, &timeout_ns, &spin_ns, &pageable, &pipelined, &gpu_wait, &window,
                                     &threshold))
        return NULL;
    struct channel *channel = reader_channel((struct reader *)reader);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct link *link = channel ? (struct link *)allocate(type, 0) : NULL;
    if (link) {
        link->reader = (struct reader *)Py_NewRef(reader);
        link->result = Py_NewRef(result);
        link->none = Py_NewRef(none);
        link->foreign = channel->foreign;
        link->copies = !channel->foreign && !channel->writable;
        link->timeout_ns = timeout_ns;
        link->spin_ns = spin_ns;
        link->pageable = pageable;
        link->pipelined = pipelined;
        link->gpu_wait = gpu_wait;
        link->window = window;
        link->threshold = threshold;
    }
    channel_drop(channel);
    return (PyObject *)link;
}

/* ---- inspection ---- */

static PyObject *counts(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link *link = (struct link *)self;

    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsLsOsKsO}", "frames", link->frames, "missed", link->missed, "overruns",
                         link->overruns, "timeouts", link->timeouts, "renewals", link->renewals, "spin_hits",
                         link->spin_hits, "sleep_hits", link->sleep_hits, "spun_ns", link->spun_ns, "slept_ns",
                         link->slept_ns, "latency_ns", (long long)link->latency_ns, "gpu_wait",
                         link->gpu_wait ? Py_True : Py_False, "latched", link->latched, "pinned",
                         link->pinned ? Py_True : Py_False);
}

static PyMemberDef members[] = {
    { "frames", T_ULONGLONG, offsetof(struct link, frames), READONLY, NULL },
    { "latency_ns", T_LONGLONG, offsetof(struct link, latency_ns), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyMethodDef methods[] = {
    { "counts", METHOD(counts), METH_NOARGS, NULL },
    { "wait", METHOD(link_wait), METH_O, NULL },
    { "close", METHOD(close_), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, new),       SLOT(Py_tp_dealloc, dealloc),    SLOT(Py_tp_methods, methods),
    { Py_tp_members, members }, SLOT(Py_tp_doc, DOC_LinkReader), { 0, NULL },
};

TYPE_SPEC(link_reader, "sluice._sluice._LinkReader", struct link, 0, slots);
