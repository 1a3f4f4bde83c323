/* SPDX-License-Identifier: MIT
 *
 * Channels and leases: counts, and their ends.
 */
#include "lease.h"

#include "view.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void spin_lock(_Atomic bool *busy, const struct channel *channel)
{
    for (unsigned turn = 1; atomic_exchange_explicit(busy, true, memory_order_acquire); turn++) {
        if (turn % 1024)
            continue;
        if (channel->process != (long)getpid()) /* its holder stayed in the parent */
            return;
        (void)sched_yield();
    }
}

static struct channel *channel_keep(struct channel *channel)
{
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    return channel;
}

bool channel_is_foreign(const char *name)
{
    return strncmp(name, "cipd:", 5) == 0;
}

struct channel *channel_new(const char *name)
{
    struct channel *channel = calloc(1, sizeof *channel);

    if (!channel) {
        PyErr_NoMemory();
        return NULL;
    }
    channel->references = 1;
    (void)sem_init(&channel->lock, 0, 1);
    channel->process = (long)getpid();
    snprintf(channel->name, sizeof channel->name, "%s", name);
    channel->foreign = channel->unsettled = channel_is_foreign(name);
    return channel;
}

/* Drops a reference. Was it the last? */
static bool channel_leaves(struct channel *channel)
{
    return channel && atomic_fetch_sub_explicit(&channel->references, 1, memory_order_acq_rel) == 1;
}

/* May wait for its GPU, and for the driver to free memory. Calls no Python. */
static void channel_end(struct channel *channel)
{
    (void)sluice_reader_close(&channel->reader);
    (void)sluice_writer_close(&channel->writer);
    channel_drop_helpers(channel);
    views_free(channel->views);
    free(atomic_load(&channel->spare));
    (void)sem_destroy(&channel->lock);
    free(channel);
}

void channel_drop(struct channel *channel)
{
    if (!channel_leaves(channel))
        return;
    Py_BEGIN_ALLOW_THREADS channel_end(channel);
    Py_END_ALLOW_THREADS
}

/* Runs it on a thread of its own, since the caller may have the GIL and must not wait. False at the end of the
 * interpreter, when the process may end before the thread begins: then the caller runs it. */
static bool run_detached(void *(*what)(void *), void *argument)
{
    pthread_attr_t apart;
    pthread_t thread;
    bool begun = false;

    if (Py_IsInitialized() && pthread_attr_init(&apart) == 0) {
        (void)pthread_attr_setdetachstate(&apart, PTHREAD_CREATE_DETACHED);
        begun = pthread_create(&thread, &apart, what, argument) == 0;
        (void)pthread_attr_destroy(&apart);
    }
    return begun;
}

static void *end_detached(void *channel)
{
    channel_end(channel);
    return NULL;
}

static void channel_drop_without_gil(struct channel *channel)
{
    if (channel_leaves(channel) && !run_detached(end_detached, channel))
        channel_end(channel);
}

static bool try_lock(struct channel *channel)
{
    return sem_trywait(&channel->lock) == 0;
}

static void wait_lock(struct channel *channel)
{
    while (sem_wait(&channel->lock) != 0 && errno == EINTR)
        ;
}

int channel_enter(const struct state *state, struct channel *channel)
{
    if (try_lock(channel))
        return 0;
    if (channel->process != (long)getpid()) { /* the lock's holder stayed in the parent */
        raise_as(state, ERROR_E_FORKED,
                 "channel '%s': this process was forked from the one that opened it; start "
                 "processes by spawn and "
                 "open the channel there",
                 channel->name);
        return -1;
    }
    atomic_fetch_add(&channel->queue, 1);
    Py_BEGIN_ALLOW_THREADS wait_lock(channel);
    Py_END_ALLOW_THREADS atomic_fetch_sub(&channel->queue, 1);
    return 0;
}

