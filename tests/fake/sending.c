/* SPDX-License-Identifier: MIT
 *
 * Send and fetch while the driver fails: each call of each function that they make, in its turn. What
 * fails is said, nothing of it is published, and the next one works.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "harness/test.h"

#define SIZE  (3 * 1024 * 1024) /* more than goes by way of the stages at once */
#define KINDS 3

int test_cuDevicePrimaryCtxRetain(struct sl_cu_context **context, int device);
int test_cuCtxSetCurrent(struct sl_cu_context *context);
int test_cuMemHostAlloc(void **memory, size_t size, unsigned flags);
int test_cuStreamWaitValue64_v2(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags);
int test_cuMemHostRegister_v2(void *address, size_t size, unsigned flags);
int test_cuMemAlloc_v2(uint64_t *address, size_t size);

struct scene {
    sluice_writer *writer;
    sluice_reader *reader;
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_array arrays[KINDS]; /* plain, pinned, the GPU's */
};

static struct scene begin_with(uint32_t slots, int arrays, uint32_t graph)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_writer_params writing = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_reader_params reading = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sl_cu_context *context;
    struct scene scene;
    uint64_t address;
    int64_t size = SIZE;
    void *memory[KINDS];

    fake_use();
    test_dir();
    CHECK_OK(sluice_device_open(&scene.device, "cuda:0"));
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.stream));
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    if (arrays > 1)
        CHECK_OK(sluice_format_add_tensor(&format, "more", u8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    writing.slots = writing.max_slots = slots;
    writing.no_graphs = !graph;
    writing.name = reading.name = "cam";
    writing.device = "cuda:0";
    writing.format = &format;
    reading.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_writer_open(&scene.writer, &writing));
    CHECK_OK(sluice_reader_open(&scene.reader, &reading));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    memory[0] = malloc(SIZE);
    CHECK_EQ(test_cuMemHostAlloc(&memory[1], SIZE, 1), 0);
    CHECK_EQ(test_cuMemAlloc_v2(&address, SIZE), 0);
    memory[2] = (void *)(uintptr_t)address;
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
    for (int i = 0; i < KINDS; i++)
        CHECK_OK(sluice_array_wrap(&scene.arrays[i], "data", memory[i], u8, 1, &size, NULL));
    return scene;
}

static struct scene begin(void)
{
    return begin_with(0, 1, 0);
}

static void end(struct scene *scene)
{
    CHECK_OK(sluice_reader_close(&scene->reader));
    CHECK_OK(sluice_writer_close(&scene->writer));
    CHECK_OK(sluice_device_close(&scene->device));
    free(scene->arrays[0].data);
    fake_end_contexts();
}

/* The stream waits for this word. */
static _Atomic uint64_t go_on[512] __attribute__((aligned(4096)));

