/* SPDX-License-Identifier: MIT
 *
 * Handles are indices into a table, with a generation, not pointers: the use of one whose object has ended is an
 * error, never a crash. A handle has 64 bits: kind (8), index (24), generation (32); 0 and 1 are never
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
    SL_HANDLE_MODULE,
    SL_HANDLE_KERNEL,
    SL_HANDLE_GRAPH,
    SL_HANDLE_MEMORY,
    SL_HANDLE_KINDS, /* how many numbers they take */
};

/* A new handle for `object`; 0 if memory or indices (2^24) ran out. Thread: any. */
uint64_t sl_handle_new(enum sl_handle_kind kind, void *object);

/* The object, or NULL with *why: SLUICE_E_INVALID for 0, SLUICE_E_HANDLE for one of another kind or a value that never
 * was a handle, SLUICE_E_STALE for one that has ended. Lock-free, a few ns. Sets no error message. */
void *sl_handle_get(uint64_t handle, enum sl_handle_kind kind, int *why);

/* Would sl_handle_get return an object? */
bool sl_handle_is_alive(uint64_t handle, enum sl_handle_kind kind);

/* Ends the handle: sl_handle_get returns SLUICE_E_STALE from now on. The index is reused with the next
 * generation, and retired before generations wrap. Exactly one of several concurrent calls gets the
 * object back, the others NULL. */
void *sl_handle_end(uint64_t handle, enum sl_handle_kind kind);

/* note: records, before a live handle ends, that it ends because something else did. noted, of a handle that has ended:
 * 1: it was noted; 0: it was not; -1: not known, as it is older than a handle with the same index that was noted. */
void sl_handle_note(uint64_t handle, enum sl_handle_kind kind);
int sl_handle_noted(uint64_t handle, enum sl_handle_kind kind);

#endif
