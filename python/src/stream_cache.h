/* SPDX-License-Identifier: MIT
 *
 * Native streams, each with one handle of the library's that all its names share: naming the same
 * foreign stream for each frame asks the driver nothing. No Python is here.
 */
#ifndef SLUICE_PYTHON_NATIVE_H
#define SLUICE_PYTHON_NATIVE_H

#include "stream.h"

struct native {
    _Atomic uint32_t references;
    struct sluice_stream handle;
    uintptr_t value;
    const struct opened *device;
    unsigned resets;                /* of its device until it was made */
    bool ours;                      /* made by us: its last reference ends the stream itself */
    struct native *next, *previous; /* of ours */
    uint64_t used;                  /* by the table */
};

void native_init(void);

/* One with a single reference and no handle yet; NULL without memory. */
struct native *native_new(const struct opened *device, uintptr_t value);
void native_drop(struct native *native); /* needs no GIL */

/* Was its handle ended by a reset of the device? A foreign stream itself was not. */
bool native_stale(const struct native *native);

/* Do both stand for one native stream? What was made before a reset does not for what came after it. */
bool native_same(const struct native *a, const struct native *b);

/* Ours or a foreign one, by its value; NULL if the table has none, or one that is stale. */
struct native *native_find(uintptr_t value, const struct opened *device);

/* Makes a handle for a foreign one (0: the legacy default one). What the library said. */
int native_wrap(const struct opened *device, uintptr_t value, struct native **out);

/* Takes a new one of ours into the table. A foreign one that is gone may have had its value:
 * whoever finds it by that now means ours. */
void native_add_ours(struct native *native);

/* Takes foreign ones of a device out of the table: all of them, whose handles a reset has ended, or
 * those that nobody names any more. These may be gone, and what asks for all streams of a device
 * must not find them. */
void native_forget(const struct opened *device, bool all);

/* Ends what captured a graph when its last reference went. */
void native_end_left(void);

/* One lock for the table and what streams count. Held for a few steps, never over a call. */
void native_lock(void);
void native_unlock(void);

#endif
