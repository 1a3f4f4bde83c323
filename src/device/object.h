/* SPDX-License-Identifier: MIT
 *
 * The objects that handles refer to (devices, streams and events, writers and
 * readers): each has a handle, a reference count and an end, all by the same code.
 *
 * Objects come from a pool whose memory is reused but never freed, so it is bounded by the largest
 * number that ever lived at once. A thread that looks up a handle while it ends may therefore
 * safely touch the object's first two words, and finds there that the handle has ended.
 */
#ifndef SL_DEVICE_OBJECT_H
#define SL_DEVICE_OBJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/handle.h"

struct sl_device;

struct sl_object {
    _Atomic uint64_t id;   /* its handle; 0 before it has one */
    _Atomic uint32_t uses; /* references: its handle's and those of threads that use it; 0: in the pool */
    enum sl_handle_kind kind;
    size_t size;                              /* of the whole object */
    void (*finish)(struct sl_object *object); /* destroys the native object; NULL while there is none */
    struct sl_device *device;                 /* a reference; NULL for objects that belong to no device */
    bool listed;                              /* guarded by the device's lock, as are the links */
    struct sl_object *next, *previous;
};

/* How a handle ended: by itself, or with its device. */
enum sl_end { SL_END_UNKNOWN, SL_END_DESTROYED, SL_END_RESET, SL_END_CLOSED };

/* Its handle; 0 before it has one. */
static inline uint64_t sl_object_id(const struct sl_object *object)
{
    return atomic_load_explicit(&object->id, memory_order_relaxed);
}

/* A zeroed object of `size` bytes with one reference, the caller's; NULL if there is no memory. */
struct sl_object *sl_object_new(enum sl_handle_kind kind, size_t size);

/* Gives it a handle, by which other threads can find it from now on. */
int sl_object_name(struct sl_object *object, uint64_t *id);

/* Ends the handle; false if another thread has done so. The handle's reference is then the caller's
 * to drop. */
bool sl_object_unname(struct sl_object *object, enum sl_end how);

/* Looks up a handle and takes a reference to its object, to be dropped by sl_object_drop.
 * SLUICE_E_INVALID for zero and for SLUICE_ON_CPU as a stream, SLUICE_E_HANDLE, what
 * sl_object_ended returns, SLUICE_E_FORKED. */
int sl_object_hold(uint64_t id, enum sl_handle_kind kind, struct sl_object **object);

/* The same without an error message: NULL if there is no such object. */
struct sl_object *sl_object_find(uint64_t id, enum sl_handle_kind kind);

/* One more reference, for a caller that has one. */
void sl_object_keep(struct sl_object *object);

/* The last drop destroys the native object, with no lock held. */
void sl_object_drop(struct sl_object *object);

/* To be called by `finish` to defer the end: the object lives on without a handle until one more
 * sl_object_drop, on any thread, which calls `finish` again. */
void sl_object_defer_finish(struct sl_object *object);

/* How this handle ended, with the error message: SLUICE_E_CLOSED: the program ended it;
 * SLUICE_E_STALE: its device was reset or closed. */
int sl_object_ended(uint64_t id, enum sl_handle_kind kind);

/* 0, or SLUICE_E_FORKED in a forked child. */
int sl_object_forked(void);

#endif
