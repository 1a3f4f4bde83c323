/* SPDX-License-Identifier: MIT
 *
 * sluice.Reader.
 */
#include "reader.h"

#include <string.h>

#include "clock.h"
#include "frame.h"
#include "source.h"
#include "take.h"
#include "view.h"

/* The channel, kept; NULL once closed. */
static struct channel *keep_channel(struct reader *reader)
{
    struct channel *channel;

    GUARD(reader)
    channel = reader->channel;
    if (channel)
        atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    UNGUARD()
    return channel;
}

/* The same, with an exception. */
static struct channel *get_channel(struct reader *reader)
{
    struct channel *channel = keep_channel(reader);

    if (!channel)
        raise_as(reader->state, ERROR_E_STALE, "this reader is closed");
    return channel;
}

/* ---- taking frames ---- */

/* Where the frame lies that was just acquired; looked at again when another writer came. With the channel entered.
 * Not 0: the exception is set, and the frame given back. */
static int place(struct reader *reader, struct channel *channel, struct lease *lease)
{
    char name[DEVICE_NAME];
    int r = 0;

    if (channel->session != lease->frame.session) {
        const struct opened *device = NULL;
        r = sluice_frame_device(&lease->frame, name, sizeof name);
        if (r == 0 && strcmp(name, "host") != 0 && !(device = device_open(reader->state, name)))
            r = SLUICE_E_UNSUPPORTED;
        if (r != 0) {
            (void)lease_release(lease);
            if (!PyErr_Occurred())
                raise_result(reader->state, r);
            return r;
        }
        channel->device = device;
        channel->session = lease->frame.session;
    }
    lease->device = channel->device;
    return 0;
}

static struct sluice_stream stream_for(const struct lease *lease)
{
    return lease->used_count ? stream_handle(lease->used[0]) : SLUICE_ON_CPU;
}

static int acquire_now(struct reader *reader, struct channel *channel, struct lease *lease)
{
    int r;

    if (channel_enter(reader->state, channel) < 0)
        return SLUICE_E_FORKED; /* the exception is set */
    r = sluice_reader_acquire(channel->reader, stream_for(lease), 0, &lease->frame);
    if (r == 0)
        r = place(reader, channel, lease);
    channel_leave(channel);
    return r;
}

static int acquire_wait(struct reader *reader, struct channel *channel, struct lease *lease,
                        int64_t timeout_ns)
{
    int r;

    if (channel_enter(reader->state, channel) < 0)
        return SLUICE_E_FORKED;
    Py_BEGIN_ALLOW_THREADS r =
        sluice_reader_acquire(channel->reader, stream_for(lease), timeout_ns, &lease->frame);
    Py_END_ALLOW_THREADS if (r == 0) r = place(reader, channel, lease);
    channel_leave(channel);
    return r;
}

static bool may_come(int r)
{
    return r == SLUICE_TIMEOUT || r == SLUICE_NO_WRITER || r == SLUICE_AGAIN;
}

/* Acquires into `lease` within the time. */
static int acquire(struct reader *reader, struct channel *channel, struct lease *lease,
                   int64_t timeout_ns)
{
    int r = acquire_now(reader, channel, lease), again;

    if (!may_come(r) || timeout_ns == 0)
        return r;
    struct patience patience = patience_new(timeout_ns);
    while ((again = patience_next(&patience, channel)) > 0) {
        r = acquire_wait(reader, channel, lease, patience.slice);
        if (!may_come(r))
            return r;
        if (atomic_load(&channel->closed)) {
            raise_as(reader->state, ERROR_E_STALE,
                     "channel '%s': the reader was closed while it waited", channel->name);
            return r;
        }
    }
    return r;
}

/* The reader's device, as far as it is known; NULL if not. */
static const char *device_now(struct channel *channel, char *name)
{
    if (channel->session)
        return device_text(channel->device);
    return sluice_reader_device(channel->reader, name, DEVICE_NAME) == 0 ? name : NULL;
}

