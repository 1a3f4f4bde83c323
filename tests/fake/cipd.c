/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol: what the way of a frame asks of the driver; and each call of the driver fails in its
 * turn, on the writer's side and on a reader's in another process.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "cipd/cipd.h"
#include "device/device.h"
#include "fake/fake.h"
#include "harness/test.h"
#include "os/os.h"

#define FRAMES 50

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);

static char name[64];

static const char *channel(void)
{
    if (!name[0])
        snprintf(name, sizeof name, "cipd:sluice-test- fake %d", (int)getpid());
    return name;
}

static struct sluice_format format_of(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 3, (int64_t[]){ 8, 16, 4 }));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

static int open_writer_so(sluice_writer **writer, const struct sluice_format *format, bool block, bool graph)
{
    struct sluice_cipd_writer_params cipd = SLUICE_CIPD_WRITER_PARAMS_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    cipd.barrier = SLUICE_CIPD_OFF;
    cipd.block = block;
    cipd.close_grace_ns = -1;
    params.name = channel();
    params.device = "cuda:0";
    params.format = format;
    params.slots = 2;
    cipd.graph = graph ? SLUICE_CIPD_ON : SLUICE_CIPD_OFF;
    params.cipd = &cipd;
    return sluice_writer_open(writer, &params);
}

static int open_writer(sluice_writer **writer, const struct sluice_format *format, bool block)
{
    return open_writer_so(writer, format, block, true);
}

static int open_reader(sluice_reader **reader, bool copy, int64_t timeout_ns)
{
    struct sluice_cipd_reader_params cipd = SLUICE_CIPD_READER_PARAMS_INIT;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    cipd.copy = copy;
    params.name = channel();
    params.device = "cuda:0";
    params.open_timeout_ns = timeout_ns;
    params.cipd = &cipd;
    return sluice_reader_open(reader, &params);
}

/* ---- the way of a frame ---- */

