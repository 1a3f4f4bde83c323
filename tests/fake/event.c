/* SPDX-License-Identifier: MIT
 *
 * Events.
 */
#include <stdlib.h>

#include "fake/inside.h"

static struct sl_cu_event *events;

int fake_cuEventCreate(struct sl_cu_event **event, unsigned flags)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context) {
        *event = calloc(1, sizeof **event);
        if (!*event)
            abort();
        **event = (struct sl_cu_event){ .magic = EVENT_MAGIC,
                                        .context = context,
                                        .flags = flags,
                                        .owned = fake_thread.library,
                                        .next = events };
        events = *event;
        fake_living.events += fake_thread.library;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_events_end(struct sl_cu_context *context)
{
    for (struct sl_cu_event *e = events; e; e = e->next) {
        if (e->context != context || e->ended)
            continue;
        e->ended = true;
        fake_living.events -= e->owned;
    }
}

static bool usable(struct sl_cu_event *event, int *code)
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
    if (usable(event, &code)) {
        event->ended = true;
        fake_living.events -= event->owned;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuEventRecord(struct sl_cu_event *event, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && usable(event, &code) && event->context != stream->context)
        code = SL_CU_INVALID_HANDLE;
    if (code == 0) {
        event->recorded = true;
        event->stream = stream;
        event->capture = stream->capture;
        event->capture_id = stream->capture ? stream->capture->id : 0;
        event->turn++;
        if (!stream->capture) {
            code = fake_queue(stream,
                              &(struct op){ .kind = OP_MARK, .event = event, .turn = event->turn });
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

int fake_cuStreamWaitEvent(struct sl_cu_stream *handle, struct sl_cu_event *event, unsigned flags)
{
    int code;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (!stream || !usable(event, &code) || !event->recorded)
        goto done;
    if (stream->capture && stream->capture->id != event->capture_id) {
        stream->capture->broken = true;
        code = event->capture_id ? SL_CU_CAPTURE_MERGE : SL_CU_CAPTURE_ISOLATION;
    } else if (event->capture_id && !under_way(event)) {
        code = SL_CU_CAPTURED_EVENT;
    } else if (event->capture_id && stream == stream->context->legacy) {
        event->capture->broken = true;
        code = SL_CU_CAPTURE_IMPLICIT;
    } else if (event->capture_id) {
        stream->capture = event->capture; /* it joins */
    } else {
        code = fake_queue(
            stream,
            &(struct op){ .kind = OP_AFTER, .other = event->stream, .other_id = event->id });
    }
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* To ask about a captured event breaks the capture. */
static bool waitable(struct sl_cu_event *event, int *code)
{
    if (!usable(event, code))
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
    if (waitable(event, &code) && event->recorded && event->stream->done_id < event->id)
        code = SL_CU_NOT_READY;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuEventSynchronize(struct sl_cu_event *event)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (waitable(event, &code) && event->recorded)
        code = fake_wait(event->stream, event->id);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuEventElapsedTime(float *milliseconds, struct sl_cu_event *start,
                            struct sl_cu_event *stop)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (!waitable(start, &code) || !waitable(stop, &code))
        goto done;
    if ((start->flags | stop->flags) & SL_CU_EVENT_DISABLE_TIMING || !start->recorded ||
        !stop->recorded)
        code = SL_CU_INVALID_HANDLE;
    else if (start->stream->done_id < start->id || stop->stream->done_id < stop->id)
        code = SL_CU_NOT_READY;
    else
        *milliseconds = (float)((double)(stop->time - start->time) / 1e6);
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}
