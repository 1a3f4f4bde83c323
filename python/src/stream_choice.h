/* SPDX-License-Identifier: MIT
 *
 * The stream of a copy between a frame and a program's arrays, and what the copy is ordered with: it waits for the work
 * that made an array, and later work on the array waits for it. So an array may be changed, or freed, as soon as the
 * call returns, as if its own framework had copied it.
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

/* `given`: the argument `stream`, or NULL. `frame`: the lease of the frame that is copied from, or NULL. -1 with an
 * exception. */
int choice_make(struct state *state, PyObject *given, const struct user *user, struct lease *frame,
                const struct source *sources, uint32_t count, struct stream_choice *choice);

/* Raises why a copy could not be ordered (copy_behind(), stream_join()). SLUICE_E_CAPTURING has no message of the
 * library here. Returns -1. */
int raise_copy(const struct state *state, int r);

/* ---- checks: -1 with an exception if a graph is being captured there ---- */

/* On `stream`, or NULL. The library checks the stream that it copies on itself. */
int check_captures(const struct state *state, const struct stream *stream);

/* On the framework's current stream of the GPU `ordinal`; -1 is the host, where nothing is queued. */
int check_framework_captures(struct state *state, enum framework framework, int ordinal);

/* There, and on `given` (the argument `stream`; NULL: the thread's Sluice stream of that GPU). */
int check_copy_captures(struct state *state, enum framework framework, int ordinal, PyObject *given);

/* On the streams of all sources but `stream` (NULL: of all). */
int check_source_captures(const struct state *state, const struct stream *stream, const struct source *sources,
                          uint32_t count);

/* ---- the order, after the checks ---- */

/* The copy waits for the sources. -1 with an exception. */
int choice_wait_for_sources(struct state *state, const struct stream_choice *choice, const struct source *sources,
                            uint32_t count);

/* Later work on the sources waits for the copy. On a failure the caller waits for the copy. No GIL needed. */
int choice_hold_sources(const struct stream_choice *choice, const struct source *sources, uint32_t count);

/* The frame that was copied from or to ends after the copy. */
void choice_hold_frame(const struct stream_choice *choice, struct lease *lease);

struct sluice_stream choice_handle(const struct stream_choice *choice);
void choice_drop(struct stream_choice *choice);

#endif
