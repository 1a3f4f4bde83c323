/* SPDX-License-Identifier: MIT
 *
 * Cached views of a channel's slots on a GPU.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#include "export.h"

#define SLOTS 128 /* slot numbers of a session */

struct view {
    struct view *next;
    enum framework framework;
    struct sluice_array a; /* the array that it shows */
    PyObject *made;
};

struct slot_views {
    _Atomic uint32_t references; /* the table's, and its frames' */
    struct view *first;          /* under the lock of the table */
};

struct views {
    _Atomic bool busy;
    uint64_t session; /* of all views in the table */
    uint32_t generation;
    struct slot_views *slots[SLOTS];
};

static bool is_same(const struct sluice_array *a, const struct sluice_array *b)
{
    size_t sizes = (size_t)a->ndim * sizeof a->shape[0];

    return a->ndim == b->ndim && a->read_only == b->read_only && memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 &&
           memcmp(a->shape, b->shape, sizes) == 0 && memcmp(a->strides, b->strides, sizes) == 0;
}

/* The view of this framework and memory; its shape may differ. */
static struct view *find(const struct slot_views *slot, const struct sluice_array *a, enum framework framework)
{
    struct view *view = slot ? slot->first : NULL;

    while (view && (view->a.data != a->data || view->framework != framework))
        view = view->next;
    return view;
}

static struct slot_views *keep(struct slot_views *slot)
{
    atomic_fetch_add_explicit(&slot->references, 1, memory_order_relaxed);
    return slot;
}

void slot_views_drop(struct slot_views *slot)
{
    if (!slot || atomic_fetch_sub_explicit(&slot->references, 1, memory_order_acq_rel) != 1)
        return;
    for (struct view *view = slot->first, *next; view; view = next) {
        next = view->next;
        Py_DECREF(view->made);
        free(view);
    }
    free(slot);
}

static bool is_of(const struct views *views, const struct lease *lease)
{
    return views->session == lease->frame.session && views->generation == lease->frame.generation;
}

static PyObject *look_up(struct views *views, const struct lease *lease, const struct sluice_array *a,
                         enum framework framework, struct slot_views **kept)
{
    struct slot_views *slot = kept ? *kept : NULL;
    PyObject *made = NULL;
    struct view *view;

    spin_lock(&views->busy, lease->channel);
    if (!slot && is_of(views, lease))
        slot = views->slots[lease->frame.slot];
    if ((view = find(slot, a, framework)) && is_same(&view->a, a)) {
        made = Py_NewRef(view->made);
        if (kept && !*kept)
            *kept = keep(slot);
    }
    spin_unlock(&views->busy);
    return made;
}

/* Drops slots removed from the table. */
static void drop(struct slot_views **slots)
{
    for (int s = 0; s < SLOTS; s++)
        slot_views_drop(slots[s]);
}

/* Is the frame of the current generation? The program may hold an older one. */
static bool is_latest(const struct views *views, const struct lease *lease)
{
    const struct channel *channel = lease->channel;

    if (atomic_load(&channel->closed))
        return false;
    if (views->session == lease->frame.session)
        return lease->frame.generation >= views->generation;
    return channel->writer || channel->session == lease->frame.session;
}

static void empty(struct views *views, struct slot_views **old)
{
    memcpy(old, views->slots, sizeof views->slots);
    memset(views->slots, 0, sizeof views->slots);
}

static struct slot_views *new_slot(void)
{
    struct slot_views *slot = calloc(1, sizeof *slot);

    if (slot)
        slot->references = 1;
    return slot;
}

/* Where to keep the frame's view: in the table, or in the frame alone; NULL: nowhere. */
static struct slot_views *place(struct views *views, const struct lease *lease, struct slot_views **kept,
                                struct slot_views **old)
{
    struct slot_views **slot = &views->slots[lease->frame.slot];

    if (kept && *kept)
        return *kept;
    if (!is_latest(views, lease))
        return kept ? *kept = new_slot() : NULL;
    if (!is_of(views, lease)) { /* a new generation begins */
        empty(views, old);
        views->session = lease->frame.session;
        views->generation = lease->frame.generation;
    }
    if (!*slot)
        *slot = new_slot();
    if (kept && *slot)
        *kept = keep(*slot);
    return *slot;
}

/* Keeps `made`, instead of a view of another shape if there is one. Without memory it keeps nothing. */
static void store(struct views *views, const struct lease *lease, const struct sluice_array *a,
                  enum framework framework, PyObject *made, struct slot_views **kept)
{
    struct slot_views *old[SLOTS] = { NULL }, *slot;
    PyObject *before = NULL;
    struct view *view;

    spin_lock(&views->busy, lease->channel);
    slot = place(views, lease, kept, old);
    if ((view = find(slot, a, framework))) {
        before = view->made;
    } else if (slot && (view = malloc(sizeof *view))) {
        view->next = slot->first;
        slot->first = view;
    }
    if (view) {
        view->framework = framework;
        view->a = *a;
        view->made = Py_NewRef(made);
    }
    spin_unlock(&views->busy);
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

    if (channel->reader)
        return check_result(state, sluice_reader_pin(channel->reader, &lease->frame, out));
    if (channel_enter(state, channel) < 0)
        return -1;
    r = sluice_writer_pin(channel->writer, &lease->frame, out);
    channel_leave(channel);
    return check_result(state, r);
}

PyObject *view_made(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                    struct slot_views **kept)
{
    struct views *views = table_of(lease->channel);
    sluice_pin *pinned = NULL;
    PyObject *made;

    if (views && (made = look_up(views, lease, a, framework, kept)))
        return made;
    if (pin(state, lease, &pinned) < 0)
        return NULL;
    made = export_as(state, lease, a, framework, &pinned);
    (void)sluice_pin_drop(&pinned);
    if (made && views)
        store(views, lease, a, framework, made, kept);
    return made;
}

PyObject *view_of(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                  struct slot_views **kept)
{
    return export_to(state, lease, framework) == 0 ? view_made(state, lease, a, framework, kept) : NULL;
}

void views_clear(struct channel *channel)
{
    struct views *views = atomic_load(&channel->views);
    struct slot_views *old[SLOTS] = { NULL };

    if (!views)
        return;
    spin_lock(&views->busy, channel);
    empty(views, old);
    spin_unlock(&views->busy);
    drop(old);
}

void views_free(struct views *views)
{
    free(views); /* empty by now */
}
