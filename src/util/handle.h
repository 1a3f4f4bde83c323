/* SPDX-License-Identifier: MIT
 *
 * Handles are names in a table with a generation, not pointers: one that outlived its object is an
 * error, never a crash. A handle is 64 bits: kind (8), index (24), generation (32); 0 and 1 are never
 * handles.
 */
#ifndef SL_UTIL_HANDLE_H
#define SL_UTIL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

enum sl_handle_kind {
    SL_HANDLE_WRITER = 1,
    SL_HANDLE_READER,
    SL_HANDLE_WATCH,
    SL_HANDLE_DEVICE,
    SL_HANDLE_STREAM,
    SL_HANDLE_EVENT,
};

/* A new name for `object`; 0 if memory or indices (2^24) ran out. Thread: any. */
uint64_t sl_handle_new(enum sl_handle_kind kind, void *object);

/* The object, or NULL with *why: SLUICE_E_INVALID for 0, SLUICE_E_HANDLE for another kind or what never
 * was one, SLUICE_E_STALE for one that ended. Lock-free, a few ns. Sets no sentence. */
void *sl_handle_get(uint64_t handle, enum sl_handle_kind kind, int *why);

/* Would it get one? */
bool sl_handle_lives(uint64_t handle, enum sl_handle_kind kind);

/* Ends the name: sl_handle_get says SLUICE_E_STALE from now on. The index is used again with the next
 * generation, and retired before generations wrap. Exactly one of several concurrent calls gets the
 * object back, the others NULL. */
void *sl_handle_end(uint64_t handle, enum sl_handle_kind kind);

/* Notes, before it ends, that a living name goes with something else's end. Asked of a name that has ended: 1 it went so;
 * 0 it did not; -1 not known, for it was a name of this index before another one that went so. */
void sl_handle_note(uint64_t handle, enum sl_handle_kind kind);
int sl_handle_noted(uint64_t handle, enum sl_handle_kind kind);

#endif
