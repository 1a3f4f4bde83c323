/* SPDX-License-Identifier: MIT
 *
 * CipdInfo and CipdSlot: what is known of a channel of cuda-link's protocol, as named tuples that have C's names.
 */
#include "cipd.h"

#include <stddef.h>
#include <string.h>

#include "array.h"
#include "reader.h"
#include "writer.h"

enum kind { TEXT, STATE, ORDER, BOOL, U32, U64, NS, DTYPE, SLOTS };

struct field {
    enum kind kind;
    size_t offset;
};

/* name, kind, words */
#define INFO(X) \
    X(state, STATE, "\"running\"; \"absent\": no segment, or its writer is known to be dead; \"unfinished\": it is being filled in, " \
                    "or\ninvalid; \"stalled\": no frame for stall_ns, or the segment has lost its\nname; \"shut\": its writer has shut it") \
    X(name, TEXT, "of the channel, without \"cipd:\"") \
    X(why, TEXT, "what is to be said of a state other than \"running\", else \"\"") \
    X(version, U64, "the wire's number of the session") \
    X(index, U32, "the wire's count of frames published in it") \
    X(slot_count, U32, "slots of this session") \
    X(width, U32, "of a frame") \
    X(height, U32, "of a frame") \
    X(components, U32, "of each pixel") \
    X(flags, U32, "as they are on the wire") \
    X(dtype, DTYPE, "data type; None as long as there is none") \
    X(frame_bytes, U32, "of one frame") \
    X(order, ORDER, "of four uint8, as the reader's parameters decide it: \"rgba\", \"bgra\", \"unknown\"") \
    X(order_declared, BOOL, "True if the wire says so") \
    X(mono_alpha, BOOL, "True if two components are mono and alpha") \
    X(writer_pid, U32, "process of the writer; 0: not known, as only Sluice's writers tell") \
    X(segment_bytes, U32, "of shared memory") \
    X(by_sluice, BOOL, "True if a writer of Sluice's made this session") \
    X(last_frame_ns, NS, "when the last frame was published, by time.monotonic_ns(); 0: not known") \
    X(published, U64, "frames, by this writer; a reader has 0, as in all up to left_behind") \
    X(published_bytes, U64, "in these frames") \
    X(barrier_skips, U64, "frames not published because of an activation barrier") \
    X(failed, U64, "frames not published because of a failure") \
    X(graph_frames, U64, "frames published by a graph") \
    X(relinked, U64, "how often another program unlinked the segment's name, and it was restored") \
    X(holds_barrier, BOOL, "True while this writer holds the activation barrier up") \
    X(left_behind, U32, "slots whose memory could not be freed in time, at changes of format") \
    X(taken, U64, "frames, by this reader; a writer has 0, as in all that follow but slots") \
    X(no_frame, U64, "calls for a frame that found none") \
    X(timeouts, U64, "frames that were not finished in time") \
    X(reconnects, U64, "sessions after the first") \
    X(overruns, U64, "frames that the writer may have rewritten while they were held, or before they were ready") \
    X(repeated, U64, "copies that were torn, and tried again") \
    X(dropped, U64, "frames published and not taken") \
    X(spin_hits, U64, "frames whose event was seen while spinning") \
    X(latency_ns, NS, "nanoseconds from publish to take, of the frame taken last") \
    X(latency_total_ns, NS, "nanoseconds, of all frames taken") \
    X(slots, SLOTS, "a CipdSlot for each slot")

#define SLOT_INFO(X) \
    X(memory_open, BOOL, "True if it is mapped here; of cipd_look(): if the segment has a handle of its memory") \
    X(event_open, BOOL, "True if it has an event that is used here; of cipd_look(): a handle of one. False: its frames are finished\n" \
                        "when they are published") \
    X(frames, U64, "taken from it, or published in it") \
    X(last_wait_ns, NS, "nanoseconds that its event was waited for at the last frame") \
    X(address, U64, "on the GPU; 0: not mapped")

#define NAMED(name, kind, words) { #name, words },
#define PLACED(name, kind, words) { kind, offsetof(struct sluice_cipd_info, name) },
#define PLACED_IN_SLOT(name, kind, words) { kind, offsetof(struct sluice_cipd_slot_info, name) },
#define COUNT(name, kind, words) +1

