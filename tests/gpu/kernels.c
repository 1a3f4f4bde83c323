/* SPDX-License-Identifier: MIT
 *
 * Kernels from source: compiled, launched, captured, unloaded.
 */
#include "gpu/kernel_kit.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/capture_thread.h"

static uint64_t copied(const void *from, size_t size)
{
    uint64_t to = gpu_memory(size);

    CU(MemcpyHtoDAsync, to, from, size, NULL);
    CU(StreamSynchronize, NULL);
    return to;
}

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void saxpy(const struct kernel_test *test, struct sluice_kernel kernel, unsigned n)
{
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), *got = malloc(n * sizeof *got), a = 1.1f;

    CHECK(x && y && got);
    for (unsigned i = 0; i < n; i++) {
        x[i] = (float)i / 3;
        y[i] = (float)(n - i) / 7;
    }
    uint64_t on_gpu = copied(x, n * sizeof *x), result = copied(y, n * sizeof *y);
    CHECK_OK(KERNEL_RUN(kernel, test->stream, n, SLUICE_MEMORY(at(result)), SLUICE_MEMORY(at(on_gpu)), SLUICE_VALUE(a),
                        SLUICE_VALUE(n)));
    CHECK_OK(sluice_stream_synchronize(test->stream));
    CU(MemcpyDtoHAsync, got, result, n * sizeof *got, NULL);
    CU(StreamSynchronize, NULL);
    for (unsigned i = 0; i < n; i++) {
        volatile float product = a * x[i]; /* rounded before the sum */
        y[i] = product + y[i];
    }
    CHECK_MEM(got, y, n * sizeof *got);
    free(x);
    free(y);
    free(got);
}

TEST_TIMEOUT(saxpy_from_source, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, SAXPY);
    struct sluice_kernel kernel = kernel_of(module, "saxpy");
    struct sluice_kernel_info info = { .size = sizeof info };

    CHECK_EQ(kernel_of(module, "saxpy").id, kernel.id);
    CHECK_OK(sluice_kernel_info(kernel, &info));
    CHECK_EQ(info.parameter_count, 4);
    CHECK_GE(info.most_threads, 256);
    CHECK_GE(info.registers, 1);
    CHECK_EQ(info.shared, 0);
    saxpy(&test, kernel, 1);
    saxpy(&test, kernel, 1024);
    saxpy(&test, kernel, 1000 * 1000);
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

TEST_TIMEOUT(barriers_and_shared_memory, 60)
{
    static const char text[] = "__global__ void sum(const unsigned *from, unsigned *to)\n"
                               "{\n"
                               "    __shared__ unsigned part[256];\n"
                               "    unsigned i = threadIdx.x;\n"
                               "    part[i] = from[blockIdx.x * 256 + i];\n"
                               "    for (unsigned half = 128; half > 0; half /= 2) {\n"
                               "        __syncthreads();\n"
                               "        if (i < half)\n"
                               "            part[i] += part[i + half];\n"
                               "    }\n"
                               "    if (i == 0)\n"
                               "        to[blockIdx.x] = part[0];\n"
                               "}\n";
    enum { BLOCKS = 16, COUNT = 256 * BLOCKS };
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, text);
    unsigned words[COUNT], sums[BLOCKS];

    for (unsigned i = 0; i < COUNT; i++)
        words[i] = i * i;
    uint64_t from = copied(words, sizeof words), to = gpu_memory(sizeof sums);
    CHECK_OK(KERNEL_RUN(kernel_of(module, "sum"), test.stream, COUNT, SLUICE_MEMORY(at(from)), SLUICE_MEMORY(at(to))));
    CHECK_OK(sluice_stream_synchronize(test.stream));
    CU(MemcpyDtoHAsync, sums, to, sizeof sums, NULL);
    CU(StreamSynchronize, NULL);
    for (unsigned block = 0; block < BLOCKS; block++) {
        unsigned sum = 0;
        for (unsigned i = 0; i < 256; i++)
            sum += words[block * 256 + i];
        CHECK_EQ(sums[block], sum);
    }
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