static void hold_up(struct scene *scene)
{
    struct sl_cu_context *context;
    uintptr_t native;

    CHECK_OK(sluice_stream_native(scene->stream, &native));
    CHECK_EQ(test_cuDevicePrimaryCtxRetain(&context, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(context), 0);
    CHECK_EQ(test_cuMemHostRegister_v2((void *)go_on, sizeof go_on, 3), 0);
    CHECK_EQ(test_cuStreamWaitValue64_v2((struct sl_cu_stream *)native, (uintptr_t)go_on, 1, 0), 0);
    CHECK_EQ(test_cuCtxSetCurrent(NULL), 0);
}

static void note(int r, char sentence[1024])
{
    if (r != 0 && !sentence[0])
        snprintf(sentence, 1024, "%s", sluice_last_error());
}

/* One frame there and back. The first sentence of a failure; "" if there was none. */
static void turn(struct scene *scene, int kind, struct sluice_stream stream, char value, char sentence[1024])
{
    struct sluice_array *array = &scene->arrays[kind];
    struct sluice_ticket ticket;
    struct sluice_frame frame;
    uint64_t before = 0;
    struct sluice_writer_stats stats = { .size = sizeof stats };

    sentence[0] = '\0';
    CHECK_OK(sluice_writer_stats(scene->writer, &stats));
    before = stats.committed;
    memset(array->data, value, SIZE);
    int r = sluice_writer_send(scene->writer, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    CHECK_OK(sluice_writer_stats(scene->writer, &stats));
    CHECK_EQ(stats.committed, before + (r == 0));
    if (r != 0)
        return;
    do { /* one that was left by a failure may be ready before this */
        r = sluice_reader_acquire(scene->reader, stream, 20 * SLUICE_S, &frame);
        note(r, sentence);
        if (r != 0)
            return;
    } while (frame.sequence != stats.committed && sluice_reader_release(scene->reader, &frame, stream) == 0);
    memset(array->data, 0, SIZE);
    r = sluice_reader_fetch(scene->reader, &frame, array, 1, stream, &ticket);
    note(r, sentence);
    if (r == 0)
        note(sluice_ticket_wait(ticket, 20 * SLUICE_S), sentence);
    if (r == 0 && !sentence[0]) {
        CHECK_EQ(((char *)array->data)[0], value);
        CHECK_EQ(((char *)array->data)[SIZE - 1], value);
    }
    r = sluice_reader_release(scene->reader, &frame, stream);
    note(r, sentence);
    if (r != 0)
        CHECK_OK(sluice_reader_release(scene->reader, &frame, stream));
}

/* What cannot be done in another way; of the rest, a frame that is right is enough. */
static bool must_be_said(enum fake_function function)
{
    return function == FAKE_MemcpyAsync || function == FAKE_PointerGetAttributes;
}

static bool puts_back(enum fake_function function)
{
    return function == FAKE_CtxPopCurrent || function == FAKE_ThreadExchangeStreamCaptureMode;
}

static void fail_each(struct scene *scene, int kind, struct sluice_stream stream, enum fake_function function, long calls)
{
    char sentence[1024], after[1024];

    for (long nth = 1; nth <= calls; nth++) {
        fake_fail(function, nth, SL_CU_INVALID_VALUE);
        turn(scene, kind, stream, (char)(nth + 1), sentence);
        if (!fake_failed())
            continue;
        if (!sentence[0] && must_be_said(function))
            FAIL("%s failed in call %ld of kind %d, and nobody said so", fake_name(function), nth, kind);
        if (sentence[0] && !strstr(sentence, fake_name(function)))
            FAIL("%s failed in call %ld of kind %d; the sentence: %s", fake_name(function), nth, kind, sentence);
        for (int i = 0; i < 6; i++) { /* as often as there are slots: none is lost */
            turn(scene, kind, stream, (char)(nth + 2 + i), after);
            if (after[0])
                FAIL("after call %ld of %s failed (%s): %s", nth, fake_name(function), sentence, after);
        }
        const char *rule = fake_broken_rule();
        if (rule)
            FAIL("%s failed in call %ld, and a rule was broken: %s", fake_name(function), nth, rule);
    }
}

TEST_TIMEOUT(each_call_of_a_copy_fails_in_turn, 120)
{
    struct scene scene = begin();
    char sentence[1024];

    for (int kind = 0; kind < KINDS; kind++) {
        for (int on_stream = 0; on_stream < 2; on_stream++) {
            struct sluice_stream stream = on_stream ? scene.stream : SLUICE_ON_CPU;
            turn(&scene, kind, stream, 1, sentence);
            CHECK_STR(sentence, "");
            fake_forget();
            turn(&scene, kind, stream, 2, sentence);
            CHECK_STR(sentence, "");
            long calls[FAKE_FUNCTION_COUNT];
            for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
                calls[f] = fake_calls((enum fake_function)f);
            for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
                if (!puts_back((enum fake_function)f))
                    fail_each(&scene, kind, stream, (enum fake_function)f, calls[f]);
        }
    }
    end(&scene);
}

/* What a copier is made of: it cannot be had, so send says so, and tries again the next time. */
TEST_TIMEOUT(each_call_of_the_first_copy_fails_in_turn, 120)
{
    static const enum fake_function functions[] = { FAKE_DevicePrimaryCtxRetain, FAKE_StreamCreateWithPriority,
                                                    FAKE_StreamGetPriority, FAKE_MemHostRegister, FAKE_MemHostAlloc };
    char sentence[1024];

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        bool failed = true;
        for (long nth = 1; failed; nth++) {
            struct scene scene = begin();
            fake_fail(functions[i], nth, SL_CU_OUT_OF_MEMORY);
            turn(&scene, 0, scene.stream, 3, sentence);
            failed = fake_failed();
            if (failed)
                CHECK_HAS(sentence, fake_name(functions[i]));
            turn(&scene, 0, scene.stream, 4, sentence);
            CHECK_STR(sentence, "");
            end(&scene);
        }
    }
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("a rule was broken: %s", rule);
}

/* A steady stream of frames from the same memory: the driver is asked where that is once; then only
 * whether it is the same still. */
TEST(pointers_are_looked_at_once)
{
    struct scene scene = begin();
    char sentence[1024];

    for (int kind = 0; kind < KINDS; kind++) {
        turn(&scene, kind, scene.stream, 1, sentence);
        fake_forget();
        for (int i = 0; i < 10; i++)
            turn(&scene, kind, scene.stream, 2, sentence);
        CHECK_STR(sentence, "");
        CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), kind == 0 ? 40 : 20);
        CHECK_EQ(fake_calls(FAKE_MemHostAlloc), 0);
    }
    end(&scene);
}

