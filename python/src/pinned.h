/* SPDX-License-Identifier: MIT
 *
 * Pinned memory, into which GPUs copy at full speed. To make it takes as long as many copies do, so
 * what is given back is kept, up to a bound, and given out again. One pool for the process: the
 * memory knows no interpreter, and stays when one ends.
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

/* One for copies from `device`; *out is NULL if there is none to be had without making it, and
 * `make` is false. -1 with an exception. */
int pinned_take(struct state *state, const char *device, uint64_t size, bool make,
                struct pinned **out);

/* Gives it back; nothing may be copied into it any more. Any thread, without the GIL: where the
 * pool is full, it waits for the driver to free what was unused for the longest. NULL does nothing.
 */
void pinned_give(struct pinned *pinned);

/* An object with the buffer protocol, of the first `size` bytes, that gives it back at its end.
 * Takes it over, also if it fails. */
PyObject *pinned_object(struct state *state, struct pinned *pinned, uint64_t size);

/* How many buffers the pool keeps, and their bytes. */
void pinned_kept(uint64_t *count, uint64_t *bytes);

#endif
