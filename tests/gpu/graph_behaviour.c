/* SPDX-License-Identifier: MIT
 *
 * What Sluice's graphs rely on: which nodes of a capture depend on which, what a missing join is, and which captures
 * update an executable graph. The fake driver models what a GPU's driver says here.
 */
#include "gpu/kit.h"

#define WORDS 1024

struct captured {
    struct sl_cu_graph *graph;
    size_t nodes, edges;
};

static struct captured end_of(struct sl_cu_stream *stream)
{
    struct captured captured;

    CU(StreamEndCapture, stream, &captured.graph);
    CU(GraphGetNodes, captured.graph, NULL, &captured.nodes);
    CU(GraphGetEdges, captured.graph, NULL, NULL, &captured.edges);
    return captured;
}

static struct sl_cu_event *new_event(void)
{
    struct sl_cu_event *event;

    CU(EventCreate, &event, SL_CU_EVENT_DISABLE_TIMING);
    return event;
}

static void follow(struct sl_cu_stream *stream, struct sl_cu_stream *other, struct sl_cu_event *event)
{
    CU(EventRecord, event, other);
    CU(StreamWaitEvent, stream, event, 0);
}

/* One kernel, `count` on as many streams behind it, and one behind them all. */
static struct captured fork_and_join(struct sl_cu_stream *stream, uint64_t memory, int count, uint32_t value)
{
    struct sl_cu_event *event = new_event();
    struct sl_cu_stream *branches[8];

    for (int i = 0; i < count; i++)
        branches[i] = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    gpu_fill(stream, memory, WORDS, value);
    for (int i = 0; i < count; i++) {
        follow(branches[i], stream, event);
        gpu_fill(branches[i], memory + (uint64_t)(i + 1) * WORDS * 4, WORDS, value + 1 + (uint32_t)i);
    }
    for (int i = 0; i < count; i++)
        follow(stream, branches[i], event);
    gpu_fill(stream, memory, WORDS, value + 100);
    struct captured captured = end_of(stream);
    for (int i = 0; i < count; i++)
        CU(StreamDestroy, branches[i]);
    CU(EventDestroy, event);
    return captured;
}

TEST(nodes_and_edges_of_a_capture)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint64_t memory = gpu_memory(9 * WORDS * 4);
    struct sl_cu_node *from[16], *to[16];
    struct sl_cu_exec *exec;

    gpu_fill(stream, memory, WORDS, 0); /* the kernel is loaded */
    struct captured captured = fork_and_join(stream, memory, 3, 7);
    CHECK_EQ(captured.nodes, 5);
    CHECK_EQ(captured.edges, 7); /* also from the first to the last */
    CU(GraphGetEdges, captured.graph, from, to, &captured.edges);
    CHECK_EQ(captured.edges, 7);
    for (size_t i = 0; i < 7; i++)
        CHECK(from[i] && to[i] && from[i] != to[i]);
    CU(GraphInstantiateWithFlags, &exec, captured.graph, 0);
    CU(GraphLaunch, exec, stream);
    CHECK_EQ(gpu_differ(stream, memory, WORDS, 107), 0);
    for (uint64_t i = 1; i < 4; i++)
        CHECK_EQ(gpu_differ(stream, memory + i * WORDS * 4, WORDS, 7 + (uint32_t)i), 0);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, captured.graph);
    gpu_end_on_stream(stream);
}

