/* SPDX-License-Identifier: MIT
 *
 * A binary heap of watches by deadline.
 */
#include "os/timers.h"

#include <stdlib.h>

#include <sluice/base.h>

bool sl_timers_reserve(struct sl_timers *timers, size_t count)
{
    if (count <= timers->capacity)
        return true;
    size_t capacity = timers->capacity ? timers->capacity * 2 : 16;
    if (capacity < count)
        capacity = count;
    struct sl_watch **heap = realloc(timers->heap, capacity * sizeof(*heap));
    if (!heap)
        return false;
    timers->heap = heap;
    timers->capacity = capacity;
    return true;
}

void sl_timers_finish(struct sl_timers *timers)
{
    free(timers->heap);
    *timers = (struct sl_timers){ 0 };
}

static void put(struct sl_timers *timers, size_t at, struct sl_watch *watch)
{
    timers->heap[at] = watch;
    watch->heap_index = at + 1;
}

/* Moves `watch` up from `at` to its place. */
static void rise(struct sl_timers *timers, size_t at, struct sl_watch *watch)
{
    while (at && timers->heap[(at - 1) / 2]->deadline > watch->deadline) {
        put(timers, at, timers->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(timers, at, watch);
}

/* Moves `watch` down from `at` to its place. */
static void sink(struct sl_timers *timers, size_t at, struct sl_watch *watch)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < timers->count && timers->heap[child + 1]->deadline < timers->heap[child]->deadline)
            child++;
        if (child >= timers->count || timers->heap[child]->deadline >= watch->deadline)
            break;
        put(timers, at, timers->heap[child]);
        at = child;
    }
    put(timers, at, watch);
}

void sl_timers_insert(struct sl_timers *timers, struct sl_watch *watch)
{
    rise(timers, timers->count++, watch);
}

void sl_timers_remove(struct sl_timers *timers, struct sl_watch *watch)
{
    if (!watch->heap_index)
        return;
    size_t at = watch->heap_index - 1;
    watch->heap_index = 0;
    struct sl_watch *last = timers->heap[--timers->count];
    if (last == watch)
        return;
    if (at && timers->heap[(at - 1) / 2]->deadline > last->deadline)
        rise(timers, at, last);
    else
        sink(timers, at, last);
}

int64_t sl_timers_first(const struct sl_timers *timers)
{
    return timers->count ? timers->heap[0]->deadline : SLUICE_FOREVER;
}