/* The stream that next() was given, or the thread's, into the lease. -1 with an exception. */
static int name_stream(struct reader *reader, struct channel *channel, struct lease *lease,
                       PyObject *given)
{
    char name[DEVICE_NAME];
    const char *device;
    struct stream *stream;

    if (!given && channel->session && !channel->device)
        return 0;
    device = device_now(channel, name);
    if (take_stream(reader->state, device, given, &stream) < 0)
        return -1;
    if (stream)
        return lease_use_named(lease, stream);
    if (!reader->ahead || (device && strcmp(device, "host") == 0))
        return 0;
    raise_as(reader->state, ERROR_E_INVALID,
             "channel '%s': ahead=True takes frames that are not ready, for a stream to wait for: "
             "give next(stream=...), or enter one: with sluice.Stream(device)",
             channel->name);
    return -1;
}

/* A frame, or NULL with *result, and an exception unless a caller wants `quiet`. */
static PyObject *take(struct reader *reader, int64_t timeout_ns, PyObject *stream, bool quiet,
                      int *result)
{
    struct channel *channel = get_channel(reader);
    struct lease *lease = channel ? lease_new(channel) : NULL;
    PyObject *frame = NULL;

    *result = SLUICE_E_STALE;
    if (lease) {
        if (name_stream(reader, channel, lease, stream) == 0)
            *result = acquire(reader, channel, lease, timeout_ns);
        if (*result == 0) {
            frame = frame_new(reader->state, reader->state->frame, lease);
        } else {
            lease_discard(lease);
            if (!quiet && !PyErr_Occurred())
                raise_result(reader->state, *result);
        }
    }
    channel_drop(channel);
    return frame;
}

static PyObject *next(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "timeout", "stream", NULL };
    struct reader *reader = (struct reader *)self;
    PyObject *values[2] = { NULL };
    int64_t timeout_ns = SLUICE_FOREVER;
    int r;

    if ((count || keywords) &&
        (parse_fast("next", names, 1, args, count, keywords, values) < 0 ||
         parse_seconds(values[0], "timeout", SLUICE_FOREVER, &timeout_ns) < 0))
        return NULL;
    return take(reader, timeout_ns, values[1], false, &r);
}

/* How many frames came after the one taken last. */
static uint64_t lag(struct reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    struct channel *channel = keep_channel(reader);
    bool known = channel && sluice_reader_stats(channel->reader, &stats) == 0;

    channel_drop(channel);
    return known ? stats.lag : 0;
}

static PyObject *latest(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "stream", NULL };
    struct reader *reader = (struct reader *)self;
    PyObject *frame, *values[1] = { NULL };
    int r;

    if ((count || keywords) && parse_fast("latest", names, 0, args, count, keywords, values) < 0)
        return NULL;
    while ((frame = take(reader, 0, values[0], true, &r)) && reader->in_order && lag(reader) > 0) {
        if (frame_release((struct frame *)frame) < 0)
            PyErr_Clear(); /* nobody read it */
        Py_DECREF(frame);
    }
    if (frame || PyErr_Occurred())
        return frame;
    if (may_come(r))
        Py_RETURN_NONE;
    return raise_result(reader->state, r);
}

/* ---- iterating ---- */

int reader_release_last(struct reader *reader)
{
    PyObject *last;
    int r;

    GUARD(reader)
    last = reader->last;
    reader->last = NULL;
    UNGUARD()
    if (!last)
        return 0;
    r = frame_release((struct frame *)last);
    Py_DECREF(last);
    return r;
}

static PyObject *keep_last(struct reader *reader, PyObject *frame)
{
    PyObject *before = NULL;

    if (!frame)
        return NULL;
    GUARD(reader)
    before = reader->last;
    reader->last = Py_NewRef(frame);
    UNGUARD()
    Py_XDECREF(before);
    return frame;
}

static PyObject *iter(PyObject *self)
{
    if (!((struct reader *)self)->channel)
        return raise_as(((struct reader *)self)->state, ERROR_E_STALE, "this reader is closed");
    return Py_NewRef(self);
}

