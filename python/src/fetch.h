/* SPDX-License-Identifier: MIT
 *
 * Arrays on a GPU, copied into pinned memory: numpy(), copy() and fetch() of a frame there.
 */
#ifndef SLUICE_PYTHON_FETCH_H
#define SLUICE_PYTHON_FETCH_H

#include "array.h"
#include "stream.h"

/* Copies it; a NumPy array of its own memory. */
PyObject *fetch_array(struct array *array);

/* Makes `stream` wait for work that may still write to an array of the frame; there is none for a reader's ready frame
 * that is read-only. Returns a result. */
int copy_behind(struct lease *lease, const struct sluice_array *a, const struct stream *stream);

/* Would that return SLUICE_E_CAPTURING for every stream? */
bool copy_captured(struct lease *lease, const struct sluice_array *a);

/* May a copy still be under way after its ticket returned this? Its completion word may have failed, and the copy not.
 */
static inline bool copy_may_go_on(int r)
{
    return r != 0 && r != SLUICE_E_STALE;
}

#define PATIENCE (10 * SLUICE_S) /* how long the CPU waits for a copy */

/* Timeout: a copy from `device` did not start in that time. `and`: the end of the message, or "". Returns -1. */
int raise_unfinished(const struct state *state, const char *device, const char *and);

#endif
