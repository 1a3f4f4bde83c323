/* SPDX-License-Identifier: MIT
 *
 * A frame's copy as a graph that is launched again and again: with the word in it, which gets a new value each
 * time, or written behind it.
 */
#include "driver.h"
#include "limits.h"
#include "stage.h"

enum { MEMORY_DEVICE = 2 };

static struct cu_graph *graph;
static struct cu_node *node;
static struct cu_exec *exec;
static union cu_mem_op operation;
static struct cu_batch batch;

void graph_open(uint64_t to, uint64_t from, uint64_t word)
{
    const struct cu_copy_3d copy = { .from_type = MEMORY_DEVICE,
                                     .from_device = from,
                                     .to_type = MEMORY_DEVICE,
                                     .to_device = to,
                                     .width = frame_bytes(),
                                     .height = 1,
                                     .depth = 1 };
    struct cu_node *first;
    operation.op.operation = CU_WRITE_64;
    operation.op.address = word;
    batch = (struct cu_batch){ .context = gpu_context(), .count = 1, .operations = &operation };
    CU(GraphCreate, &graph, 0);
    CU(GraphAddMemcpyNode, &first, graph, NULL, 0, &copy, batch.context);
    if (job->graph == GRAPH_WITH_WORD)
        CU(GraphAddBatchMemOpNode, &node, graph, &first, 1, &batch);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
}

void graph_launch(struct cu_stream *stream, uint64_t value)
{
    operation.op.value = value;
    if (job->graph == GRAPH_WITH_WORD)
        CU(GraphExecBatchMemOpNodeSetParams, exec, node, &batch);
    CU(GraphLaunch, exec, stream);
    if (job->graph != GRAPH_WITH_WORD)
        CU(StreamWriteValue64, stream, operation.op.address, value, 0);
}

void graph_close(void)
{
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, graph);
}
