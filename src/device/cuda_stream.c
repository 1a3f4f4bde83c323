/* SPDX-License-Identifier: MIT
 *
 * Streams of a CUDA device.
 */
#include "device/cuda.h"
#include "util/result.h"

static struct sl_cuda_context *context_of(const struct sl_stream *stream)
{
    return sl_cuda_context_of(&stream->object);
}

/* ---- made, borrowed, or there from the start ---- */

int sl_cuda_stream_create(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(stream);
    struct sl_cu_stream *native;
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, StreamCreateWithPriority, &native, stream->blocking ? 0u : (unsigned)SL_CU_STREAM_NON_BLOCKING,
              (int)stream->priority);
    if (r == 0) {
        int obeyed = stream->priority; /* the driver supports a few priorities, and clamps to the nearest */
        r = sl_cu(context, StreamGetPriority, native, &obeyed);
        stream->priority = obeyed;
        stream->native = (uintptr_t)native;
        if (r != 0)
            sl_cuda.StreamDestroy(native);
    }
    sl_cuda_leave(&scope);
    return r;
}

/* For a stream with an address: does it belong to our context, and what are its properties? */
static int look_at(struct sl_stream *stream, struct sl_cu_stream *native)
{
    struct sl_cuda_context *context = context_of(stream);
    struct sl_cu_context *owner = NULL;
    enum sl_cuda_capture state;
    unsigned flags = 0; /* if the flags cannot be queried, assume a blocking stream, which orders more */
    int priority = 0;

    int r = sl_cu(context, StreamGetCtx, native, &owner);
    if (r == 0 && owner != context->handle)
        r = sl_fail(SLUICE_E_WRONG_DEVICE,
                    "stream %p is not of device \"%s\": it was made on another GPU, or in a context "
                    "other than the primary one, which all libraries share",
                    (void *)native, context->name);
    if (r == 0)
        r = sl_cuda_capture(context, native, &state, NULL);
    if (r == 0 && state == SL_CUDA_CAPTURE_NONE)
        r = sl_cu(context, StreamGetFlags, native, &flags);
    if (r == 0)
        r = sl_cu(context, StreamGetPriority, native, &priority);
    if (r == 0) {
        stream->blocking = !(flags & SL_CU_STREAM_NON_BLOCKING);
        stream->priority = priority;
    }
    return r;
}

int sl_cuda_stream_wrap(struct sl_stream *stream, uintptr_t native)
{
    struct sl_cuda_scope scope;

    stream->native = native;
    stream->blocking = true;
    if (native <= (uintptr_t)SL_CU_PER_THREAD)
        return 0;                              /* one of the special handles: in our context it is ours */
    if (!sl_os_readable((const void *)native)) /* the driver would look there, and crash */
        return sl_fail(
            SLUICE_E_INVALID,
            "there is no stream at %p: pass a CUstream (in PyTorch: stream.cuda_stream) that has not been destroyed",
            (void *)native);
    int r = sl_cuda_enter(context_of(stream), SL_CUDA_PLAIN, &scope);
    if (r != 0)
        return r;
    r = look_at(stream, (struct sl_cu_stream *)native);
    sl_cuda_leave(&scope);
    return r;
}

int sl_cuda_stream_default(struct sl_stream *stream)
{
    stream->native = 0;
    stream->blocking = true;
    return 0;
}

static struct sl_cu_event *event_of(uint64_t word)
{
    return (struct sl_cu_event *)(uintptr_t)word;
}

static void destroy_own(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(stream);
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_ACTIVE;
    int r = sl_cuda_capture(context, sl_cuda_stream_of(stream), &state, NULL);

    if (r == 0 && state == SL_CUDA_CAPTURE_NONE)
        r = sl_cuda_retire_stream(stream->object.device, sl_cuda_stream_of(stream));
    else if (r == 0)
        sl_log(SLUICE_LOG_WARN, "%s: a stream that captures a graph was left behind", context->name);
    if (r != 0)
        sl_log(SLUICE_LOG_WARN, "a stream was left behind: %s", sl_last_error());
}

void sl_cuda_stream_destroy(struct sl_stream *stream)
{
    struct sl_cu_event *record_event = event_of(sl_load(&stream->spare_event, acquire));
    bool own = stream->kind == SLUICE_STREAM_OWNED;
    struct sl_cuda_scope scope;

    if ((!own && !record_event) || sl_cuda_enter(context_of(stream), SL_CUDA_RELAXED, &scope) != 0)
        return; /* not owned, or destroyed with the context */
    if (record_event)
        sl_cuda.EventDestroy(record_event);
    if (own)
        destroy_own(stream);
    sl_cuda_leave(&scope);
}

void sl_cuda_stream_queue(const struct sl_stream *stream, struct sl_stream_queue *queue)
{
    queue->context = context_of(stream)->handle;
    queue->native = sl_cuda_is_legacy(stream) ? 0 : stream->native;
    queue->thread = sl_cuda_stream_of(stream) == SL_CU_PER_THREAD ? sl_os_thread_number() : 0;
    queue->blocking = stream->blocking;
}

