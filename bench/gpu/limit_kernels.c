/* SPDX-License-Identifier: MIT
 *
 * What kernels cost by the driver alone: launches, a graph of them, recording it again, small host arrays, four streams
 * beside one, loading a cubin.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "kernels.h"
#include "limit.h"
#include "rounds.h"

#define THREADS 256

static struct cu_stream *stream;
static struct cu_function *function;
static uint64_t words, bad;

static void open_kernel(const char *name)
{
    stream = gpu_stream();
    CU(ModuleGetFunction, &function, gpu_module(), name);
    CU(MemAlloc, &words, KERNEL_BYTES);
    CU(MemAlloc, &bad, sizeof bad);
}

static void close_kernel(void)
{
    CU(StreamSynchronize, stream);
    CU(MemFree, bad);
    CU(MemFree, words);
    CU(StreamDestroy, stream);
}

static void settle(uint32_t round)
{
    (void)round;
    spin_for(INT64_C(5000));
    CU(StreamSynchronize, stream);
    CU(StreamSynchronize, NULL);
}

/* ---- launches of a kernel that does nothing, with four arguments ---- */

static void launch_on(struct cu_stream *on, uint32_t value)
{
    uint64_t count = 0;
    CU(LaunchKernel, function, 1, 1, 1, THREADS, 1, 1, 0, on, (void *[]){ &words, &count, &value, &bad }, NULL);
}

static void launch(uint32_t round)
{
    launch_on(job->is_default ? NULL : stream, round);
}

void limit_launch(int index)
{
    (void)index;
    open_kernel("check");
    measure_calls("call", launch, settle);
    close_kernel();
}

/* ---- a graph of them ---- */

static struct cu_exec *exec;

static struct cu_graph *record(uint32_t round)
{
    struct cu_graph *graph;
    CU(StreamBeginCapture, stream, CU_CAPTURE_THREAD_LOCAL);
    for (int i = 0; i < GRAPH_LAUNCHES; i++)
        launch_on(stream, round);
    CU(StreamEndCapture, stream, &graph);
    return graph;
}

static void open_graph(void)
{
    open_kernel("check");
    struct cu_graph *graph = record(0);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    CU(GraphDestroy, graph);
}

static void close_graph(void)
{
    CU(StreamSynchronize, stream);
    CU(GraphExecDestroy, exec);
    close_kernel();
}

static void launch_graph(uint32_t round)
{
    (void)round;
    CU(GraphLaunch, exec, stream);
}

void limit_kernel_graph(int index)
{
    (void)index;
    open_graph();
    measure_calls("call", launch_graph, settle);
    close_graph();
}

static void record_again(uint32_t round)
{
    struct cu_update update;
    struct cu_graph *graph = record(round);
    CU(GraphExecUpdate, exec, graph, &update);
    CU(GraphDestroy, graph);
}

static void launch_recorded(uint32_t round)
{
    launch_graph(round);
    settle(round);
}

void limit_recapture(int index)
{
    (void)index;
    open_graph();
    measure_calls("call", record_again, launch_recorded);
    close_graph();
}

/* ---- a small host array, copied in and out ---- */

static void *host;

static void launch_staged(uint32_t round)
{
    uint64_t memory, count = KERNEL_BYTES / sizeof(uint32_t);
    CU(MemAllocAsync, &memory, KERNEL_BYTES, stream);
    CU(MemcpyHtoDAsync, memory, host, KERNEL_BYTES, stream);
    CU(LaunchKernel, function, (unsigned)count / THREADS, 1, 1, THREADS, 1, 1, 0, stream,
       (void *[]){ &memory, &count, &round }, NULL);
    CU(MemcpyDtoHAsync, host, memory, KERNEL_BYTES, stream);
    CU(MemFreeAsync, memory, stream);
    if (job->from != FROM_PINNED)
        CU(StreamSynchronize, stream);
}

void limit_staged(int index)
{
    (void)index;
    open_kernel("fill");
    host = job->from == FROM_PINNED ? gpu_pinned(KERNEL_BYTES) : malloc(KERNEL_BYTES);
    if (!host)
        die("no memory");
    memset(host, 1, KERNEL_BYTES);
    measure_calls("call", launch_staged, settle);
    close_kernel();
    if (job->from == FROM_PINNED)
        gpu_pinned_free(host, KERNEL_BYTES);
    else
        free(host);
}

/* ---- fork and join: each stream waits for the first one, and it for each ---- */

static struct cu_stream *branches[FORK_STREAMS];
static struct cu_event *events[FORK_STREAMS];

static void order(struct cu_event *event, struct cu_stream *first, struct cu_stream *second)
{
    CU(EventRecord, event, first);
    CU(StreamWaitEvent, second, event, 0);
}

static void fork_and_join(uint32_t round)
{
    (void)round;
    for (int i = 0; i < FORK_STREAMS; i++)
        order(events[i], stream, branches[i]);
    for (int i = 0; i < FORK_STREAMS; i++)
        order(events[i], branches[i], stream);
}

void limit_fork(int index)
{
    (void)index;
    open_kernel("check");
    for (int i = 0; i < FORK_STREAMS; i++) {
        branches[i] = gpu_stream();
        CU(EventCreate, &events[i], CU_EVENT_DISABLE_TIMING);
    }
    measure_calls("call", fork_and_join, settle);
    for (int i = 0; i < FORK_STREAMS; i++) {
        CU(EventDestroy, events[i]);
        CU(StreamDestroy, branches[i]);
    }
    close_kernel();
}

/* ---- loading what was compiled ---- */

static void *cubin;
static struct cu_module *module;

static void load(uint32_t round)
{
    (void)round;
    CU(ModuleLoadData, &module, cubin);
    CU(ModuleGetFunction, &function, module, "fill");
}

static void unload(uint32_t round)
{
    (void)round;
    CU(ModuleUnload, module);
    spin_for(UNLOAD_GAP);
}

void limit_load(int index)
{
    (void)index;
    cubin = nvrtc_cubin(gpu_source, "fill");
    measure_calls("call", load, unload);
    free(cubin);
}
