/* SPDX-License-Identifier: MIT
 *
 * The table of native streams.
 */
#include "stream_cache.h"

#include <pthread.h>
#include <stdlib.h>

#define CACHE 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct native *cache[CACHE]; /* foreign ones, each with a reference */
static unsigned cached;
static uint64_t turn;
static struct native *ours;
static struct native *deferred; /* captured when their last reference was dropped */

void streams_lock(void)
{
    pthread_mutex_lock(&lock);
}

void streams_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(streams_lock, streams_unlock, streams_unlock);
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

/* Only a stream of ours that captures cannot be ended: that is tried again later. */
static void native_end(struct native *native)
{
    int r = native->value == 0 && !native->ours ? 0 : sluice_stream_destroy(&native->handle);

    if (r != SLUICE_E_CAPTURING) {
        free(native);
        return;
    }
    streams_lock();
    native->next = deferred;
    deferred = native;
    streams_unlock();
}

void native_drop(struct native *native)
{
    if (!native || atomic_fetch_sub_explicit(&native->references, 1, memory_order_acq_rel) != 1)
        return;
    streams_lock();
    if (native->ours) {
        if (native->previous)
            native->previous->next = native->next;
        else
            ours = native->next;
        if (native->next)
            native->next->previous = native->previous;
    }
    streams_unlock();
    native_end(native);
}

void native_end_deferred(void)
{
    struct native *native;

    if (!__atomic_load_n(&deferred, __ATOMIC_RELAXED))
        return;
    streams_lock();
    native = deferred;
    deferred = NULL;
    streams_unlock();
    while (native) {
        struct native *next = native->next;
        native_end(native);
        native = next;
    }
}

bool native_was_reset(const struct native *native)
{
    return native->resets != atomic_load(&native->device->resets);
}

/* A foreign stream that the cache has dropped may have two entries. */
bool native_same(const struct native *a, const struct native *b)
{
    bool by_value = a->device->ordinal >= 0 || (!a->ours && !b->ours);

    return a == b || (by_value && a->value == b->value && a->device == b->device && a->resets == b->resets);
}

static bool is(const struct native *native, uintptr_t value, const struct opened *device)
{
    return native->value == value && native->device == device && !native_was_reset(native);
}

/* With the lock. Fails if its last reference was just dropped. */
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
            cache[i]->used = ++turn;
            return native_keep(cache[i]);
        }
    for (struct native *native = device->ordinal >= 0 ? ours : NULL; native; native = native->next)
        if (is(native, value, device) && keep_if_alive(native))
            return native;
    return NULL;
}

struct native *native_find(uintptr_t value, const struct opened *device)
{
    streams_lock();
    struct native *native = find_locked(value, device);
    streams_unlock();
    return native;
}

/* Into the cache; returns the least recently used one, which it replaces, or NULL. */
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
    native->used = ++turn;
    cache[at] = native_keep(native);
    return evicted;
}

static struct native *new_native(const struct opened *device, uintptr_t value)
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
    struct native *native = new_native(device, value), *first, *evicted = NULL;
    int r = !native      ? SLUICE_E_NO_MEMORY
            : value == 0 ? sluice_stream_default(device->device, &native->handle)
                         : sluice_stream_wrap(device->device, value, NULL, NULL, &native->handle);

    if (r != 0) {
        free(native);
        return r;
    }
    streams_lock();
    first = find_locked(value, device);
    if (!first)
        evicted = insert_locked(native);
    streams_unlock();
    native_drop(evicted);
    if (first)
        native_drop(native);
    *out = first ? first : native;
    return 0;
}

/* With the lock. A foreign stream that is gone may have had its value: the value means ours now. */
static struct native *insert_ours(struct native *native)
{
    struct native *evicted = NULL;

    for (unsigned i = 0; i < cached && native->device->ordinal >= 0 && !evicted; i++)
        if (is(cache[i], native->value, native->device)) {
            evicted = cache[i];
            cache[i] = cache[--cached];
        }
    native->ours = true;
    native->next = ours;
    if (ours)
        ours->previous = native;
    ours = native;
    return evicted;
}

int native_create(const struct opened *device, const struct sluice_stream_params *params, struct native **out)
{
    struct native *native = new_native(device, 0), *evicted;
    int r = native ? sluice_stream_create(device->device, params, &native->handle) : SLUICE_E_NO_MEMORY;

    if (r == 0)
        r = sluice_stream_native(native->handle, &native->value);
    if (r != 0) {
        native_drop(native);
        return r;
    }
    streams_lock();
    evicted = insert_ours(native);
    streams_unlock();
    native_drop(evicted);
    *out = native;
    return 0;
}

void native_forget(const struct opened *device, bool all)
{
    struct native *evicted[CACHE];
    unsigned n = 0, kept = 0;

    streams_lock();
    for (unsigned i = 0; i < cached; i++)
        if (cache[i]->device == device && (all || atomic_load(&cache[i]->references) == 1))
            evicted[n++] = cache[i];
        else
            cache[kept++] = cache[i];
    cached = kept;
    streams_unlock();
    while (n > 0)
        native_drop(evicted[--n]);
}
