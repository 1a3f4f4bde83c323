/* SPDX-License-Identifier: MIT
 *
 * Streams whose handles have ended while they still had work. The driver would run that work to its end, but nobody could wait for
 * it; so they are kept, and destroyed when it is done.
 */
#include <stdlib.h>

#include "device/cuda.h"
#include "util/result.h"

struct sl_leaving {
    struct sl_leaving *next;
    struct sl_cu_stream *stream;
    unsigned waiters; /* in synchronize: it must not be destroyed */
};

/* Takes those off the list that have no work any more; also after a failure of the driver, which lost it. Under the device's lock. */
static struct sl_leaving *take_idle(struct sl_device *device)
{
    struct sl_leaving *idle = NULL, **at = &device->leaving;

    while (*at) {
        struct sl_leaving *leaving = *at;
        if (leaving->waiters > 0 || sl_cuda.StreamQuery(leaving->stream) == SL_CU_NOT_READY) {
            at = &leaving->next;
            continue;
        }
        *at = leaving->next;
        leaving->next = idle;
        idle = leaving;
    }
    return idle;
}

/* Not `there`: they were destroyed with their context. */
static void end_all(struct sl_leaving *leaving, bool there)
{
    while (leaving) {
        struct sl_leaving *next = leaving->next;
        if (there)
            sl_cuda.StreamDestroy(leaving->stream);
        free(leaving);
        leaving = next;
    }
}

int sl_cuda_leaving_add(struct sl_device *device, struct sl_cu_stream *stream)
{
    struct sl_leaving *leaving = NULL, *idle;

    if (sl_cuda.StreamQuery(stream) == SL_CU_NOT_READY)
        leaving = malloc(sizeof *leaving);
    sl_mutex_lock(&device->lock);
    idle = take_idle(device);
    if (leaving) {
        *leaving = (struct sl_leaving){ .next = device->leaving, .stream = stream };
        device->leaving = leaving;
    }
    sl_mutex_unlock(&device->lock);
    end_all(idle, true);
    return leaving ? 0 : sl_cu(device->state, StreamDestroy, stream);
}

/* The first one that nobody has waited for in this call: the list is newest first, and what is added meanwhile is not waited for. */
static struct sl_leaving *next_of(struct sl_device *device, struct sl_leaving *before)
{
    sl_mutex_lock(&device->lock);
    struct sl_leaving *next = before ? before->next : device->leaving;
    if (next)
        next->waiters++; /* so it stays in the list, and what comes behind it can be found */
    if (before)
        before->waiters--;
    sl_mutex_unlock(&device->lock);
    return next;
}

int sl_cuda_leaving_synchronize(struct sl_device *device)
{
    struct sl_cuda_context *context = device->state;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);

    if (r != 0)
        return r;
    for (struct sl_leaving *at = next_of(device, NULL); at; at = next_of(device, at))
        if (r == 0)
            r = sl_cu(context, StreamSynchronize, at->stream);
    sl_mutex_lock(&device->lock);
    struct sl_leaving *idle = take_idle(device);
    sl_mutex_unlock(&device->lock);
    end_all(idle, true);
    sl_cuda_leave(&scope);
    return r;
}

void sl_cuda_leaving_end(struct sl_device *device)
{
    struct sl_cuda_scope scope;
    bool entered = sl_cuda_enter(device->state, SL_CUDA_RELAXED, &scope) == 0;

    end_all(device->leaving, entered);
    device->leaving = NULL;
    if (entered)
        sl_cuda_leave(&scope);
}
