/* SPDX-License-Identifier: MIT
 *
 * sluice.Writer.
 */
#include "writer.h"

#include <string.h>

#include "clock.h"
#include "frame.h"
#include "source.h"
#include "take.h"
#include "view.h"

struct channel *writer_enter(struct writer *writer)
{
    struct channel *channel = writer->channel;

    if (channel_enter(writer->state, channel) < 0)
        return NULL;
    if (channel->writer)
        return channel;
    channel_leave(channel);
    raise_as(writer->state, ERROR_E_CLOSED, "channel '%s': this writer is closed", channel->name);
    return NULL;
}

/* ---- slots ---- */

int writer_wait_for_slot(struct writer *writer, int64_t timeout_ns)
{
    struct patience patience;
    struct channel *channel;
    int r, again;

    /* Mostly there is one: to look takes less time than letting go of the GIL. */
    if (!(channel = writer_enter(writer)))
        return SLUICE_E_STALE;
    if ((r = sluice_writer_wait(channel->writer, 0)) != SLUICE_NO_SLOT)
        return r;
    channel_leave(channel);
    patience = patience_new(timeout_ns);
    do {
        if (!(channel = writer_enter(writer)))
            return SLUICE_E_STALE;
        Py_BEGIN_ALLOW_THREADS r = sluice_writer_wait(channel->writer, patience.slice);
        Py_END_ALLOW_THREADS if (r != SLUICE_NO_SLOT) return r;
        channel_leave(channel);
    } while ((again = patience_next(&patience, channel)) > 0);
    if (again < 0 || !writer_enter(writer))
        return SLUICE_E_STALE;
    return SLUICE_NO_SLOT;
}

/* Begins a frame into `lease` within the time; SLUICE_DEFAULT: as the policy says. */
static int begin(struct writer *writer, struct lease *lease, int64_t timeout_ns)
{
    int r = 0;

    if (timeout_ns == SLUICE_DEFAULT)
        timeout_ns = writer->wait_ns;
    if (timeout_ns > 0)
        r = writer_wait_for_slot(writer, timeout_ns);
    else if (!writer_enter(writer))
        return SLUICE_E_STALE;
    if (PyErr_Occurred())
        return SLUICE_E_STALE;
    if (r == 0 ||
        r == SLUICE_NO_SLOT) /* one nanosecond: what in-order readers have not read is kept */
        r = sluice_writer_begin(lease->channel->writer, timeout_ns > 0, &lease->frame);
    channel_leave(lease->channel);
    return r;
}

/* The stream that frame() was given, or the thread's, into the lease. -1 with an exception. */
static int name_stream(struct writer *writer, struct lease *lease, PyObject *given)
{
    struct stream *stream;

    if (!given && !lease->device)
        return 0;
    if (take_stream(writer->state, device_text(lease->device), given, &stream) < 0)
        return -1;
    return stream ? lease_use_named(lease, stream) : 0;
}

/* `values`: meta, like, capture_ns, stream. */
static PyObject *begin_frame(struct writer *writer, int64_t timeout_ns, PyObject **values,
                             int *result)
{
    PyObject *meta = values[0], *like = values[1], *capture_ns = values[2];
    struct lease *lease = lease_new(writer->channel);
    PyObject *frame;

    if (!lease)
        return NULL;
    *result = SLUICE_E_STALE;
    if (name_stream(writer, lease, values[3]) == 0)
        *result = begin(writer, lease, timeout_ns);
    if (*result != 0) {
        lease_discard(lease);
        return NULL;
    }
    if ((meta || like || capture_ns) &&
        header_fill(writer->state, &lease->frame, meta, like, capture_ns) < 0) {
        (void)lease_drop(lease);
        return NULL;
    }
    frame = writer_frame_new(writer->state, lease);
    return frame;
}

