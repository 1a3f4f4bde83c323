/* SPDX-License-Identifier: MIT
 *
 * What Reader(cipd=...) and Writer(cipd=...) are given: a mapping that has C's names (sluice/cipd.h), and what of C's is a number
 * for want of anything better, as Python has it: switches are True or False, an order is a word. None is the default of each.
 */
#include "cipd.h"

#include <stddef.h>
#include <string.h>

enum kind {
    FLAG,   /* True is 1 */
    SWITCH, /* enum sluice_cipd_switch */
    WORD,   /* an enum, by the place of the word */
    NUMBER, /* uint32_t */
    NS,     /* int64_t */
    TEXT,   /* const char * */
};

struct field {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *const *words; /* ends in NULL */
    int64_t least;            /* of NS */
};

const char *const cipd_orders[] = { "unknown", "rgba", "bgra", NULL };
static const char *const pairs[] = { "as_flagged", "mono_alpha", "red_green", NULL };

#define READER(name) #name, offsetof(struct sluice_cipd_reader_params, name)
#define WRITER(name) #name, offsetof(struct sluice_cipd_writer_params, name)
#define FIELD(place, kind, words, least) FIELD_(place, kind, words, least)
#define FIELD_(name, offset, kind, words, least) { name, kind, offset, words, least }

static const struct field of_readers[] = {
    FIELD(READER(undeclared), WORD, cipd_orders, 0), FIELD(READER(pair), WORD, pairs, 0),
    FIELD(READER(copy), FLAG, NULL, 0),              FIELD(READER(reconnect), SWITCH, NULL, 0),
    FIELD(READER(ahead), SWITCH, NULL, 0),           FIELD(READER(wait_spin_ns), NS, NULL, -1),
    FIELD(READER(wait_ns), NS, NULL, 0),             FIELD(READER(stall_ns), NS, NULL, -1),
    { NULL, FLAG, 0, NULL, 0 },
};

static const struct field of_writers[] = {
    FIELD(WRITER(block), FLAG, NULL, 0),          FIELD(WRITER(graph), SWITCH, NULL, 0),
    FIELD(WRITER(order), WORD, cipd_orders, 0),   FIELD(WRITER(mono_alpha), FLAG, NULL, 0),
    FIELD(WRITER(flags), NUMBER, NULL, 0),        FIELD(WRITER(barrier), SWITCH, NULL, 0),
    FIELD(WRITER(holds_barrier), FLAG, NULL, 0),  FIELD(WRITER(settle_frames), NUMBER, NULL, 0),
    FIELD(WRITER(strict_device), FLAG, NULL, 0),  FIELD(WRITER(priority), SWITCH, NULL, 0),
    FIELD(WRITER(doorbell), SWITCH, NULL, 0),     FIELD(WRITER(barrier_stale_ns), NS, NULL, 0),
    FIELD(WRITER(barrier_name), TEXT, NULL, 0),   FIELD(WRITER(close_grace_ns), NS, NULL, -1),
    { NULL, FLAG, 0, NULL, 0 },
};

/* ---- one of them ---- */

/* Why it cannot be this value. Always -1. */
static int wrong(PyObject *kind, const char *owner, const struct field *field, PyObject *value, const char *must)
{
    PyErr_Format(kind, "%s(cipd={\"%s\": %R}): it must be %s, or None", owner, field->name, value, must);
    return -1;
}

static int take_word(const char *owner, const struct field *field, PyObject *value, uint32_t *out)
{
    char must[64] = "";

    for (uint32_t i = 0; field->words[i]; i++) {
        if (PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, field->words[i]) == 0) {
            *out = i;
            return 0;
        }
        size_t used = strlen(must);
        (void)PyOS_snprintf(must + used, sizeof must - used, "%s\"%s\"", i ? " or " : "", field->words[i]);
    }
    return wrong(PyUnicode_Check(value) ? PyExc_ValueError : PyExc_TypeError, owner, field, value, must);
}

