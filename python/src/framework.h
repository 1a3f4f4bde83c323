/* SPDX-License-Identifier: MIT
 *
 * Array frameworks of the process: their types, exchange tables and current streams. Nothing here imports a framework:
 * one that the program has not imported has no arrays and no streams.
 */
#ifndef SLUICE_PYTHON_FRAMEWORK_H
#define SLUICE_PYTHON_FRAMEWORK_H

#include "dlpack.h"
#include "stream.h"

enum framework {
    FRAMEWORK_NONE, /* not an array */
    FRAMEWORK_TORCH,
    FRAMEWORK_CUPY,
    FRAMEWORK_JAX,
    FRAMEWORK_OTHER, /* another with DLPack or the CUDA array interface */
};

/* By its type, which is remembered. */
enum framework framework_of(struct state *state, PyObject *object);

/* Is it a torch.cuda.Stream itself, no subclass? Those live as long as the process. */
bool framework_torch_stream(struct state *state, PyObject *object);

/* A framework's current stream of the GPU `ordinal` on this thread. 1: found; 0: none, as the framework is absent, has
 * not used a GPU yet, or has no streams (JAX); -1 with an exception. */
int framework_stream(struct state *state, enum framework framework, int ordinal, uintptr_t *native);

/* The same as a counted stream, which keeps the framework's alive if that can end (CuPy's). *out NULL if there is none.
 */
int framework_current(struct state *state, enum framework framework, const char *device, struct stream **out);

/* If `native` is CuPy's current stream: that object, a new reference. NULL, without an exception,
 * if not. */
PyObject *framework_owner(struct state *state, int ordinal, uintptr_t native);

/* The exchange table of a type, or NULL, without an exception. Remembered. */
const struct dl_exchange *framework_exchange(struct state *state, PyTypeObject *type);

/* The same of an object's type, and whose it is. */
const struct dl_exchange *framework_exchange_of(struct state *state, PyObject *object, enum framework *framework);

#endif