/* Frees it, but keeps its reference to the channel. */
static void discard(struct lease *lease)
{
    struct channel *channel = lease->channel;

    if (lease->pin)
        (void)sluice_pin_drop(&lease->pin);
    lease_drop_streams(lease);
    if (atomic_load(&lease->memory_references) == 1) /* no weak reference can be made any more */
        free(atomic_exchange(&channel->spare, lease));
    else
        lease_weak_drop(lease);
}

/* The caller has another reference to the channel. */
static void discard_kept(struct lease *lease)
{
    struct channel *channel = lease->channel;

    discard(lease);
    (void)channel_leaves(channel);
}

/* Drops the lease's reference to the channel, too, which may be the last. */
static void release_whole(struct lease *lease, bool patient)
{
    struct channel *channel = lease->channel;

    (void)lease_release_final(lease, patient);
    discard(lease);
    if (channel_leaves(channel))
        channel_end(channel);
}

static void *release_detached(void *lease)
{
    release_whole(lease, true);
    return NULL;
}

/* Of a reader's lease whose end could not be queued and will not be tried again. A thread that waits may itself be the
 * one that has to end a capture, so it waits only if at most one stream captures. */
static void release_final(struct lease *lease, bool waits)
{
    if (waits && lease_captures(lease) <= 1) {
        (void)lease_release_final(lease, false);
        discard_kept(lease);
    } else if (!run_detached(release_detached, lease)) {
        release_whole(lease, false);
    }
}

/* Is the frame still open after an end that returned `r`? */
static bool is_left(const struct lease *lease, int r)
{
    return r != 0 && r != SLUICE_E_FORKED && lease->device && lease_is_open(lease);
}

/* Ends a lease without references. False if it must be tried again: a capture is in the way, or a writer's end failed.
 * `waits`: the caller has no GIL and may wait. */
static bool finish(struct channel *channel, struct lease *lease, bool last, bool waits)
{
    int r = channel->reader ? lease_release(lease) : lease_cancel(lease);
    bool left = is_left(lease, r);

    if (left && !last && (r == SLUICE_E_CAPTURING || !channel->reader))
        return false;
    if (left && channel->reader)
        release_final(lease, waits);
    else
        discard_kept(lease);
    return true;
}

static void finish_all(struct channel *channel, struct lease *lease, bool waits)
{
    bool last = atomic_load(&channel->closed);

    while (lease) {
        struct lease *next = lease->next;
        if (!finish(channel, lease, last, waits)) {
            lease->next = atomic_load(&channel->held);
            atomic_store(&channel->held, lease);
        }
        lease = next;
    }
}

/* With the lock. */
static void finish_left(struct channel *channel, bool waits)
{
    if (atomic_load_explicit(&channel->held, memory_order_relaxed))
        finish_all(channel, atomic_exchange(&channel->held, NULL), waits);
    if (atomic_load_explicit(&channel->left, memory_order_relaxed))
        finish_all(channel, atomic_exchange(&channel->left, NULL), waits);
}

static bool has_left(struct channel *channel)
{
    return atomic_load(&channel->left) || (atomic_load(&channel->closed) && atomic_load(&channel->held));
}

static void leave_channel(struct channel *channel, bool waits)
{
    /* Leases may be added while we have the lock, and before we release it. */
    do {
        finish_left(channel, waits);
        (void)sem_post(&channel->lock);
    } while (has_left(channel) && try_lock(channel));
}

void channel_leave(struct channel *channel)
{
    leave_channel(channel, false);
}

void channel_leave_closed(struct channel *channel)
{
    Py_BEGIN_ALLOW_THREADS leave_channel(channel, true);
    Py_END_ALLOW_THREADS
}

void channel_object_closed(struct channel *channel)
{
    atomic_store(&channel->closed, true);
    if (has_left(channel) && try_lock(channel))
        channel_leave_closed(channel);
}

struct lease *lease_new(struct channel *channel)
{
    struct lease *lease = atomic_exchange(&channel->spare, NULL); /* the last one's memory, which may be in the cache */

