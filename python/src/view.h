/* SPDX-License-Identifier: MIT
 *
 * Cached views of a channel's slots on a GPU: arrays of a framework that hold no lease, made once
 * for each slot and array of a generation. They keep the slot's memory mapped, so a graph that was
 * captured with one may be replayed for as long as the view lives.
 *
 * The table has those of the current generation. A frame keeps its slot's while it is held, so that
 * they stay the same for a frame from before the format changed.
 */
#ifndef SLUICE_PYTHON_VIEW_H
#define SLUICE_PYTHON_VIEW_H

#include "array.h"
#include "framework.h"

struct slot_views; /* of one slot in one generation */

/* The framework's view of a frame's array: a new reference. The framework's current stream uses the frame from now on.
 * `kept`: what the frame keeps, NULL at first, gets a reference; it may itself be NULL. */
PyObject *view_of(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                  struct slot_views **kept);

/* The same for a frame whose streams are recorded already. */
PyObject *view_made(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                    struct slot_views **kept);

/* With the GIL; NULL is none. */
void slot_views_drop(struct slot_views *slot);

/* Forgets all, with the GIL, when the channel's Python object closes; the table goes with the
 * channel. */
void views_clear(struct channel *channel);
void views_free(struct views *views);

#endif