static PyObject *iter_next(PyObject *self)
{
    struct reader *reader = (struct reader *)self;
    int r;

    if (reader_release_last(reader) < 0)
        return NULL;
    PyObject *frame = take(reader, SLUICE_FOREVER, NULL, true, &r);
    if (!frame && r != SLUICE_CLOSED && !PyErr_Occurred())
        raise_result(reader->state, r);
    return keep_last(reader, frame);
}

/* For sluice._asyncio: a frame, or None if there is none now. Ends the frame of the step before. */
static PyObject *poll(PyObject *self, PyObject *iterates)
{
    struct reader *reader = (struct reader *)self;
    bool keeps = iterates == Py_True;
    int r;

    if (keeps && reader_release_last(reader) < 0)
        return NULL;
    PyObject *frame = take(reader, 0, NULL, true, &r);
    if (frame)
        return keeps ? keep_last(reader, frame) : frame;
    if (PyErr_Occurred())
        return NULL;
    if (may_come(r))
        Py_RETURN_NONE;
    return raise_result(reader->state, r);
}

static PyObject *coroutine(struct reader *reader, const char *name, PyObject *argument)
{
    PyObject *module = imported(&reader->state->coroutines, "sluice._asyncio");

    return module ? PyObject_CallMethod(module, name, "OO", (PyObject *)reader, argument) : NULL;
}

static PyObject *aiter(PyObject *self)
{
    return iter(self);
}
static PyObject *anext(PyObject *self)
{
    return coroutine((struct reader *)self, "step", Py_None);
}

static PyObject *next_async(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *keywords)
{
    static const char *const names[] = { "timeout", NULL };
    PyObject *values[1];

    if (parse_fast("next_async", names, 1, args, count, keywords, values) < 0)
        return NULL;
    return coroutine((struct reader *)self, "next_async", values[0] ? values[0] : Py_None);
}

static PyObject *fileno_(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = get_channel(reader);
    int r;

    if (!channel)
        return NULL;
    if (channel_enter(reader->state, channel) < 0) {
        channel_drop(channel);
        return NULL;
    }
    r = sluice_reader_fd(channel->reader);
    channel_leave(channel);
    channel_drop(channel);
    return r >= 0 ? PyLong_FromLong(r) : raise_result(reader->state, r);
}

/* ---- methods ---- */

static PyObject *close_(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (reader_close((struct reader *)self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (reader_close((struct reader *)self) < 0) {
        if (count == 0 || args[0] == Py_None)
            return NULL;
        PyErr_Clear();
    }
    Py_RETURN_FALSE;
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return Py_NewRef(self);
}
static PyObject *aenter(PyObject *self, PyObject *Py_UNUSED(none))
{
    return coroutine((struct reader *)self, "enter", Py_None);
}
static PyObject *aleave(PyObject *self, PyObject *Py_UNUSED(args))
{
    return coroutine((struct reader *)self, "leave", Py_None);
}

static void reader_dealloc(PyObject *self)
{
    struct reader *reader = (struct reader *)self;
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(reader->last);
    if (reader->channel) { /* arrays that live may keep it open */
        (void)sluice_reader_stop(reader->channel->reader);
        channel_let_go(reader->channel);
        views_clear(reader->channel);
    }
    channel_drop(reader->channel);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- looking ---- */

static PyObject *stats(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = get_channel(reader);
    struct sluice_reader_stats counts = { .size = sizeof counts };

    if (!channel)
        return NULL;
    int r = sluice_reader_stats(channel->reader, &counts);
    channel_drop(channel);
    return r == 0 ? reader_stats_object(reader->state, &counts) : raise_result(reader->state, r);
}

static PyObject *get_format(PyObject *self, void *Py_UNUSED(closure))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = get_channel(reader);
    struct sluice_format format = SLUICE_FORMAT_INIT;

    if (!channel || channel_enter(reader->state, channel) < 0) {
        channel_drop(channel);
        return NULL;
    }
    int r = sluice_reader_format(channel->reader, &format);
    channel_leave(channel);
    channel_drop(channel);
    if (r == SLUICE_NO_WRITER)
        Py_RETURN_NONE;
    return r == 0 ? format_object(reader->state, &format) : raise_result(reader->state, r);
}

static PyObject *get_slots(PyObject *self, void *Py_UNUSED(closure))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = get_channel(reader);
    struct sluice_reader_stats counts = { .size = sizeof counts };

    if (!channel)
        return NULL;
    int r = sluice_reader_stats(channel->reader, &counts);
    channel_drop(channel);
    return r == 0 ? PyLong_FromUnsignedLong(counts.slots) : raise_result(reader->state, r);
}

static PyObject *get_device(PyObject *self, void *Py_UNUSED(closure))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = get_channel(reader);
    const struct opened *device = NULL;
    char name[DEVICE_NAME];

    if (!channel)
        return NULL;
    int r = sluice_reader_device(channel->reader, name, sizeof name);
    channel_drop(channel);
    if (r == SLUICE_NO_WRITER)
        Py_RETURN_NONE;
    if (r != 0)
        return raise_result(reader->state, r);
    if (strcmp(name, "host") != 0 && !(device = device_open(reader->state, name)))
        return NULL;
    return PyUnicode_FromString(device_text(device));
}

