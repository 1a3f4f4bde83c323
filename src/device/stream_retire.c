/* SPDX-License-Identifier: MIT
 *
 * Streams whose handles have ended while they still had work. The driver would run that work to its end, but nobody
 * could wait for it; so they are kept, and destroyed when it is done.
 */
#include <stdlib.h>

#include "device/cuda.h"
#include "util/result.h"

struct sl_retired_stream {
    struct sl_retired_stream *next;
    struct sl_cu_stream *stream;
    unsigned waiters; /* in synchronize: it must not be destroyed */
};

/* Takes those off the list that have no work any more; also after a failure of the driver, which lost it. Under the
 * device's lock. */
static struct sl_retired_stream *remove_idle(struct sl_device *device)
{
    struct sl_retired_stream *idle = NULL, **at = &device->retired;

    while (*at) {
        struct sl_retired_stream *retired = *at;
        if (retired->waiters > 0 || sl_cuda.StreamQuery(retired->stream) == SL_CU_NOT_READY) {
            at = &retired->next;
            continue;
        }
        *at = retired->next;
        retired->next = idle;
        idle = retired;
    }
    return idle;
}

/* Not `there`: they were destroyed with their context. */
static void destroy_all(struct sl_retired_stream *retired, bool there)
{
    while (retired) {
        struct sl_retired_stream *next = retired->next;
        if (there)
            sl_cuda.StreamDestroy(retired->stream);
        free(retired);
        retired = next;
    }
}

int sl_cuda_retire_stream(struct sl_device *device, struct sl_cu_stream *stream)
{
    struct sl_retired_stream *retired = NULL, *idle;

    if (sl_cuda.StreamQuery(stream) == SL_CU_NOT_READY)
        retired = malloc(sizeof *retired);
    sl_mutex_lock(&device->lock);
    idle = remove_idle(device);
    if (retired) {
        *retired = (struct sl_retired_stream){ .next = device->retired, .stream = stream };
        device->retired = retired;
    }
    sl_mutex_unlock(&device->lock);
    destroy_all(idle, true);
    return retired ? 0 : sl_cu(device->state, StreamDestroy, stream);
}

/* The first one that nobody has waited for in this call: the list is newest first, and what is added meanwhile is not
 * waited for. */
static struct sl_retired_stream *next_retired(struct sl_device *device, struct sl_retired_stream *before)
{
    sl_mutex_lock(&device->lock);
    struct sl_retired_stream *next = before ? before->next : device->retired;
    if (next)
        next->waiters++; /* so it stays in the list, and the streams after it can be found */
    if (before)
        before->waiters--;
    sl_mutex_unlock(&device->lock);
    return next;
}

int sl_cuda_retired_synchronize(struct sl_device *device)
{
    struct sl_cuda_context *context = device->state;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    for (struct sl_retired_stream *at = next_retired(device, NULL); at; at = next_retired(device, at))
        if (r == 0)
            r = sl_cu(context, StreamSynchronize, at->stream);
    sl_mutex_lock(&device->lock);
    struct sl_retired_stream *idle = remove_idle(device);
    sl_mutex_unlock(&device->lock);
    destroy_all(idle, true);
    sl_cuda_leave(&scope);
    return r;
}

void sl_cuda_retired_destroy(struct sl_device *device)
{
    struct sl_cuda_scope scope;
    bool entered = sl_cuda_enter(device->state, SL_CUDA_RELAXED, &scope) == 0;

    destroy_all(device->retired, entered);
    device->retired = NULL;
    if (entered)
        sl_cuda_leave(&scope);
}
