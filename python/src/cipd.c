/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: their parameters, as tuples of values in C's order, which sluice/_params.py
 * checks, and what is known of them.
 */
#include "cipd.h"

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

PyObject *cipd_reader_info(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    struct sluice_cipd_info info = { .size = sizeof info };

    if (!channel)
        return NULL;
    PyObject *made =
        struct_or_raise(reader->state, sluice_cipd_reader_info(channel->reader, &info), &info, sizeof info);
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
    return struct_or_raise(writer->state, r, &info, sizeof info);
}

PyObject *cipd_look(PyObject *module, PyObject *args)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    const char *name;
    int r;

    if (!PyArg_ParseTuple(args, "s:cipd_look", &name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_cipd_look(name, &info);
    Py_END_ALLOW_THREADS return struct_or_raise(PyModule_GetState(module), r, &info, sizeof info);
}