/* Those that wait for the GPU, or may wait for others; and queries, which readers make. */
static bool waits(const char *function)
{
    return strstr(function, "Synchronize") || strstr(function, "WaitValue") || strstr(function, "Alloc") ||
           strstr(function, "Register") || strstr(function, "Create") || strstr(function, "Destroy") || strstr(function, "Map") ||
           strstr(function, "Free") || strstr(function, "Ipc") || strstr(function, "StreamQuery");
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
    format = format_of();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_OK(sluice_array_wrap(&array, NULL, (void *)(uintptr_t)address, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    CHECK_OK(open_writer(&writer, &format, false));
    CHECK_OK(open_reader(&reader, false, 10 * SLUICE_S));
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

/* Each call of the driver that a send makes is one that somebody has thought about. Beside a reader that takes each frame
 * nothing else is asked; without one, now and then whether a frame is finished. */
static void send_calls(bool graph, bool read)
{
    static const struct {
        enum fake_function function;
        long calls;
    } usual[] = {
        { FAKE_CtxGetId, 1 },             /* ours is the current context */
        { FAKE_StreamIsCapturing, 2 },    /* before the copy, and before the event */
        { FAKE_PointerGetAttributes, 1 }, /* is it still the memory that it was? */
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
    struct sluice_format format = format_of();
    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_EQ(test_cuMemAlloc_v2(&address, 512), 0);
    CHECK_OK(sluice_array_wrap(&array, NULL, (void *)(uintptr_t)address, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    CHECK_OK(open_writer_so(&writer, &format, false, graph));
    if (read)
        CHECK_OK(open_reader(&reader, false, 10 * SLUICE_S));
    for (int i = 0; i < FRAMES + 8; i++) {
        fake_forget();
        if (read) /* a program may ask first whether that will wait */
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
    if (!read) { /* of two slots one is written to: each send asks for the other */
        expected[FAKE_EventQuery] = FRAMES;
        expected[FAKE_CtxGetId] += FRAMES;
        expected[FAKE_ThreadExchangeStreamCaptureMode] = 2 * FRAMES;
    }
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        if (calls[f] != expected[f])
            FAIL("%s was called %ld times for %d frames, not %ld", fake_name((enum fake_function)f), calls[f], FRAMES, expected[f]);
    if (read)
        CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    fake_end_contexts();
}

TEST(cipd_the_calls_of_a_send) { send_calls(false, true); }
TEST(cipd_the_calls_of_a_send_that_is_a_graph) { send_calls(true, true); }
TEST(cipd_the_calls_of_a_send_that_nobody_reads) { send_calls(true, false); }

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
    copying.format = format_of();
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
    CHECK_OK(open_writer(&copying.writer, &copying.format, false));
    CHECK_OK(open_reader(&copying.reader, true, 10 * SLUICE_S));
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

/* A frame's way through the reader, the copies that it took. */
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
    CHECK_EQ(test_cuStreamWaitValue64_v2((struct sl_cu_stream *)stream, (uintptr_t)copying->gate, 1, SL_CU_WAIT_GEQ), 0);
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

/* What keeps a turn of the GPU's is work that is done for nothing else: only once it is known to be needed. */
TEST(cipd_a_copy_is_one_copy_unless_one_was_overtaken)
{
    struct copying copying = begin_copying();

    for (int i = 0; i < FRAMES; i++)
        CHECK_EQ(take_copy(&copying), 1);
    CHECK_EQ(overtaken(&copying), 0);
    overtake(&copying); /* that was the first of them */
    CHECK_EQ(overtaken(&copying), 1);
    for (int i = 1; i < COPIED_IN_TURNS; i++)
        CHECK_GE(take_copy(&copying), 3);
    for (int i = 0; i < FRAMES; i++)
        CHECK_EQ(take_copy(&copying), 1);
    CHECK_EQ(overtaken(&copying), 1);
    end_copying(&copying);
}

/* ---- failing calls ---- */

struct outcome {
    int result;
    char sentence[1024];
    unsigned long long state;
};

static bool good(struct outcome *outcome, int result)
{
    if (fake_thread_state() != outcome->state)
        FAIL("a call left another context or mode: %s", sluice_last_error());
    if (result != 0 && outcome->result == 0) {
        outcome->result = result;
        snprintf(outcome->sentence, sizeof outcome->sentence, "%s", sluice_last_error());
    }
    return result == 0;
}

/* All that a writer does. */
static struct outcome write_all(bool block)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_format format = format_of();
    unsigned char bytes[512] = { 1 };
    struct sluice_array array;
    struct sluice_frame frame;
    struct sluice_ticket ticket;
    sluice_writer *writer;

    CHECK_OK(sluice_array_wrap(&array, NULL, bytes, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    if (!good(o, open_writer(&writer, &format, block)))
        return outcome;
    for (int i = 0; i < 3; i++) {
        if (good(o, sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, &ticket)))
            good(o, sluice_ticket_wait(ticket, 5 * SLUICE_S));
        if (good(o, sluice_writer_begin(writer, SLUICE_DEFAULT, &frame)) &&
            !good(o, sluice_writer_commit(writer, &frame, SLUICE_ON_CPU)))
            (void)sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU);
    }
    good(o, sluice_writer_reformat(writer, &format));
    good(o, sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    good(o, sluice_writer_close(&writer));
    return outcome;
}

/* All that a reader does, of a writer in another process. */
static struct outcome read_all(bool copy)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_format format = format_of();
    unsigned char bytes[512];
    struct sluice_array array;
    struct sluice_frame frame;
    sluice_reader *reader;

    CHECK_OK(sluice_array_wrap(&array, NULL, bytes, format.arrays[0].dtype, 3, format.arrays[0].shape, NULL));
    if (!good(o, open_reader(&reader, copy, 0)))
        return outcome;
    if (good(o, sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &frame))) {
        good(o, sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL));
        good(o, sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    good(o, sluice_reader_close(&reader));
    return outcome;
}

/* The next frame is chosen in a turn, as if one had been overtaken. */
static void want_turn(sluice_reader *handle)
{
    struct sl_cipd_reader *reader;
    struct sl_object *object;

    CHECK_OK(sl_cipd_reader_hold(handle, &object, &reader));
    reader->turns.left = 1;
    sl_object_drop(object);
}

/* Copies of frames that keep coming. */
static struct outcome read_in_turns(bool in_turns)
{
    struct outcome outcome = { .state = fake_thread_state() }, *o = &outcome;
    struct sluice_frame frame;
    sluice_reader *reader;

    if (!good(o, open_reader(&reader, true, 0)))
        return outcome;
    for (int i = 0; i < 3; i++) {
        if (!good(o, sluice_reader_acquire(reader, SLUICE_ON_CPU, 5 * SLUICE_S, &frame)))
            continue;
        good(o, sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        if (in_turns)
            want_turn(reader);
    }
    good(o, sluice_reader_close(&reader));
    return outcome;
}

/* One that publishes until its stdin ends, at leisure. */
ROLE(cipd_fake_camera)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
    struct sluice_format format = format_of();
    struct sluice_frame frame;
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    snprintf(name, sizeof name, "%s", argv[1]);
    fake_use();
    CHECK_OK(open_writer(&writer, &format, false));
    role_say("open");
    while (poll(&input, 1, 2) == 0) {
        CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_writer_close(&writer));
    fake_end_contexts();
    return 0;
}

/* One that has published, and stays. */
ROLE(cipd_fake_writer)
{
    struct sluice_format format = format_of();
    struct sluice_frame frame;
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    snprintf(name, sizeof name, "%s", argv[1]);
    fake_use();
    CHECK_OK(open_writer(&writer, &format, false));
    CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    role_say("open");
    (void)role_line();
    CHECK_OK(sluice_writer_close(&writer));
    fake_end_contexts();
    return 0;
}

static long sum(struct fake_things things)
{
    return things.streams + things.events + things.mappings + things.registrations + things.pinned + things.graphs +
           things.allocations;
}

/* If these fail, what they were to free is left; and what is asked before each call may keep all of a pool. */
static bool may_leave(enum fake_function function)
{
    switch (function) {
    case FAKE_StreamDestroy:
    case FAKE_EventDestroy:
    case FAKE_EventQuery:
    case FAKE_MemHostUnregister:
    case FAKE_MemFree:
    case FAKE_MemFreeHost:
    case FAKE_IpcCloseMemHandle:
    case FAKE_DevicePrimaryCtxRelease:
    case FAKE_CtxGetId:
    case FAKE_CtxPushCurrent:
    case FAKE_ThreadExchangeStreamCaptureMode:
    case FAKE_StreamIsCapturing: return true;
    default: return false;
    }
}

/* Then it is done in another way, and nobody needs to hear of it. */
static bool has_another_way(enum fake_function function)
{
    return function == FAKE_StreamWriteValue64 || function == FAKE_IpcOpenMemHandle || function == FAKE_IpcOpenEventHandle ||
           strncmp(fake_name(function), "cuGraph", 7) == 0;
}

static void fail_call(enum fake_function function, long nth, int code, struct outcome (*run)(bool), bool way)
{
    struct fake_things before = fake_things();

    fake_fail(function, nth, code);
    struct outcome outcome = run(way);

    if (!fake_failed())
        return;
    long left, most = may_leave(function) ? 6 : 0;
    int64_t began = test_now();
    while ((left = sum(fake_things()) - sum(before)) > most && test_now() - began < 5 * SLUICE_S)
        test_nap(SLUICE_MS); /* memory goes on a thread of its own, for which close waits only so long */
    if (left < 0 || left > most)
        FAIL("%s failed in call %ld: %ld things are left", fake_name(function), nth, left);
    if (outcome.result == 0 && !may_leave(function) && !has_another_way(function))
        FAIL("%s failed in call %ld, and nobody said so", fake_name(function), nth);
    fake_end_contexts();
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
}

static void fail_each(struct outcome (*run)(bool), bool way)
{
    long calls[FAKE_FUNCTION_COUNT];

    run(way);
    fake_forget();
    struct outcome outcome = run(way);
    if (outcome.result != 0)
        FAIL("without a failure: %s", outcome.sentence);
    CHECK_EQ(sum(fake_things()), 0);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        enum fake_function function = (enum fake_function)f;
        long most = function == FAKE_EventQuery && calls[f] > 16 ? 16 : calls[f]; /* it is asked again and again */
        for (long nth = 1; nth <= most && function != FAKE_GetErrorName; nth += 1 + nth / 8) {
            /* Of these some put back what a thread had; which, is told by no number where several threads call. */
            if (function != FAKE_CtxPopCurrent && function != FAKE_ThreadExchangeStreamCaptureMode)
                fail_call(function, nth, SL_CU_UNKNOWN, run, way);
        }
    }
}

TEST_TIMEOUT(cipd_each_call_of_a_writer_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    fail_each(write_all, false);
    fail_each(write_all, true);
}

TEST_TIMEOUT(cipd_each_call_of_a_reader_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    struct child child = role_start("cipd_fake_writer", channel(), NULL);
    child_expect(&child, "open", 20);
    fail_each(read_all, false);
    fail_each(read_all, true);
    role_stop(&child);
}

TEST_TIMEOUT(cipd_each_call_of_a_turn_fails_in_turn, 300)
{
    TEST_KEEPS_FDS();
    fake_use();
    struct child child = role_start("cipd_fake_camera", channel(), NULL);
    child_expect(&child, "open", 20);
    fail_each(read_in_turns, true);
    role_stop(&child);
}