static PyObject *get_closed(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(!((struct reader *)self)->channel);
}

static PyObject *get_name(PyObject *self, void *Py_UNUSED(closure))
{
    struct channel *channel = get_channel((struct reader *)self);
    PyObject *name = channel ? PyUnicode_FromString(channel->name) : NULL;

    channel_drop(channel);
    return name;
}

static PyObject *get_mode(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(((struct reader *)self)->in_order ? "in_order" : "newest");
}

static PyObject *repr(PyObject *self)
{
    struct channel *channel = keep_channel((struct reader *)self);
    PyObject *text = PyUnicode_FromFormat("<sluice.Reader %s%s%s>", channel ? "of '" : "closed",
                                          channel ? channel->name : "", channel ? "'" : "");

    channel_drop(channel);
    return text;
}

static PyObject *no_pickle(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(none))
{
    PyErr_SetString(
        PyExc_TypeError,
        "a Reader cannot be pickled: pass the channel's name and open it in the other process");
    return NULL;
}

static PyMethodDef methods[] = {
    { "next", METHOD(next), METH_FASTCALL | METH_KEYWORDS,
      "next(timeout=None, *, stream=None) -> Frame\n\n"
      "The next frame: the newest one not yet taken, or the next in order. `timeout` in\n"
      "seconds; None waits for ever, also while the channel has no writer. `stream`: on a GPU,\n"
      "the one that will use the frame, of Sluice or another library; if it is None, the\n"
      "thread's Sluice stream (`with sluice.Stream()`), if there is one, and the current stream\n"
      "of each framework that takes an array of the frame. Its end comes behind all of them.\n\n"
      "Raises Timeout or NoWriter (both are TimeoutErrors) when the time passed; Closed (an\n"
      "EOFError) when the writer has closed the channel and all is read; LimitError when\n"
      "the reader holds as many frames as `hold` allows, with their numbers; LostError once\n"
      "after the writer evicted this reader." },
    { "latest", METHOD(latest), METH_FASTCALL | METH_KEYWORDS,
      "latest(*, stream=None) -> Frame | None\n\n"
      "The newest frame if there is one that was not yet taken; never waits. Raises Closed\n"
      "when the writer has closed the channel." },
    { "next_async", METHOD(next_async), METH_FASTCALL | METH_KEYWORDS,
      "next_async(timeout=None) -> awaitable of Frame\n\n"
      "next() for coroutines, `timeout` in seconds. Raises what next() does; a wait that is\n"
      "cancelled takes no frame." },
    { "fileno", METHOD(fileno_), METH_NOARGS,
      "fileno() -> int\n\n"
      "A descriptor that is readable when next() would not have to wait. It stays the same\n"
      "over restarts of the writer. For select, poll, event loops; do not read from it." },
    { "stats", METHOD(stats), METH_NOARGS, "stats() -> ReaderStats" },
    { "close", METHOD(close_), METH_NOARGS,
      "close()\n\n"
      "Ends the reader. Frames and arrays that live stay readable, and hold their leases,\n"
      "until they die." },
    { "_poll", METHOD(poll), METH_O, NULL },
    { "__enter__", METHOD(enter), METH_NOARGS, NULL },
    { "__exit__", METHOD(leave), METH_FASTCALL, NULL },
    { "__aenter__", METHOD(aenter), METH_NOARGS, NULL },
    { "__aexit__", METHOD(aleave), METH_VARARGS, NULL },
    { "__reduce__", METHOD(no_pickle), METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef fields[] = {
    { "name", get_name, NULL, "of the channel", NULL },
    { "mode", get_mode, NULL, "\"newest\" or \"in_order\"", NULL },
    { "closed", get_closed, NULL, "True once closed", NULL },
    { "device", get_device, NULL,
      "where frames are used: \"host\", \"cuda:0\"; None before the first writer was met, unless asked "
      "for",
      NULL },
    { "slots", get_slots, NULL,
      "number of slots of the present generation; 0 before the first writer was met. It grows "
      "while the writer\nmakes more",
      NULL },
    { "format", get_format, NULL,
      "{name: Tensor or Image}: the channel's capacities; None before the first writer was met",
      NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    SLOT(Py_tp_new, reader_new),
    SLOT(Py_tp_dealloc, reader_dealloc),
    SLOT(Py_tp_repr, repr),
    SLOT(Py_tp_iter, iter),
    SLOT(Py_tp_iternext, iter_next),
    SLOT(Py_am_aiter, aiter),
    SLOT(Py_am_anext, anext),
    SLOT(Py_tp_methods, methods),
    SLOT(Py_tp_getset, fields),
    { Py_tp_doc,
      (void
           *)"Reader(name, *, mode=\"newest\", depth=0, hold=None, every=1, writable=False, "
             "wait=0, spin=None,\n"
      "       uids=(), device=None, ahead=False, staged=\"never\")\n\n"
      "Reads a channel. for frame in reader: takes frames until the writer closes the channel, "
      "and goes on\n"
      "when a writer that died comes back; it releases each frame itself.\n\n"
      "mode       \"newest\": each step gives the newest frame; \"in_order\": every frame, as "
      "far as `depth` and\n"
      "           the writer's policy allow\n"
      "depth      in_order: unread frames that a dropping writer keeps for it; 0: 4\n"
      "hold       frames it will hold at once; None: 2, or 1 where the channel has but three "
      "slots\n"
      "every      take each n-th frame\n"
      "writable   frames may be changed in place, if the writer allows it\n"
      "wait       seconds to wait for a writer; None: open at once, next() waits for one\n"
      "spin       seconds to look for a frame before going to sleep; None: 10 microseconds\n"
      "uids       other users whose writers are trusted\n"
      "device     where frames are used: \"host\", \"cuda:0\"; None: where the channel lies\n"
      "ahead      next() on a stream of a GPU may give a frame that is not ready, and the stream waits "
      "for it\n"
      "staged     for a GPU that is not the channel's: \"never\" copy frames to it, \"if_needed\" as it "
      "cannot reach\n"
      "           them, or \"always\"\n\n"
      "Raises NotFoundError (a FileNotFoundError), AccessError (a PermissionError), "
      "VersionError, LimitError,\n"
      "ChannelNameError. Several threads may share one: each gets frames of its own." },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "sluice.Reader",
    .basicsize = sizeof(struct reader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int reader_type_init(PyObject *module, struct state *state)
{
    state->reader = add_type(module, &spec);
    return state->reader ? 0 : -1;
}
