/* SPDX-License-Identifier: MIT
 *
 * The base of sluice.cuda_link.Importer: what it is opened with and lets go, and its counters. An importer may be
 * opened several times, with another reader each time.
 */
#include "cuda_link.h"

#include <stddef.h>
#include <string.h>

#include "view.h"

/* ---- letting go ---- */

void link_forget(struct link *link)
{
    for (int i = 0; i < 2 * LINK_SLOTS; i++) {
        struct slot_result *slot = &link->slot_results[i / LINK_SLOTS][i % LINK_SLOTS], made = *slot;
        *slot = (struct slot_result){ NULL, NULL };
        Py_XDECREF(made.view);
        Py_XDECREF(made.result);
    }
    link_forget_copies(link);
    if (link->reader->channel)
        views_clear(link->reader->channel);
}

static void let_go(struct link *link)
{
    if (!link->reader)
        return;
    link_forget(link);
    (void)lease_drop(link->pending);
    (void)lease_drop(link->held);
    link->pending = link->held = NULL;
}

int link_enter(struct link *link)
{
    if (!atomic_exchange(&link->busy, true))
        return 0;
    raise_as(link->reader->state, ERROR_E_BUSY, "another thread is using this importer: open one for each thread");
    return -1;
}

/* Of close() and a call that it meets, the last one lets go. */
static void let_go_if_closed(struct link *link)
{
    if (link->open || atomic_exchange(&link->busy, true))
        return;
    let_go(link);
    atomic_store(&link->busy, false);
}

void link_leave(struct link *link)
{
    atomic_store(&link->busy, false);
    let_go_if_closed(link);
}

static void drop_all(struct link *link)
{
    let_go(link);
    Py_XDECREF((PyObject *)link->reader);
    Py_XDECREF(link->result);
    Py_XDECREF(link->none);
}

PyObject *link_detach(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct link *link = (struct link *)self;

    link->open = false;
    let_go_if_closed(link);
    if (link->reader && reader_close(link->reader) < 0)
        return NULL;
    Py_RETURN_NONE;
}

void link_dealloc(PyObject *self)
{
    drop_all((struct link *)self);
    free_object(self);
}

/* ---- opening ---- */

PyObject *link_attach(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "reader",    "result",   "none",   "timeout_ns", "spin_ns", "pageable",
                             "pipelined", "gpu_wait", "window", "threshold",  NULL };
    struct link *link = (struct link *)self;
    struct channel *channel;

    if (link_enter(link) < 0)
        return NULL;
    drop_all(link);
    memset((char *)link + offsetof(struct link, reader), 0, sizeof *link - offsetof(struct link, reader));
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOnnpppII:_attach", names, &link->reader, &link->result,
                                     &link->none, &link->timeout_ns, &link->spin_ns, &link->pageable, &link->pipelined,
                                     &link->gpu_wait, &link->window, &link->threshold)) {
        link->reader = NULL;
        link->result = link->none = NULL;
        link_leave(link);
        return NULL;
    }
    Py_INCREF((PyObject *)link->reader);
    Py_INCREF(link->result);
    Py_INCREF(link->none);
    if ((channel = reader_channel(link->reader))) {
        link->foreign = channel->foreign;
        link->copies = !channel->foreign && !channel->writable;
        link->open = true;
        channel_drop(channel);
    }
    link_leave(link);
    return link->open ? Py_NewRef(Py_None) : NULL;
}

/* ---- inspection ---- */

PyObject *link_counts(PyObject *self, PyObject *Py_UNUSED(none))
{
    const struct link *link = (const struct link *)self;

    return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsLsOsKsO}", "frames", link->frames, "missed", link->missed, "overruns",
                         link->overruns, "timeouts", link->timeouts, "renewals", link->renewals, "spin_hits",
                         link->spin_hits, "sleep_hits", link->sleep_hits, "spun_ns", link->spun_ns, "slept_ns",
                         link->slept_ns, "latency_ns", (long long)link->latency_ns, "gpu_wait",
                         link->gpu_wait ? Py_True : Py_False, "latched", link->latched, "pinned",
                         link->pinned ? Py_True : Py_False);
}
