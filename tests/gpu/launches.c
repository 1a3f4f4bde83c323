/* SPDX-License-Identifier: MIT
 *
 * Launches that do not fit, from several threads, beside a thread that waits, on memory that is freed and comes again.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/fixtures.h"
#include "gpu/kernel_kit.h"

static const char source[] =
    FILL "__global__ void count(unsigned *runs, int by, float unused) { *runs += by; }\n"
         "__global__ void look(const unsigned char *bytes, unsigned *runs) { *runs += *bytes; }\n"
         "__global__ void put(unsigned char *bytes, unsigned char value) { *bytes = value; }\n"
         "__global__ void compare(const unsigned *words, unsigned value, unsigned n, unsigned *wrong)\n"
         "{\n"
         "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "    if (i < n && words[i] != value)\n"
         "        atomicAdd(wrong, 1u);\n"
         "}\n"
         "__global__ void add(unsigned *out, const unsigned *in, unsigned by, unsigned n)\n"
         "{\n"
         "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "    if (i < n)\n"
         "        out[i] = in[i] + by;\n"
         "}\n"
         "__global__ void stand(const volatile unsigned *go)\n"
         "{\n"
         "    while (*go == 0)\n"
         "        ;\n"
         "}\n";

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static uint64_t zeroed(size_t words)
{
    uint64_t memory = gpu_memory(words * 4);

    CU(MemsetD8Async, memory, 0, words * 4, NULL);
    CU(StreamSynchronize, NULL);
    return memory;
}

/* ---- what does not fit ---- */

static int count(struct sluice_kernel kernel, struct sluice_stream stream, struct sluice_argument runs,
                 struct sluice_argument by, uint32_t arguments)
{
    struct sluice_launch launch = { .size = sizeof launch, .over = { 1 } };
    struct sluice_argument given[] = { runs, by, SLUICE_REAL(1), SLUICE_REAL(2) };

    return sluice_launch(kernel, stream, &launch, given, arguments);
}

static void check_runs(const struct kernel_test *test, uint64_t runs, unsigned expected)
{
    CHECK_OK(sluice_device_synchronize(test->device));
    CHECK_EQ(gpu_differ(NULL, runs, 1, expected), 0);
}

/* Neither on the stream that was asked for, nor on the default stream. */
TEST_TIMEOUT(what_does_not_fit_runs_nothing, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    struct sluice_kernel kernel = kernel_of(module, "count");
    struct sluice_stream closed, captures, elsewhere;
    struct sluice_argument runs = SLUICE_MEMORY(at(zeroed(1))), one = SLUICE_INTEGER(1);
    uint64_t counter = (uintptr_t)runs.data;
    struct sluice_graph graph = { 0 };
    struct sluice_device other;
    unsigned word = 0;

    CHECK_OK(sluice_stream_create(test.device, NULL, &closed));
    CHECK_OK(sluice_stream_create(test.device, NULL, &captures));
    CHECK_OK(sluice_device_open(&other, "host"));
    CHECK_OK(sluice_stream_create(other, NULL, &elsewhere));
    struct sluice_stream ended = closed;
    CHECK_OK(sluice_stream_destroy(&closed));

    CHECK_SAYS(count(kernel, test.stream, runs, SLUICE_REAL(1), 3), SLUICE_E_INVALID, "parameter 2 is an int");
    CHECK_SAYS(count(kernel, test.stream, runs, one, 2), SLUICE_E_INVALID, "takes 3 arguments");
    CHECK_SAYS(count(kernel, test.stream, runs, one, 4), SLUICE_E_INVALID, "takes 3 arguments");
    CHECK_RESULT(count(kernel, ended, runs, one, 3), SLUICE_E_CLOSED);
    CHECK_RESULT(count(kernel, (struct sluice_stream){ 0 }, runs, one, 3), SLUICE_E_INVALID);
    CHECK_RESULT(count(kernel, elsewhere, runs, one, 3), SLUICE_E_WRONG_DEVICE);
    CHECK_OK(sluice_capture_begin(captures));
    CHECK_RESULT(count(kernel, captures, SLUICE_HOST(&word, 4), one, 3), SLUICE_E_CAPTURING);
    CHECK_OK(count(kernel, captures, runs, one, 3)); /* the refused one has broken nothing */
    CHECK_OK(sluice_capture_end(captures, &graph));
    check_runs(&test, counter, 0);

    CHECK_OK(count(kernel, test.stream, runs, one, 3));
    check_runs(&test, counter, 1);
    CHECK_OK(sluice_graph_destroy(&graph));
    CHECK_OK(sluice_device_reset(test.device));
    CHECK_RESULT(count(kernel, test.stream, runs, one, 3), SLUICE_E_STALE);
    check_runs(&test, counter, 1);
    CHECK_OK(sluice_device_close(&other));
    CHECK_OK(sluice_stream_create(test.device, NULL, &test.stream));
    kernel_test_end(&test);
}