TEST_TIMEOUT(an_error_in_line_2, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = { 42 };
    char log[4000];

    CHECK_RESULT(kernel_source_load(&test,
                                    "__global__ void blur(float *p) {\n"
                                    "    *p = gain;\n"
                                    "    *p += loss;\n"
                                    "}\n",
                                    &module),
                 SLUICE_E_COMPILE);
    CHECK_EQ(strncmp(sluice_last_error(), "fx.cu(2): error: ", 17), 0);
    CHECK_HAS(sluice_last_error(), "identifier \"gain\" is undefined");
    CHECK_EQ(module.id, 42);
    CHECK_GE(sluice_compile_log(log, sizeof log), 40);
    CHECK_HAS(log, "fx.cu(3): error: ");
    CHECK_HAS(log, "loss");
    module = kernel_source(&test, FILL);
    CHECK_RESULT(sluice_kernel_get(module, "blur", &(struct sluice_kernel){ 0 }), SLUICE_E_NOT_FOUND);
    CHECK_HAS(sluice_last_error(), "'set'");
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

TEST_TIMEOUT(options_and_kernels_that_are_asked_for, 60)
{
    static const char text[] = "__global__ void set(unsigned *word) { *word = VALUE; }\n";
    const char *options[] = { "-DVALUE=77", "--gpu-architecture=sm_50" };
    struct kernel_test test = kernel_test_begin();
    struct sluice_module_params params = { .size = sizeof params, .options = options, .option_count = 1 };
    struct sluice_module module = { 0 };
    unsigned word = 0;

    CHECK_OK(sluice_module_load(test.device, text, strlen(text), &params, &module));
    uint64_t memory = copied(&word, sizeof word);
    CHECK_OK(KERNEL_RUN(kernel_of(module, "set"), test.stream, 1, SLUICE_MEMORY(at(memory))));
    CHECK_OK(sluice_stream_synchronize(test.stream));
    CHECK_EQ(gpu_differ(NULL, memory, 1, 77), 0);
    CHECK_OK(sluice_module_unload(&module));
    params.option_count = 2;
    CHECK_SAYS(sluice_module_load(test.device, text, strlen(text), &params, &module), SLUICE_E_INVALID,
               "names an architecture");
    params.option_count = 1;
    params.kernels = (const char *[]){ "set", "put" };
    params.kernel_count = 2;
    CHECK_SAYS(sluice_module_load(test.device, text, strlen(text), &params, &module), SLUICE_E_INVALID,
               "has no kernel 'put'");
    kernel_test_end(&test);
}

TEST_TIMEOUT(kernels_that_the_preprocessor_leaves_out, 60)
{
    static const char text[] = "#ifdef WIDE\n__global__ void wide(int *p) { *p = 1; }\nnamespace fx {\n"
                               "__global__ void deep(float *p, int n) { *p = n; }\n}\n#endif\n" FILL;
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, text);
    struct sluice_kernel kernel = { 0 };
    unsigned word = 0;
    uint64_t memory = copied(&word, sizeof word);

    CHECK_SAYS(sluice_kernel_get(module, "fx::deep", &kernel), SLUICE_E_NOT_FOUND, "it has 'set'");
    CHECK_OK(KERNEL_RUN(kernel_of(module, "set"), test.stream, 1, SLUICE_MEMORY(at(memory)), SLUICE_INTEGER(77),
                        SLUICE_INTEGER(1)));
    CHECK_OK(sluice_stream_synchronize(test.stream));
    CHECK_EQ(gpu_differ(NULL, memory, 1, 77), 0);
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

/* Work that is queued runs after its module has gone. */
TEST_TIMEOUT(unloading_while_work_is_queued, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, FILL);
    struct sluice_kernel kernel = kernel_of(module, "set");
    unsigned value = 5, n = 1000;
    uint64_t memory = gpu_memory(n * 4);
    struct gpu_gate gate = gpu_gate_new();

    gpu_gate_close(&gate, gpu_native(test.stream));
    CHECK_OK(KERNEL_RUN(kernel, test.stream, n, SLUICE_MEMORY(at(memory)), SLUICE_VALUE(value), SLUICE_VALUE(n)));
    CHECK_OK(sluice_module_unload(&module));
    CHECK_RESULT(KERNEL_RUN(kernel, test.stream, n, SLUICE_MEMORY(at(memory)), SLUICE_VALUE(value), SLUICE_VALUE(n)),
                 SLUICE_E_CLOSED);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(test.stream));
    CHECK_EQ(gpu_differ(NULL, memory, n, 5), 0);
    gpu_settle();
    gpu_gate_end(&gate);
    kernel_test_end(&test);
}

