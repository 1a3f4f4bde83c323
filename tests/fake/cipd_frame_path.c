/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: the driver calls of a frame's path.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/batching.h"
#include "fake/cipd_kit.h"
#include "fake/fake.h"
#include "harness/test.h"

#define FRAMES 50

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);

/* ---- the path of a frame ---- */

/* Calls that wait for the GPU, or may wait for other work; and queries, which readers make. */
static bool waits(const char *function)
{
    return strstr(function, "Synchronize") || strstr(function, "WaitValue") || strstr(function, "Alloc") ||
           strstr(function, "Register") || strstr(function, "Create") || strstr(function, "Destroy") ||
           strstr(function, "Map") || strstr(function, "Free") || strstr(function, "Ipc") ||
           (strstr(function, "StreamQuery") && !driver_batches());
}

TEST(cipd_a_frame_asks_little_of_the_driver)
{
    struct sluice_format format;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array array;
    struct sluice_frame frame;
    struct sl_cu_context *context;
    sluice_writer *writer;
    sluice_reader *reader;
    uint64_t address;

    fake_use();
    format = cipd_format();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_OK(sluice_array_wrap(&array, NULL, (void *)(uintptr_t)address, format.arrays[0].dtype, 3,
                               format.arrays[0].shape, NULL));
    CHECK_OK(cipd_open_writer(&writer, &format, false));
    CHECK_OK(cipd_open_reader(&reader, false, 10 * SLUICE_S));
    for (int i = 0; i < FRAMES + 8; i++) {
        if (i == 8)
            fake_forget();
        CHECK_OK(sluice_writer_send(writer, &array, 1, stream, NULL));
        CHECK_OK(sluice_reader_acquire(reader, stream, 10 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, stream));
    }
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        long calls = fake_calls((enum fake_function)f);
        if (waits(fake_name((enum fake_function)f)) && calls > 0)
            FAIL("%s was called %ld times for %d frames", fake_name((enum fake_function)f), calls, FRAMES);
    }
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), FRAMES); /* the copy */
    CHECK_EQ(fake_calls(FAKE_EventRecord), FRAMES);
    CHECK_GE(fake_calls(FAKE_EventQuery), FRAMES);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64) + fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), 0); /* it is the current one */
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

/* The exact driver calls of a send. With a reader that takes each frame there are no others; without one there is now
 * and then a query whether a frame is finished. */
static void send_calls(bool graph, bool read)
{
    static const struct {
        enum fake_function function;
        long calls;
    } usual[] = {
        { FAKE_CtxGetId, 1 },             /* ours is the current context */
        { FAKE_StreamIsCapturing, 2 },    /* before the copy, and before the event */
        { FAKE_PointerGetAttributes, 1 }, /* whether it is still the same memory */
        { FAKE_EventRecord, 1 },
    };
    long expected[FAKE_FUNCTION_COUNT] = { 0 }, calls[FAKE_FUNCTION_COUNT] = { 0 };
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array array;
    struct sluice_frame frame;
    struct sl_cu_context *context;
    sluice_writer *writer;
    sluice_reader *reader = NULL;
    uint64_t address;

    fake_use();
    struct sluice_format format = cipd_format();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_OK(sluice_array_wrap(&array, NULL, (void *)(uintptr_t)address, format.arrays[0].dtype, 3,
                               format.arrays[0].shape, NULL));
    CHECK_OK(cipd_open_writer_so(&writer, &format, false, graph));
    if (read)
        CHECK_OK(cipd_open_reader(&reader, false, 10 * SLUICE_S));
    for (int i = 0; i < FRAMES + 8; i++) {
        fake_forget();
        if (read) /* a program may ask first whether begin will wait */
            CHECK_OK(sluice_writer_wait(writer, 0));
        CHECK_OK(sluice_writer_send(writer, &array, 1, stream, NULL));
        for (int f = 0; f < FAKE_FUNCTION_COUNT && i >= 8; f++)
            calls[f] += fake_calls((enum fake_function)f);
        CHECK_OK(sluice_stream_synchronize(stream));
        if (read) {
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame));
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        }
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        expected[usual[i].function] = FRAMES * usual[i].calls;
    expected[graph ? FAKE_GraphLaunch : FAKE_MemcpyAsync] = FRAMES;
    if (!read) { /* one of two slots is being written: each send queries the other */
        expected[FAKE_EventQuery] = FRAMES;
        expected[FAKE_CtxGetId] += FRAMES;
        expected[FAKE_ThreadExchangeStreamCaptureMode] = 2 * FRAMES;
    }
    if (driver_batches()) {
        expected[FAKE_StreamQuery] = FRAMES;
        expected[FAKE_StreamIsCapturing] += FRAMES;
        expected[FAKE_ThreadExchangeStreamCaptureMode] += 2 * FRAMES;
    }
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        if (calls[f] != expected[f])
            FAIL("%s was called %ld times for %d frames, not %ld", fake_name((enum fake_function)f), calls[f], FRAMES,
                 expected[f]);
    if (read)
        CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