static PyObject *frame(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "timeout", "meta", "like", "capture_ns", "stream", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *values[5] = { NULL };
    int64_t timeout_ns = SLUICE_DEFAULT;
    int r = 0;

    if ((count || keywords) &&
        (parse_fast("frame", names, 1, args, count, keywords, values) < 0 ||
         parse_seconds(values[0], "timeout", SLUICE_DEFAULT, &timeout_ns) < 0))
        return NULL;
    PyObject *made = begin_frame(writer, timeout_ns, values + 1, &r);
    if (!made && !PyErr_Occurred())
        raise_result(writer->state, r);
    return made;
}

static PyObject *try_frame(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *keywords)
{
    static const char *const names[] = { "meta", "like", "capture_ns", "stream", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *values[4] = { NULL };
    int r = 0;

    if (parse_fast("try_frame", names, 0, args, count, keywords, values) < 0)
        return NULL;
    PyObject *made = begin_frame(writer, 0, values, &r);
    if (made || PyErr_Occurred())
        return made;
    if (r == SLUICE_NO_SLOT)
        Py_RETURN_NONE;
    return raise_result(writer->state, r);
}

/* ---- open, close, reformat ---- */

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

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "name",        "format",  "shape",    "dtype",
                             "device",      "policy",  "wait",     "slots",
                             "max_slots",   "readers", "writable", "lease_timeout",
                             "pitch_align", "uids",    "gids",     "graph",
                             NULL };
    struct state *state = PyType_GetModuleState(type);
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format;
    const char *policy = "drop";
    PyObject *spec = NULL, *shape = NULL, *dtype = NULL, *wait = NULL, *lease_timeout = NULL,
             *uids = NULL, *gids = NULL;
    uint32_t user_ids[MAX_IDS], group_ids[MAX_IDS];
    uint32_t pitch_align = 0;
    int writable = 0, graph = 1, r;

    params.device = "host";
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|O$OOssOO&O&O&pOO&OOp:Writer", names,
                                     &params.name, &spec, &shape, &dtype, &params.device, &policy,
                                     &wait, parse_u32, &params.slots, parse_u32, &params.max_slots,
                                     parse_u32, &params.readers, &writable, &lease_timeout,
                                     parse_u32, &pitch_align, &uids, &gids, &graph))
        return NULL;
    if (parse_policy(policy, wait, &params) < 0 ||
        parse_ids(uids, user_ids, &params.uid_count) < 0 ||
        parse_ids(gids, group_ids, &params.gid_count) < 0 ||
        parse_seconds(lease_timeout, "lease_timeout", 0, &params.lease_timeout_ns) < 0 ||
        format_parse(state, spec, shape, dtype, pitch_align, &format) < 0)
        return NULL;
    params.format = &format;
    params.writable = writable != 0;
    params.no_graphs = !graph;
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
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_open(&channel->writer, &params);
    Py_END_ALLOW_THREADS if (r == 0 && (strcmp(params.device, "host") == 0 ||
                                        (channel->device = device_open(state, params.device))))
        return (PyObject *)writer;
    if (r != 0)
        raise_result(state, r);
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

static PyObject *like(PyObject *type, PyObject *args, PyObject *keywords)
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

static PyObject *reformat(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "format", "shape", "dtype", "pitch_align", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *spec = NULL, *shape = NULL, *dtype = NULL;
    struct sluice_format format;
    uint32_t pitch_align = 0;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OOO&:reformat", names, &spec, &shape,
                                     &dtype, parse_u32, &pitch_align) ||
        format_parse(writer->state, spec, shape, dtype, pitch_align, &format) < 0 ||
        !writer_enter(writer))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_reformat(writer->channel->writer, &format);
    Py_END_ALLOW_THREADS channel_leave(writer->channel);
    if (r != 0)
        return raise_result(writer->state, r);
    Py_RETURN_NONE;
}

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct channel *channel = writer->channel;
    int r = 0;

    if (!atomic_load(&channel->closed)) {
        if (channel_enter(writer->state, channel) < 0)
            return NULL;
        atomic_store(&channel->closed, true);
        Py_BEGIN_ALLOW_THREADS r = sluice_writer_close(&channel->writer);
        Py_END_ALLOW_THREADS channel_leave(channel);
        views_clear(channel);
        writer_drop_kept(writer);
    }
    if (r != 0)
        return raise_result(writer->state, r);
    Py_RETURN_NONE;
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *Py_UNUSED(args))
{
    PyObject *done = close_(self, NULL);

    if (!done)
        return NULL;
    Py_DECREF(done);
    Py_RETURN_FALSE;
}

