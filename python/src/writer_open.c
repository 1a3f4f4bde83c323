/* SPDX-License-Identifier: MIT
 *
 * Opening writers.
 */
#include "writer.h"

#include <string.h>

#include "cipd.h"
#include "source.h"

/* Takes the arguments as sluice._writer prepares them. */
PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    struct state *state = state_of_class(type);
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_cipd_writer_params cipd_params = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_format format;
    PyObject *wait, *lease_timeout, *uids, *gids, *entries, *cipd;
    uint32_t user_ids[MAX_IDS], group_ids[MAX_IDS], pitch_align;
    int writable, graph, resize, r;

    if (!PyArg_ParseTuple(args, "ssIOO&O&O&pOOOppOO&O:Writer", &params.name, &params.device, &params.policy, &wait,
                          parse_u32, &params.slots, parse_u32, &params.max_slots, parse_u32, &params.readers, &writable,
                          &lease_timeout, &uids, &gids, &graph, &resize, &entries, parse_u32, &pitch_align, &cipd) ||
        parse_seconds(wait, "wait", SLUICE_S, &params.wait_ns) < 0 ||
        parse_ids(uids, user_ids, &params.uid_count) < 0 || parse_ids(gids, group_ids, &params.gid_count) < 0 ||
        parse_seconds(lease_timeout, "lease_timeout", 0, &params.lease_timeout_ns) < 0 ||
        format_parse(state, entries, pitch_align, &format) < 0 ||
        (cipd != Py_None && cipd_writer_params(cipd, &cipd_params) < 0))
        return NULL;
    if (params.wait_ns == 0)
        params.wait_ns = 1; /* 0 means the default to the library */
    params.format = &format;
    params.cipd = cipd != Py_None ? &cipd_params : NULL;
    params.writable = writable != 0;
    params.no_graphs = !graph;
    params.resize = resize != 0;
    params.uids = user_ids;
    params.gids = group_ids;
    struct channel *channel = channel_new(params.name);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct writer *writer = channel ? (struct writer *)allocate(type, 0) : NULL;
    if (!writer) {
        channel_drop(channel);
        return NULL;
    }
    writer->state = state;
    writer->channel = channel;
    /* Writers of cuda-link's protocol wait for their GPU, whatever the policy. */
    bool waits = params.policy == SLUICE_WAIT || channel_is_foreign(params.name);
    writer->wait_ns = waits ? params.wait_ns : 0;
    channel->writable = true;
    channel->slow = cipd_params.block != 0;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_open(&channel->writer, &params);
    Py_END_ALLOW_THREADS if (r != 0) raise_result(state, r);
    if (r == 0 && (strcmp(params.device, "host") == 0 || (channel->device = device_open(state, params.device))))
        return (PyObject *)writer;
    Py_DECREF(writer);
    return NULL;
}