/* Memory that must not be written would kill the context if it were. */
TEST_TIMEOUT(a_read_only_frame_is_for_const_pointers, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    uint64_t runs = zeroed(1);
    struct sluice_writer_params wp = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params rp = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame begun, frame;
    struct sluice_array array;
    sluice_writer *writer;
    sluice_reader *reader;

    test_dir();
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 64));
    wp.name = rp.name = "launches_frame";
    wp.device = "cuda:0";
    wp.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &wp));
    CHECK_OK(sluice_reader_open(&reader, &rp));
    CHECK_OK(sluice_writer_begin(writer, SLUICE_S, &begun));
    CHECK_OK(KERNEL_RUN(kernel_of(module, "put"), test.stream, 1, SLUICE_FRAME(&begun, NULL), SLUICE_INTEGER(7)));
    CHECK_OK(sluice_writer_commit(writer, &begun, test.stream));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));

    CHECK_SAYS(KERNEL_RUN(kernel_of(module, "put"), test.stream, 1, SLUICE_FRAME(&frame, NULL), SLUICE_INTEGER(9)),
               SLUICE_E_INVALID, "the frame of channel 'launches_frame' is read-only");
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_SAYS(KERNEL_RUN(kernel_of(module, "put"), test.stream, 1, SLUICE_ARRAY(&array), SLUICE_INTEGER(9)),
               SLUICE_E_INVALID, "read-only");
    CHECK_OK(
        KERNEL_RUN(kernel_of(module, "look"), test.stream, 1, SLUICE_FRAME(&frame, NULL), SLUICE_MEMORY(at(runs))));
    CHECK_OK(sluice_reader_release(reader, &frame, test.stream));
    check_runs(&test, runs, 7);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

/* ---- threads ---- */

#define THREADS 8

struct worker {
    const struct kernel_test *test;
    struct sluice_kernel set;
    unsigned first, launches;
    uint64_t words;
    pthread_t thread;
};

/* Launch i writes a number of its own into a word of its own. */
static void *launch_all(void *shared)
{
    const struct worker *worker = shared;
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(worker->test->device, NULL, &stream));
    for (unsigned i = 0; i < worker->launches; i++) {
        unsigned word = worker->first + i;
        CHECK_OK(KERNEL_RUN(worker->set, stream, 1, SLUICE_MEMORY(at(worker->words + (uint64_t)word * 4)),
                            SLUICE_INTEGER(word * 2654435761u), SLUICE_INTEGER(1)));
    }
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_stream_destroy(&stream));
    return NULL;
}

TEST_TIMEOUT(eight_threads_launch_one_kernel_with_their_own_numbers, 120)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    const unsigned each = (unsigned)test_scale(10000), all = THREADS * each;
    uint64_t words = zeroed(all);
    struct worker workers[THREADS];
    unsigned *got = malloc(all * sizeof *got);

    CHECK(got);
    for (unsigned t = 0; t < THREADS; t++) {
        workers[t] = (struct worker){ &test, kernel_of(module, "set"), t * each, each, words, 0 };
        CHECK(pthread_create(&workers[t].thread, NULL, launch_all, &workers[t]) == 0);
    }
    for (unsigned t = 0; t < THREADS; t++)
        CHECK(pthread_join(workers[t].thread, NULL) == 0);
    CU(MemcpyDtoHAsync, got, words, all * sizeof *got, NULL);
    CU(StreamSynchronize, NULL);
    for (unsigned i = 0; i < all; i++)
        CHECK_EQ(got[i], i * 2654435761u);
    free(got);
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