/* Frames that are begun still are the channel's: it ends with the last of them. */
static void writer_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    if (((struct writer *)self)->channel) {
        channel_let_go(((struct writer *)self)->channel);
        views_clear(((struct writer *)self)->channel);
    }
    writer_drop_kept((struct writer *)self);
    channel_drop(((struct writer *)self)->channel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- looking ---- */

static PyObject *stats(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct writer *writer = (struct writer *)self;
    struct sluice_writer_stats counts = { .size = sizeof counts };

    if (!writer_enter(writer))
        return NULL;
    int r = sluice_writer_stats(writer->channel->writer, &counts);
    channel_leave(writer->channel);
    return r == 0 ? writer_stats_object(writer->state, &counts) : raise_result(writer->state, r);
}

static PyObject *get_format(PyObject *self, void *Py_UNUSED(closure))
{
    struct writer *writer = (struct writer *)self;
    struct sluice_format format = SLUICE_FORMAT_INIT;

    if (!writer_enter(writer))
        return NULL;
    int r = sluice_writer_format(writer->channel->writer, &format);
    channel_leave(writer->channel);
    return r == 0 ? format_object(writer->state, &format) : raise_result(writer->state, r);
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(atomic_load(&((struct writer *)self)->channel->closed));
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(device_text(((struct writer *)self)->channel->device));
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((struct writer *)self)->channel->name);
}

static PyObject *repr(PyObject *self)
{
    struct channel *channel = ((struct writer *)self)->channel;

    return PyUnicode_FromFormat("<sluice.Writer of '%s'%s>", channel->name,
                                atomic_load(&channel->closed) ? ", closed" : "");
}

static PyObject *no_pickle(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    PyErr_SetString(PyExc_TypeError,
                    "a Writer cannot be pickled: open it in the process that writes");
    return NULL;
}