/* How often the writer raises several words at once in ten frames, a reader being there that asked for its own. */
static long batches(void)
{
    struct scene scene = begin();
    struct sluice_reader_params ahead = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;

    ahead.name = "cam";
    ahead.ahead = 1;
    ahead.ahead_ns = 20 * SLUICE_S;
    ahead.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &ahead));
    fake_forget();
    for (int i = 0; i < 10; i++) {
        CHECK_OK(sluice_writer_begin(scene.writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(scene.writer, &frame, scene.stream));
        CHECK_OK(sluice_reader_acquire(reader, scene.stream, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, scene.stream));
    }
    long calls = fake_calls(FAKE_StreamBatchMemOp);
    CHECK_OK(sluice_reader_close(&reader));
    end(&scene);
    return calls;
}

TEST(words_for_who_waits_ahead)
{
    CHECK_EQ(batches(), 10);
}

/* There no stream waits ahead. */
TEST(no_such_words_under_mps)
{
    fake_machine.mps = 1;
    CHECK_EQ(batches(), 0);
}

/* What a send of memory that is known asks of the driver: a ticket is told by the word of its frame. */
static void check_send(uint32_t graph)
{
    struct scene scene = begin_with(3, 1, graph);
    struct sluice_ticket ticket;
    char sentence[1024];

    for (int i = 0; i < 12; i++) {
        turn(&scene, 2, scene.stream, 1, sentence);
        CHECK_STR(sentence, "");
    }
    fake_forget();
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, scene.stream, i ? &ticket : NULL));
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_StreamIsCapturing), graph ? 2 : 4); /* before each call on the stream */
    CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), 2);
    CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), 2);
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    end(&scene);
}

TEST(a_send_asks_the_driver_for_little)
{
    check_send(0);
    check_send(1);
}