/* ---- capture ---- */

enum sl_capture sl_cuda_stream_capture(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(stream);
    enum sl_cuda_capture state = SL_CUDA_CAPTURE_NONE;
    struct sl_cuda_scope scope;

    if (sl_cuda_enter(context, SL_CUDA_PLAIN, &scope) != 0)
        return SL_CAPTURE_NONE; /* nothing captures in a lost context */
    int r = sl_cuda_capture(context, sl_cuda_stream_of(stream), &state, NULL);
    sl_cuda_leave(&scope);
    if (r != 0 || state == SL_CUDA_CAPTURE_NONE)
        return SL_CAPTURE_NONE;
    return state == SL_CUDA_CAPTURE_BLOCKED ? SL_CAPTURE_BLOCKED : SL_CAPTURE_ACTIVE;
}

int sl_cuda_stream_part(struct sl_stream *stream, uint64_t *capture)
{
    struct sl_cuda_context *context = context_of(stream);
    enum sl_cuda_capture state;

    int r = sl_cuda_capture(context, sl_cuda_stream_of(stream), &state, capture);
    if (r == 0 && state == SL_CUDA_CAPTURE_BLOCKED)
        r = sl_fail(SLUICE_E_CAPTURING, "%s: %s", context->name, sl_cuda_code_remedy(SL_CU_CAPTURE_IMPLICIT));
    else if (r == 0 && state == SL_CUDA_CAPTURE_BROKEN)
        r = sl_fail(SLUICE_E_CAPTURING, "%s: %s", context->name, sl_cuda_code_remedy(SL_CU_CAPTURE_INVALIDATED));
    return r;
}

/* ---- waiting ---- */

/* Callers have checked this before, with better messages; this catches a capture that has begun
 * since. */
static int check_apart(struct sl_stream *stream)
{
    uint64_t part;
    int r = sl_cuda_stream_part(stream, &part);

    if (r == 0 && part != 0)
        r = sl_fail(SLUICE_E_CAPTURING, "%s: %s", context_of(stream)->name,
                    sl_cuda_code_remedy(SL_CU_CAPTURE_UNSUPPORTED));
    return r;
}

int sl_cuda_stream_query(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(stream);
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = check_apart(stream);
    if (r == 0) {
        int code = sl_cuda.StreamQuery(sl_cuda_stream_of(stream));
        r = code == SL_CU_NOT_READY ? SLUICE_NOT_READY : sl_cuda_check(context, code, "cuStreamQuery");
    }
    sl_cuda_leave(&scope);
    return r;
}

static enum sl_stream_state state_of(struct sl_stream *stream)
{
    if (!sl_cuda_is_not_capturing(sl_cuda_stream_of(stream))) /* a query would invalidate the capture */
        return SL_STREAM_CAPTURES;
    return sl_cuda.StreamQuery(sl_cuda_stream_of(stream)) == SL_CU_OK ? SL_STREAM_IDLE : SL_STREAM_BUSY;
}

void sl_cuda_streams_state(struct sl_stream *const *streams, uint32_t count, enum sl_stream_state *states)
{
    struct sl_cuda_scope scope;
    bool entered = sl_cuda_enter(context_of(streams[0]), SL_CUDA_RELAXED, &scope) == 0;

    for (uint32_t i = 0; i < count; i++)
        states[i] = entered ? state_of(streams[i]) : SL_STREAM_BUSY; /* the next call reports the failure */
    if (entered)
        sl_cuda_leave(&scope);
}

int sl_cuda_stream_synchronize(struct sl_stream *stream)
{
    struct sl_cuda_context *context = context_of(stream);
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = check_apart(stream);
    if (r == 0)
        r = sl_cu(context, StreamSynchronize, sl_cuda_stream_of(stream));
    sl_cuda_leave(&scope);
    return r;
}

/* If it may not, the driver would refuse the wait and invalidate the captures, too. */
static int may_wait(const struct sl_stream *stream, uint64_t part, uint64_t other)
{
    return sl_capture_may_wait(stream, sl_cuda_is_legacy(stream), part, other);
}

/* `stream` now waits for what `other` (NULL: not known) has recorded in this capture. For the message about streams
 * that nothing waits for. */
static void note_wait(struct sl_stream *stream, uint64_t part, struct sl_stream *other, uint64_t capture)
{
    if (part == 0)
        sl_store(&stream->part, capture, relaxed);
    if (other)
        sl_store(&other->part, 0, relaxed);
}

static void note_event_wait(struct sl_stream *stream, uint64_t part, struct sl_event *event, uint64_t capture)
{
    struct sl_object *other = sl_object_find(sl_load(&event->recorded_on, relaxed), SL_HANDLE_STREAM);

    note_wait(stream, part, (struct sl_stream *)other, capture);
    if (other)
        sl_object_drop(other);
}