/* Memory comes and goes in stream order, with the GPU's pools and without. */
static void scratch(const struct kernel_test *test, struct sluice_kernel kernel)
{
    unsigned value = 9, n = 4096, *got = malloc(n * 4);
    void *memory;

    CHECK(got);
    CHECK_OK(sluice_memory_alloc(test->device, test->stream, n * 4, &memory));
    CHECK_OK(KERNEL_RUN(kernel, test->stream, n, SLUICE_MEMORY(memory), SLUICE_VALUE(value), SLUICE_VALUE(n)));
    CU(MemcpyDtoHAsync, got, (uintptr_t)memory, n * 4, gpu_native(test->stream));
    CHECK_OK(sluice_memory_free(test->stream, &memory));
    CHECK_OK(sluice_stream_synchronize(test->stream));
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(got[i], 9);
    memset(got, 0, n * 4);
    CHECK_OK(KERNEL_RUN(kernel, test->stream, n, SLUICE_HOST(got, n * 4), SLUICE_VALUE(value), SLUICE_VALUE(n)));
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(got[i], 9);
    free(got);
}

TEST_TIMEOUT(scratch_memory_and_host_arrays, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, FILL);

    for (int i = 0; i < 3; i++)
        scratch(&test, kernel_of(module, "set"));
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

struct hosted {
    struct kernel_test *test;
    struct sluice_kernel kernel;
    unsigned *words, n;
    atomic_bool begun, done;
};

static void *launch_with_host_array(void *shared)
{
    struct hosted *hosted = shared;
    unsigned value = 6;

    hosted->begun = true;
    CHECK_OK(KERNEL_RUN(hosted->kernel, hosted->test->stream, hosted->n, SLUICE_HOST(hosted->words, hosted->n * 4),
                        SLUICE_VALUE(value), SLUICE_VALUE(hosted->n)));
    hosted->done = true;
    return NULL;
}

/* A thread that waits for its host array, in the driver, holds up nobody. */
static void beside(struct kernel_test *test, struct sluice_kernel kernel, unsigned n)
{
    struct hosted hosted = { .test = test, .kernel = kernel, .words = calloc(n, 4), .n = n };
    uint64_t memory = gpu_memory(4000);
    unsigned value = 7, few = 1000;
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream other;
    pthread_t thread;

    CHECK(hosted.words);
    CHECK_OK(sluice_stream_create(test->device, NULL, &other));
    gpu_gate_close(&gate, gpu_native(test->stream));
    CHECK(pthread_create(&thread, NULL, launch_with_host_array, &hosted) == 0);
    CHECK_SOON(hosted.begun, 5);
    test_nap(20 * SLUICE_MS); /* it is in the driver, probably */
    for (int i = 0; i < 100; i++)
        CHECK_OK(KERNEL_RUN(kernel, other, few, SLUICE_MEMORY(at(memory)), SLUICE_VALUE(value), SLUICE_VALUE(few)));
    CHECK_OK(sluice_stream_synchronize(other));
    CHECK(!hosted.done);
    gpu_gate_open(&gate);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(gpu_differ(NULL, memory, few, 7), 0);
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(hosted.words[i], 6);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_stream_destroy(&other));
    free(hosted.words);
}

