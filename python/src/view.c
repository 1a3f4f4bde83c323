/* SPDX-License-Identifier: MIT
 *
 * Cached views of a channel's slots on a GPU.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#include "take.h"

#define SLOTS 128 /* numbers of slots that a session has */

struct view {
    enum framework framework;
    struct sluice_array a; /* what it shows */
    PyObject *made;
};

struct slot {
    unsigned count;
    struct view list[]; /* count of them */
};

struct views {
    _Atomic bool busy;
    uint64_t session; /* of which all are */
    uint32_t generation;
    struct slot *slots[SLOTS];
};

static bool is_same(const struct sluice_array *a, const struct sluice_array *b)
{
    size_t sizes = (size_t)a->ndim * sizeof a->shape[0];

    return a->ndim == b->ndim && a->read_only == b->read_only &&
           memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 &&
           memcmp(a->shape, b->shape, sizes) == 0 && memcmp(a->strides, b->strides, sizes) == 0;
}

/* Of this framework and memory; it may show another shape of it. */
static struct view *find(struct slot *slot, const struct sluice_array *a, enum framework framework)
{
    for (unsigned i = 0; slot && i < slot->count; i++)
        if (slot->list[i].a.data == a->data && slot->list[i].framework == framework)
            return &slot->list[i];
    return NULL;
}

static bool is_of(const struct views *views, const struct lease *lease)
{
    return views->session == lease->frame.session && views->generation == lease->frame.generation;
}

static PyObject *look_up(struct views *views, const struct lease *lease,
                         const struct sluice_array *a, enum framework framework)
{
    PyObject *made = NULL;
    struct view *view;

    few_lock(&views->busy, lease->channel);
    if (is_of(views, lease) && (view = find(views->slots[lease->frame.slot], a, framework)) &&
        is_same(&view->a, a))
        made = Py_NewRef(view->made);
    few_unlock(&views->busy);
    return made;
}

/* Drops what was taken out of the table. */
static void drop(struct slot **slots)
{
    for (int s = 0; s < SLOTS; s++) {
        for (unsigned i = 0; slots[s] && i < slots[s]->count; i++)
            Py_DECREF(slots[s]->list[i].made);
        free(slots[s]);
    }
}

/* Those of a generation that is history make room. */
static void turn(struct views *views, const struct lease *lease, struct slot **old)
{
    if (is_of(views, lease))
        return;
    memcpy(old, views->slots, sizeof views->slots);
    memset(views->slots, 0, sizeof views->slots);
    views->session = lease->frame.session;
    views->generation = lease->frame.generation;
}

/* Keeps `made` in the place of one of another shape, if there is one. Without memory it keeps
 * nothing. */
static void put(struct views *views, const struct lease *lease, const struct sluice_array *a,
                enum framework framework, PyObject *made)
{
    struct slot *old[SLOTS] = { NULL }, **slot = &views->slots[lease->frame.slot], *grown;
    PyObject *before = NULL;
    struct view *view;

    few_lock(&views->busy, lease->channel);
    turn(views, lease, old);
    if ((view = find(*slot, a, framework))) {
        before = view->made;
    } else {
        unsigned count = *slot ? (*slot)->count : 0;
        if ((grown = realloc(*slot, sizeof *grown + (count + 1) * sizeof *view))) {
            grown->count = count + 1;
            *slot = grown;
            view = &grown->list[count];
        }
    }
    if (view)
        *view = (struct view){ .framework = framework, .a = *a, .made = Py_NewRef(made) };
    few_unlock(&views->busy);
    Py_XDECREF(before);
    drop(old);
}

static struct views *table_of(struct channel *channel)
{
    struct views *views = atomic_load(&channel->views), *none = NULL;

    if (views || atomic_load(&channel->closed) || !(views = calloc(1, sizeof *views)))
        return views;
    if (atomic_compare_exchange_strong(&channel->views, &none, views))
        return views;
    free(views);
    return none;
}

static int pin(struct state *state, struct lease *lease, sluice_pin **out)
{
    struct channel *channel = lease->channel;
    int r;

    if (channel->reader) {
        r = sluice_reader_pin(channel->reader, &lease->frame, out);
    } else {
        if (channel_enter(state, channel) < 0)
            return -1;
        r = sluice_writer_pin(channel->writer, &lease->frame, out);
        channel_leave(channel);
    }
    if (r != 0)
        raise_result(state, r);
    return r == 0 ? 0 : -1;
}

PyObject *view_made(struct state *state, struct lease *lease, const struct sluice_array *a,
                    enum framework framework)
{
    struct channel *channel = lease->channel;
    struct views *views = table_of(channel);
    sluice_pin *pinned = NULL;
    PyObject *made;

    if (views && (made = look_up(views, lease, a, framework)))
        return made;
    if (pin(state, lease, &pinned) < 0)
        return NULL;
    made = take_form(state, lease, a, framework, &pinned);
    (void)sluice_pin_drop(&pinned);
    bool current = channel->writer || channel->session == lease->frame.session;
    if (made && views && current && !atomic_load(&channel->closed))
        put(views, lease, a, framework, made);
    return made;
}

PyObject *view_of(struct state *state, struct lease *lease, const struct sluice_array *a,
                  enum framework framework)
{
    return take_by(state, lease, framework) == 0 ? view_made(state, lease, a, framework) : NULL;
}

void views_clear(struct channel *channel)
{
    struct views *views = atomic_load(&channel->views);
    struct slot *old[SLOTS] = { NULL };

    if (!views)
        return;
    few_lock(&views->busy, channel);
    memcpy(old, views->slots, sizeof views->slots);
    memset(views->slots, 0, sizeof views->slots);
    few_unlock(&views->busy);
    drop(old);
}

void views_free(struct views *views)
{
    for (int s = 0; views && s < SLOTS; s++)
        free(views->slots[s]); /* empty by now */
    free(views);
}
