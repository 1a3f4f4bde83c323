/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: their parameters, and what is known of them, as tuples of values in C's order.
 * sluice/_params.py checks the former, sluice/_info.py names the latter.
 */
#include "cipd.h"

#include <string.h>

#include "array.h"
#include "reader.h"
#include "writer.h"

/* For the times: "n" reads a Py_ssize_t. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "64 bits");

int cipd_reader_params(PyObject *values, struct sluice_cipd_reader_params *p)
{
    return PyArg_ParseTuple(values, "IIIIInnn", &p->undeclared, &p->pair, &p->copy, &p->reconnect, &p->ahead,
                            &p->wait_spin_ns, &p->wait_ns, &p->stall_ns)
               ? 0
               : -1;
}

int cipd_writer_params(PyObject *values, struct sluice_cipd_writer_params *p)
{
    return PyArg_ParseTuple(values, "IIIIIIIIIIInzn", &p->block, &p->graph, &p->order, &p->mono_alpha, &p->flags,
                            &p->barrier, &p->holds_barrier, &p->settle_frames, &p->strict_device, &p->priority,
                            &p->doorbell, &p->barrier_stale_ns, &p->barrier_name, &p->close_grace_ns)
               ? 0
               : -1;
}

/* ---- what is known ---- */

typedef unsigned long long ull;

static PyObject *slot_values(const struct sluice_cipd_info *info)
{
    uint32_t count = info->slot_count <= SLUICE_CIPD_MAX_SLOTS ? info->slot_count : SLUICE_CIPD_MAX_SLOTS;
    PyObject *made = PyTuple_New(count);

    for (uint32_t i = 0; made && i < count; i++) {
        const struct sluice_cipd_slot_info *slot = &info->slots[i];
        PyObject *each = Py_BuildValue("(NNKLK)", PyBool_FromLong(slot->memory_open), PyBool_FromLong(slot->event_open),
                                       (ull)slot->frames, (long long)slot->last_wait_ns, (ull)slot->address);
        if (!each || PyTuple_SetItem(made, (Py_ssize_t)i, each) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *text(const char *words)
{
    return PyUnicode_DecodeUTF8(words, (Py_ssize_t)strlen(words), "replace");
}

static PyObject *info_values(const struct state *state, int r, const struct sluice_cipd_info *i)
{
    if (r != 0)
        return raise_result(state, r);
    return Py_BuildValue("(INNKIIIIIINIINNIINLKKKKKKNIKKKKKKKKKKN)", i->state, text(i->name), text(i->why),
                         (ull)i->version, i->index, i->slot_count, i->width, i->height, i->components, i->flags,
                         i->width ? dtype_text(state, i->dtype) : Py_NewRef(Py_None), i->frame_bytes, i->order,
                         PyBool_FromLong(i->order_declared), PyBool_FromLong(i->mono_alpha), i->writer_pid,
                         i->segment_bytes, PyBool_FromLong(i->by_sluice), (long long)i->last_frame_ns,
                         (ull)i->published, (ull)i->published_bytes, (ull)i->barrier_skips, (ull)i->failed,
                         (ull)i->graph_frames, (ull)i->relinked, PyBool_FromLong(i->holds_barrier), i->left_behind,
                         (ull)i->taken, (ull)i->no_frame, (ull)i->timeouts, (ull)i->reconnects, (ull)i->overruns,
                         (ull)i->repeated, (ull)i->dropped, (ull)i->spin_hits, (ull)i->latency_ns,
                         (ull)i->latency_total_ns, slot_values(i));
}

PyObject *cipd_reader_info(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    struct sluice_cipd_info info = { .size = sizeof info };

    if (!channel)
        return NULL;
    PyObject *made = info_values(reader->state, sluice_cipd_reader_info(channel->reader, &info), &info);
    channel_drop(channel);
    return made;
}

PyObject *cipd_writer_info(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct sluice_cipd_info info = { .size = sizeof info };

    if (!writer_enter(writer))
        return NULL;
    int r = sluice_cipd_writer_info(writer->channel->writer, &info);
    channel_leave(writer->channel);
    return info_values(writer->state, r, &info);
}

PyObject *cipd_look(PyObject *module, PyObject *args)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    const char *name;
    int r;

    if (!PyArg_ParseTuple(args, "s:cipd_look", &name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_cipd_look(name, &info);
    Py_END_ALLOW_THREADS return info_values(PyModule_GetState(module), r, &info);
}
