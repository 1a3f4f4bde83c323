/* SPDX-License-Identifier: MIT
 *
 * writer.send(): copies a program's arrays into a slot.
 */
#include "writer.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "frame.h"
#include "stream_choice.h"

#define PATIENCE (10 * SLUICE_S) /* for copies that still read arrays, when the writer closes */

struct send {
    struct user user;
    struct stream_choice choice;
    struct source sources[SLUICE_MAX_ARRAYS];
    struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    uint32_t count;
};

static int set_name(struct writer *writer, struct sluice_array *array, PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;

    if (text && strlen(text) < SLUICE_ARRAY_NAME) {
        strcpy(array->name, text);
        return 0;
    }
    if (!PyErr_Occurred())
        raise_as(writer->state, ERROR_E_FORMAT, "%R is not the name of an array", name);
    return -1;
}

static int add_source(struct writer *writer, struct send *send, PyObject *name, PyObject *object)
{
    struct source *source = &send->sources[send->count];

    if (source_open(writer->state, object, &send->user, source) < 0)
        return -1;
    send->arrays[send->count] = source->array;
    send->count++;
    return name ? set_name(writer, &send->arrays[send->count - 1], name) : 0;
}

/* All arrays of a frame that a reader holds. */
static int add_frame(struct writer *writer, struct send *send, PyObject *frame)
{
    PyObject *names = frame_keys(frame, NULL);
    Py_ssize_t count = names ? PyTuple_Size(names) : -1;

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i), *array = frame_subscript(frame, name);
        if (!array || add_source(writer, send, count > 1 ? name : NULL, array) < 0)
            count = -1;
        Py_XDECREF(array);
    }
    Py_XDECREF(names);
    return count < 0 ? -1 : 0;
}

/* Is it a mapping of arrays? A framework's array may look like one, so its type decides. */
static bool holds_arrays(struct writer *writer, PyObject *object)
{
    enum framework framework = framework_of(writer->state, object);

    return (framework == FRAMEWORK_NONE || framework == FRAMEWORK_OTHER) && is_mapping(object);
}

static int open_send(struct writer *writer, PyObject *object, struct send *send)
{
    if (Py_IS_TYPE(object, writer->state->frame))
        return add_frame(writer, send, object);
    if (!holds_arrays(writer, object))
        return add_source(writer, send, NULL, object);
    PyObject *items = PyMapping_Items(object);
    Py_ssize_t count = items ? PyList_Size(items) : -1;
    if (count > SLUICE_MAX_ARRAYS) {
        raise_as(writer->state, ERROR_E_FORMAT, "%zd arrays: a frame holds 1 to %d", count, SLUICE_MAX_ARRAYS);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name, *array;
        if (mapping_item(items, i, &name, &array) < 0 || add_source(writer, send, name, array) < 0)
            count = -1;
    }
    Py_XDECREF(items);
    return count < 0 ? -1 : 0;
}

/* ---- before it is sent ---- */

static int choose(struct writer *writer, struct send *send, PyObject *given)
{
    return choice_make(writer->state, given, &send->user, NULL, send->sources, send->count, &send->choice);
}

/* Checks that no capture prevents the frameworks' copies: when all arrays are known, before the first is copied. */
static int may_copy(struct writer *writer, struct send *send)
{
    struct state *state = writer->state;

    if (check_captures(state, send->choice.stream) < 0 ||
        check_source_captures(state, send->choice.stream, send->sources, send->count) < 0)
        return -1;
    for (uint32_t i = 0; i < send->count; i++) {
        const struct source *source = &send->sources[i];
        if (source->odd && check_copy_captures(state, source->framework, source->ordinal, NULL) < 0)
            return -1;
    }
    return 0;
}

static int make_plain(struct writer *writer, struct send *send, uint32_t i)
{
    struct source *source = &send->sources[i];
    char name[SLUICE_ARRAY_NAME];

    if (source_make_plain(writer->state, &send->user, source) < 0)
        return -1;
    memcpy(name, send->arrays[i].name, sizeof name);
    send->arrays[i] = source->array;
    memcpy(send->arrays[i].name, name, sizeof name);
    return 0;
}

/* Chooses the stream, and has frameworks make what the library can copy. */
static int prepare(struct writer *writer, struct send *send, PyObject *given)
{
    bool odd = false;

    if (choose(writer, send, given) < 0)
        return -1;
    for (uint32_t i = 0; i < send->count; i++)
        odd = odd || send->sources[i].odd;
    if (!odd)
        return 0;
    if (may_copy(writer, send) < 0)
        return -1;
    choice_drop(&send->choice);
    for (uint32_t i = 0; i < send->count; i++)
        if (send->sources[i].odd && make_plain(writer, send, i) < 0)
            return -1;
    return choose(writer, send, given);
}

