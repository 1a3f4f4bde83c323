/* SPDX-License-Identifier: MIT
 *
 * SLUICE_CHECK=streams on a GPU, where work is still under way when a launch returns.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/channel.h"
#include "gpu/kernel_kit.h"

#define WORDS 65536

static const char source[] =
    FILL "__global__ void compare(const unsigned *words, unsigned value, unsigned n, unsigned *wrong)\n"
         "{\n"
         "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "    if (i < n && words[i] != value)\n"
         "        atomicAdd(wrong, 1u);\n"
         "}\n";

struct fixture {
    struct kernel_test test;
    struct sluice_stream other;
    struct sluice_module module;
    struct sluice_kernel set, compare;
    struct sluice_argument words, wrong;
    uint64_t wrong_at;
};

static struct sluice_argument memory(uint64_t address, uint64_t bytes)
{
    struct sluice_argument argument = SLUICE_MEMORY((void *)(uintptr_t)address);

    argument.bytes = bytes;
    return argument;
}

static struct fixture begin(void)
{
    struct fixture f;
    unsigned none = 0;

    CHECK_EQ(setenv("SLUICE_CHECK", "streams", 1), 0);
    f.test = kernel_test_begin();
    CHECK_OK(sluice_stream_create(f.test.device, NULL, &f.other));
    f.module = kernel_source(&f.test, source);
    f.set = kernel_of(f.module, "set");
    f.compare = kernel_of(f.module, "compare");
    f.words = memory(gpu_memory(WORDS * sizeof(unsigned)), WORDS * sizeof(unsigned));
    f.wrong_at = gpu_memory(sizeof none);
    f.wrong = memory(f.wrong_at, sizeof none);
    CU(MemcpyHtoDAsync, f.wrong_at, &none, sizeof none, NULL);
    CU(StreamSynchronize, NULL);
    return f;
}

static void end(struct fixture *f)
{
    CHECK_OK(sluice_stream_destroy(&f->other));
    CHECK_OK(sluice_module_unload(&f->module));
    kernel_test_end(&f->test);
}

static int set(const struct fixture *f, struct sluice_stream stream, struct sluice_argument words, int value)
{
    return KERNEL_RUN(f->set, stream, WORDS, words, SLUICE_INTEGER(value), SLUICE_INTEGER(WORDS));
}

static int compare(const struct fixture *f, struct sluice_stream stream, struct sluice_argument words, int value)
{
    return KERNEL_RUN(f->compare, stream, WORDS, words, SLUICE_INTEGER(value), SLUICE_INTEGER(WORDS), f->wrong);
}

static unsigned count_wrong(const struct fixture *f)
{
    unsigned wrong;

    CHECK_OK(sluice_device_synchronize(f->test.device));
    CU(MemcpyDtoHAsync, &wrong, f->wrong_at, sizeof wrong, NULL);
    CU(StreamSynchronize, NULL);
    return wrong;
}

TEST_TIMEOUT(without_an_event_both_kernels_are_named_with_it_200_of_200, 60)
{
    struct fixture f = begin();
    struct sluice_stream producer = f.test.stream, consumer = f.other;
    struct sluice_event written, seen;
    char expected[400];

    CHECK_OK(sluice_event_create(f.test.device, 0, &written));
    CHECK_OK(sluice_event_create(f.test.device, 0, &seen));
    CHECK_OK(set(&f, producer, f.words, 1));
    CHECK_RESULT(compare(&f, consumer, f.words, 1), SLUICE_E_ORDER);
    snprintf(
        expected, sizeof expected,
        "kernel 'compare' reads the memory at %p on stream 0x%llx, while kernel 'set' may still write it on stream "
        "0x%llx: nothing orders them.",
        f.words.data, (unsigned long long)consumer.id, (unsigned long long)producer.id);
    CHECK_HAS(sluice_last_error(), expected);
    CHECK_OK(sluice_event_record(seen, consumer));
    for (int i = 0; i < 200; i++) {
        CHECK_OK(sluice_stream_wait_event(producer, seen));
        CHECK_OK(set(&f, producer, f.words, i));
        CHECK_OK(sluice_event_record(written, producer));
        CHECK_OK(sluice_stream_wait_event(consumer, written));
        CHECK_OK(compare(&f, consumer, f.words, i));
        CHECK_OK(sluice_event_record(seen, consumer));
    }
    CHECK_EQ(count_wrong(&f), 0);
    CHECK_OK(sluice_event_destroy(&written));
    CHECK_OK(sluice_event_destroy(&seen));
    end(&f);
}

TEST_TIMEOUT(the_default_stream_waits_for_blocking_streams_alone, 60)
{
    struct fixture f = begin();
    struct sluice_stream_params params = { .size = sizeof params, .blocking = 1 };
    struct sluice_stream blocking, normal;

    CHECK_OK(sluice_stream_create(f.test.device, &params, &blocking));
    CHECK_OK(sluice_stream_default(f.test.device, &normal));
    CHECK_OK(set(&f, blocking, f.words, 1));
    CHECK_OK(compare(&f, normal, f.words, 1));
    CHECK_OK(set(&f, blocking, f.words, 2));
    CHECK_RESULT(set(&f, f.other, f.words, 3), SLUICE_E_ORDER);
    CHECK_OK(sluice_stream_synchronize(blocking));
    CHECK_OK(set(&f, f.other, f.words, 3));
    CHECK_RESULT(compare(&f, normal, f.words, 3), SLUICE_E_ORDER);
    CHECK_EQ(count_wrong(&f), 0);
    CHECK_OK(sluice_stream_destroy(&blocking));
    end(&f);
}

TEST_TIMEOUT(host_arrays_that_are_pinned_wait_for_nothing, 60)
{
    struct fixture f = begin();
    struct sluice_argument host[2];
    unsigned *pageable = calloc(WORDS, sizeof *pageable);
    void *pinned;

    CHECK(pageable != NULL);
    CHECK_OK(sluice_device_host_alloc(f.test.device, WORDS * sizeof *pageable, &pinned));
    memset(pinned, 0, WORDS * sizeof *pageable);
    host[0] = SLUICE_HOST(pinned, WORDS * sizeof *pageable);
    host[1] = SLUICE_HOST(pageable, WORDS * sizeof *pageable);
    CHECK_OK(set(&f, f.test.stream, f.words, 0));
    CHECK_OK(compare(&f, f.test.stream, host[0], 0));
    CHECK_OK(compare(&f, f.test.stream, f.words, 0));
    CHECK_RESULT(set(&f, f.other, f.words, 5), SLUICE_E_ORDER);
    CHECK_OK(set(&f, f.other, host[0], 0)); /* on another stream: its own copy */
    CHECK_OK(compare(&f, f.test.stream, host[1], 0));
    CHECK_OK(set(&f, f.other, f.words, 5)); /* the call before has waited */
    CHECK_EQ(count_wrong(&f), 0);
    CHECK_OK(sluice_device_host_free(&pinned));
    free(pageable);
    end(&f);
}