    if (!lease && !(lease = malloc(sizeof *lease))) {
        PyErr_NoMemory();
        return NULL;
    }
    lease->references = lease->memory_references = 1;
    lease->ended = false;
    lease->pin = NULL;
    lease->device = channel->device;
    lease->named = false;
    lease->busy = false;
    lease->used = lease->few;
    lease->used_count = 0;
    lease->used_room = LEASE_STREAMS;
    lease->channel = channel;
    atomic_fetch_add_explicit(&channel->references, 1, memory_order_relaxed);
    return lease;
}

int lease_pin(const struct state *state, struct lease *lease)
{
    struct channel *channel = lease->channel;
    int r = 0;

    if (channel->reader)
        return 0;
    if (channel_enter(state, channel) < 0)
        return -1;
    if (!lease->pin)
        r = sluice_writer_pin(channel->writer, &lease->frame, &lease->pin);
    channel_leave(channel);
    if (r == 0)
        return 0;
    raise_result(state, r);
    return -1;
}

void lease_discard(struct lease *lease)
{
    struct channel *channel = lease->channel;

    discard(lease);
    channel_drop(channel);
}

bool lease_weak_ref(struct lease *lease)
{
    if (atomic_load(&lease->references) == 1)
        return false;
    atomic_fetch_add(&lease->memory_references, 1);
    return true;
}

void lease_weak_drop(struct lease *lease)
{
    if (lease && atomic_fetch_sub(&lease->memory_references, 1) == 1)
        free(lease);
}

struct lease *lease_from_weak(struct lease *lease)
{
    uint32_t references = lease ? atomic_load(&lease->references) : 0;

    while (references > 0)
        if (atomic_compare_exchange_weak(&lease->references, &references, references + 1))
            return lease;
    return NULL;
}

/* Leaves it to the thread that has the lock, or gets it next. */
static void leave(struct channel *channel, struct lease *lease)
{
    lease->next = atomic_load(&channel->left);
    while (!atomic_compare_exchange_weak(&channel->left, &lease->next, lease))
        ;
    if (try_lock(channel)) /* the holder may have looked before this was added */
        channel_leave(channel);
}

/* A begun frame without references. */
static int cancel(struct channel *channel, struct lease *lease)
{
    int r;

    if (!try_lock(channel)) {
        leave(channel, lease);
        return 0;
    }
    r = lease_cancel(lease);
    if (!channel->writer || !is_left(lease, r)) {
        discard_kept(lease);
    } else { /* to be tried again by the next call */
        lease->next = atomic_load(&channel->held);
        atomic_store(&channel->held, lease);
    }
    channel_leave(channel);
    return r;
}

/* A reader's frame. Usually without the lock: any thread may release at any time. */
static int release(struct channel *channel, struct lease *lease)
{
    int r = lease_release(lease);

    if (r == SLUICE_E_CAPTURING)
        leave(channel, lease);
    else if (is_left(lease, r))
        release_final(lease, false);
    else
        discard_kept(lease);
    return r;
}

/* No GIL needed. The caller has a reference to the channel. */
static int drop(struct channel *channel, struct lease *lease)
{
    if (channel->reader)
        return release(channel, lease);
    if (!atomic_load(&lease->ended))
        return cancel(channel, lease);
    discard_kept(lease);
    return 0;
}

static bool lease_leaves(struct lease *lease)
{
    return lease && atomic_fetch_sub_explicit(&lease->references, 1, memory_order_acq_rel) == 1;
}

int lease_drop(struct lease *lease)
{
    struct channel *channel;
    int r;

    if (!lease_leaves(lease))
        return 0;
    channel = channel_keep(lease->channel);
    r = drop(channel, lease);
    channel_drop(channel);
    return r;
}

void lease_drop_without_gil(struct lease *lease)
{
    struct channel *channel;

    if (!lease_leaves(lease))
        return;
    channel = channel_keep(lease->channel);
    (void)drop(channel, lease);
    channel_drop_without_gil(channel);
}
