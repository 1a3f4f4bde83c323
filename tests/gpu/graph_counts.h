/* SPDX-License-Identifier: MIT
 *
 * What a graph says of itself, for tests of graphs on a GPU and on host.
 */
#ifndef GPU_GRAPH_COUNTS_H
#define GPU_GRAPH_COUNTS_H

#include <sluice/graph.h>

#include "harness/test.h"

static inline void check_graph(struct sluice_graph graph, uint32_t nodes, uint32_t edges, uint32_t updates,
                               uint32_t rebuilds)
{
    struct sluice_graph_info info = { .size = sizeof info };

    CHECK_OK(sluice_graph_info(graph, &info));
    CHECK_EQ(info.nodes, nodes);
    CHECK_EQ(info.edges, edges);
    CHECK_EQ(info.updates, updates);
    CHECK_EQ(info.rebuilds, rebuilds);
}

#endif
