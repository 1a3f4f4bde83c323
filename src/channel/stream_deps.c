/* SPDX-License-Identifier: MIT */
#include "channel/stream_deps.h"

#include "os/os.h"
#include "util/result.h"

#define FIRST_PAUSE (SLUICE_MS / 50)
#define LAST_PAUSE  SLUICE_MS

static struct sl_stream_wait waits[SL_STREAM_WAITS];
static int top;                                    /* entries from here on are free */
static const struct sl_stream_wait_source *source; /* NULL until one takes part */

sl_word32 sl_stream_waits_used;

static void count_used(uint32_t change)
{
    sl_store(&sl_stream_waits_used, sl_load(&sl_stream_waits_used, relaxed) + change, relaxed);
}

/* ---- dependents ---- */

struct sl_stream_point sl_stream_point(const struct sl_stream *stream)
{
    struct sl_stream_point point = { .handle = atomic_load_explicit(&stream->object.id, memory_order_relaxed) };

    stream->object.device->ops->stream_queue(stream, &point.place);
    return point;
}

/* Without the service lock, as dropping the last reference to an object ends it. */
static struct sl_stream_point point_of(uint64_t handle)
{
    struct sl_stream_point point = { .handle = handle };

    (void)sl_stream_queue_of((struct sluice_stream){ handle }, &point.place);
    return point;
}

/* A handle of CU_STREAM_PER_THREAD is another stream on each thread. */
static bool is_same(const struct sl_stream_point *a, const struct sl_stream_point *b)
{
    return a->handle == b->handle && a->place.thread == b->place.thread;
}

static bool depends(const struct sl_stream_wait *wait, const struct sl_stream_point *point)
{
    if (!wait->owner)
        return false;
    if (wait->dependent_count > SL_STREAM_DEPENDENTS)
        return true;
    for (uint32_t i = 0; i < wait->dependent_count; i++)
        if (is_same(&wait->dependents[i], point) || sl_stream_ordered(&wait->dependents[i].place, &point->place))
            return true;
    return false;
}

static void remove_dependent(struct sl_stream_wait *wait, uint64_t handle)
{
    for (uint32_t i = 0; wait->dependent_count <= SL_STREAM_DEPENDENTS && i < wait->dependent_count; i++)
        if (wait->dependents[i].handle == handle)
            wait->dependents[i--] = wait->dependents[--wait->dependent_count];
}

static void add_dependent(struct sl_stream_wait *wait, const struct sl_stream_point *point)
{
    if (depends(wait, point))
        return;
    if (wait->dependent_count < SL_STREAM_DEPENDENTS)
        wait->dependents[wait->dependent_count] = *point;
    if (wait->dependent_count <= SL_STREAM_DEPENDENTS)
        wait->dependent_count++;
}

/* The function that sl_stream_order_hook points to: work on `to` now waits for work on `from`. `anew`: and for nothing
 * else. */
static void hand_on(uint64_t from, uint64_t to, bool anew)
{
    if (sl_load(&sl_stream_waits_used, relaxed) == 0)
        return;
    struct sl_stream_point first = point_of(from), second = point_of(to);
    sl_service_lock();
    for (int i = 0; i < top; i++) {
        bool comes = depends(&waits[i], &first);
        if (anew)
            remove_dependent(&waits[i], to);
        if (comes)
            add_dependent(&waits[i], &second);
    }
    sl_service_unlock();
}

/* ---- the list ---- */

static struct sl_stream_wait *find_free(void)
{
    for (int i = 0; i < SL_STREAM_WAITS; i++)
        if (!waits[i].owner)
            return &waits[i];
    return NULL;
}

/* Unused places in `dependents` stay as they are. */
struct sl_stream_wait *sl_stream_wait_add(const void *owner, uint64_t number, const struct sl_stream_point *first,
                                          const struct sl_stream_wait_source *from)
{
    if (from)
        source = from;
    atomic_store_explicit(&sl_stream_order_hook, hand_on, memory_order_release);
    struct sl_stream_wait *wait = find_free();
    if (!wait && source && source->make_room())
        wait = find_free();
    if (!wait)
        return NULL;
    if (top <= wait - waits)
        top = (int)(wait - waits) + 1;
    count_used(1);
    wait->owner = owner;
    wait->number = number;
    wait->lost = false;
    wait->dependents[0] = *first;
    wait->dependent_count = 1;
    return wait;
}

struct sl_stream_wait *sl_stream_wait_find(const void *owner, uint64_t number)
{
    for (int i = 0; i < top; i++)
        if (waits[i].owner == owner && waits[i].number == number)
            return &waits[i];
    return NULL;
}

void sl_stream_wait_remove(struct sl_stream_wait *wait)
{
    wait->owner = NULL;
    while (top > 0 && !waits[top - 1].owner)
        top--;
    count_used((uint32_t)-1);
}

void sl_stream_wait_remove_all(const void *owner)
{
    for (int i = 0; i < top; i++)
        if (waits[i].owner == owner)
            sl_stream_wait_remove(&waits[i]);
}

void sl_stream_wait_merge(struct sl_stream_wait *to, struct sl_stream_wait *from)
{
    for (uint32_t i = 0; i < from->dependent_count && i < SL_STREAM_DEPENDENTS; i++)
        add_dependent(to, &from->dependents[i]);
    if (from->dependent_count > SL_STREAM_DEPENDENTS)
        to->dependent_count = SL_STREAM_DEPENDENTS + 1;
    sl_stream_wait_remove(from);
}

/* ---- the check ---- */

/* How the frames that a stream depends on stand. Under the service lock. */
static void find_dependencies(const struct sl_stream_point *point, bool *waiting, bool *lost)
{
    *waiting = *lost = false;
    if (source)
        source->refresh(sl_os_now());
    for (int i = 0; i < top; i++) {
        if (!depends(&waits[i], point))
            continue;
        *lost = *lost || waits[i].lost;
        *waiting = *waiting || !waits[i].lost;
    }
}

int sl_stream_wait_check_all(struct sluice_stream stream)
{
    int64_t pause = FIRST_PAUSE;
    bool waiting, lost;

    while (stream.id != SLUICE_ON_CPU.id && sl_load(&sl_stream_waits_used, relaxed) > 0) {
        struct sl_stream_point point = point_of(stream.id);
        sl_service_lock();
        find_dependencies(&point, &waiting, &lost);
        sl_service_unlock();
        if (lost)
            return sl_fail(
                SLUICE_E_LOST,
                "a frame that this stream waited for was never finished, so the results computed from it are not "
                "whole: cancel this frame");
        if (!waiting)
            return 0;
        sl_os_sleep(pause);
        pause = pause * 2 < LAST_PAUSE ? pause * 2 : LAST_PAUSE;
    }
    return 0;
}