TEST(cipd_the_calls_of_a_send)
{
    send_calls(false, true);
}
TEST(cipd_the_calls_of_a_send_that_is_a_graph)
{
    send_calls(true, true);
}
TEST(cipd_the_calls_of_a_send_without_a_reader)
{
    send_calls(true, false);
}

/* ---- the writer's own stream ---- */

/* How many streams of the highest priority a writer with these parameters has. */
static long urgent_streams_of(const struct sluice_cipd_writer_params *cipd)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = cipd_format();
    sluice_writer *writer;

    fake_use();
    params.name = cipd_channel();
    params.device = "cuda:0";
    params.format = &format;
    params.cipd = cipd;
    CHECK_EQ(fake_urgent_streams(), 0);
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_GE(fake_things().streams, 1);
    long count = fake_urgent_streams();
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_SOON(fake_things().contexts == 0, 20);
    return count;
}

TEST(cipd_a_writers_own_stream_has_the_highest_priority_unless_it_is_off)
{
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;

    cipd.barrier = SLUICE_CIPD_OFF;
    CHECK_EQ(urgent_streams_of(&cipd), 1);
    cipd.priority = SLUICE_CIPD_ON;
    CHECK_EQ(urgent_streams_of(&cipd), 1);
    cipd.priority = SLUICE_CIPD_OFF;
    CHECK_EQ(urgent_streams_of(&cipd), 0);
    fake_end_contexts();
}

/* A process reads the variable once. */
static void with_variable(const char *value, long urgent)
{
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;

    CHECK(setenv("CUDALINK_LIB_STREAM_PRIO", value, 1) == 0);
    CHECK_OK(sluice_cipd_environment(&cipd, NULL));
    cipd.barrier = SLUICE_CIPD_OFF;
    CHECK_EQ(urgent_streams_of(&cipd), urgent);
    fake_end_contexts();
}

TEST(cipd_a_writers_own_stream_is_high_if_the_variable_says_so)
{
    with_variable("high", 1);
}
TEST(cipd_a_writers_own_stream_is_normal_if_the_variable_says_so)
{
    with_variable("normal", 0);
}

/* ---- drivers that batch work ---- */

TEST(cipd_a_driver_that_batches_work_is_queried_after_each_send)
{
    CHECK(setenv("SLUICE_WITHOUT", "prompt", 1) == 0);
    send_calls(false, true);
}

/* ---- copies ---- */

#define COPIED_IN_TURNS 4 /* after one that was overtaken */

int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);

struct copying {
    struct sluice_format format;
    struct sluice_device device;
    struct sluice_stream sending, releasing;
    struct sluice_array array;
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_frame frame;
    _Atomic uint64_t *gate;
};

static struct copying begin_copying(void)
{
    struct copying copying = { .writer = NULL };
    struct sl_cu_context *context;
    uint64_t address;
    void *word;