static int check_pixel_format(struct writer *writer, struct channel *channel, const char *pixel_format)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    uint32_t have;
    int r = sluice_writer_format(channel->writer, &format);

    if (r != 0) {
        raise_result(writer->state, r);
        return -1;
    }
    have = format.arrays[0].image.pixel_format;
    if (have == sluice_pixel_format_find(pixel_format))
        return 0;
    raise_as(writer->state, ERROR_E_FORMAT, "channel '%s' has pixel format %s, and the array has %s: convert it",
             channel->name, sluice_pixel_format_name(have), pixel_format);
    return -1;
}

/* Small copies are not worth releasing the GIL. */
#define SMALL (UINT64_C(32) << 10)

/* After the time-out: counts the frame as dropped, unless a slot is free now. */
static int drop_frame(struct channel *channel, const struct sluice_frame *header)
{
    struct sluice_frame frame = *header;
    int r = sluice_writer_begin(channel->writer, 1, &frame);

    return r == 0 ? sluice_writer_cancel(channel->writer, &frame, SLUICE_ON_CPU) : r;
}

/* ---- what must outlive the call ---- */

/* Arrays whose owners do not free memory in stream order (JAX's), until the copy has read them. */
struct kept {
    struct kept *next;
    struct sluice_ticket ticket;
    uint32_t count;
    PyObject *objects[SLUICE_MAX_ARRAYS];
};

static void drop_kept(struct kept *list)
{
    while (list) {
        struct kept *next = list->next;
        for (uint32_t i = 0; i < list->count; i++)
            Py_DECREF(list->objects[i]);
        free(list);
        list = next;
    }
}

void writer_drop_kept(struct writer *writer)
{
    struct kept *list = writer->kept;

    writer->kept = NULL;
    if (list) {
        Py_BEGIN_ALLOW_THREADS for (struct kept *kept = list; kept; kept = kept->next)(void)
            sluice_ticket_wait(kept->ticket, PATIENCE); /* at once, if the writer has closed */
        Py_END_ALLOW_THREADS
    }
    drop_kept(list);
}

/* Removes and returns those whose copies are done. With the channel entered. */
static struct kept *remove_done(struct writer *writer)
{
    struct kept *done = NULL;

    for (struct kept **at = &writer->kept; *at;) {
        struct kept *kept = *at;
        if (sluice_ticket_query(kept->ticket) == SLUICE_NOT_READY) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        kept->next = done;
        done = kept;
    }
    return done;
}

/* With the channel entered; creates no object. A buffer is not read after send() returns, unless that returns `early`.
 */
static void keep(struct writer *writer, struct send *send, struct kept *kept, struct sluice_ticket ticket, bool early)
{
    kept->ticket = ticket;
    for (uint32_t i = 0; i < send->count; i++) {
        const struct source *source = &send->sources[i];
        PyObject *object = source->keeper ? source->keeper : early ? source->buffer.obj : NULL;
        if (object)
            kept->objects[kept->count++] = Py_NewRef(object);
    }
    kept->next = writer->kept;
    writer->kept = kept;
}

/* ---- sending ---- */

/* Waits in slices until the GPU has read what the program may change after send() returns; the frame is published
 * already. The channel is entered before and after. The library's result, with an exception if a signal ended the wait.
 */
static int wait_until_read(struct writer *writer, struct sluice_ticket ticket)
{
    struct channel *channel = writer->channel;
    struct patience patience = patience_new(SLUICE_FOREVER);
    int r, again;

    for (;;) {
        Py_BEGIN_ALLOW_THREADS r = sluice_ticket_wait(ticket, patience.slice);
        Py_END_ALLOW_THREADS if (r != SLUICE_TIMEOUT) return r;
        channel_leave(channel);
        again = patience_next(&patience, channel);
        if (channel_enter(writer->state, channel) < 0 || again < 0)
            return r;
    }
}

