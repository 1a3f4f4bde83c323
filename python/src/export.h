/* SPDX-License-Identifier: MIT
 *
 * Frames on a GPU as arrays of frameworks: on which stream, and in which form.
 */
#ifndef SLUICE_PYTHON_EXPORT_H
#define SLUICE_PYTHON_EXPORT_H

#include "array.h"
#include "framework.h"

/* The stream on which a frame will be used: `given` to a call, else the thread's current Sluice stream of that device,
 * else NULL in *out, as always on "host". `device` NULL: any. -1 with an exception. */
int export_stream(struct state *state, const char *device, PyObject *given, struct stream **out);

/* Work on this native stream (1: the default one) will use the frame. The stream waits if the frame is not ready, or if
 * work on another stream may still write it. -1 with an exception. */
int export_on(struct state *state, struct lease *lease, uintptr_t native);

/* The same for one of our streams. Takes `stream` over. */
int export_on_stream(struct state *state, struct lease *lease, struct stream *stream);

/* The same for a framework's current stream. */
int export_to(struct state *state, struct lease *lease, enum framework framework);

/* The same for a consumer that passes no stream: the one that the program named, else the current ones of the
 * frameworks that the process uses; an exception if there is none. */
int export_unnamed(struct state *state, struct lease *lease);

/* frame.used_on() of one stream */
int lease_used_on(struct state *state, struct lease *lease, PyObject *stream);

/* The array in a framework's form, without a copy. Its stream is known to the lease. `pin` as dlpack_capsule. */
PyObject *export_as(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                    sluice_pin **pin);

/* frame.torch() and the like. */
PyObject *export_array(struct array *array, enum framework framework, bool copy);
PyObject *export_first(struct state *state, struct lease *lease, const struct sluice_array *a, enum framework framework,
                       bool copy);

/* Makes and drops a tensor as the next frame's will be, while a reader waits for it: then code and data are in the
 * CPU's caches, from which the program's own work has evicted them. Does nothing unless the reader's last frame on a
 * GPU became a tensor of PyTorch. Raises nothing. */
void export_warm_up(struct state *state, struct channel *channel);

/* The CUDA array interface, version 3. */
PyObject *export_interface(struct array *array);

#endif
