/* SPDX-License-Identifier: MIT
 *
 * Arrays on a GPU, copied into pinned memory: numpy(), copy() and fetch() of a frame there.
 */
#ifndef SLUICE_PYTHON_FETCH_H
#define SLUICE_PYTHON_FETCH_H

#include "array.h"
#include "stream.h"

/* A NumPy array of its own, once the copy is done. */
PyObject *fetch_array(struct array *array);

/* Of a channel: a stream of ours on which copies are queued that no other one is meant for.
 * A new one behind a reset. A reference; NULL with an exception. */
struct stream *copy_stream(struct state *state, struct channel *channel, const char *device);

/* Makes `stream` wait for what may still be writing to an array of the frame: for nothing, if it is
 * a reader's, ready, and nobody may write to it. What the library said. */
int copy_behind(struct lease *lease, const struct sluice_array *a, const struct stream *stream);

/* Would that say SLUICE_E_CAPTURING of every stream? */
bool copy_captured(struct lease *lease, const struct sluice_array *a);

/* May a copy be under way still whose ticket said this? The word that tells of it may have failed, and the copy not. */
static inline bool copy_may_go_on(int r)
{
    return r != 0 && r != SLUICE_E_STALE;
}

/* Timeout: the GPU did not come to a copy from `device` in the 10 s that the CPU waits. `and`: what else there is to say, or "". */
void raise_unfinished(const struct state *state, const char *device, const char *and);

#endif
