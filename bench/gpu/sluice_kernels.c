/* SPDX-License-Identifier: MIT
 *
 * What kernels cost by Sluice: launches, a graph of them, recording it again, small host arrays, parallel sections,
 * loading from the cache. NVRTC compiles the source.
 */
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "kernels.h"

static struct sluice_device device;
static struct sluice_module module;
static struct sluice_kernel kernel;
static uint64_t words, bad;

static void load_kernel(const char *name)
{
    const struct sluice_module_params params = { .size = sizeof params, .name = "bench.cu" };
    int r = sluice_module_load(device, gpu_source, strlen(gpu_source), &params, &module);
    if (r == SLUICE_E_UNSUPPORTED)
        die_missing("%s", sluice_last_error());
    check(r, "a module");
    check(sluice_kernel_get(module, name, &kernel), "a kernel");
}

static void open_kernel(const char *name)
{
    check(sluice_device_open(&device, "cuda:0"), "the device");
    check(sluice_stream_create(device, NULL, &stream), "a stream");
    native = channel_native(stream);
    load_kernel(name);
    CU(MemAlloc, &words, KERNEL_BYTES);
    CU(MemAlloc, &bad, sizeof bad);
}

static void close_kernel(void)
{
    CU(StreamSynchronize, native);
    check(sluice_module_unload(&module), "the module cannot be unloaded");
    CU(MemFree, bad);
    CU(MemFree, words);
    check(sluice_device_close(&device), "the device cannot be closed");
}

static void settle(uint32_t round)
{
    (void)round;
    spin_for(INT64_C(5000));
    CU(StreamSynchronize, native);
    CU(StreamSynchronize, NULL);
}

static void *address(uint64_t of)
{
    return (void *)(uintptr_t)of;
}

/* ---- launches of a kernel that does nothing, with four arguments ---- */

static void launch(uint32_t round)
{
    const struct sluice_launch one = { .size = sizeof one, .grid = { 1 }, .block = { 256 } };
    const struct sluice_argument arguments[] = { SLUICE_MEMORY(address(words)), SLUICE_INTEGER(0),
                                                 SLUICE_INTEGER(round), SLUICE_MEMORY(address(bad)) };
    check(sluice_launch(kernel, stream, &one, arguments, 4), "a launch");
}

void sluice_launches(int index)
{
    (void)index;
    open_kernel("check");
    if (job->is_default)
        check(sluice_stream_default(device, &stream), "the default stream");
    measure_calls("call", launch, settle);
    close_kernel();
}

/* ---- a graph of them ---- */

static struct sluice_graph graph;

static void record(uint32_t round)
{
    check(sluice_capture_begin(stream), "a capture");
    for (int i = 0; i < GRAPH_LAUNCHES; i++)
        launch(round);
    check(sluice_capture_end(stream, &graph), "the end of a capture");
}

static void open_graph(void)
{
    open_kernel("check");
    record(0);
}

static void close_graph(void)
{
    CU(StreamSynchronize, native);
    check(sluice_graph_destroy(&graph), "the graph cannot be destroyed");
    close_kernel();
}

static void launch_graph(uint32_t round)
{
    (void)round;
    check(sluice_graph_launch(graph, stream), "a graph");
}

void sluice_graphs(int index)
{
    (void)index;
    open_graph();
    measure_calls("call", launch_graph, settle);
    close_graph();
}

static void launch_recorded(uint32_t round)
{
    launch_graph(round);
    settle(round);
}

void sluice_recapture(int index)
{
    struct sluice_graph_info info = { .size = sizeof info };
    (void)index;
    open_graph();
    measure_calls("call", record, launch_recorded);
    check(sluice_graph_info(graph, &info), "what the graph is");
    value("rebuilds", info.rebuilds);
    close_graph();
}

/* ---- a small host array, copied in and out ---- */

static void *host;

static void launch_staged(uint32_t round)
{
    const struct sluice_launch all = { .size = sizeof all, .over = { KERNEL_BYTES / sizeof(uint32_t) } };
    const struct sluice_argument arguments[] = { SLUICE_HOST(host, KERNEL_BYTES),
                                                 SLUICE_INTEGER(KERNEL_BYTES / sizeof(uint32_t)),
                                                 SLUICE_INTEGER(round) };
    check(sluice_launch(kernel, stream, &all, arguments, 3), "a launch");
}

void sluice_staged(int index)
{
    (void)index;
    open_kernel("fill");
    host = job->from == FROM_PINNED ? gpu_pinned(KERNEL_BYTES) : malloc(KERNEL_BYTES);
    if (!host)
        die("no memory");
    memset(host, 1, KERNEL_BYTES);
    measure_calls("call", launch_staged, settle);
    CU(StreamSynchronize, native);
    if (job->from == FROM_PINNED)
        gpu_pinned_free(host, KERNEL_BYTES);
    else
        free(host);
    close_kernel();
}

/* ---- fork and join ---- */

static void fork_and_join(uint32_t round)
{
    struct sluice_stream branches[FORK_STREAMS];
    (void)round;
    check(sluice_fork(stream, FORK_STREAMS, branches), "a fork");
    check(sluice_join(stream, FORK_STREAMS, branches), "a join");
}

void sluice_forks(int index)
{
    (void)index;
    open_kernel("check");
    measure_calls("call", fork_and_join, settle);
    close_kernel();
}

/* ---- loading from the cache ---- */

static void load(uint32_t round)
{
    (void)round;
    load_kernel("fill");
}

static void unload(uint32_t round)
{
    (void)round;
    check(sluice_module_unload(&module), "the module cannot be unloaded");
    spin_for(UNLOAD_GAP); /* until the background has done it */
}

void sluice_load(int index)
{
    (void)index;
    open_kernel("fill"); /* compiled, if it was not before */
    unload(0);
    measure_calls("call", load, unload);
    load_kernel("fill");
    close_kernel();
}
