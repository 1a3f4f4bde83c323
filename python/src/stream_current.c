/* SPDX-License-Identifier: MIT
 *
 * Each thread's stack of current streams, and the end of a stream that may be on one.
 */
#include "stream.h"

#include <pthread.h>

#define DEPTH 64

struct stack {
    unsigned depth;
    bool watched;
    struct stream *at[DEPTH];
};

static _Thread_local struct stack stack;
static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_error;

/* ---- closing ---- */

bool stream_closed(const struct stream *stream)
{
    return atomic_load(&stream->closed);
}

int stream_check(const struct state *state, const struct stream *stream)
{
    char text[STREAM_NAME];

    if (!stream_closed(stream))
        return 0;
    PyErr_Format(state->stream_closed, "%s was closed: make another one", stream_name(stream, text));
    return -1;
}

int stream_close(const struct state *state, struct stream *stream)
{
    char text[STREAM_NAME];
    unsigned current;

    streams_lock();
    current = stream->current;
    if (current == 0)
        atomic_store(&stream->closed, true);
    streams_unlock();
    if (current == 0)
        return 0;
    raise_as(state, ERROR_E_BUSY,
             "%s is a current stream (%u times, on this thread or another): leave its `with` first, which closes it",
             stream_name(stream, text), current);
    return -1;
}

bool stream_close_later(struct stream *stream)
{
    bool later;

    streams_lock();
    later = stream->current > 0;
    stream->closing = later;
    if (!later)
        atomic_store(&stream->closed, true);
    streams_unlock();
    return later;
}

void stream_on_stack(struct stream *stream, bool own)
{
    streams_lock();
    stream->current++;
    stream->entered += own;
    streams_unlock();
}

bool stream_off_stack(struct stream *stream, bool own)
{
    bool outermost;

    streams_lock();
    if (--stream->current == 0 && stream->closing)
        atomic_store(&stream->closed, true);
    stream->entered -= own;
    outermost = own && stream->entered == 0;
    streams_unlock();
    return outermost;
}

/* ---- the stack ---- */

/* At the end of a thread. */
static void drop_stack(void *of)
{
    struct stack *ending = of;

    while (ending->depth > 0) {
        struct stream *stream = ending->at[--ending->depth];
        (void)stream_off_stack(stream, false);
        stream_drop(stream);
    }
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, drop_stack);
}

int stream_push(const struct state *state, struct stream *stream, bool own)
{
    if (stack.depth == DEPTH) {
        raise_as(state, ERROR_E_LIMIT,
                 "this thread has %d current streams, the most there can be: is an __exit__ missing?", DEPTH);
        return -1;
    }
    if (!stack.watched) {
        (void)pthread_once(&key_once, make_key);
        if (key_error != 0 || pthread_setspecific(key, &stack) != 0) {
            PyErr_NoMemory();
            return -1;
        }
        stack.watched = true;
    }
    stream_on_stack(stream, own);
    stack.at[stack.depth++] = stream_keep(stream);
    return 0;
}

int stream_pop(const struct state *state, struct stream *stream, bool own)
{
    unsigned at = stack.depth;
    char text[STREAM_NAME];

    while (at > 0 && stack.at[at - 1] != stream)
        at--;
    if (at == 0) {
        raise_as(state, ERROR_E_INVALID, "%s is not current on this thread: leave it on the thread that entered it",
                 stream_name(stream, text));
        return -1;
    }
    stack.depth--;
    for (unsigned i = at - 1; i < stack.depth; i++)
        stack.at[i] = stack.at[i + 1];
    bool outermost = stream_off_stack(stream, own);
    stream_drop(stream);
    return outermost;
}

int stream_current(struct state *state, const char *device, struct stream **out)
{
    int ordinal = device ? device_ordinal(device) : 0;

    *out = NULL;
    for (unsigned i = stack.depth; i > 0; i--) {
        struct stream *stream = stack.at[i - 1];
        if (device && stream_ordinal(stream) != ordinal)
            continue;
        if (stream_check(state, stream) < 0)
            return -1;
        *out = stream_keep(stream);
        return 0;
    }
    return 0;
}

int stream_current_usable(struct state *state, const char *device, struct stream **out)
{
    if (stream_current(state, device, out) < 0)
        return -1;
    if (!*out || stream_check_reset(state, *out) == 0)
        return 0;
    stream_drop(*out);
    *out = NULL;
    return -1;
}
