/* SPDX-License-Identifier: MIT
 *
 * Each thread's stack of current streams. It holds handles, not references: a reset of the device
 * may end a stream on the stack, which can be popped all the same.
 */
#include <inttypes.h>
#include <pthread.h>

#include "device/device.h"
#include "util/result.h"

#define DEPTH 64

struct stack {
    unsigned depth;
    uint64_t ids[DEPTH];
};

static _Thread_local struct stack stack;

/* A thread that ends with streams on its stack must not leave them marked as in use for ever: the
 * key's destructor drops them. The key is set on a thread's first push. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

/* Counts a stream as pushed or popped. False if its handle has ended: then there is nothing to
 * count. */
static bool count(struct sl_stream *stream, bool on)
{
    struct sl_device *device = stream->object.device;

    sl_mutex_lock(&device->lock);
    bool live = stream->object.listed;
    if (live && on)
        stream->current++;
    else if (live)
        stream->current--;
    sl_mutex_unlock(&device->lock);
    return live;
}

static void count_off(uint64_t id)
{
    struct sl_object *object = sl_object_find(id, SL_HANDLE_STREAM);

    if (object) {
        count((struct sl_stream *)object, false);
        sl_object_drop(object);
    }
}

static void drop_stack(void *mine)
{
    struct stack *ending = mine;

    while (ending->depth > 0 && !sl_os_forked())
        count_off(ending->ids[--ending->depth]);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, drop_stack);
}

static int watch_thread(void)
{
    pthread_once(&once, make_key);
    int error = key_error;
    if (error == 0 && !pthread_getspecific(key))
        error = pthread_setspecific(key, &stack);
    if (error != 0)
        return sl_fail_errno(error, "cannot keep this thread's current streams");
    return 0;
}

int sl_stream_push_current(struct sluice_stream handle)
{
    struct sl_stream *stream;
    int r = sl_stream_hold(handle, &stream);
    if (r != 0)
        return r;
    if (stack.depth == DEPTH)
        r = sl_fail(SLUICE_E_LIMIT,
                    "this thread has %d current streams, the most there can be; is a "
                    "sluice_stream_pop_current missing?",
                    DEPTH);
    if (r == 0)
        r = watch_thread();
    if (r == 0 && !count(stream, true))
        r = sl_object_ended(handle.id, SL_HANDLE_STREAM);
    if (r == 0)
        stack.ids[stack.depth++] = handle.id;
    sl_object_drop(&stream->object);
    return r;
}

int sl_stream_pop_current(struct sluice_stream handle)
{
    int r = sl_object_forked();
    if (r != 0)
        return r;
    if (stack.depth == 0)
        return sl_fail(SLUICE_E_INVALID, "this thread has no current stream to pop");
    uint64_t top = stack.ids[stack.depth - 1];
    if (top != handle.id)
        return sl_fail(SLUICE_E_INVALID,
                       "stream 0x%" PRIx64 " is not this thread's current stream, which is 0x%" PRIx64
                       "; pop in the reverse order of the pushes",
                       handle.id, top);
    stack.depth--;
    count_off(top);
    return 0;
}

int sl_stream_current(struct sluice_stream *handle)
{
    int r = sl_object_forked();
    if (r != 0)
        return r;
    if (stack.depth == 0)
        return sl_fail(SLUICE_NOT_READY, "this thread has no current stream; sluice_stream_push_current sets one");
    uint64_t top = stack.ids[stack.depth - 1];
    struct sl_object *object = sl_object_find(top, SL_HANDLE_STREAM);
    if (!object)
        return sl_object_ended(top, SL_HANDLE_STREAM);
    sl_object_drop(object);
    handle->id = top;
    return 0;
}
