/* SPDX-License-Identifier: MIT
 *
 * Captures of graphs, and what a program does with a graph.
 */
#include <stdlib.h>

#include "fake/inside.h"

struct capture *fake_captures;

struct cu_exec {
    struct sl_cu_graph *graph;
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
        *capture = (struct capture){ .id = ++captures,
                                     .mode = mode,
                                     .thread = pthread_self(),
                                     .origin = stream,
                                     .graph = graph,
                                     .next = fake_captures };
        fake_captures = stream->capture = capture;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_graph_free(struct sl_cu_graph *graph)
{
    while (graph && graph->first) {
        struct op *op = graph->first;
        graph->first = op->next;
        free(op);
    }
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
            fake_graph_free(capture->graph);
        }
        free(capture);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuGraphGetNodes(struct sl_cu_graph *graph, struct sl_cu_node **nodes, size_t *count)
{
    (void)nodes;
    *count = graph->count;
    return SL_CU_OK;
}

int fake_cuGraphDestroy(struct sl_cu_graph *graph)
{
    fake_graph_free(graph);
    return SL_CU_OK;
}

int fake_cuGraphInstantiateWithFlags(struct cu_exec **exec, struct sl_cu_graph *graph,
                                     unsigned long long flags)
{
    (void)flags;
    *exec = malloc(sizeof **exec);
    if (!*exec)
        abort();
    (*exec)->graph = graph; /* tests keep it as long */
    return SL_CU_OK;
}

int fake_cuGraphExecDestroy(struct cu_exec *exec)
{
    free(exec);
    return SL_CU_OK;
}

int fake_cuGraphLaunch(struct cu_exec *exec, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    for (struct op *op = exec->graph->first; op && stream && code == 0; op = op->next)
        code = fake_queue(stream, op);
    pthread_mutex_unlock(&fake_lock);
    return code;
}
