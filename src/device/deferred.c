/* SPDX-License-Identifier: MIT
 *
 * Actions that are deferred until a stream no longer captures. Each keeps its stream object alive,
 * also after the stream's handle has ended, as it queries the capture state and then queues work on
 * the native stream.
 */
#include <pthread.h>

#include "device/device.h"
#include "util/atomic.h"

static struct sl_deferred *waiting;
static sl_word32 count; /* for a quick check without the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add_to_list(struct sl_deferred *deferred)
{
    deferred->next = waiting;
    deferred->listed = true;
    waiting = deferred;
    sl_add(&count, 1);
}

static void remove_from_list(struct sl_deferred *deferred)
{
    struct sl_deferred **at = &waiting;

    while (*at != deferred)
        at = &(*at)->next;
    *at = deferred->next;
    deferred->listed = false;
    sl_add(&count, (uint32_t)-1);
}

/* Called with the lock held. Removed from the list first: once `run` is done, its owner may add it
 * again for another stream. */
static bool run_one(struct sl_deferred *deferred)
{
    remove_from_list(deferred);
    if (deferred->run(deferred))
        return true;
    add_to_list(deferred);
    return false;
}

void sl_deferred_add(struct sl_deferred *deferred)
{
    pthread_mutex_lock(&lock);
    add_to_list(deferred);
    pthread_mutex_unlock(&lock);
}

void sl_deferred_run(struct sl_deferred *deferred)
{
    struct sl_stream *done = NULL;

    pthread_mutex_lock(&lock);
    if (deferred->listed) {
        struct sl_stream *stream = deferred->stream;
        done = run_one(deferred) ? stream : NULL;
    }
    pthread_mutex_unlock(&lock);
    if (done)
        sl_object_drop(&done->object); /* may call the release callback of a wrapped stream */
}

void sl_deferred_cancel(struct sl_deferred *deferred)
{
    pthread_mutex_lock(&lock);
    bool listed = deferred->listed;
    if (listed)
        remove_from_list(deferred);
    pthread_mutex_unlock(&lock);
    if (listed)
        sl_object_drop(&deferred->stream->object);
}

/* Runs one action that is deferred for this stream; true if it is done. */
static bool run_any(const struct sl_stream *stream)
{
    bool done = false;

    pthread_mutex_lock(&lock);
    for (struct sl_deferred *deferred = waiting, *next; deferred && !done; deferred = next) {
        next = deferred->next;
        done = deferred->stream == stream && run_one(deferred);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

void sl_deferred_end_stream(struct sl_stream *stream)
{
    while (sl_load(&count, relaxed) > 0 && run_any(stream))
        sl_object_drop(&stream->object);
}