static PyMethodDef methods[] = {
    { "frame", METHOD(frame), METH_FASTCALL | METH_KEYWORDS,
      "frame($self, timeout=None, *, meta=None, like=None, capture_ns=None, stream=None)\n--\n\n"
      "-> WriterFrame\n\n"
      "Lends a free slot, for `with`: leaving commits it, an exception cancels it.\n"
      "`timeout` in seconds; None does what the policy says. `meta`: bytes for readers, up\n"
      "to 4,096. `like`: a Frame whose times and metadata are taken over. `capture_ns`:\n"
      "when the content was captured (now). `stream`: on a GPU, the one whose work fills the\n"
      "slot; see Reader.next.\n\n"
      "Raises NoFreeSlot, which names who holds what, if there is none in time: the frame\n"
      "counts as dropped." },
    { "try_frame", METHOD(try_frame), METH_FASTCALL | METH_KEYWORDS,
      "try_frame($self, *, meta=None, like=None, capture_ns=None, stream=None)\n--\n\n"
      "-> WriterFrame | None\n\n"
      "The same, and None instead of NoFreeSlot; never waits." },
    { "send", METHOD(writer_send), METH_FASTCALL | METH_KEYWORDS,
      "send($self, array, *, meta=None, like=None, capture_ns=None, pixel_format=None, stream=None)\n--\n\n"
      "-> int\n\n"
      "Copies an array, or {name: array}, into a slot and commits it; gives its sequence.\n"
      "Arrays are anything with the buffer protocol, DLPack or an array interface, of any\n"
      "strides. A shape that outgrows the format makes a new generation. `pixel_format`\n"
      "says what the array is: FormatError if the channel's is another.\n\n"
      "Raises NoFreeSlot; FormatError for another data type; TypeError for what is no\n"
      "array." },
    { "like", METHOD(like), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      "like($type, name, array, *, device=\"host\", policy=\"drop\", wait=1.0, slots=0, max_slots=0, readers=0, writable=False, "
      "lease_timeout=None, pitch_align=0, uids=(), gids=(), graph=True)\n--\n\n"
      "-> Writer\n\n"
      "A writer for arrays (or {name: array}) of that shape and data type." },
    { "reformat", METHOD(reformat), METH_VARARGS | METH_KEYWORDS,
      "reformat($self, format=None, *, shape=None, dtype=None, pitch_align=0)\n--\n\n"
      "Changes the format: a new generation of slots. Raises BusyError while frames are\n"
      "begun." },
    { "stats", METHOD(stats), METH_NOARGS,
      "stats($self)\n--\n\n"
      "-> WriterStats" },
    { "close", METHOD(close_), METH_NOARGS,
      "close($self)\n--\n\n"
      "Ends the channel: readers get what they have not read, then Closed. Frames still\n"
      "begun are cancelled." },
    { "__enter__", METHOD(enter), METH_NOARGS, "__enter__($self)\n--\n\n" },
    { "__exit__", METHOD(leave), METH_VARARGS, "__exit__($self, kind, error, traceback, /)\n--\n\n" },
    { "__reduce__", METHOD(no_pickle), METH_NOARGS, "__reduce__($self)\n--\n\n" },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "name", get_name, NULL, "of the channel", NULL },
    { "device", get_device, NULL, "where its slots lie: \"host\", \"cuda:0\"", NULL },
    { "closed", get_closed, NULL, "True once closed", NULL },
    { "format", get_format, NULL, "{name: Tensor or Image}: the channel's capacities", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, writer_new),
    SLOT(Py_tp_dealloc, writer_dealloc),
    SLOT(Py_tp_repr, repr),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    { Py_tp_doc,
      (void *)"Writer(name, format=None, *, shape=None, dtype=None, device=\"host\", "
              "policy=\"drop\", wait=1.0, slots=0,\n"
      "       max_slots=0, readers=0, writable=False, lease_timeout=None, pitch_align=0, "
      "uids=(), gids=(),\n"
      "       graph=True)\n--\n\n"
      "Opens a channel for writing. A name whose writer was killed is taken over at once.\n\n"
      "format         Image(...), Tensor(shape, dtype), an array to be like, or {name: one of "
      "these} for frames of\n"
      "               several arrays; or give shape= and dtype= (uint8). Shapes are capacities\n"
      "policy, wait   when every slot is taken: \"drop\" the frame, or \"wait\" so many seconds "
      "for a reader\n"
      "slots          to start with; 0: 4. max_slots: grows up to this first; 0: twice `slots`\n"
      "readers        places for readers; 0: 64\n"
      "writable       readers may ask for writable frames; nobody is then protected from them\n"
      "lease_timeout  seconds after which a reader that holds a frame and starves the writer is "
      "evicted\n"
      "device         where slots lie: \"host\", \"cuda:0\", \"cuda:GPU-...\"\n"
      "pitch_align    bytes that rows of images are aligned to\n"
      "uids, gids     other users and groups that may read; needs SLUICE_DIR\n"
      "graph          send() of the same few arrays, on a GPU, as graphs of the driver's: one "
      "launch each; False: call by call\n\n"
      "Raises ExistsError (a FileExistsError) if a live writer has the name, FormatError, "
      "ChannelNameError,\n"
      "AccessError, NoMemoryError, UnsupportedError for a device that is not there." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice.Writer",
    .basicsize = sizeof(struct writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int writer_type_init(PyObject *module, struct state *state)
{
    state->writer = add_type(module, &spec);
    return state->writer ? 0 : -1;
}