TEST_TIMEOUT(a_frame_that_is_acquired_ahead_is_ready_on_its_stream_alone, 60)
{
    struct fixture f = begin();
    struct gpu_gate gate = gpu_gate_new();
    struct channel_fixture channel = channel_fixture();
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);
    struct sluice_stream on = f.test.stream;
    struct sluice_frame frame;

    channel_greet(&channel, reader);
    for (uint32_t i = 1; i <= 3; i++) {
        channel_commit_behind(&gate, channel.writer, channel.writing, 6);
        CHECK_OK(sluice_reader_acquire(reader, on, 20 * SLUICE_S, &frame));
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        CHECK_SAYS(compare(&f, f.other, SLUICE_FRAME(&frame, NULL), 6), SLUICE_E_ORDER, "of 'cam' on stream");
        CHECK_HAS(sluice_last_error(), "while it is ready only on stream");
        CHECK_OK(compare(&f, on, SLUICE_FRAME(&frame, NULL), 6));
        CHECK_OK(sluice_stream_wait_stream(f.other, on));
        CHECK_OK(compare(&f, f.other, SLUICE_FRAME(&frame, NULL), 6));
        gpu_gate_open_later(&gate);
        CHECK_OK(sluice_reader_release(reader, &frame, f.other));
        CHECK_OK(sluice_device_synchronize(f.test.device));
        gpu_gate_join(&gate);
    }
    CHECK_EQ(count_wrong(&f), 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&channel);
    end(&f);
}