TEST(a_join_that_is_missing)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1), *branch = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    uint64_t memory = gpu_memory(WORDS * 4);
    struct sl_cu_event *event = new_event();
    struct sl_cu_graph *graph = NULL;
    int status;

    gpu_fill(stream, memory, WORDS, 0);
    CU(StreamSynchronize, stream);
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    gpu_fill(stream, memory, WORDS, 1);
    follow(branch, stream, event);
    gpu_fill(branch, memory, WORDS, 2);
    CHECK_EQ(cu.StreamEndCapture(stream, &graph), SL_CU_CAPTURE_UNJOINED);
    CHECK(!graph);
    CU(StreamIsCapturing, stream, &status);
    CHECK_EQ(status, SL_CU_CAPTURE_STATUS_NONE);
    CU(StreamIsCapturing, branch, &status);
    CHECK_EQ(status, SL_CU_CAPTURE_STATUS_NONE);
    gpu_fill(branch, memory, WORDS, 3);
    CHECK_EQ(gpu_differ(branch, memory, WORDS, 3), 0);
    /* A branch without work of its own needs no join. */
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    gpu_fill(stream, memory, WORDS, 1);
    follow(branch, stream, event);
    struct captured captured = end_of(stream);
    CHECK_EQ(captured.nodes, 1);
    CU(StreamIsCapturing, branch, &status);
    CHECK_EQ(status, SL_CU_CAPTURE_STATUS_NONE);
    CU(GraphDestroy, captured.graph);
    CU(EventDestroy, event);
    CU(StreamDestroy, branch);
    gpu_end_on_stream(stream);
}

static void *end_elsewhere(void *stream)
{
    struct sl_cu_graph *graph;

    gpu_use(0);
    int code = cu.StreamEndCapture(stream, &graph);
    cu.CtxSetCurrent(NULL);
    return (void *)(intptr_t)code;
}

TEST(a_capture_that_another_thread_ends)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    struct sl_cu_graph *graph;
    pthread_t thread;
    void *code;

    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    CHECK(pthread_create(&thread, NULL, end_elsewhere, stream) == 0);
    CHECK(pthread_join(thread, &code) == 0);
    CHECK_EQ((intptr_t)code, SL_CU_CAPTURE_WRONG_THREAD);
    CHECK_EQ(cu.StreamEndCapture(stream, &graph), SL_CU_ILLEGAL_STATE); /* it has ended */
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    CU(GraphDestroy, end_of(stream).graph);
    gpu_end_on_stream(stream);
}

TEST(captures_that_update_a_graph)
{
    struct sl_cu_stream *stream = gpu_begin_on_stream(1);
    uint64_t memory = gpu_memory(9 * WORDS * 4);
    struct sl_cu_update update;
    struct sl_cu_exec *exec;

    gpu_fill(stream, memory, WORDS, 0);
    struct captured first = fork_and_join(stream, memory, 2, 7), same = fork_and_join(stream, memory, 2, 70),
                    other = fork_and_join(stream, memory, 3, 700);
    CU(GraphInstantiateWithFlags, &exec, first.graph, 0);
    CU(GraphLaunch, exec, stream);
    CU(GraphExecUpdate, exec, same.graph, &update);
    CHECK_EQ(update.result, 0);
    CU(GraphLaunch, exec, stream);
    CHECK_EQ(gpu_differ(stream, memory, WORDS, 170), 0);
    CHECK_EQ(gpu_differ(stream, memory + 2 * WORDS * 4, WORDS, 72), 0);
    CHECK_EQ(cu.GraphExecUpdate(exec, other.graph, &update), SL_CU_EXEC_UPDATE_FAILURE);
    CHECK_EQ(update.result, SL_CU_UPDATE_TOPOLOGY_CHANGED);
    CU(GraphLaunch, exec, stream); /* it is as it was */
    CHECK_EQ(gpu_differ(stream, memory, WORDS, 170), 0);
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    CU(MemsetD8Async, memory, 0, 4, stream);
    struct captured memset = end_of(stream);
    CU(StreamBeginCapture, stream, CAPTURE_THREAD_LOCAL);
    gpu_fill(stream, memory, WORDS, 1);
    struct captured kernel = end_of(stream);
    CU(GraphExecDestroy, exec);
    CU(GraphInstantiateWithFlags, &exec, memset.graph, 0);
    CHECK_EQ(cu.GraphExecUpdate(exec, kernel.graph, &update), SL_CU_EXEC_UPDATE_FAILURE);
    CHECK_EQ(update.result, SL_CU_UPDATE_TYPE_CHANGED);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, first.graph);
    CU(GraphDestroy, same.graph);
    CU(GraphDestroy, other.graph);
    CU(GraphDestroy, memset.graph);
    CU(GraphDestroy, kernel.graph);
    gpu_end_on_stream(stream);
}
