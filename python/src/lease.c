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
    stream_drop(channel->copies);
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

/* Is the frame still open after an end that returned `r`? */
static bool is_left(const struct lease *lease, int r)
{
    return r != 0 && r != SLUICE_E_FORKED && lease->device && lease_is_open(lease);
}

/* Cancels a writer's frame without references. False if it must be tried again. */
static bool finish(struct channel *channel, struct lease *lease, bool last)
{
    int r = channel->writer ? lease_cancel(lease) : 0;

    if (channel->writer && is_left(lease, r) && !last)
        return false;
    discard_kept(lease);
    return true;
}

static void finish_all(struct channel *channel, struct lease *lease)
{
    bool last = atomic_load(&channel->closed);

    while (lease) {
        struct lease *next = lease->next;
        if (!finish(channel, lease, last)) {
            lease->next = atomic_load(&channel->held);
            atomic_store(&channel->held, lease);
        }
        lease = next;
    }
}

/* With the lock. */
static void finish_left(struct channel *channel)
{
    if (atomic_load_explicit(&channel->held, memory_order_relaxed))
        finish_all(channel, atomic_exchange(&channel->held, NULL));
    if (atomic_load_explicit(&channel->left, memory_order_relaxed))
        finish_all(channel, atomic_exchange(&channel->left, NULL));
}

static bool has_left(struct channel *channel)
{
    return atomic_load(&channel->left) || (atomic_load(&channel->closed) && atomic_load(&channel->held));
}

void channel_leave(struct channel *channel)
{
    /* Leases may be added while we have the lock, and before we release it. */
    do {
        finish_left(channel);
        (void)sem_post(&channel->lock);
    } while (has_left(channel) && try_lock(channel));
}

void channel_leave_closed(struct channel *channel)
{
    Py_BEGIN_ALLOW_THREADS channel_leave(channel);
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
    lease->first = NULL;
    lease->several = false;
    memset(lease->frame.opaque, 0, sizeof lease->frame.opaque); /* not begun */
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

/* Leaves a begun frame to be cancelled by the thread that holds the lock or takes it next: mostly this one. */
static void leave(struct channel *channel, struct lease *lease)
{
    lease->next = atomic_load(&channel->left);
    while (!atomic_compare_exchange_weak(&channel->left, &lease->next, lease))
        ;
    if (try_lock(channel)) /* the holder may have looked before this was added */
        channel_leave(channel);
}

/* No GIL needed. The caller has a reference to the channel. A reader's frame needs no lock: any thread may release. */
static int drop(struct channel *channel, struct lease *lease)
{
    int r = 0;

    if (!channel->reader && !atomic_load(&lease->ended)) {
        leave(channel, lease);
        return 0;
    }
    if (channel->reader)
        r = lease_release(lease);
    discard_kept(lease);
    return r;
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
