/* SPDX-License-Identifier: MIT
 *
 * Captures of graphs.
 */
#include <stdlib.h>

#include "fake/internal.h"

struct capture *fake_captures;

int fake_cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = fake_thread.mode;

    fake_thread.mode = *mode;
    *mode = before;
    return SL_CU_OK;
}

/* An unsafe call of any thread breaks global captures; of its own thread, thread-local ones. */
int fake_break_captures(void)
{
    int code = SL_CU_OK;

    if (fake_thread.mode == SL_CU_CAPTURE_MODE_RELAXED)
        return code;
    for (struct capture *c = fake_captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self()) != 0;
        if (c->mode == CAPTURE_GLOBAL || (c->mode == CAPTURE_THREAD_LOCAL && own)) {
            c->broken = true;
            code = SL_CU_CAPTURE_UNSUPPORTED;
        }
    }
    return code;
}

int fake_break_all_captures(void)
{
    for (struct capture *c = fake_captures; c; c = c->next)
        c->broken = true;
    return fake_captures ? SL_CU_CAPTURE_UNSUPPORTED : SL_CU_OK;
}

int fake_cuStreamBeginCapture(struct sl_cu_stream *handle, int mode)
{
    static uint64_t captures;
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && (stream->capture || stream == stream->context->legacy))
        code = SL_CU_CAPTURE_UNSUPPORTED;
    if (code == 0) {
        struct capture *capture = calloc(1, sizeof *capture);
        if (!capture)
            abort();
        *capture = (struct capture){ .id = ++captures,
                                     .mode = mode,
                                     .owned = fake_thread.library,
                                     .thread = pthread_self(),
                                     .origin = stream,
                                     .graph = fake_graph_new(stream->context),
                                     .next = fake_captures };
        fake_captures = stream->capture = capture;
        stream->frontier.count = 0;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* All other streams that take part must have been waited for. */
static bool is_joined(const struct capture *capture)
{
    for (const struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->capture == capture && !fake_graph_joined(capture->graph, &capture->origin->frontier, &s->frontier))
            return false;
    return true;
}

static void forget(struct capture *capture)
{
    struct capture **at = &fake_captures;

    for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
        if (s->capture == capture)
            s->capture = NULL;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    free(capture);
}

/* Whatever is wrong, but for the stream, the capture has ended then. */
static int verdict(const struct capture *capture)
{
    if (capture->mode != CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        return SL_CU_CAPTURE_WRONG_THREAD;
    if (capture->broken)
        return SL_CU_CAPTURE_INVALIDATED;
    return is_joined(capture) ? SL_CU_OK : SL_CU_CAPTURE_UNJOINED;
}

int fake_cuStreamEndCapture(struct sl_cu_stream *handle, struct sl_cu_graph **graph)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    struct capture *capture = stream ? stream->capture : NULL;
    if (stream && !capture)
        code = SL_CU_ILLEGAL_STATE;
    else if (stream && capture->origin != stream)
        code = SL_CU_CAPTURE_UNMATCHED, capture->broken = true; /* measured, driver 580 */
    if (code == 0) {
        code = verdict(capture);
        *graph = code ? NULL : capture->graph;
        if (code)
            fake_graph_end(capture->graph);
        forget(capture);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}
