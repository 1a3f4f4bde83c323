/* SPDX-License-Identifier: MIT
 *
 * What handles stand for (devices, streams and events; the core's writers and readers too): things
 * with a name, holders and an end. One path for all of them.
 *
 * Objects are made from a pool that never gives memory back (it is reused, so it is bounded by the
 * most that ever lived at once). A thread that looks a name up just as it ends may therefore touch
 * the object's first two words safely, and sees there that it came too late.
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
    _Atomic uint32_t uses; /* its name and whoever is inside; 0: in the pool */
    enum sl_handle_kind kind;
    void (*finish)(struct sl_object *object); /* ends the native half; NULL while there is none */
    struct sl_device *device;                 /* held; NULL for what is no device's */
    bool listed;                              /* with the neighbours: the device's lock */
    struct sl_object *next, *previous;
};

/* How a name came to its end: by itself, or with its device. */
enum sl_end { SL_END_UNKNOWN, SL_END_DESTROYED, SL_END_RESET, SL_END_CLOSED };

/* A zeroed object of `size` bytes with one use, which is the caller's; NULL if memory ran out. */
struct sl_object *sl_object_new(enum sl_handle_kind kind, size_t size);

/* Gives it a handle. From now on others find it. */
int sl_object_name(struct sl_object *object, uint64_t *id);

/* Takes the handle away; false if somebody else did. Its use is then the caller's to drop. */
bool sl_object_unname(struct sl_object *object, enum sl_end how);

/* Looks a handle up and holds the object until sl_object_drop. SLUICE_E_INVALID for zero and for
 * SLUICE_ON_CPU as a stream, SLUICE_E_HANDLE, what sl_object_ended says, SLUICE_E_FORKED. */
int sl_object_hold(uint64_t id, enum sl_handle_kind kind, struct sl_object **object);

/* The same without a sentence: NULL if there is no such object. */
struct sl_object *sl_object_find(uint64_t id, enum sl_handle_kind kind);

/* The last one out ends the native half. Holds no lock meanwhile. */
void sl_object_drop(struct sl_object *object);

/* In `finish`, instead of ending: the object lives on without a name until one more sl_object_drop, on
 * whichever thread, which calls `finish` again. */
void sl_object_put_off(struct sl_object *object);

/* How this name ended, with its sentence: SLUICE_E_CLOSED, the program ended it; SLUICE_E_STALE, its device was reset or
 * closed. */
int sl_object_ended(uint64_t id, enum sl_handle_kind kind);

/* 0, or SLUICE_E_FORKED in a forked child. */
int sl_object_forked(void);

#endif