static int take_bool(const char *owner, const struct field *field, PyObject *value, uint32_t *out)
{
    if (!PyBool_Check(value))
        return wrong(PyExc_TypeError, owner, field, value, "True or False");
    *out = value == Py_True ? SLUICE_CIPD_ON : field->kind == SWITCH ? SLUICE_CIPD_OFF : 0;
    return 0;
}

static int take_number(const char *owner, const struct field *field, PyObject *value, int64_t most, int64_t *out)
{
    const char *must = field->kind == NUMBER ? "an int from 0 to 4294967295"
                       : field->least < 0    ? "nanoseconds as an int, 0 or more, or -1"
                                             : "nanoseconds as an int, 0 or more";
    int overflow = 0;
    long long number = PyLong_Check(value) && !PyBool_Check(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;

    if (!PyLong_Check(value) || PyBool_Check(value))
        return wrong(PyExc_TypeError, owner, field, value, must);
    if (overflow || number < field->least || number > most)
        return wrong(PyExc_ValueError, owner, field, value, must);
    *out = number;
    return 0;
}

static int take_text(const char *owner, const struct field *field, PyObject *value, const char **out)
{
    Py_ssize_t size;

    if (!PyUnicode_Check(value))
        return wrong(PyExc_TypeError, owner, field, value, "a str");
    if (!(*out = PyUnicode_AsUTF8AndSize(value, &size)))
        return -1;
    return strlen(*out) == (size_t)size ? 0 : wrong(PyExc_ValueError, owner, field, value, "a str without null characters");
}

static int take(const char *owner, const struct field *field, PyObject *value, void *params)
{
    void *place = (char *)params + field->offset;
    int64_t number = 0;

    if (value == Py_None)
        return 0;
    switch (field->kind) {
    case FLAG:
    case SWITCH: return take_bool(owner, field, value, place);
    case WORD: return take_word(owner, field, value, place);
    case TEXT: return take_text(owner, field, value, place);
    case NS: return take_number(owner, field, value, INT64_MAX, place);
    case NUMBER:
        if (take_number(owner, field, value, UINT32_MAX, &number) < 0)
            return -1;
        *(uint32_t *)place = (uint32_t)number;
        return 0;
    }
    return 0;
}

/* ---- all of them ---- */

static const struct field *find(const char *owner, const struct field *fields, PyObject *name)
{
    char known[256] = "";

    for (const struct field *field = fields; field->name; field++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, field->name) == 0)
            return field;
        size_t used = strlen(known);
        (void)PyOS_snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", field->name);
    }
    PyErr_Format(PyExc_TypeError, "%s(cipd={%R: ...}): there is no such parameter; there are %s", owner, name, known);
    return NULL;
}

static int take_item(const char *owner, const struct field *fields, PyObject *item, void *params)
{
    PyObject *name, *value;
    const struct field *field;

    if (!PyArg_ParseTuple(item, "OO", &name, &value) || !(field = find(owner, fields, name)))
        return -1;
    return take(owner, field, value, params);
}

static int take_all(const char *owner, const struct field *fields, PyObject *given, void *params, PyObject **keeper)
{
    PyObject *items;
    int r = 0;

    *keeper = NULL;
    if (!PyMapping_Check(given) || PyUnicode_Check(given) || !PyObject_HasAttrString(given, "items")) {
        PyErr_Format(PyExc_TypeError, "%s(cipd=%R): it must be a mapping of parameters' names to values, or None", owner, given);
        return -1;
    }
    if (!(items = PyMapping_Items(given)))
        return -1;
    for (Py_ssize_t i = 0; r == 0 && i < PyList_Size(items); i++)
        r = take_item(owner, fields, PyList_GetItem(items, i), params);
    if (r == 0)
        *keeper = items;
    else
        Py_DECREF(items);
    return r;
}

int cipd_reader_params(PyObject *given, struct sluice_cipd_reader_params *params, PyObject **keeper)
{
    return take_all("Reader", of_readers, given, params, keeper);
}

int cipd_writer_params(PyObject *given, struct sluice_cipd_writer_params *params, PyObject **keeper)
{
    return take_all("Writer", of_writers, given, params, keeper);
}
