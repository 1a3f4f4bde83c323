/* SPDX-License-Identifier: MIT
 *
 * The public calls of sluice/graph.h: parallel sections and graphs.
 */
#include <sluice/graph.h>

#include "kernel/graph.h"
#include "util/result.h"

_Static_assert(SLUICE_MAX_FORK == SL_DEVICE_FORKS, "the public limit is the device's");

static int require(const void *pointer, const char *call, const char *parameter)
{
    return pointer ? 0 : sl_fail(SLUICE_E_INVALID, "%s: %s is NULL", call, parameter);
}

int sluice_fork(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams)
{
    int r = require(streams, "sluice_fork", "streams");

    return r == 0 ? sl_fork(parent, count, streams) : r;
}

int sluice_join(struct sluice_stream parent, uint32_t count, struct sluice_stream *streams)
{
    int r = require(streams, "sluice_join", "streams");

    return r == 0 ? sl_join(parent, count, streams) : r;
}

int sluice_capture_begin(struct sluice_stream stream)
{
    return sl_capture_begin(stream);
}

int sluice_capture_end(struct sluice_stream stream, struct sluice_graph *graph)
{
    int r = require(graph, "sluice_capture_end", "graph");

    return r == 0 ? sl_capture_end(stream, graph) : r;
}

int sluice_graph_launch(struct sluice_graph graph, struct sluice_stream stream)
{
    return sl_graph_launch(graph, stream);
}

int sluice_graph_info(struct sluice_graph graph, struct sluice_graph_info *info)
{
    int r = require(info, "sluice_graph_info", "info");

    return r == 0 ? sl_graph_info(graph, info) : r;
}

int sluice_graph_destroy(struct sluice_graph *graph)
{
    int r = require(graph, "sluice_graph_destroy", "graph");

    return r == 0 ? sl_graph_destroy(graph) : r;
}
