/* SPDX-License-Identifier: MIT
 *
 * The stream on which a copy between a frame and a program's arrays is queued, and what it is
 * ordered with: it comes behind the work that made an array, and what works on the array next comes
 * behind it. So an array may be changed, or go, as soon as the call has returned, as if the
 * framework that it is of had copied it.
 */
#ifndef SLUICE_PYTHON_STREAM_CHOICE_H
#define SLUICE_PYTHON_STREAM_CHOICE_H

#include "source.h"

struct stream_choice {
    struct stream *stream; /* NULL: none, SLUICE_ON_CPU */
    bool on_gpu;           /* frames are */
    bool host, gpu;        /* there are arrays in host memory, or on a GPU */
    bool lasting;          /* some must be kept until the copy is done */
    bool edges;            /* some are of another stream */
};

/* `given`: the argument `stream`, or NULL. `frame`: the lease of the frame that is copied from, or
 * NULL. -1 with an exception. */
int choice_make(struct state *state, PyObject *given, const struct user *user,
                  struct lease *frame, const struct source *sources, uint32_t count,
                  struct stream_choice *choice);

/* What kept a copy from coming behind what it must (copy_behind(), stream_join()): an exception, and
 * -1. That a stream captures they found themselves, so the library has no words for it. */
int raise_copy(const struct state *state, int r);

/* ---- may it be? each -1 with an exception if a graph is captured there ---- */

/* On `stream`, or NULL. The library asks the same of the one that it copies on. */
int check_captures(const struct state *state, const struct stream *stream);

/* By a framework itself, on its own current stream of the GPU `ordinal`; on -1, the host, nothing is queued. */
int check_framework_captures(struct state *state, enum framework framework, int ordinal);

/* The same; and on `given` (the argument `stream`, or NULL: on the thread's Sluice stream of that GPU). */
int check_copy_captures(struct state *state, enum framework framework, int ordinal, PyObject *given);

/* On `stream` (NULL: any other), behind what works on all of these. */
int check_source_captures(const struct state *state, const struct stream *stream, const struct source *sources,
                  uint32_t count);

/* ---- it is ---- */

/* What must come before, where check_source_captures() had nothing against it. -1 with an exception. */
int choice_wait_for_sources(struct state *state, const struct stream_choice *choice, const struct source *sources,
                  uint32_t count);

/* What must come behind. 0, or what the library said: then wait for the copy. No GIL needed. */
int choice_hold_sources(const struct stream_choice *choice, const struct source *sources, uint32_t count);

/* The copy was queued: the frame that it reads, or writes, ends behind it. */
void choice_hold_frame(const struct stream_choice *choice, struct lease *lease);

struct sluice_stream choice_handle(const struct stream_choice *choice);
void choice_drop(struct stream_choice *choice);

#endif