struct waiter {
    struct sluice_stream stream;
    atomic_bool done;
};

static void *wait_for(void *shared)
{
    struct waiter *waiter = shared;

    CHECK_OK(sluice_stream_synchronize(waiter->stream));
    waiter->done = true;
    return NULL;
}

/* The work that one thread waits for is still under way when another has launched its thousand. */
TEST_TIMEOUT(a_thousand_launches_beside_a_thread_that_waits, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    struct sluice_kernel set = kernel_of(module, "set");
    uint64_t words = zeroed(1000);
    struct waiter waiter = { .done = false };
    struct gpu_gate gate = gpu_gate_new();
    pthread_t thread;

    CHECK_OK(sluice_stream_create(test.device, NULL, &waiter.stream));
    gpu_gate_close(&gate, gpu_native(waiter.stream));
    CHECK(pthread_create(&thread, NULL, wait_for, &waiter) == 0);
    test_nap(10 * SLUICE_MS); /* usually it waits by then */
    for (unsigned i = 0; i < 1000; i++)
        CHECK_OK(
            KERNEL_RUN(set, test.stream, 1, SLUICE_MEMORY(at(words + i * 4)), SLUICE_INTEGER(5), SLUICE_INTEGER(1)));
    CHECK_OK(sluice_stream_synchronize(test.stream));
    CHECK(!waiter.done);
    gpu_gate_open(&gate);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(gpu_differ(NULL, words, 1000, 5), 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_stream_destroy(&waiter.stream));
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}

/* ---- host arrays beside a default stream that stands still ---- */

struct copier {
    struct sluice_device device;
    struct sluice_kernel add;
    unsigned *in, *out, seed, runs;
    pthread_t thread;
};

/* Pinned on a real GPU: while a kernel runs on the default stream, NVIDIA's driver (580) copies a few KiB into pageable
 * memory only after it. */
static unsigned *host_words(const struct kernel_test *test)
{
    void *memory = NULL;

    if (gpu_is_fake())
        memory = malloc(4096 * sizeof(unsigned));
    else
        CHECK_OK(sluice_device_host_alloc(test->device, 4096 * sizeof(unsigned), &memory));
    CHECK(memory);
    return memory;
}

static void free_words(void *memory)
{
    if (gpu_is_fake())
        free(memory);
    else
        CHECK_OK(sluice_device_host_free(&memory));
}

static void *copy_all(void *shared)
{
    struct copier *copier = shared;
    unsigned *in = copier->in, *out = copier->out, seed = copier->seed;
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(copier->device, NULL, &stream));
    for (unsigned run = 0; run < copier->runs; run++) {
        unsigned n = 1 + (seed = seed * 1664525 + 1013904223) / 1048576 % 4096;
        for (unsigned i = 0; i < n; i++)
            in[i] = seed + i, out[i] = 0;
        CHECK_OK(KERNEL_RUN(copier->add, stream, n, SLUICE_HOST(out, n * 4), SLUICE_HOST(in, n * 4),
                            SLUICE_INTEGER(run), SLUICE_INTEGER(n)));
        CHECK_OK(sluice_stream_synchronize(stream));
        for (unsigned i = 0; i < n; i++)
            CHECK_EQ(out[i], seed + i + run);
    }
    CHECK_OK(sluice_stream_destroy(&stream));
    return NULL;
}

/* Work on the default stream that does not end before it may: by a gate, or on a real GPU by a kernel, as the driver
 * copies pageable memory on the thread that runs a gate's host function. */
