/* SPDX-License-Identifier: MIT
 *
 * The order of work on streams (SLUICE_CHECK=streams), by vector clocks.
 *
 * Each stream counts its ticks. It also knows, for each other stream, up to which tick that one's work is done before
 * its own next work runs. A stream that waits for it learns what it knows. The CPU has such a clock, too, one for all
 * threads: the order in which threads run is not known, and when one has waited for work, it is done for all of them.
 *
 * A stream that captures a graph is left out, as its work does not run now.
 */
#include <pthread.h>
#include <string.h>

#include "kernel/check.h"
#include "util/atomic.h"

sl_word32 sl_checks;

struct clock {
    uint64_t seen[SL_ORDER_STREAMS];
};

struct party {
    struct sl_place place; /* no ops: free */
    struct clock clock;
    uint64_t used;
};

/* What a wait for an event teaches, or for what a channel's frames or a ticket hand over. */
struct mark {
    uint64_t key; /* an event's handle, or a number with the bit HANDS_OVER, which no handle has; 0: free */
    struct clock clock;
    uint64_t used;
};
#define HANDS_OVER (UINT64_C(1) << 63)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static struct party parties[SL_ORDER_STREAMS];
static struct mark marks[SL_ORDER_MARKS];
static struct clock cpu;
static uint64_t uses; /* counts look-ups: the entry with the smallest number is the least recently used */

void sl_order_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sl_order_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void merge(struct clock *into, const struct clock *from)
{
    for (int i = 0; i < SL_ORDER_STREAMS; i++)
        if (into->seen[i] < from->seen[i])
            into->seen[i] = from->seen[i];
}

/* ---- streams ---- */

/* Host streams have no native queue. They follow CUDA's rules, so that a program that is right on host is right on a
 * GPU. */
void sl_order_place(struct sl_stream *stream, struct sl_place *place)
{
    const struct sl_device_ops *ops = stream->object.device->ops;
    struct sl_stream_queue *queue = &place->queue;

    *place = (struct sl_place){ .ops = ops, .stream = sl_object_id(&stream->object) };
    place->captures = ops->stream_capture(stream) != SL_CAPTURE_NONE;
    ops->stream_queue(stream, queue);
    if (!queue->context) {
        queue->context = ops;
        queue->native = stream->kind == SLUICE_STREAM_DEFAULT ? 0 : (uintptr_t)place->stream;
    }
    queue->blocking = queue->blocking || stream->blocking || queue->native == 0;
}

/* False if there is no such stream. */
static bool find_place(uint64_t id, struct sl_place *place)
{
    struct sl_object *object = sl_object_find(id, SL_HANDLE_STREAM);

    if (!object)
        return false;
    sl_order_place((struct sl_stream *)object, place);
    sl_object_drop(object);
    return true;
}

static bool is_same(const struct sl_stream_queue *a, const struct sl_stream_queue *b)
{
    return a->context == b->context && a->native == b->native && a->thread == b->thread;
}

static bool is_ended(const struct party *party)
{
    return !party->place.ops || !sl_stream_is_alive((struct sluice_stream){ party->place.stream });
}

/* Makes room for a new stream in the table. Everything that the one before it knew, and its work, counts as done; its
 * tick counts on. */
static struct party *replace(const struct sl_place *place)
{
    struct party *least = parties;

    for (struct party *p = parties + 1; p < parties + SL_ORDER_STREAMS; p++)
        if (is_ended(p) > is_ended(least) || (is_ended(p) == is_ended(least) && p->used < least->used))
            least = p;
    size_t at = (size_t)(least - parties);
    uint64_t tick = least->clock.seen[at] + 1;
    merge(&cpu, &least->clock);
    *least = (struct party){ .place = *place };
    least->clock.seen[at] = tick;
    return least;
}

/* Call it when another stream has learnt what this one knows: its later work gets later ticks. */
static void step(struct party *party)
{
    party->clock.seen[party - parties]++;
}

static void learn(struct party *party, struct party *from)
{
    merge(&party->clock, &from->clock);
    step(from);
}

static bool is_default(const struct sl_stream_queue *queue)
{
    return queue->native == 0 && queue->thread == 0;
}

/* CUDA's rule: the default stream waits for the blocking streams of its context, and they for it. */
static void keep_default_order(struct party *party)
{
    const struct sl_stream_queue *queue = &party->place.queue;

    for (struct party *p = parties; p < parties + SL_ORDER_STREAMS && queue->blocking; p++)
        if (p != party && p->place.ops && p->place.queue.context == queue->context && p->place.queue.blocking &&
            (is_default(queue) || is_default(&p->place.queue)))
            learn(party, p);
}

/* Finds the stream, on which something is queued now. */
static struct party *arrive(const struct sl_place *place)
{
    struct party *party = NULL;

