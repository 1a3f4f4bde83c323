/* SPDX-License-Identifier: MIT
 *
 * Native streams, each with one counted handle of the library that all its names share, so that a frame that names the
 * same foreign stream as the last one makes no driver call. No Python is here.
 */
#ifndef SLUICE_PYTHON_NATIVE_H
#define SLUICE_PYTHON_NATIVE_H

#include "stream.h"

struct native {
    _Atomic uint32_t references;
    struct sluice_stream handle;
    uintptr_t value;
    const struct opened *device;
    unsigned resets;                /* of its device before it was made */
    bool ours;                      /* made by us: the last reference ends the stream itself */
    struct native *next, *previous; /* of ours */
    uint64_t used;                  /* by the cache */
};

void native_init(void);
void native_drop(struct native *native); /* no GIL needed */

/* Has a reset of the device ended its handle? A foreign stream itself lives on. */
bool native_was_reset(const struct native *native);

/* Do both stand for one native stream? Not if one was made before a reset, and the other after it. */
bool native_same(const struct native *a, const struct native *b);

/* Finds ours, or a cached foreign one. NULL if there is none that no reset has ended. */
struct native *native_find(uintptr_t value, const struct opened *device);

/* Makes a handle for a foreign one (0: the legacy default one). No GIL needed. Returns a result. */
int native_wrap(const struct opened *device, uintptr_t value, struct native **out);

/* Makes a stream. No GIL needed. Returns a result. */
int native_create(const struct opened *device, const struct sluice_stream_params *params, struct native **out);

/* Drops the cache's references to a device's foreign streams: all after a reset; else those that nothing else refers
 * to: their owners may have ended them, so calls for all streams of the device must not find them. */
void native_forget(const struct opened *device, bool all);

/* Ends those that captured a graph when their last reference was dropped. */
void native_end_deferred(void);

/* The lock of this table and of streams' counts: for a few steps, never over a call. */
void streams_lock(void);
void streams_unlock(void);

#endif
