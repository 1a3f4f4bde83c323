/* SPDX-License-Identifier: MIT
 *
 * Opening writers.
 */
#include "writer.h"

#include <string.h>

#include "cipd.h"
#include "source.h"

static int parse_policy(const char *policy, PyObject *wait, struct sluice_writer_params *params)
{
    if (strcmp(policy, "wait") == 0)
        params->policy = SLUICE_WAIT;
    else if (strcmp(policy, "drop") != 0) {
        PyErr_Format(PyExc_ValueError, "policy is \"%s\": it must be \"drop\" or \"wait\"", policy);
        return -1;
    }
    if (parse_seconds(wait, "wait", SLUICE_S, &params->wait_ns) < 0)
        return -1;
    if (params->wait_ns == 0)
        params->wait_ns = 1; /* 0 means the default to the library */
    return 0;
}

PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "name",        "format",  "shape",    "dtype",
                             "device",      "policy",  "wait",     "slots",
                             "max_slots",   "readers", "writable", "lease_timeout",
                             "pitch_align", "uids",    "gids",     "graph",
                             "cipd",        NULL };
    struct state *state = PyType_GetModuleState(type);
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format;
    const char *policy = "drop";
    PyObject *spec = NULL, *shape = NULL, *dtype = NULL, *wait = NULL, *lease_timeout = NULL,
             *uids = NULL, *gids = NULL, *cipd = Py_None, *texts = NULL;
    struct sluice_cipd_writer_params cipd_params = SLUICE_CIPD_WRITER_PARAMS_INIT;
    uint32_t user_ids[MAX_IDS], group_ids[MAX_IDS];
    uint32_t pitch_align = 0;
    int writable = 0, graph = 1, r;

    params.device = "host";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|O$OOssOO&O&O&pOO&OOpO:Writer", names,
                                     &params.name, &spec, &shape, &dtype, &params.device, &policy,
                                     &wait, parse_u32, &params.slots, parse_u32, &params.max_slots,
                                     parse_u32, &params.readers, &writable, &lease_timeout,
                                     parse_u32, &pitch_align, &uids, &gids, &graph, &cipd))
        return NULL;
    if (parse_policy(policy, wait, &params) < 0 ||
        parse_ids(uids, user_ids, &params.uid_count) < 0 ||
        parse_ids(gids, group_ids, &params.gid_count) < 0 ||
        parse_seconds(lease_timeout, "lease_timeout", 0, &params.lease_timeout_ns) < 0 ||
        format_parse(state, spec, shape, dtype, pitch_align, &format) < 0 ||
        (cipd != Py_None && cipd_writer_params(cipd, &cipd_params, &texts) < 0))
        return NULL;
    params.format = &format;
    params.cipd = cipd != Py_None ? &cipd_params : NULL;
    params.writable = writable != 0;
    params.no_graphs = !graph;
    params.uids = user_ids;
    params.gids = group_ids;
    struct channel *channel = channel_new(params.name);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct writer *writer = channel ? (struct writer *)allocate(type, 0) : NULL;
    if (!writer) {
        channel_drop(channel);
        Py_XDECREF(texts);
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
    Py_XDECREF(texts);
    if (r == 0 && (strcmp(params.device, "host") == 0 ||
                   (channel->device = device_open(state, params.device))))
        return (PyObject *)writer;
    Py_DECREF(writer);
    return NULL;
}

/* The argument at this place or of this name, which is taken out of `options`: a new reference, or NULL. */
static PyObject *take_argument(PyObject *args, Py_ssize_t place, PyObject *options, const char *name)
{
    PyObject *value = place < PyTuple_Size(args) ? PyTuple_GetItem(args, place) : PyDict_GetItemString(options, name);

    Py_XINCREF(value);
    if (value && place >= PyTuple_Size(args) && PyDict_DelItemString(options, name) < 0)
        Py_CLEAR(value);
    return value;
}

PyObject *writer_like(PyObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *options = keywords ? PyDict_Copy(keywords) : PyDict_New();
    PyObject *name = options ? take_argument(args, 0, options, "name") : NULL;
    PyObject *array = options ? take_argument(args, 1, options, "array") : NULL;
    PyObject *short_args = NULL, *made = NULL;

    if (name && array && PyTuple_Size(args) <= 2)
        short_args = PyTuple_Pack(2, name, array);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "like() takes the channel's name and an array, or a mapping of names to arrays");
    if (short_args)
        made = PyObject_Call(type, short_args, options);
    Py_XDECREF(options);
    Py_XDECREF(name);
    Py_XDECREF(array);
    Py_XDECREF(short_args);
    return made;
}
