/* SPDX-License-Identifier: MIT */
#include "gpu/capture_thread.h"

#define COUNT 4096

static void *capture(void *shared)
{
    struct capture_thread *capturer = shared;
    struct sl_cu_graph *graph = NULL;
    struct sl_cu_exec *exec;

    gpu_use(0);
    struct sl_cu_stream *stream = gpu_stream(capturer->flags);
    gpu_fill(stream, capturer->memory, COUNT, 1);
    CU(StreamSynchronize, stream);
    CU(StreamBeginCapture, stream, capturer->mode);
    gpu_fill(stream, capturer->memory, COUNT, 2);
    pthread_barrier_wait(&capturer->meet); /* it has begun */
    pthread_barrier_wait(&capturer->meet); /* it may end */
    capturer->code = cu.StreamEndCapture(stream, &graph);
    if (capturer->code == 0) {
        CU(GraphGetNodes, graph, NULL, &capturer->nodes);
        CU(GraphInstantiateWithFlags, &exec, graph, 0);
        CU(GraphLaunch, exec, stream);
        CU(StreamSynchronize, stream);
        CU(GraphExecDestroy, exec);
        CU(GraphDestroy, graph);
    }
    CU(StreamDestroy, stream);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

void capture_thread_begin(struct capture_thread *capturer, int mode, unsigned flags)
{
    capturer->mode = mode;
    capturer->flags = flags;
    capturer->memory = gpu_memory(COUNT * 4);
    CHECK(pthread_barrier_init(&capturer->meet, NULL, 2) == 0);
    CHECK(pthread_create(&capturer->thread, NULL, capture, capturer) == 0);
    pthread_barrier_wait(&capturer->meet);
}

void capture_thread_end(struct capture_thread *capturer)
{
    pthread_barrier_wait(&capturer->meet);
    CHECK(pthread_join(capturer->thread, NULL) == 0);
    pthread_barrier_destroy(&capturer->meet);
}

void capture_thread_check(struct capture_thread *capturer, struct sl_cu_stream *stream)
{
    if (capturer->code != 0)
        FAIL("the capture of mode %d, flags %u, ended with %d", capturer->mode, capturer->flags, capturer->code);
    CHECK_EQ(capturer->nodes, 1);
    CHECK_EQ(gpu_differ(stream, capturer->memory, COUNT, 2), 0);
}
