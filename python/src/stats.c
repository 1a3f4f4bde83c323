/* SPDX-License-Identifier: MIT
 *
 * ReaderStats and WriterStats: what readers and writers count, as named tuples.
 */
#include "state.h"

static PyStructSequence_Field reader_fields[] = {
    { "connected", "True while a writer is there" },
    { "session", "of the writer connected now or last" },
    { "taken", "frames" },
    { "missed", "frames it did not get" },
    { "retries", "frames that the writer took back while they were being taken" },
    { "sessions", "writers met" },
    { "held", "frames held now; on a GPU also those whose release is queued, until the reader's next call for a frame "
              "finds that it has come to pass" },
    { "depth", "granted" },
    { "lag", "frames committed after the one taken last" },
    { "latency_ns", "nanoseconds from commit to take, of the frame taken last" },
    { "lost", "frames that their writer never finished, or that ended with its memory" },
    { NULL, NULL },
};

static PyStructSequence_Field writer_fields[] = {
    { "readers", "connected now" },
    { "session", "of this writer" },
    { "committed", "frames" },
    { "dropped", "frames that found no slot" },
    { "cancelled", "frames" },
    { "stolen", "unread frames that readers behind by their depth lost" },
    { "bytes", "committed" },
    { "copied_bytes", "by send" },
    { "waited_ns", "nanoseconds, for slots" },
    { "slots", "of this generation" },
    { "generation", "1, 2..." },
    { "evicted", "readers" },
    { "readers_total", "that ever joined" },
    { "readers_died", "that left without a word" },
    { "refused", "connections" },
    { "graph_sends", "frames that were sent by a graph (not of a Writer(graph=False))" },
    { NULL, NULL },
};

static PyStructSequence_Desc reader_desc = { "sluice.ReaderStats", "What a reader counts.",
                                             reader_fields, 11 };
static PyStructSequence_Desc writer_desc = { "sluice.WriterStats", "What a writer counts.",
                                             writer_fields, 16 };

static PyObject *fill(PyTypeObject *type, const uint64_t *values, Py_ssize_t count,
                      bool first_is_bool)
{
    PyObject *made = PyStructSequence_New(type);

    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *value = i == 0 && first_is_bool ? PyBool_FromLong(values[0] != 0)
                                                  : PyLong_FromUnsignedLongLong(values[i]);
        if (!value) {
            Py_CLEAR(made);
            break;
        }
        PyStructSequence_SetItem(made, i, value);
    }
    return made;
}

PyObject *reader_stats_object(const struct state *state, const struct sluice_reader_stats *s)
{
    const uint64_t values[] = { s->connected, s->session,    s->taken, s->missed,
                                s->retries,   s->sessions,   s->held,  s->depth,
                                s->lag,       s->latency_ns, s->lost };

    return fill(state->reader_stats, values, sizeof values / sizeof values[0], true);
}

PyObject *writer_stats_object(const struct state *state, const struct sluice_writer_stats *s)
{
    const uint64_t values[] = { s->readers,       s->session,      s->committed,  s->dropped,
                                s->cancelled,     s->stolen,       s->bytes,      s->copied_bytes,
                                s->waited_ns,     s->slots,        s->generation, s->evicted,
                                s->readers_total, s->readers_died, s->refused,    s->graph_sends };

    return fill(state->writer_stats, values, sizeof values / sizeof values[0], false);
}

int stats_types_init(PyObject *module, struct state *state)
{
    state->reader_stats = PyStructSequence_NewType(&reader_desc);
    state->writer_stats = state->reader_stats ? PyStructSequence_NewType(&writer_desc) : NULL;
    if (!state->writer_stats ||
        PyModule_AddObjectRef(module, "ReaderStats", (PyObject *)state->reader_stats) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "WriterStats", (PyObject *)state->writer_stats);
}