    for (struct party *p = parties; p < parties + SL_ORDER_STREAMS && !party; p++)
        if (p->place.ops && is_same(&p->place.queue, &place->queue))
            party = p;
    if (!party)
        party = replace(place);
    party->place = *place; /* the handle may be a newer one */
    party->used = ++uses;
    merge(&party->clock, &cpu);
    keep_default_order(party);
    return party;
}

struct sl_moment sl_order_now(const struct sl_place *place)
{
    uint32_t at = (uint32_t)(arrive(place) - parties);

    return (struct sl_moment){ .at = at, .tick = parties[at].clock.seen[at] };
}

bool sl_order_is_behind(struct sl_moment later, struct sl_moment earlier)
{
    return parties[later.at].clock.seen[earlier.at] >= earlier.tick;
}

/* ---- waits ---- */

/* A new one takes the place of the least recently used one, which counts as done; not so an event that has ended. */
static struct mark *find_mark(uint64_t key, bool make)
{
    struct mark *least = marks;

    for (struct mark *m = marks; m < marks + SL_ORDER_MARKS; m++) {
        if (m->key == key) {
            m->used = ++uses;
            return m;
        }
        if (m->used < least->used)
            least = m;
    }
    if (!make)
        return NULL;
    if ((least->key & HANDS_OVER) || sl_handle_is_alive(least->key, SL_HANDLE_EVENT))
        merge(&cpu, &least->clock);
    *least = (struct mark){ .key = key, .used = ++uses };
    return least;
}

/* Gives what a wait for a stream, a mark, or all work of a device's kind teaches. */
static void collect(uint64_t from, const struct sl_place *place, const struct sl_device_ops *ops, struct clock *known)
{
    memset(known, 0, sizeof *known);
    if (place) {
        struct party *party = arrive(place);
        merge(known, &party->clock);
        step(party);
    } else if (!ops) {
        struct mark *mark = find_mark(from, false);
        if (mark)
            merge(known, &mark->clock);
    }
    for (struct party *p = parties; ops && p < parties + SL_ORDER_STREAMS; p++) {
        if (p->place.ops != ops)
            continue;
        merge(known, &p->clock);
        step(p);
    }
}

static void pass_on(const struct clock *known, uint64_t to, const struct sl_place *place, bool anew)
{
    if (to == SLUICE_ON_CPU.id) {
        merge(&cpu, known);
    } else if (place) {
        merge(&arrive(place)->clock, known);
    } else {
        struct mark *mark = find_mark(to, true);
        if (anew)
            mark->clock = *known;
        else
            merge(&mark->clock, known);
    }
}

static const struct sl_device_ops *kind_of_device(uint64_t id)
{
    struct sl_object *object = sl_object_find(id, SL_HANDLE_DEVICE);
    const struct sl_device_ops *ops = object ? ((const struct sl_device *)object)->ops : NULL;

    if (object)
        sl_object_drop(object);
    return ops;
}

/* An event that was recorded in a capture no longer marks any work. */
static void forget_mark(uint64_t id)
{
    sl_order_lock();
    struct mark *mark = find_mark(id, false);
    if (mark)
        memset(&mark->clock, 0, sizeof mark->clock);
    sl_order_unlock();
}

/* The function that sl_stream_check_hook points to. */
static void on_order(uint64_t from, uint64_t to, bool anew)
{
    struct sl_place source = { .ops = NULL }, target = { .ops = NULL };
    bool from_stream = find_place(from, &source), to_stream = find_place(to, &target);
    const struct sl_device_ops *ops = from_stream ? NULL : kind_of_device(from);
    struct clock known;

    if (source.captures && anew)
        forget_mark(to);
    if (source.captures || target.captures)
        return;
    sl_order_lock();
    collect(from, from_stream ? &source : NULL, ops, &known);
    pass_on(&known, to, to_stream ? &target : NULL, anew);
    sl_order_unlock();
}

void sl_order_follow(void)
{
    atomic_store_explicit(&sl_stream_check_hook, on_order, memory_order_release);
}

/* ---- channels and tickets ---- */

/* Channels are known by name only: two channels of one name count as one. */
static uint64_t key_of(enum sl_hand_over how, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)how;

    for (const char *c = name ? name : ""; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return hash | HANDS_OVER;
}

void sl_check_hand_over(enum sl_hand_over how, const char *name, struct sluice_stream stream)
{
    if (stream.id != SLUICE_ON_CPU.id)
        on_order(stream.id, key_of(how, name), false);
}

/* Also of a stream that captures: what it does after that needs no other wait. */
void sl_check_take_over(enum sl_hand_over how, const char *name, struct sluice_stream stream)
{
    struct sl_place place;
    bool on_stream = find_place(stream.id, &place);
    struct clock known;

    sl_order_lock();
    collect(key_of(how, name), NULL, NULL, &known);
    pass_on(&known, on_stream ? stream.id : SLUICE_ON_CPU.id, on_stream ? &place : NULL, false);
    sl_order_unlock();
}
