/* SPDX-License-Identifier: MIT
 *
 * Cached views of a channel's slots on a GPU: arrays of a framework that hold no lease, made once
 * for each slot and array of a generation. They keep the slot's memory mapped, so a graph that was
 * captured with one may be replayed for as long as the view lives.
 */
#ifndef SLUICE_PYTHON_VIEW_H
#define SLUICE_PYTHON_VIEW_H

#include "array.h"
#include "framework.h"

/* The view of a frame's array in a framework's form: a new reference. Its current stream uses the
 * frame from now on. */
PyObject *view_of(struct state *state, struct lease *lease, const struct sluice_array *a,
                  enum framework framework);

/* The same for a frame whose streams were told already. */
PyObject *view_made(struct state *state, struct lease *lease, const struct sluice_array *a,
                    enum framework framework);

/* Forgets all, with the GIL, when the channel's Python object closes; the table goes with the
 * channel. */
void views_clear(struct channel *channel);
void views_free(struct views *views);

#endif