TEST_TIMEOUT(launches_beside_a_host_array, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, FILL);
    struct sluice_kernel kernel = kernel_of(module, "set");

    beside(&test, kernel, 1000);
    beside(&test, kernel, 1 << 20);
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

/* ---- captures ---- */

TEST_TIMEOUT(launches_become_nodes_of_anybodys_graph, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, FILL);
    struct sluice_kernel kernel = kernel_of(module, "set");
    unsigned n = 1000, values[] = { 3, 4 };
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    uint64_t memory = gpu_memory(n * 4);
    struct sluice_stream stream;
    struct sl_cu_graph *graph;
    struct sl_cu_exec *exec;
    size_t nodes, edges;

    CHECK_OK(sluice_stream_wrap(test.device, (uintptr_t)theirs, NULL, NULL, &stream));
    CU(MemsetD8Async, memory, 0, n * 4, theirs);
    CU(StreamSynchronize, theirs);
    CU(StreamBeginCapture, theirs, CAPTURE_GLOBAL);
    for (int i = 0; i < 2; i++)
        CHECK_OK(KERNEL_RUN(kernel, stream, n, SLUICE_MEMORY(at(memory)), SLUICE_VALUE(values[i]), SLUICE_VALUE(n)));
    CU(StreamEndCapture, theirs, &graph);
    CHECK_EQ(gpu_differ(NULL, memory, n, 0), 0); /* nothing ran */
    CU(GraphGetNodes, graph, NULL, &nodes);
    CU(GraphGetEdges, graph, NULL, NULL, &edges);
    CHECK_EQ(nodes, 2);
    CHECK_EQ(edges, 1);
    CU(GraphInstantiateWithFlags, &exec, graph, 0);
    CU(GraphLaunch, exec, theirs);
    CU(StreamSynchronize, theirs);
    CHECK_EQ(gpu_differ(NULL, memory, n, 4), 0);
    CU(GraphExecDestroy, exec);
    CU(GraphDestroy, graph);
    CHECK_OK(sluice_stream_destroy(&stream));
    CU(StreamDestroy, theirs);
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

/* Loads, first launches and unloads. */
static void live(const struct kernel_test *test)
{
    unsigned value = 5, n = 1000;
    struct sluice_module module = kernel_source(test, FILL);
    struct sluice_kernel kernel = kernel_of(module, "set");
    void *memory;

    CHECK_OK(sluice_memory_alloc(test->device, test->stream, n * 4, &memory));
    CHECK_OK(KERNEL_RUN(kernel, test->stream, n, SLUICE_MEMORY(memory), SLUICE_VALUE(value), SLUICE_VALUE(n)));
    CHECK_OK(sluice_memory_free(test->stream, &memory));
    CHECK_OK(sluice_stream_synchronize(test->stream));
    CHECK_OK(sluice_module_unload(&module));
    gpu_settle();
}

TEST_TIMEOUT(captures_of_others_do_not_mind_kernels, 120)
{
    static const int modes[] = { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
    struct kernel_test test = kernel_test_begin();

    for (int i = 0; i < 6; i++) {
        struct capture_thread capturer;
        capture_thread_begin(&capturer, modes[i % 3], i < 3 ? SL_CU_STREAM_NON_BLOCKING : 0);
        live(&test);
        capture_thread_end(&capturer);
        capture_thread_check(&capturer, NULL);
    }
    kernel_test_end(&test);
}

/* ---- what kills the context ---- */

TEST_TIMEOUT(a_kernel_that_stores_to_nowhere, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, FILL);
    unsigned value = 5, n = 1;

    CHECK_OK(KERNEL_RUN(kernel_of(module, "set"), test.stream, n, SLUICE_MEMORY(at(64)), SLUICE_VALUE(value),
                        SLUICE_VALUE(n)));
    CHECK_SAYS(sluice_stream_synchronize(test.stream), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    CHECK_RESULT(sluice_module_load(test.device, FILL, strlen(FILL), NULL, &module), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_device_close(&test.device), SLUICE_E_DRIVER);
    gpu_settle();
    if (gpu_is_fake())
        gpu_end();
}
