/* SPDX-License-Identifier: MIT
 *
 * The programs of docs/graphs.md, on a GPU and on host, with kernels from source.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "gpu/graph_counts.h"
#include "gpu/kernel_kit.h"

#define WORDS 1000

static struct sluice_device device;
static struct sluice_module module;
static struct sluice_kernel set, add;
static unsigned *memory;

struct piece {
    struct sluice_kernel *kernel;
    unsigned first, value;
};
static const struct piece left = { &set, 0, 3 }, right = { &set, WORDS, 4 }, both = { &add, 0, 10 };

static void work(struct piece piece, struct sluice_stream stream)
{
    unsigned count = piece.kernel == &add ? 2 * WORDS : WORDS;

    CHECK_OK(KERNEL_RUN(*piece.kernel, stream, count, SLUICE_MEMORY(memory + piece.first), SLUICE_VALUE(piece.value),
                        SLUICE_VALUE(count)));
}

/* After the stream's work. */
static void check_words(struct sluice_stream stream, unsigned of_left, unsigned of_right)
{
    char name[64];
    unsigned words[2 * WORDS];

    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_device_name(device, name, sizeof name));
    if (strcmp(name, "host") == 0) {
        memcpy(words, memory, sizeof words);
    } else {
        CU(MemcpyDtoHAsync, words, (uintptr_t)memory, sizeof words, gpu_native(stream));
        CU(StreamSynchronize, gpu_native(stream));
    }
    for (unsigned i = 0; i < WORDS; i++) {
        CHECK_EQ(words[i], of_left);
        CHECK_EQ(words[WORDS + i], of_right);
    }
}

static void fork_and_join(struct sluice_stream stream)
{
    struct sluice_stream branches[2];
    CHECK_OK(sluice_fork(stream, 2, branches)); /* after what `stream` has to do */
    work(left, branches[0]);
    work(right, branches[1]);                   /* at the same time */
    CHECK_OK(sluice_join(stream, 2, branches)); /* `stream` goes on after both */
    work(both, stream);
}

static void capture_twice(struct sluice_stream stream, struct sluice_graph *kept)
{
    struct sluice_graph graph = { 0 };

    CHECK_OK(sluice_capture_begin(stream));
    work(left, stream); /* recorded, not run */
    work(right, stream);
    CHECK_OK(sluice_capture_end(stream, &graph));
    CHECK_OK(sluice_graph_launch(graph, stream));
    check_words(stream, 3, 4);
    check_graph(graph, 2, 1, 0, 0);

    CHECK_OK(sluice_capture_begin(stream));
    work(right, stream);
    work(left, stream);
    CHECK_OK(sluice_capture_end(stream, &graph)); /* updated: launches from now on do this */
    check_graph(graph, 2, 1, 1, 0);
    *kept = graph;
}

static void play(struct sluice_stream stream)
{
    static const char text[] = FILL "__global__ void add(unsigned *words, unsigned value, unsigned n)\n"
                                    "{\n"
                                    "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                                    "    if (i < n)\n"
                                    "        words[i] += value;\n"
                                    "}\n";
    struct kernel_test here = { .device = device, .stream = stream };
    struct sluice_graph graph = { 0 };

    module = kernel_source(&here, text);
    set = kernel_of(module, "set");
    add = kernel_of(module, "add");
    capture_twice(stream, &graph);

    CHECK_OK(sluice_capture_begin(stream)); /* other work of another structure */
    fork_and_join(stream);
    CHECK_OK(sluice_capture_end(stream, &graph));
    check_graph(graph, 3, 2, 1, 1);
    CHECK_OK(sluice_module_unload(&module)); /* the graph keeps what it uses */
    gpu_settle();
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_graph_launch(graph, stream));
    check_words(stream, 13, 14);
    CHECK_OK(sluice_graph_destroy(&graph));
}

TEST_TIMEOUT(graphs_of_kernels_on_a_gpu, 60)
{
    struct kernel_test test = kernel_test_begin();

    device = test.device;
    memory = (unsigned *)(uintptr_t)gpu_memory(2 * WORDS * sizeof *memory);
    CU(MemsetD8Async, (uintptr_t)memory, 0, 2 * WORDS * sizeof *memory, gpu_native(test.stream));
    play(test.stream);
    kernel_test_end(&test);
}

TEST_TIMEOUT(graphs_of_kernels_on_host, 60)
{
    struct sluice_stream stream;

    CHECK(setenv("SLUICE_CACHE", "off", 1) == 0);
    CHECK_OK(sluice_device_open(&device, "host"));
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK((memory = calloc(2 * WORDS, sizeof *memory)) != NULL);
    play(stream);
    CHECK_OK(sluice_device_close(&device));
    free(memory);
}
