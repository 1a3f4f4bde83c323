/* SPDX-License-Identifier: MIT
 *
 * The copy of a frame as a graph that is launched again and again. The word is a node of it, which gets a new
 * value each time, or is written after it.
 */
#include "driver.h"
#include "limit.h"
#include "rounds.h"
#include "stage.h"

enum { MEMORY_DEVICE = 2 };

#define MAX_GRAPHS 4

static struct one {
    struct cu_graph *graph;
    struct cu_node *node;
    struct cu_exec *exec;
} graphs[MAX_GRAPHS]; /* which take turns, like those of slots */
static int count;
static union cu_mem_op operations[MAX_GRAPHS];
static struct cu_batch batch;

static void open_one(struct one *one, const struct cu_copy_3d *copy)
{
    struct cu_node *first;
    CU(GraphCreate, &one->graph, 0);
    CU(GraphAddMemcpyNode, &first, one->graph, NULL, 0, copy, batch.context);
    if (job->graph == GRAPH_WITH_WORD)
        CU(GraphAddBatchMemOpNode, &one->node, one->graph, &first, 1, &batch);
    CU(GraphInstantiateWithFlags, &one->exec, one->graph, 0);
}

void graph_open(uint64_t to, uint64_t from, uint64_t word)
{
    const struct cu_copy_3d copy = { .from_type = MEMORY_DEVICE,
                                     .from_device = from,
                                     .to_type = MEMORY_DEVICE,
                                     .to_device = to,
                                     .width = frame_bytes(),
                                     .height = 1,
                                     .depth = 1 };
    if (job->ops > MAX_GRAPHS || job->slots > MAX_GRAPHS)
        die("a graph has at most %d words, and takes turns with %d", MAX_GRAPHS, MAX_GRAPHS - 1);
    for (int i = 0; i < job->ops; i++) {
        operations[i].op.operation = CU_WRITE_64;
        operations[i].op.address = i ? word_address(WORD_MORE + i) : word;
    }
    batch = (struct cu_batch){ .context = gpu_context(), .count = (unsigned)job->ops, .operations = operations };
    count = job->slots ? (int)job->slots : 1;
    for (int i = 0; i < count; i++)
        open_one(&graphs[i], &copy);
}

void graph_launch(struct cu_stream *stream, uint64_t value)
{
    const struct one *one = &graphs[value % (unsigned)count];
    for (int i = 0; i < job->ops; i++)
        operations[i].op.value = value;
    if (job->graph == GRAPH_WITH_WORD)
        CU(GraphExecBatchMemOpNodeSetParams, one->exec, one->node, &batch);
    CU(GraphLaunch, one->exec, stream);
    if (job->graph != GRAPH_WITH_WORD)
        CU(StreamWriteValue64, stream, operations[0].op.address, value, 0);
}

void graph_launch_alone(struct cu_stream *stream)
{
    CU(GraphLaunch, graphs[0].exec, stream);
}

void graph_close(void)
{
    for (int i = 0; i < count; i++) {
        CU(GraphExecDestroy, graphs[i].exec);
        CU(GraphDestroy, graphs[i].graph);
    }
}