static PyStructSequence_Field info_names[] = { INFO(NAMED) { NULL, NULL } };
static PyStructSequence_Field slot_names[] = { SLOT_INFO(NAMED) { NULL, NULL } };
static const struct field info_fields[] = { INFO(PLACED) };
static const struct field slot_fields[] = { SLOT_INFO(PLACED_IN_SLOT) };

static PyStructSequence_Desc info_desc = { "sluice.CipdInfo", "What is known of a \"cipd:\" channel; fields that only a writer or a "
                                                              "reader knows are 0 for others.",
                                           info_names, INFO(COUNT) };
static PyStructSequence_Desc slot_desc = { "sluice.CipdSlot", "What is known of a slot of a \"cipd:\" channel.", slot_names,
                                           SLOT_INFO(COUNT) };

static PyObject *fill(const struct state *state, PyTypeObject *type, const struct field *fields, Py_ssize_t count,
                      const void *from);

static PyObject *fill_slots(const struct state *state, const struct sluice_cipd_info *info)
{
    uint32_t count = info->slot_count <= SLUICE_CIPD_MAX_SLOTS ? info->slot_count : SLUICE_CIPD_MAX_SLOTS;
    PyObject *made = PyTuple_New(count);

    for (uint32_t i = 0; made && i < count; i++) {
        PyObject *slot = fill(state, state->cipd_slot, slot_fields, SLOT_INFO(COUNT), &info->slots[i]);
        if (!slot || PyTuple_SetItem(made, (Py_ssize_t)i, slot) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *value(const struct state *state, const struct field *field, const void *from)
{
    static const char *const states[] = { "absent", "unfinished", "running", "stalled", "shut" };
    const struct sluice_cipd_info *info = from; /* where only that has such a field */
    const void *place = (const char *)from + field->offset;

    switch (field->kind) {
    case TEXT: return PyUnicode_DecodeUTF8(place, (Py_ssize_t)strlen(place), "replace");
    case STATE: return PyUnicode_FromString(info->state <= SLUICE_CIPD_SHUT ? states[info->state] : "unknown");
    case ORDER: return PyUnicode_FromString(cipd_orders[info->order <= SLUICE_CIPD_BGRA ? info->order : 0]);
    case BOOL: return PyBool_FromLong(*(const uint32_t *)place != 0);
    case U32: return PyLong_FromUnsignedLong(*(const uint32_t *)place);
    case U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)place);
    case NS: return PyLong_FromLongLong(*(const int64_t *)place);
    case DTYPE: return info->width ? dtype_text(state, info->dtype) : Py_NewRef(Py_None);
    case SLOTS: return fill_slots(state, info);
    }
    Py_RETURN_NONE;
}

static PyObject *fill(const struct state *state, PyTypeObject *type, const struct field *fields, Py_ssize_t count,
                      const void *from)
{
    PyObject *made = PyStructSequence_New(type);

    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *each = value(state, &fields[i], from);
        if (each)
            PyStructSequence_SetItem(made, i, each);
        else
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *info_object(const struct state *state, int r, const struct sluice_cipd_info *info)
{
    return r == 0 ? fill(state, state->cipd_info, info_fields, INFO(COUNT), info) : raise_result(state, r);
}

/* ---- who is asked ---- */

PyObject *cipd_reader_info(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct reader *reader = (struct reader *)self;
    struct channel *channel = reader_channel(reader);
    struct sluice_cipd_info info = { .size = sizeof info };

    if (!channel)
        return NULL;
    PyObject *made = info_object(reader->state, sluice_cipd_reader_info(channel->reader, &info), &info);
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
    return info_object(writer->state, r, &info);
}

PyObject *cipd_look(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "name", NULL };
    struct sluice_cipd_info info = { .size = sizeof info };
    const char *name;
    int r;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s:cipd_look", names, &name))
        return NULL;
    Py_BEGIN_ALLOW_THREADS r = sluice_cipd_look(name, &info);
    Py_END_ALLOW_THREADS return info_object(PyModule_GetState(module), r, &info);
}

int cipd_types_init(PyObject *module, struct state *state)
{
    state->cipd_info = PyStructSequence_NewType(&info_desc);
    state->cipd_slot = state->cipd_info ? PyStructSequence_NewType(&slot_desc) : NULL;
    if (!state->cipd_slot || PyModule_AddObjectRef(module, "CipdInfo", (PyObject *)state->cipd_info) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "CipdSlot", (PyObject *)state->cipd_slot);
}
