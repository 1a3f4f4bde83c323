/* SPDX-License-Identifier: MIT
 *
 * Captures of graphs, and what a program does with a graph.
 */
#include <stdlib.h>

#include "fake/inside.h"

struct capture *fake_captures;

struct sl_cu_exec {
    struct work work;
    bool owned; /* the library's */
};

int fake_cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = fake_thread.mode;

    fake_thread.mode = *mode;
    *mode = before;
    return SL_CU_OK;
}

/* Global captures bear nobody's such call, thread-local ones none of their own thread. */
bool fake_break_captures(void)
{
    bool any = false;

    for (struct capture *c = fake_captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self()) != 0;
        if (c->mode == CAPTURE_GLOBAL || (c->mode == CAPTURE_THREAD_LOCAL && own))
            c->broken = any = true;
    }
    return any;
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
        struct sl_cu_graph *graph = calloc(1, sizeof *graph);
        if (!capture || !graph)
            abort();
        if (mode == SL_CU_CAPTURE_MODE_GLOBAL)
            fake_break_rule("in the global mode, which others in the process break");
        graph->owned = fake_thread.library;
        fake_living.graphs += graph->owned;
        *capture = (struct capture){ .id = ++captures,
                                     .mode = mode,
                                     .owned = fake_thread.library,
                                     .thread = pthread_self(),
                                     .origin = stream,
                                     .graph = graph,
                                     .next = fake_captures };
        fake_captures = stream->capture = capture;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static void drop(struct work *work)
{
    while (work->first) {
        struct op *op = work->first;
        work->first = op->next;
        free(op);
    }
}

static void end_graph(struct sl_cu_graph *graph)
{
    fake_living.graphs -= graph->owned;
    drop(&graph->work);
    free(graph);
}

int fake_cuStreamEndCapture(struct sl_cu_stream *handle, struct sl_cu_graph **graph)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, true, &code);
    struct capture *capture = stream ? stream->capture : NULL, **at = &fake_captures;
    if (stream && (!capture || capture->origin != stream))
        code = SL_CU_CAPTURE_UNMATCHED;
    if (code == 0) {
        for (struct sl_cu_stream *s = fake_streams; s; s = s->next)
            if (s->capture == capture)
                s->capture = NULL;
        while (*at != capture)
            at = &(*at)->next;
        *at = capture->next;
        *graph = capture->broken ? NULL : capture->graph;
        if (capture->broken) {
            code = SL_CU_CAPTURE_INVALIDATED;
            end_graph(capture->graph);
        }
        free(capture);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuGraphGetNodes(struct sl_cu_graph *graph, struct sl_cu_node **nodes, size_t *count)
{
    (void)nodes;
    *count = graph->work.count;
    return SL_CU_OK;
}

int fake_cuGraphDestroy(struct sl_cu_graph *graph)
{
    pthread_mutex_lock(&fake_lock);
    end_graph(graph);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuGraphInstantiateWithFlags(struct sl_cu_exec **exec, struct sl_cu_graph *graph,
                                     unsigned long long flags)
{
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    *exec = calloc(1, sizeof **exec);
    if (!*exec)
        abort();
    (*exec)->owned = fake_thread.library;
    for (const struct op *op = graph->work.first; op; op = op->next)
        fake_append(&(*exec)->work, op);
    fake_living.graphs += (*exec)->owned;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuGraphExecDestroy(struct sl_cu_exec *exec)
{
    pthread_mutex_lock(&fake_lock);
    fake_living.graphs -= exec->owned;
    drop(&exec->work);
    free(exec);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuGraphLaunch(struct sl_cu_exec *exec, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    for (struct op *op = exec->work.first; op && stream && code == 0; op = op->next)
        code = fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