/* The driver calls an event invalid that was recorded in a capture which has ended (seen with driver 580). */
static int check_wait(struct sl_cuda_context *context, uint64_t capture, int code)
{
    if (code == SL_CU_INVALID_VALUE && capture != 0)
        code = SL_CU_CAPTURED_EVENT;
    return sl_cuda_check(context, code, "cuStreamWaitEvent");
}

int sl_cuda_stream_wait_event(struct sl_stream *stream, struct sl_event *event)
{
    struct sl_cuda_context *context = context_of(stream);
    uint64_t part, capture = sl_load(&event->capture, acquire);
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);
    if (r != 0)
        return r;
    r = sl_cuda_stream_part(stream, &part);
    if (r == 0)
        r = may_wait(stream, part, capture);
    if (r == 0)
        r = check_wait(context, capture,
                       sl_cuda.StreamWaitEvent(sl_cuda_stream_of(stream), sl_cuda_event_of(event), 0));
    sl_cuda_leave(&scope);
    if (r == 0 && capture != 0)
        note_event_wait(stream, part, event, capture);
    return r;
}

/* What others wait for: an event behind a stream's work, and the capture that this work is in (0: none). */
struct mark {
    struct sl_stream *stream;
    struct sl_cu_event *event;
    uint64_t part;
};

/* Waits that were queued for the event remain valid. An event that was recorded in a capture is not
 * reused. */
static void unmark(const struct mark *mark)
{
    struct sl_cu_event *event = mark->event;
    struct sl_cuda_scope scope;

    if (mark->part == 0)
        event = event_of(sl_exchange(&mark->stream->spare_event,
                                     (uintptr_t)event)); /* NULL unless another thread has put one back */
    if (event && sl_cuda_relax(context_of(mark->stream), &scope) == 0) {
        sl_cuda.EventDestroy(event);
        sl_cuda_leave(&scope);
    }
}

static int create_event(struct sl_cuda_context *context, struct sl_cu_event **event)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_relax(context, &scope);

    if (r == 0) {
        r = sl_cu(context, EventCreate, event, SL_CU_EVENT_DISABLE_TIMING);
        sl_cuda_leave(&scope);
    }
    return r;
}

/* Records an event of the context behind what is queued on `stream`: the event of the last time,
 * unless another thread is using it. */
static int record(struct sl_stream *stream, struct mark *mark)
{
    struct sl_cuda_context *context = context_of(stream);
    int r = 0;

    *mark = (struct mark){ .stream = stream, .event = event_of(sl_exchange(&stream->spare_event, 0)) };
    if (!mark->event)
        r = create_event(context, &mark->event);
    if (r == 0)
        r = sl_cuda_stream_part(stream, &mark->part);
    if (r == 0)
        r = sl_cu(context, EventRecord, mark->event, sl_cuda_stream_of(stream));
    if (r != 0 && mark->event)
        unmark(mark);
    return r;
}

static int wait_for(struct sl_stream *stream, const struct mark *marks, uint32_t count)
{
    uint64_t part;
    int result = sl_cuda_stream_part(stream, &part);

    if (result != 0)
        return result;
    for (uint32_t i = 0; i < count; i++) {
        int r = may_wait(stream, part, marks[i].part);
        if (r == 0)
            r = sl_cu(context_of(stream), StreamWaitEvent, sl_cuda_stream_of(stream), marks[i].event, 0);
        if (r == 0 && marks[i].part != 0) {
            note_wait(stream, part, marks[i].stream, marks[i].part);
            part = marks[i].part;
        }
        result = r ? r : result;
    }
    return result;
}

static int wait_for_all(struct sl_stream *const *streams, uint32_t count, const struct mark *marks, uint32_t mark_count)
{
    struct sl_cuda_scope scope = { .pushed = false };
    struct sl_cuda_context *context = context_of(streams[0]);
    bool elsewhere = context != context_of(marks[0].stream);
    int result = elsewhere ? sl_cuda_enter(context, SL_CUDA_PLAIN, &scope) : 0;

    if (result != 0)
        return result;
    for (uint32_t i = 0; i < count; i++) {
        int r = wait_for(streams[i], marks, mark_count);
        result = r ? r : result;
    }
    sl_cuda_leave(&scope);
    return result;
}

int sl_cuda_streams_wait(struct sl_stream *const *streams, uint32_t count, struct sl_stream *const *others,
                         uint32_t other_count)
{
    struct mark marks[SL_DEVICE_FORKS];
    struct sl_cuda_scope scope;
    uint32_t recorded = 0;
    int result = sl_cuda_enter(context_of(others[0]), SL_CUDA_PLAIN, &scope);

    if (result != 0)
        return result;
    for (uint32_t i = 0; i < other_count; i++) {
        int r = record(others[i], &marks[recorded]);
        recorded += r == 0;
        result = r ? r : result;
    }
    if (recorded > 0) {
        int r = wait_for_all(streams, count, marks, recorded);
        result = r ? r : result;
    }
    for (uint32_t i = 0; i < recorded; i++)
        unmark(&marks[i]);
    sl_cuda_leave(&scope);
    return result;
}