/* Queues the waits, the copies, and what ends behind them. With the channel entered. */
static int send_on_gpu(struct writer *writer, struct send *send, struct sluice_frame *header)
{
    struct stream_choice *choice = &send->choice;
    bool lasting = choice->lasting, asks = choice->host || lasting || choice->edges;
    bool waits = choice->host; /* pinned memory is read when the stream reaches the copy */
    struct kept *kept = asks ? calloc(1, sizeof *kept) : NULL;
    struct sluice_ticket ticket = { 0 };
    int r, waited = 0;

    if (asks && !kept) {
        PyErr_NoMemory();
        return SLUICE_E_NO_MEMORY;
    }
    /* a single array is refused before anything is queued */
    if ((send->count > 1 && check_source_captures(writer->state, choice->stream, send->sources, send->count) < 0) ||
        choice_wait_for_sources(writer->state, choice, send->sources, send->count) < 0) {
        free(kept);
        return SLUICE_E_CAPTURING;
    }
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_send_frame(writer->channel->writer, header, send->arrays, send->count,
                                                        choice_handle(choice), asks ? &ticket : NULL);
    if (r == 0 && choice_hold_sources(choice, send->sources, send->count) != 0)
        waits = true;
    if (r == 0 && waits)
        waited = sluice_ticket_wait(ticket, SLICE);
    Py_END_ALLOW_THREADS for (uint32_t i = 0; r == 0 && i < send->count; i++)
        choice_hold_frame(choice, send->sources[i].lease);
    if (waited == SLUICE_TIMEOUT)
        waited = wait_until_read(writer, ticket);
    if (r == 0 && (lasting || waited == SLUICE_TIMEOUT))
        keep(writer, send, kept, ticket, waited == SLUICE_TIMEOUT);
    else
        free(kept);
    return r == 0 ? waited : r;
}

static int send_on_host(struct writer *writer, struct send *send, struct sluice_frame *header)
{
    sluice_writer *to = writer->channel->writer;
    uint64_t bytes = 0;
    int r;

    for (uint32_t i = 0; i < send->count; i++)
        bytes += send->arrays[i].nbytes;
    if (bytes <= SMALL && writer->wait_ns == 0)
        return sluice_writer_send_frame(to, header, send->arrays, send->count, SLUICE_ON_CPU, NULL);
    Py_BEGIN_ALLOW_THREADS r = sluice_writer_send_frame(to, header, send->arrays, send->count, SLUICE_ON_CPU, NULL);
    Py_END_ALLOW_THREADS return r;
}

/* The library's result; check for an exception. */
static int send_arrays(struct writer *writer, struct send *send, struct sluice_frame *header, const char *pixel_format)
{
    struct channel *channel;
    struct kept *done = NULL;
    int r = 0;

    if (writer->wait_ns > 0)
        r = writer_wait_for_slot(writer, writer->wait_ns);
    else if (!writer_enter(writer))
        return SLUICE_E_STALE;
    if (PyErr_Occurred())
        return SLUICE_E_STALE;
    channel = writer->channel;
    if (r == SLUICE_NO_SLOT)
        r = drop_frame(channel, header);
    if (r == 0 && (!pixel_format || check_pixel_format(writer, channel, pixel_format) == 0)) {
        r = send->choice.on_gpu ? send_on_gpu(writer, send, header) : send_on_host(writer, send, header);
        if (r == 0 && writer->kept) /* otherwise the library's message is still needed */
            done = remove_done(writer);
    }
    channel_leave(channel);
    if (done) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        drop_kept(done);
        PyErr_Restore(type, value, traceback);
    }
    return r;
}

PyObject *writer_send(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = { "array", "meta", "like", "capture_ns", "pixel_format", "stream", NULL };
    struct writer *writer = (struct writer *)self;
    PyObject *values[6];
    char meta[SLUICE_MAX_META];
    struct sluice_frame header = { .meta = meta };
    struct send send; /* large: only what is used is filled in */
    const char *pixel_format = NULL;
    int r = 0;

    if (parse_fast("send", names, 1, args, count, keywords, values) < 0)
        return NULL;
    if (!values[0]) {
        PyErr_SetString(PyExc_TypeError, "send() takes an array, or a mapping of names to arrays");
        return NULL;
    }
    if (values[4] && values[4] != Py_None && !(pixel_format = parse_pixel_format(values[4])))
        return NULL;
    send.count = 0;
    send.choice = (struct stream_choice){ .stream = NULL };
    send.user = (struct user){ writer->channel, device_text(writer->channel->device), false, NULL };
    if (header_fill(writer->state, &header, values[1], values[2], values[3]) == 0 &&
        open_send(writer, values[0], &send) == 0 && prepare(writer, &send, values[5]) == 0)
        r = send_arrays(writer, &send, &header, pixel_format);
    choice_drop(&send.choice);
    for (uint32_t i = 0; i < send.count; i++)
        source_close(&send.sources[i]);
    if (PyErr_Occurred())
        return NULL;
    return r == 0 ? PyLong_FromUnsignedLongLong(header.sequence) : raise_result(writer->state, r);
}
