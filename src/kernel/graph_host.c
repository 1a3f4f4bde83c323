/* SPDX-License-Identifier: MIT
 *
 * Graphs on host: a list of commands, run in the order in which they were recorded.
 */
#include <string.h>

#include "kernel/graph.h"

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
    sl_host_graph_free(recording);
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

static int host_set(struct sl_graph *graph, void **recording)
{
    struct sl_host_graph *recorded = *recording, *old = graph->native;
    bool same = old && same_structure(old, recorded);

    graph->updates += same;
    graph->rebuilds += old && !same;
    graph->nodes = recorded->count;
    graph->edges = recorded->edge_count;
    graph->native = recorded;
    *recording = old;
    return 0;
}

static int host_launch(struct sl_graph *graph, struct sl_stream *stream)
{
    const struct sl_host_graph *commands = graph->native;
    int r = sl_stream_not_capturing(stream, "no graph can be launched on it");

    for (uint32_t i = 0; i < commands->count && r == 0; i++)
        r = commands->commands[i].run(commands->commands[i].data);
    return r;
}

static void host_finish(struct sl_graph *graph)
{
    sl_host_graph_free(graph->native);
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
