/* SPDX-License-Identifier: MIT
 *
 * Pinned memory, into which GPUs copy at full speed. Its allocation takes as long as many copies, so freed buffers are
 * kept, up to a bound, and used again. The process has one pool, which all interpreters share.
 */
#ifndef SLUICE_PYTHON_PINNED_H
#define SLUICE_PYTHON_PINNED_H

#include "state.h"

struct pinned {
    struct pinned *next;
    void *memory;
    uint64_t size; /* at least what was asked for */
    char device[64];
};

/* A buffer for copies from `device`. NULL if the pool has none: with `make` one is made, or there is an exception. */
struct pinned *pinned_take(struct state *state, const char *device, uint64_t size, bool make);

/* Returns it to the pool; no copy may write to it any more. Any thread, without the GIL: if the pool is full, the
 * driver frees the least recently used buffer, and waits. NULL does nothing. */
void pinned_give(struct pinned *pinned);

/* An object with the buffer protocol, of the first `size` bytes, that returns it to the pool at its end. Takes it over,
 * also if it fails. */
PyObject *pinned_object(struct state *state, struct pinned *pinned, uint64_t size);

/* The number of buffers in the pool, and their bytes. */
void pinned_kept(uint64_t *count, uint64_t *bytes);

#endif
