/* SPDX-License-Identifier: MIT
 *
 * Native streams, each with one handle of the library's, and the table that finds them by value.
 */
#include "stream_cache.h"

#include <pthread.h>
#include <stdlib.h>

#define CACHE 64 /* foreign ones that are found by their value */

/* Held for a few steps, never over a call of the library's or of Python's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct native *cache[CACHE];
static unsigned cached;
static uint64_t looks;
static struct native *ours;
static struct native *left; /* could not be ended when their last reference went: they captured */

void native_lock(void)
{
    pthread_mutex_lock(&lock);
}

void native_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(native_lock, native_unlock, native_unlock);
}

void native_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch_forks);
}

static struct native *native_keep(struct native *native)
{
    atomic_fetch_add_explicit(&native->references, 1, memory_order_relaxed);
    return native;
}

/* Ends its handle. Only of one of ours that captures the library says no: it is tried again later.
 */
static void native_end(struct native *native)
{
    int r = native->value == 0 && !native->ours ? 0 : sluice_stream_destroy(&native->handle);

    if (r != SLUICE_E_CAPTURING) {
        free(native);
        return;
    }
    native_lock();
    native->next = left;
    left = native;
    native_unlock();
}

void native_drop(struct native *native)
{
    if (!native || atomic_fetch_sub_explicit(&native->references, 1, memory_order_acq_rel) != 1)
        return;
    native_lock();
    if (native->ours) {
        if (native->previous)
            native->previous->next = native->next;
        else
            ours = native->next;
        if (native->next)
            native->next->previous = native->previous;
    }
    native_unlock();
    native_end(native);
}

void native_end_left(void)
{
    struct native *native;

    if (!__atomic_load_n(&left, __ATOMIC_RELAXED))
        return;
    native_lock();
    native = left;
    left = NULL;
    native_unlock();
    while (native) {
        struct native *next = native->next;
        native_end(native);
        native = next;
    }
}

bool native_stale(const struct native *native)
{
    return native->resets != atomic_load(&native->device->resets);
}

/* The table forgets foreign ones that were not looked for lately, so that there may be two of one. */
bool native_same(const struct native *a, const struct native *b)
{
    bool by_value = a->device->ordinal >= 0 || (!a->ours && !b->ours);

    return a == b || (by_value && a->value == b->value && a->device == b->device && a->resets == b->resets);
}

static bool is(const struct native *native, uintptr_t value, const struct opened *device)
{
    return native->value == value && native->device == device && !native_stale(native);
}

/* Under the lock: unless its last reference has just gone. */
static bool keep_if_alive(struct native *native)
{
    uint32_t references = atomic_load(&native->references);

    while (references > 0)
        if (atomic_compare_exchange_weak(&native->references, &references, references + 1))
            return true;
    return false;
}

static struct native *find_locked(uintptr_t value, const struct opened *device)
{
    for (unsigned i = 0; i < cached; i++)
        if (is(cache[i], value, device)) {
            cache[i]->used = ++looks;
            return native_keep(cache[i]);
        }
    for (struct native *native = device->ordinal >= 0 ? ours : NULL; native; native = native->next)
        if (is(native, value, device) && keep_if_alive(native))
            return native;
    return NULL;
}

struct native *native_find(uintptr_t value, const struct opened *device)
{
    native_lock();
    struct native *native = find_locked(value, device);
    native_unlock();
    return native;
}

/* Puts it where it is found, in place of the one that was looked for least lately; returns that
 * one. */
static struct native *insert_locked(struct native *native)
{
    unsigned at = cached;
    struct native *evicted = NULL;

    if (cached == CACHE) {
        at = 0;
        for (unsigned i = 1; i < cached; i++)
            if (cache[i]->used < cache[at]->used)
                at = i;
        evicted = cache[at];
    } else {
        cached++;
    }
    native->used = ++looks;
    cache[at] = native_keep(native);
    return evicted;
}

struct native *native_new(const struct opened *device, uintptr_t value)
{
    struct native *native = calloc(1, sizeof *native);

    if (!native)
        return NULL;
    native->references = 1;
    native->device = device;
    native->value = value;
    native->resets = atomic_load(&device->resets);
    return native;
}

int native_wrap(const struct opened *device, uintptr_t value, struct native **out)
{
    struct native *native = native_new(device, value), *first, *evicted = NULL;
    int r = !native      ? SLUICE_E_NO_MEMORY
            : value == 0 ? sluice_stream_default(device->device, &native->handle)
                         : sluice_stream_wrap(device->device, value, NULL, NULL, &native->handle);

    if (r != 0) {
        free(native);
        return r;
    }
    native_lock();
    first = find_locked(value, device);
    if (!first)
        evicted = insert_locked(native);
    native_unlock();
    native_drop(evicted);
    if (first)
        native_drop(native);
    *out = first ? first : native;
    return 0;
}

/* A new native stream can have the value of a foreign one that is gone: whoever finds it by that
 * now means ours. */
void native_add_ours(struct native *native)
{
    struct native *evicted = NULL;

    native_lock();
    for (unsigned i = 0; i < cached && native->device->ordinal >= 0; i++)
        if (is(cache[i], native->value, native->device)) {
            evicted = cache[i];
            cache[i] = cache[--cached];
            break;
        }
    native->ours = true;
    native->next = ours;
    if (ours)
        ours->previous = native;
    ours = native;
    native_unlock();
    native_drop(evicted);
}

void native_forget(const struct opened *device, bool all)
{
    struct native *evicted[CACHE];
    unsigned n = 0, kept = 0;

    native_lock();
    for (unsigned i = 0; i < cached; i++)
        if (cache[i]->device == device && (all || atomic_load(&cache[i]->references) == 1))
            evicted[n++] = cache[i];
        else
            cache[kept++] = cache[i];
    cached = kept;
    native_unlock();
    while (n > 0)
        native_drop(evicted[--n]);
}
