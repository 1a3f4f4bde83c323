/* SPDX-License-Identifier: MIT
 *
 * Events.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake/internal.h"

static struct sl_cu_event *events;

struct sl_cu_event *fake_event_new(struct sl_cu_context *context, unsigned flags)
{
    struct sl_cu_event *event = calloc(1, sizeof *event);

    if (!event)
        abort();
    *event = (struct sl_cu_event){
        .magic = EVENT_MAGIC, .context = context, .flags = flags, .owned = fake_thread.library, .next = events
    };
    events = event;
    fake_living.events += event->owned;
    return event;
}

static void end(struct sl_cu_event *event)
{
    event->ended = true;
    fake_living.events -= event->owned;
    fake_event_unshare(event);
}

int fake_cuEventCreate(struct sl_cu_event **event, unsigned flags)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context) {
        struct sl_cu_event *made = fake_event_new(context, flags);
        code = fake_event_share(made);
        if (code)
            end(made);
        else
            *event = made;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_events_end(struct sl_cu_context *context)
{
    for (struct sl_cu_event *e = events; e; e = e->next)
        if (e->context == context && !e->ended)
            end(e);
}

bool fake_event_usable(struct sl_cu_event *event, int *code)
{
    *code = 0;
    if (event->magic != EVENT_MAGIC || event->ended) {
        fake_break_rule("on an event that is none, or not any more");
        *code = SL_CU_INVALID_HANDLE;
    } else if (!event->context->alive) {
        *code = SL_CU_CONTEXT_IS_DESTROYED;
    } else {
        *code = event->context->error;
    }
    return *code == 0;
}

int fake_cuEventDestroy(struct sl_cu_event *event)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_event_usable(event, &code))
        end(event);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuEventRecord(struct sl_cu_event *event, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && fake_event_usable(event, &code) && event->context != stream->context) {
        fake_break_rule("of an event of another context than the stream's");
        code = SL_CU_INVALID_HANDLE;
    }
    if (code == 0) {
        event->recorded = true;
        event->stream = stream;
        event->capture = stream->capture;
        event->capture_id = stream->capture ? stream->capture->id : 0;
        event->frontier = stream->frontier;
        event->turn++;
        if (!stream->capture) {
            uint64_t times = event->shared ? atomic_fetch_add(&event->shared->recorded, 1) + 1 : 0;
            code = fake_queue(stream,
                              &(struct op){ .kind = OP_MARK, .event = event, .turn = event->turn, .value = times });
            event->id = stream->last_id;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Is the capture that it was recorded in still going on? */
static bool under_way(const struct sl_cu_event *event)
{
    for (struct capture *c = fake_captures; c; c = c->next)
        if (c == event->capture && c->id == event->capture_id)
            return true;
    return false;
}

/* What another process records counts, too. */
static int hear(struct sl_cu_stream *stream, struct sl_cu_event *event)
{
    uint64_t times = atomic_load(&event->shared->recorded);

    return fake_queue(stream, &(struct op){ .kind = OP_HEAR, .event = event, .value = times });
}

static bool is_reached(struct sl_cu_event *event)
{
    if (event->shared)
        return atomic_load(&event->shared->reached) >= atomic_load(&event->shared->recorded);
    return !event->recorded || event->stream->done_id >= event->id;
}

int fake_cuStreamWaitEvent(struct sl_cu_stream *handle, struct sl_cu_event *event, unsigned flags)
{
    int code;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (!stream || !fake_event_usable(event, &code) || !(event->recorded || event->shared))
        goto done;
    if (stream->capture && stream->capture->id != event->capture_id) {
        stream->capture->broken = true;
        code = event->capture_id ? SL_CU_CAPTURE_MERGE : SL_CU_CAPTURE_ISOLATION;
    } else if (event->capture_id && !under_way(event)) {
        code = SL_CU_INVALID_VALUE; /* measured, driver 580 */
    } else if (event->capture_id && stream == stream->context->legacy) {
        event->capture->broken = true;
        code = SL_CU_CAPTURE_IMPLICIT;
    } else if (event->capture_id) {
        if (!stream->capture)
            stream->frontier.count = 0;
        stream->capture = event->capture; /* it joins */
        fake_frontier_add(&stream->frontier, &event->frontier);
    } else if (event->shared) {
        code = hear(stream, event);
    } else {
        code = fake_queue(stream, &(struct op){ .kind = OP_AFTER, .other = event->stream, .other_id = event->id });
    }
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Querying a captured event breaks the capture. */
static bool waitable(struct sl_cu_event *event, int *code)
{
    if (!fake_event_usable(event, code))
        return false;
    if (event->capture_id) {
        if (under_way(event))
            event->capture->broken = true;
        fake_break_rule("asked about an event that was captured");
        *code = SL_CU_CAPTURED_EVENT;
    }
    return *code == 0;
}

int fake_cuEventQuery(struct sl_cu_event *event)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (waitable(event, &code) && !is_reached(event))
        code = SL_CU_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Another process sends no notification when it is reached. */
static int wait_for_others(struct sl_cu_event *event)
{
    struct sl_cu_context *context = event->context;
    uint64_t times = atomic_load(&event->shared->recorded);

    while (atomic_load(&event->shared->reached) < times && context->alive && !context->error) {
        pthread_mutex_unlock(&fake_lock);
        usleep(100);
        pthread_mutex_lock(&fake_lock);
    }
    return context->alive ? context->error : SL_CU_CONTEXT_IS_DESTROYED;
}

static int64_t thread_cpu(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A wait without SLEEP polls: for long enough that a test sees it, but no longer, to save CPU time. */
static void ask_again(void)
{
    int64_t until = thread_cpu() + 3000000;

    pthread_mutex_unlock(&fake_lock);
    while (thread_cpu() < until)
        ;
    pthread_mutex_lock(&fake_lock);
}

int fake_cuEventSynchronize(struct sl_cu_event *event)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    bool good = waitable(event, &code);
    if (good && !(event->flags & SL_CU_EVENT_BLOCKING_SYNC) && !is_reached(event)) {
        ask_again();
        good = waitable(event, &code);
    }
    if (good && event->shared)
        code = wait_for_others(event);
    else if (good && event->recorded)
        code = fake_wait(event->stream, event->id);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuEventElapsedTime(float *milliseconds, struct sl_cu_event *start, struct sl_cu_event *stop)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (!waitable(start, &code) || !waitable(stop, &code))
        goto done;
    if ((start->flags | stop->flags) & SL_CU_EVENT_DISABLE_TIMING || !start->recorded || !stop->recorded)
        code = SL_CU_INVALID_HANDLE;
    else if (start->stream->done_id < start->id || stop->stream->done_id < stop->id)
        code = SL_CU_NOT_READY;
    else
        *milliseconds = (float)((double)(stop->time - start->time) / 1e6);
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}
