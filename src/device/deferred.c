/* SPDX-License-Identifier: MIT
 *
 * Actions that are deferred until a stream no longer captures. Each keeps its stream object alive,
 * also after the stream's handle has ended, as it queries the capture state and then queues work on
 * the native stream.
 */
#include <pthread.h>

#include "device/device.h"
#include "util/atomic.h"

static struct sl_after *waiting;
static sl_word32 count; /* for a quick check without the lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void list(struct sl_after *after)
{
    after->next = waiting;
    after->listed = true;
    waiting = after;
    sl_add(&count, 1);
}

static void unlist(struct sl_after *after)
{
    struct sl_after **at = &waiting;

    while (*at != after)
        at = &(*at)->next;
    *at = after->next;
    after->listed = false;
    sl_add(&count, (uint32_t)-1);
}

/* Called with the lock held. Taken off the list first: once `run` is done, its owner may list it
 * again for another stream. */
static bool try_one(struct sl_after *after)
{
    unlist(after);
    if (after->run(after))
        return true;
    list(after);
    return false;
}

void sl_after_begin(struct sl_after *after)
{
    pthread_mutex_lock(&lock);
    list(after);
    pthread_mutex_unlock(&lock);
}

void sl_after_try(struct sl_after *after)
{
    struct sl_stream *done = NULL;

    pthread_mutex_lock(&lock);
    if (after->listed) {
        struct sl_stream *stream = after->stream;
        done = try_one(after) ? stream : NULL;
    }
    pthread_mutex_unlock(&lock);
    if (done)
        sl_object_drop(&done->object); /* may call the release callback of a wrapped stream */
}

void sl_after_cancel(struct sl_after *after)
{
    pthread_mutex_lock(&lock);
    bool listed = after->listed;
    if (listed)
        unlist(after);
    pthread_mutex_unlock(&lock);
    if (listed)
        sl_object_drop(&after->stream->object);
}

/* Runs one action that is deferred for this stream; true if it is done. */
static bool try_any(const struct sl_stream *stream)
{
    bool done = false;

    pthread_mutex_lock(&lock);
    for (struct sl_after *after = waiting, *next; after && !done; after = next) {
        next = after->next;
        done = after->stream == stream && try_one(after);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

void sl_after_ending(struct sl_stream *stream)
{
    while (sl_load(&count, relaxed) > 0 && try_any(stream))
        sl_object_drop(&stream->object);
}