/* The GPU is lost while copies are under way. */
static void lose(uint32_t graph)
{
    struct sluice_ticket done[6], lost;
    struct sluice_frame frame;
    char sentence[1024];

    TEST_KEEPS_FDS(); /* those of memory that could not be released */
    struct scene scene = begin_with(0, 1, graph);

    for (int i = 0; i < 12; i++) {
        turn(&scene, 2, scene.stream, 1, sentence);
        CHECK_STR(sentence, "");
    }
    for (int i = 0; i < 6; i++) {
        CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, scene.stream, &done[i]));
        CHECK_OK(sluice_ticket_wait(done[i], 20 * SLUICE_S));
    }
    hold_up(&scene);
    CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, scene.stream, &lost));
    CHECK_RESULT(sluice_ticket_query(lost), SLUICE_NOT_READY);
    fake_lose(0, SL_CU_ILLEGAL_ADDRESS);
    CHECK_SAYS(sluice_ticket_wait(lost, 20 * SLUICE_S), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    for (int kind = 0; kind < KINDS; kind++)
        CHECK_RESULT(sluice_writer_send(scene.writer, &scene.arrays[kind], 1, SLUICE_ON_CPU, NULL), SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_writer_begin(scene.writer, 0, &frame), SLUICE_E_DRIVER); /* which says of the frame that it is lost */
    CHECK_SAYS(sluice_ticket_wait(lost, 20 * SLUICE_S), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    for (int i = 0; i < 6; i++) /* of those that were in its slot, too */
        CHECK_OK(sluice_ticket_query(done[i]));
    CHECK_OK(sluice_reader_close(&scene.reader));
    CHECK_OK(sluice_writer_close(&scene.writer));
    CHECK_RESULT(sluice_device_close(&scene.device), SLUICE_E_DRIVER);
    free(scene.arrays[0].data);
    fake_end_contexts();
}

TEST(a_gpu_that_is_lost)
{
    lose(0);
}

TEST(a_gpu_that_is_lost_with_graphs_under_way)
{
    lose(1);
}

static void *go_on_later(void *nothing)
{
    test_nap(SLUICE_S / 5);
    go_on[0] = 1;
    return nothing;
}

/* One of two copies is queued when it comes to a failure: who hears of that may free the memory, so it is over. */
TEST(a_frame_that_is_copied_in_part)
{
    struct scene scene = begin_with(3, 2, 0);
    struct sluice_array arrays[] = { scene.arrays[1], scene.arrays[2] };
    struct sluice_frame frames[2];
    pthread_t thread;

    memcpy(arrays[1].name, "more", 5);
    CHECK_OK(sluice_writer_send(scene.writer, arrays, 2, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(scene.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frames[0]));
    CHECK_OK(sluice_reader_release(scene.reader, &frames[0], SLUICE_ON_CPU));
    hold_up(&scene);
    fake_fail(FAKE_MemcpyAsync, 2, SL_CU_UNKNOWN);
    int64_t began = test_now();
    CHECK(pthread_create(&thread, NULL, go_on_later, NULL) == 0);
    CHECK_SAYS(sluice_writer_send(scene.writer, arrays, 2, scene.stream, NULL), SLUICE_E_DRIVER, "cuMemcpyAsync");
    CHECK_GE(test_now() - began, SLUICE_S / 8);
    CHECK(fake_failed());
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_begin(scene.writer, 0, &frames[i]));
    end(&scene);
}

/* ---- graphs: the writer has SLOTS slots and sends the GPU's memory ---- */

#define SLOTS 3

static struct scene begin_graphs(void)
{
    return begin_with(SLOTS, 1, 1);
}

static void turns(struct scene *scene, int count)
{
    char sentence[1024];

    for (int i = 0; i < count; i++) {
        turn(scene, 2, scene->stream, (char)(i + 1), sentence);
        CHECK_STR(sentence, "");
    }
}

static uint64_t graph_sends(struct scene *scene)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(scene->writer, &stats));
    return stats.graph_sends;
}

/* One for each slot, made when that comes for the second time; from then on two calls send a frame. */
TEST(graphs_are_made_once)
{
    struct scene scene = begin_graphs();
    struct sluice_ticket ticket;

    turns(&scene, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    turns(&scene, SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 1); /* the next is ready */
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    fake_forget();
    for (int i = 0; i < 30; i++) {
        CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, scene.stream, &ticket));
        CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    }
    CHECK_EQ(graph_sends(&scene), 30 + SLOTS);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 30);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), 30);
    CHECK_EQ(fake_calls(FAKE_GraphInstantiateWithFlags), 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 0);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), 0);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_OK(sluice_writer_close(&scene.writer));
    CHECK_EQ(fake_things().graphs, 0);
    end(&scene);
}

