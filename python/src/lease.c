/* SPDX-License-Identifier: MIT
 *
 * Channels and leases: counted, and ended by whoever is last.
 */
#include "lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct channel *channel_new(const char *name)
{
    struct channel *channel = calloc(1, sizeof *channel);
    PyThread_type_lock lock = channel ? PyThread_allocate_lock() : NULL;

    if (!lock) {
        free(channel);
        PyErr_NoMemory();
        return NULL;
    }
    channel->references = 1;
    channel->lock = lock;
    channel->process = (long)getpid();
    snprintf(channel->name, sizeof channel->name, "%s", name);
    return channel;
}

void channel_drop(struct channel *channel)
{
    if (!channel || atomic_fetch_sub_explicit(&channel->references, 1, memory_order_acq_rel) != 1)
        return;
    (void)sluice_reader_close(&channel->reader);
    (void)sluice_writer_close(&channel->writer);
    PyThread_free_lock(channel->lock);
    free(channel);
}

static bool try_lock(struct channel *channel)
{
    return PyThread_acquire_lock(channel->lock, NOWAIT_LOCK) != 0;
}

int channel_enter(const struct state *state, struct channel *channel)
{
    if (try_lock(channel))
        return 0;
    if (channel->process != (long)getpid()) { /* whoever holds the lock stayed in the parent */
        raise_as(state, ERROR_E_FORKED,
                 "channel '%s': this process was forked from the one that opened it; start "
                 "processes by spawn and "
                 "open the channel there",
                 channel->name);
        return -1;
    }
    atomic_fetch_add(&channel->queue, 1);
    Py_BEGIN_ALLOW_THREADS(void) PyThread_acquire_lock(channel->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS atomic_fetch_sub(&channel->queue, 1);
    return 0;
}

static void cancel_left(struct channel *channel)
{
    struct lease *lease = atomic_exchange(&channel->left, NULL);

    while (lease) {
        struct lease *next = lease->next;
        (void)sluice_writer_cancel(channel->writer, &lease->frame, SLUICE_ON_CPU);
        lease_discard(lease); /* never the channel's end: the caller keeps it */
        lease = next;
    }
}

void channel_leave(struct channel *channel)
{
    /* What came while we had the lock; and what came after we looked, if nobody else has it by now.
     */
    do {
        cancel_left(channel);
        PyThread_release_lock(channel->lock);
    } while (atomic_load(&channel->left) && try_lock(channel));
}

struct lease *lease_new(struct channel *channel)
{
    struct lease *lease = malloc(sizeof *lease);

    if (!lease) {
        PyErr_NoMemory();
        return NULL;
    }
    lease->references = 1;
    lease->ended = false;
    lease->pin = NULL;
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
    (void)sluice_pin_drop(&lease->pin);
    channel_drop(lease->channel);
    free(lease);
}

/* A begun frame that nobody has any more. */
static int cancel(struct lease *lease)
{
    struct channel *channel = lease->channel;
    int r = 0;

    atomic_fetch_add_explicit(&channel->references, 1,
                              memory_order_relaxed); /* the lease's own may go below */
    if (try_lock(channel)) {
        r = sluice_writer_cancel(channel->writer, &lease->frame, SLUICE_ON_CPU);
        lease_discard(lease);
        channel_leave(channel);
    } else {
        lease->next = atomic_load(&channel->left);
        while (!atomic_compare_exchange_weak(&channel->left, &lease->next, lease))
            ;
        if (try_lock(channel)) /* its holder may have looked just before */
            channel_leave(channel);
    }
    channel_drop(channel);
    return r;
}

int lease_drop(struct lease *lease)
{
    int r = 0;

    if (!lease || atomic_fetch_sub_explicit(&lease->references, 1, memory_order_acq_rel) != 1)
        return 0;
    if (lease->channel->reader)
        r = sluice_reader_release(lease->channel->reader, &lease->frame, SLUICE_ON_CPU);
    else if (!atomic_load(&lease->ended))
        return cancel(lease);
    lease_discard(lease);
    return r;
}
