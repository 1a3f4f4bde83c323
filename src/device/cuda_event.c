/* SPDX-License-Identifier: MIT
 *
 * Events of a CUDA device.
 */
#include "device/cuda.h"
#include "util/result.h"

static struct sl_cuda_context *context_of(const struct sl_event *event)
{
    return sl_cuda_context_of(&event->object);
}

int sl_cuda_event_create(struct sl_event *event)
{
    struct sl_cuda_context *context = context_of(event);
    unsigned flags =
        (event->timing ? 0u : SL_CU_EVENT_DISABLE_TIMING) | (event->sleep ? SL_CU_EVENT_BLOCKING_SYNC : 0u);
    struct sl_cu_event *native;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, EventCreate, &native, flags);
    if (r == 0)
        event->native = (uintptr_t)native;
    sl_cuda_leave(&scope);
    return r;
}

void sl_cuda_event_destroy(struct sl_event *event)
{
    struct sl_cuda_context *context = context_of(event);
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) != 0)
        return; /* destroyed with the context */
    if (sl_cu(context, EventDestroy, sl_cuda_event_of(event)) != 0)
        sl_log(SLUICE_LOG_WARN, "an event was left behind: %s", sl_last_error());
    sl_cuda_leave(&scope);
}

int sl_cuda_event_record(struct sl_event *event, struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(event);
    struct sl_cuda_scope scope;
    uint64_t capture;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);
    if (r != 0)
        return r;
    r = sl_cuda_stream_part(stream, &capture);
    if (r == 0)
        r = sl_cu(context, EventRecord, sl_cuda_event_of(event), sl_cuda_stream_of(stream));
    if (r == 0 && capture != 0)
        sl_store(&event->recorded_on, sl_object_id(&stream->object), relaxed);
    if (r == 0)
        sl_store(&event->capture, capture, release);
    sl_cuda_leave(&scope);
    return r;
}

/* An event recorded in a capture is a node of a graph, not a point in time. Querying it would
 * invalidate the capture. */
static int moment(struct sl_event *event)
{
    if (sl_load(&event->capture, acquire) == 0)
        return 0;
    return sl_fail(SLUICE_E_CAPTURING, "%s: %s", context_of(event)->name, sl_cuda_code_remedy(SL_CU_CAPTURED_EVENT));
}

int sl_cuda_event_query(struct sl_event *event)
{
    struct sl_cuda_context *context = context_of(event);
    struct sl_cuda_scope scope;
    int r = moment(event);
    if (r == 0)
        r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    int code = sl_cuda.EventQuery(sl_cuda_event_of(event));
    sl_cuda_leave(&scope);
    return code == SL_CU_NOT_READY ? SLUICE_NOT_READY : sl_cuda_check(context, code, "cuEventQuery");
}

int sl_cuda_event_synchronize(struct sl_event *event)
{
    struct sl_cuda_context *context = context_of(event);
    struct sl_cuda_scope scope;
    int r = moment(event);
    if (r == 0)
        r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, EventSynchronize, sl_cuda_event_of(event));
    sl_cuda_leave(&scope);
    return r;
}

int sl_cuda_event_elapsed(struct sl_event *start, struct sl_event *stop, double *milliseconds)
{
    struct sl_cuda_context *context = context_of(start);
    struct sl_cuda_scope scope;
    float passed;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    int code = sl_cuda.EventElapsedTime(&passed, sl_cuda_event_of(start), sl_cuda_event_of(stop));
    sl_cuda_leave(&scope);
    if (code == SL_CU_NOT_READY) /* another thread has recorded one of them since they were queried */
        return SLUICE_NOT_READY;
    r = sl_cuda_check(context, code, "cuEventElapsedTime");
    if (r == 0)
        *milliseconds = passed;
    return r;
}
