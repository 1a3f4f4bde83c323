/* SPDX-License-Identifier: MIT
 *
 * Graphs on host: a list of commands, run in the order in which they were recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/graph.h"
#include "util/result.h"

/* A graph's native part. */
struct host_graph {
    struct sl_host_graph *graph; /* under the graph's lock */
    sl_mutex running;            /* launches do not overlap */
};

static int host_end(struct sl_stream *stream, void **recording)
{
    struct sl_host_graph *graph;
    int r = sl_host_capture_end(stream, &graph);

    if (r == 0)
        *recording = graph;
    return r;
}

static void host_discard(struct sl_device *device, void *recording)
{
    (void)device;
    sl_host_graph_drop(recording);
}

/* True if CUDA would update the graph, and not refuse. */
static bool same_structure(const struct sl_host_graph *a, const struct sl_host_graph *b)
{
    if (a->count != b->count || a->edge_count != b->edge_count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->commands[i].run != b->commands[i].run)
            return false;
    return a->edge_count == 0 || memcmp(a->edges, b->edges, a->edge_count * sizeof *a->edges) == 0;
}

static int host_set(struct sl_graph *graph, void *recording)
{
    struct sl_host_graph *recorded = recording, *old = NULL;
    struct host_graph *own = graph->native;

    if (own) {
        old = own->graph;
        if (same_structure(old, recorded))
            graph->updates++;
        else
            graph->rebuilds++;
    } else if ((own = malloc(sizeof *own)) != NULL) {
        sl_mutex_init(&own->running);
        graph->native = own;
    } else {
        sl_host_graph_drop(recorded);
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for a graph on \"host\"");
    }
    own->graph = recorded;
    graph->nodes = recorded->count;
    graph->edges = recorded->edge_count;
    sl_host_graph_drop(old); /* a running launch has a reference */
    return 0;
}

static int run_all(const struct sl_host_graph *graph)
{
    int r = 0;

    for (uint32_t i = 0; i < graph->count && r == 0; i++)
        r = graph->commands[i].run(graph->commands[i].data);
    return r;
}

static int host_launch(struct sl_graph *graph, struct sl_stream *stream)
{
    struct host_graph *own = graph->native;
    int r = sl_stream_not_capturing(stream, "no graph can be launched on it");

    if (r != 0)
        return r;
    sl_mutex_lock(&own->running);
    sl_mutex_lock(&graph->lock);
    struct sl_host_graph *now = sl_host_graph_keep(own->graph);
    sl_mutex_unlock(&graph->lock);
    r = run_all(now);
    sl_mutex_unlock(&own->running);
    sl_host_graph_drop(now);
    return r;
}

static void host_finish(struct sl_graph *graph)
{
    struct host_graph *own = graph->native;

    if (!own)
        return;
    sl_host_graph_drop(own->graph);
    sl_mutex_finish(&own->running);
    free(own);
}

const struct sl_graph_ops sl_graph_host = {
    .kind = "host",
    .begin = sl_host_capture_begin,
    .end = host_end,
    .discard = host_discard,
    .set = host_set,
    .launch = host_launch,
    .finish = host_finish,
};
