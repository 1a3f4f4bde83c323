/* SPDX-License-Identifier: MIT
 *
 * The table of handles: chunks that are allocated on demand and never freed, so that a lookup needs
 * no lock and is safe for any 64-bit value. There are no locks at all, so none can be left locked
 * in a forked child.
 */
#include "util/handle.h"

#include <stddef.h>
#include <stdlib.h>

#include "util/atomic.h"
#include "util/result.h"

#define INDEX_BITS    24
#define INDEX_MASK    ((UINT64_C(1) << INDEX_BITS) - 1)
#define CHUNK_BITS    10
#define CHUNK_ENTRIES (1u << CHUNK_BITS)

/* A test sets these to small values to reach the limits. */
#ifndef SL_HANDLE_LAST_INDEX
#define SL_HANDLE_LAST_INDEX ((1u << INDEX_BITS) - 1)
#endif
#ifndef SL_HANDLE_LAST_GENERATION
#define SL_HANDLE_LAST_GENERATION UINT32_MAX
#endif

/* An entry belongs to the thread that took its index from the free list or from `used`, until its
 * name is stored; then to the thread that takes the name back. `object` is stored with release
 * after the previous name was cleared, so a thread that reads a newer object also sees that its
 * name has ended. */
struct entry {
    _Atomic uint64_t name; /* the live handle, or 0 */
    _Atomic uint64_t last; /* the newest handle ever issued for this index */
    _Atomic(void *) object;
    _Atomic uint32_t next;  /* in the free list */
    _Atomic uint32_t noted; /* generation of the newest handle that ended with another object; 0: none */
};

static _Atomic(struct entry *) chunks[(SL_HANDLE_LAST_INDEX >> CHUNK_BITS) + 1];
static _Atomic uint32_t used;      /* the highest index ever issued; index 0 never is */
static _Atomic uint64_t free_list; /* first index, and in the upper bits a counter against ABA */

static uint32_t index_of(uint64_t handle)
{
    return (uint32_t)(handle >> 32 & INDEX_MASK);
}

static uint32_t generation_of(uint64_t handle)
{
    return (uint32_t)handle;
}

static struct entry *entry_at(uint32_t index)
{
    if (index > SL_HANDLE_LAST_INDEX)
        return NULL;
    struct entry *chunk = sl_load(&chunks[index >> CHUNK_BITS], acquire);
    return chunk ? &chunk[index & (CHUNK_ENTRIES - 1)] : NULL;
}

static struct entry *find(uint64_t handle, enum sl_handle_kind kind)
{
    return handle >> 56 == (uint64_t)kind ? entry_at(index_of(handle)) : NULL;
}

/* For an index that was issued before: its chunk exists. */
static struct entry *entry_known(uint32_t index)
{
    return &sl_load(&chunks[index >> CHUNK_BITS], acquire)[index & (CHUNK_ENTRIES - 1)];
}

static uint32_t take_free(void)
{
    uint64_t head = sl_load(&free_list, acquire);
    while (head & INDEX_MASK) {
        uint32_t index = (uint32_t)(head & INDEX_MASK);
        uint64_t counter = (head & ~INDEX_MASK) + INDEX_MASK + 1;
        uint64_t next = counter | sl_load(&entry_known(index)->next, relaxed);
        if (atomic_compare_exchange_weak_explicit(&free_list, &head, next, memory_order_acquire, memory_order_acquire))
            return index;
    }
    return 0;
}

static void give_free(struct entry *entry, uint32_t index)
{
    uint64_t head = sl_load(&free_list, relaxed);
    uint64_t next;
    do {
        sl_store(&entry->next, (uint32_t)(head & INDEX_MASK), relaxed);
        next = ((head & ~INDEX_MASK) + INDEX_MASK + 1) | index;
    } while (
        !atomic_compare_exchange_weak_explicit(&free_list, &head, next, memory_order_release, memory_order_relaxed));
}

static int make_chunk(uint32_t index)
{
    if (entry_at(index))
        return 1;
    struct entry *fresh = calloc(CHUNK_ENTRIES, sizeof(*fresh));
    struct entry *there = NULL;
    if (!fresh)
        return 0;
    if (!atomic_compare_exchange_strong(&chunks[index >> CHUNK_BITS], &there, fresh))
        free(fresh); /* another thread has installed one */
    return 1;
}

static uint32_t take_unused(void)
{
    uint32_t before = sl_load(&used, relaxed);
    do {
        if (before >= SL_HANDLE_LAST_INDEX || !make_chunk(before + 1))
            return 0;
    } while (!atomic_compare_exchange_weak(&used, &before, before + 1));
    return before + 1;
}

uint64_t sl_handle_new(enum sl_handle_kind kind, void *object)
{
    uint32_t index = take_free();
    if (!index)
        index = take_unused();
    if (!index)
        return 0;
    struct entry *entry = entry_at(index);
    uint32_t generation = generation_of(sl_load(&entry->last, relaxed)) + 1;
    uint64_t handle = (uint64_t)kind << 56 | (uint64_t)index << 32 | generation;
    sl_store(&entry->last, handle, relaxed);
    sl_store(&entry->object, object, release);
    sl_store(&entry->name, handle, release);
    return handle;
}

static int why_not(uint64_t handle, struct entry *entry)
{
    if (!handle)
        return SLUICE_E_INVALID;
    if (!entry || !generation_of(handle))
        return SLUICE_E_HANDLE;
    uint64_t last = sl_load(&entry->last, relaxed);
    if (generation_of(handle) > generation_of(last))
        return SLUICE_E_HANDLE;
    return generation_of(handle) == generation_of(last) && handle != last ? SLUICE_E_HANDLE : SLUICE_E_STALE;
}

void *sl_handle_get(uint64_t handle, enum sl_handle_kind kind, int *why)
{
    struct entry *entry = find(handle, kind);
    if (entry && sl_load(&entry->name, acquire) == handle) {
        void *object = sl_load(&entry->object, acquire);
        if (sl_load(&entry->name, relaxed) == handle)
            return object;
    }
    *why = why_not(handle, entry);
    return NULL;
}

bool sl_handle_is_alive(uint64_t handle, enum sl_handle_kind kind)
{
    struct entry *entry = find(handle, kind);

    return entry && sl_load(&entry->name, acquire) == handle;
}

void sl_handle_note(uint64_t handle, enum sl_handle_kind kind)
{
    struct entry *entry = find(handle, kind);
    if (entry)
        sl_store(&entry->noted, generation_of(handle), relaxed); /* published by the end of the handle */
}

int sl_handle_noted(uint64_t handle, enum sl_handle_kind kind)
{
    struct entry *entry = find(handle, kind);
    uint32_t noted = entry ? sl_load(&entry->noted, acquire) : 0;
    return noted == generation_of(handle) ? 1 : noted < generation_of(handle) ? 0 : -1;
}

void *sl_handle_end(uint64_t handle, enum sl_handle_kind kind)
{
    struct entry *entry = find(handle, kind);
    uint64_t name = handle;
    if (!handle || !entry || !atomic_compare_exchange_strong(&entry->name, &name, 0))
        return NULL;
    void *object = sl_load(&entry->object, relaxed);
    if (generation_of(handle) < SL_HANDLE_LAST_GENERATION)
        give_free(entry, index_of(handle));
    return object;
}
