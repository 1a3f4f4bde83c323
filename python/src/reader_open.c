/* SPDX-License-Identifier: MIT
 *
 * Opening and closing readers.
 */
#include "reader.h"

#include <string.h>

#include "cipd.h"
#include "clock.h"
#include "view.h"

/* Waits in slices, with an attempt in each. An attempt that has reached the writer lasts until the answer, beyond its
 * slice, so that no reader is admitted, counted, and gone again. */
static int reader_open(struct channel *channel, struct sluice_reader_params *params, int64_t wait_ns)
{
    struct patience patience = patience_new(wait_ns == SLUICE_LATER ? 0 : wait_ns);
    int r, again;

    do {
        params->open_timeout_ns = wait_ns == SLUICE_LATER ? SLUICE_LATER : patience.slice;
        Py_BEGIN_ALLOW_THREADS r = sluice_reader_open(&channel->reader, params);
        Py_END_ALLOW_THREADS if (r != SLUICE_E_NOT_FOUND && r != SLUICE_TIMEOUT && r != SLUICE_AGAIN) return r;
    } while ((again = patience_next(&patience, NULL)) > 0);
    return r;
}

/* Takes the arguments as sluice._reader prepares them. */
PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    struct state *state = state_of_class(type);
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd_params = SLUICE_CIPD_READER_PARAMS_INIT;
    PyObject *wait, *spin, *uids, *ahead_timeout, *cipd;
    uint32_t ids[MAX_IDS];
    int64_t wait_ns = 0;
    int writable, ahead, r;

    if (!PyArg_ParseTuple(args, "sIO&O&O&pOOOzpOIO:Reader", &params.name, &params.mode, parse_u32, &params.depth,
                          parse_u32, &params.hold, parse_u32, &params.every, &writable, &wait, &spin, &uids,
                          &params.device, &ahead, &ahead_timeout, &params.staged, &cipd) ||
        parse_ids(uids, ids, &params.uid_count) < 0 || parse_seconds(wait, "wait", SLUICE_LATER, &wait_ns) < 0 ||
        parse_seconds(spin, "spin", 0, &params.spin_ns) < 0 ||
        parse_seconds(ahead_timeout, "ahead_timeout", 0, &params.ahead_ns) < 0 ||
        (cipd != Py_None && cipd_reader_params(cipd, &cipd_params) < 0))
        return NULL;
    if (spin != Py_None && params.spin_ns == 0)
        params.spin_ns = -1; /* the program asked not to spin */
    params.uids = ids;
    params.writable = writable != 0;
    params.ahead = ahead != 0;
    params.cipd = cipd != Py_None ? &cipd_params : NULL;
    struct channel *channel = channel_new(params.name);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct reader *reader = channel ? (struct reader *)allocate(type, 0) : NULL;
    if (!reader) {
        channel_drop(channel);
        return NULL;
    }
    reader->state = state;
    reader->channel = channel;
    reader->ahead = cipd_params.ahead ? cipd_params.ahead == SLUICE_CIPD_ON : ahead != 0;
    channel->slow = cipd_params.copy != 0;
    channel->writable = writable != 0;
    reader->in_order = params.mode == SLUICE_IN_ORDER;
    r = reader_open(channel, &params, wait_ns);
    if (r != 0 || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            raise_result(state, r);
        Py_DECREF(reader);
        return NULL;
    }
    return (PyObject *)reader;
}

int reader_close(struct reader *reader)
{
    struct channel *channel;
    int r = reader_release_last(reader);

    GUARD(reader)
    channel = reader->channel;
    reader->channel = NULL;
    UNGUARD()
    if (!channel)
        return r;
    atomic_store(&channel->closed, true);
    if (channel_enter(reader->state, channel) < 0) {
        r = -1;
    } else {
        (void)sluice_reader_stop(channel->reader); /* frames that live keep it open */
        channel_leave_closed(channel);
    }
    views_clear(channel);
    channel_drop(channel);
    return r;
}