/* They are for GPU memory: of what else is sent none is made, nor kept beyond the slots that it is for. */
TEST(graphs_end_with_their_slots)
{
    struct scene scene = begin_graphs();
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    char sentence[1024];
    int64_t size = SIZE;

    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 3 * SLOTS; i++)
            turn(&scene, kind, scene.stream, 1, sentence);
        CHECK_EQ(fake_things().graphs, 0);
    }
    turns(&scene, 2 * SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    CHECK_OK(sluice_writer_reformat(scene.writer, &format));
    turns(&scene, SLOTS);
    CHECK_EQ(fake_things().graphs, 0);
    turns(&scene, SLOTS);
    CHECK_EQ(fake_things().graphs, 2 * SLOTS);
    end(&scene);
}

/* Whatever the driver refuses of a graph, the frame is sent the plain way, and so are those after it. */
TEST_TIMEOUT(each_call_of_a_graph_fails_in_turn, 120)
{
    static const enum fake_function functions[] = {
        FAKE_GraphCreate,  FAKE_GraphAddMemcpyNode, FAKE_GraphAddBatchMemOpNode, FAKE_GraphInstantiateWithFlags,
        FAKE_GraphLaunch,  FAKE_GraphExecBatchMemOpNodeSetParams,
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        for (long nth = 1; nth <= 2; nth++) {
            struct scene scene = begin_graphs();
            fake_fail(functions[i], nth, SL_CU_NOT_SUPPORTED);
            turns(&scene, 4 * SLOTS);
            CHECK(fake_failed());
            CHECK_LE(graph_sends(&scene), 2 * SLOTS);
            fake_forget();
            turns(&scene, 4 * SLOTS);
            CHECK_EQ(fake_calls(FAKE_GraphLaunch), 0);
            CHECK_EQ(fake_calls(FAKE_MemcpyAsync), 8 * SLOTS); /* there and back */
            CHECK_OK(sluice_writer_close(&scene.writer));
            CHECK_EQ(fake_things().graphs, 0);
            CHECK(!fake_broken_rule());
            end(&scene);
        }
    }
}

/* And each other call of a send by a graph. */
TEST_TIMEOUT(each_call_beside_a_graph_fails_in_turn, 120)
{
    struct scene scene = begin_graphs();
    char sentence[1024];

    turns(&scene, 3 * SLOTS);
    fake_forget();
    turn(&scene, 2, scene.stream, 2, sentence);
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), 1);
    long calls[FAKE_FUNCTION_COUNT];
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
        calls[f] = fake_calls((enum fake_function)f);
    for (int f = 0; f < FAKE_FUNCTION_COUNT; f++) {
        bool of_graphs = f == FAKE_GraphLaunch || f == FAKE_GraphExecBatchMemOpNodeSetParams;
        if (!of_graphs && !puts_back((enum fake_function)f))
            fail_each(&scene, 2, scene.stream, (enum fake_function)f, calls[f]);
    }
    CHECK_GE(graph_sends(&scene), 10 * SLOTS);
    end(&scene);
}

static void *wait_for(void *ticket)
{
    return (void *)(intptr_t)sluice_ticket_wait(*(struct sluice_ticket *)ticket, 15 * SLUICE_S);
}

/* Who waits for a copy that does not end hears of it when the writer closes, which does not wait for ever. */
TEST(closed_while_somebody_waits)
{
    struct sluice_ticket ticket;
    pthread_t thread;
    void *result;

    TEST_KEEPS_FDS(); /* what such a copy uses stays */
    struct scene scene = begin();
    CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, SLUICE_ON_CPU, NULL));
    hold_up(&scene);
    CHECK_OK(sluice_writer_send(scene.writer, &scene.arrays[2], 1, scene.stream, &ticket));
    CHECK(pthread_create(&thread, NULL, wait_for, &ticket) == 0);
    test_nap(50 * SLUICE_MS);
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&scene.writer));
    CHECK_LE(test_now() - began, 10 * SLUICE_S);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK_EQ((intptr_t)result, SLUICE_E_STALE);
    go_on[0] = 1;
    end(&scene);
}