struct standstill {
    struct gpu_gate gate;
    void *go;
};

static void stand_still(struct standstill *still, const struct kernel_test *test, struct sluice_module module)
{
    struct sluice_stream stream;

    still->gate = gpu_gate_new();
    CHECK_OK(sluice_device_host_alloc(test->device, sizeof(unsigned), &still->go));
    *(volatile unsigned *)still->go = 0;
    if (gpu_is_fake()) {
        gpu_gate_close(&still->gate, NULL);
        return;
    }
    CHECK_OK(sluice_stream_default(test->device, &stream));
    CHECK_OK(KERNEL_RUN(kernel_of(module, "stand"), stream, 1, SLUICE_MEMORY(still->go)));
}

static void go_on(struct standstill *still)
{
    *(volatile unsigned *)still->go = 1;
    if (gpu_is_fake())
        gpu_gate_open(&still->gate);
    gpu_gate_end(&still->gate);
    CHECK_OK(sluice_device_host_free(&still->go));
}

/* Whatever was queued on the default stream would not be done before the end. */
TEST_TIMEOUT(host_arrays_of_four_threads_while_the_default_stream_stands_still, 120)
{
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    struct standstill still;
    struct copier copiers[4];

    for (unsigned t = 0; t < 4; t++)
        copiers[t] = (struct copier){ test.device,
                                      kernel_of(module, "add"),
                                      host_words(&test),
                                      host_words(&test),
                                      t,
                                      (unsigned)test_scale(1000),
                                      0 };
    stand_still(&still, &test, module);
    for (unsigned t = 0; t < 4; t++)
        CHECK(pthread_create(&copiers[t].thread, NULL, copy_all, &copiers[t]) == 0);
    for (unsigned t = 0; t < 4; t++)
        CHECK(pthread_join(copiers[t].thread, NULL) == 0);
    go_on(&still);
    for (unsigned t = 0; t < 4; t++) {
        free_words(copiers[t].in);
        free_words(copiers[t].out);
    }
    CHECK_OK(sluice_module_unload(&module));
    gpu_settle();
    kernel_test_end(&test);
}

/* ---- scratch memory that comes again ---- */

/* A slow kernel still reads a block on another stream when it is freed; its successor is filled at once. */
TEST_TIMEOUT(freed_scratch_is_right_until_the_last_kernel_has_read_it, 120)
{
    enum { WORDS = 65536 };
    struct kernel_test test = kernel_test_begin();
    struct sluice_module module = kernel_source(&test, source);
    struct sluice_kernel set = kernel_of(module, "set"), compare = kernel_of(module, "compare");
    struct sluice_argument wrong = SLUICE_MEMORY(at(zeroed(1)));
    struct sluice_stream reads;
    void *block;

    CHECK_OK(sluice_stream_create(test.device, NULL, &reads));
    gpu_spin(gpu_native(reads), 1000); /* loads it */
    for (unsigned run = 0; run < (unsigned)test_scale(500); run++) {
        for (unsigned again = 0; again < 2; again++) {
            unsigned value = run * 2 + again;
            CHECK_OK(sluice_memory_alloc(test.device, test.stream, WORDS * 4, &block));
            CHECK_OK(KERNEL_RUN(set, test.stream, WORDS, SLUICE_MEMORY(block), SLUICE_INTEGER(value),
                                SLUICE_INTEGER(WORDS)));
            CHECK_OK(sluice_stream_wait_stream(reads, test.stream));
            gpu_spin(gpu_native(reads), 50000);
            CHECK_OK(KERNEL_RUN(compare, reads, WORDS, SLUICE_MEMORY(block), SLUICE_INTEGER(value),
                                SLUICE_INTEGER(WORDS), wrong));
            CHECK_OK(sluice_memory_free(test.stream, &block));
        }
    }
    check_runs(&test, (uintptr_t)wrong.data, 0);
    CHECK_OK(sluice_stream_destroy(&reads));
    CHECK_OK(sluice_module_unload(&module));
    kernel_test_end(&test);
}