    fake_use();
    copying.format = cipd_format();
    CHECK_OK(sluice_device_open(&copying.device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(copying.device, NULL, &copying.sending));
    CHECK_OK(sluice_stream_create(copying.device, NULL, &copying.releasing));
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_EQ(test_cuMemHostAlloc(&word, 8, 0), 0);
    copying.gate = word;
    CHECK_OK(sluice_array_wrap(&copying.array, NULL, (void *)(uintptr_t)address, copying.format.arrays[0].dtype, 3,
                               copying.format.arrays[0].shape, NULL));
    CHECK_OK(cipd_open_writer(&copying.writer, &copying.format, false));
    CHECK_OK(cipd_open_reader(&copying.reader, true, 10 * SLUICE_S));
    return copying;
}

static void end_copying(struct copying *copying)
{
    CHECK_OK(sluice_reader_close(&copying->reader));
    CHECK_OK(sluice_writer_close(&copying->writer));
    CHECK_OK(sluice_device_close(&copying->device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

static void send_finished(struct copying *copying)
{
    CHECK_OK(sluice_writer_send(copying->writer, &copying->array, 1, copying->sending, NULL));
    CHECK_OK(sluice_stream_synchronize(copying->sending));
}

/* Takes a frame through the reader; returns the number of copies. */
static long take_copy(struct copying *copying)
{
    send_finished(copying);
    fake_forget();
    CHECK_OK(sluice_reader_acquire(copying->reader, SLUICE_ON_CPU, 10 * SLUICE_S, &copying->frame));
    CHECK_OK(sluice_reader_release(copying->reader, &copying->frame, SLUICE_ON_CPU));
    return fake_calls(FAKE_MemcpyDtoDAsync);
}

static void *acquire(void *shared)
{
    struct copying *copying = shared;

    CHECK_OK(sluice_reader_acquire(copying->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &copying->frame));
    return NULL;
}

/* A copy waits for a stream of the reader's own, and meanwhile the writer comes round. */
static void overtake(struct copying *copying)
{
    uintptr_t stream;
    pthread_t thread;

    send_finished(copying);
    CHECK_OK(sluice_reader_acquire(copying->reader, SLUICE_ON_CPU, 10 * SLUICE_S, &copying->frame));
    CHECK_OK(sluice_stream_native(copying->releasing, &stream));
    CHECK_EQ(test_cuStreamWaitValue64_v2((struct sl_cu_stream *)stream, (uintptr_t)copying->gate, 1, SL_CU_WAIT_GEQ),
             0);
    CHECK_OK(sluice_reader_release(copying->reader, &copying->frame, copying->releasing));
    fake_forget();
    send_finished(copying);
    CHECK(pthread_create(&thread, NULL, acquire, copying) == 0);
    CHECK_SOON(fake_calls(FAKE_MemcpyDtoDAsync) > 0, 20);
    send_finished(copying);
    send_finished(copying);
    uint64_t newest = copying->frame.sequence + 3;
    atomic_store(copying->gate, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(copying->frame.sequence, newest);
    CHECK_OK(sluice_reader_release(copying->reader, &copying->frame, SLUICE_ON_CPU));
}

static uint64_t overtaken(const struct copying *copying)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_stats(copying->reader, &stats));
    return stats.retries;
}

/* What keeps a time slice of the GPU is work without another use: only once it is known to be needed. */
TEST(cipd_a_copy_is_one_copy_unless_one_was_overtaken)
{
    struct copying copying = begin_copying();

    for (int i = 0; i < FRAMES; i++)
        CHECK_EQ(take_copy(&copying), 1);
    CHECK_EQ(overtaken(&copying), 0);
    overtake(&copying); /* the first of them */
    CHECK_EQ(overtaken(&copying), 1);
    for (int i = 1; i < COPIED_IN_TURNS; i++)
        CHECK_GE(take_copy(&copying), 3);
    for (int i = 0; i < FRAMES; i++)
        CHECK_EQ(take_copy(&copying), 1);
    CHECK_EQ(overtaken(&copying), 1);
    end_copying(&copying);
}
