/* SPDX-License-Identifier: MIT
 *
 * Send and fetch while the driver fails: each call of each function that they use, in turn. Failures are reported,
 * nothing of the frame is published, and the next frame works.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/send_kit.h"
#include "gpu/kit.h"
#include "harness/test.h"

TEST_TIMEOUT(each_call_of_a_copy_fails_in_turn, 120)
{
    struct transfer transfer = transfer_begin();
    char sentence[1024];

    for (int kind = 0; kind < TRANSFER_KINDS; kind++) {
        for (int on_stream = 0; on_stream < 2; on_stream++) {
            struct sluice_stream stream = on_stream ? transfer.stream : SLUICE_ON_CPU;
            transfer_frame(&transfer, kind, stream, 1, sentence);
            CHECK_STR(sentence, "");
            fake_forget();
            transfer_frame(&transfer, kind, stream, 2, sentence);
            CHECK_STR(sentence, "");
            long calls[FAKE_FUNCTION_COUNT];
            for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
                calls[f] = fake_calls((enum fake_function)f);
            for (int f = 0; f < FAKE_FUNCTION_COUNT; f++)
                if (!transfer_restores((enum fake_function)f))
                    transfer_fail_each(&transfer, kind, stream, (enum fake_function)f, calls[f]);
        }
    }
    transfer_end(&transfer);
}

/* Makes the stream on which a long wait queries whether the GPU is alive; a wait goes on without it. */
static void use_default_stream(struct transfer *transfer)
{
    struct sluice_stream stream;
    struct sluice_frame frame;

    CHECK_OK(sluice_stream_default(transfer->device, &stream));
    CHECK_OK(sluice_writer_begin(transfer->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_cancel(transfer->writer, &frame, stream));
}

/* A copier cannot be made: send reports it, and tries again the next time. */
TEST_TIMEOUT(each_call_of_the_first_copy_fails_in_turn, 120)
{
    static const enum fake_function functions[] = { FAKE_DevicePrimaryCtxRetain, FAKE_StreamCreateWithPriority,
                                                    FAKE_StreamGetPriority, FAKE_MemHostRegister, FAKE_MemHostAlloc };
    char sentence[1024];

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        bool failed = true;
        for (long nth = 1; failed; nth++) {
            struct transfer transfer = transfer_begin();
            use_default_stream(&transfer);
            fake_fail(functions[i], nth, SL_CU_OUT_OF_MEMORY);
            transfer_frame(&transfer, 0, transfer.stream, 3, sentence);
            failed = fake_failed();
            if (failed)
                CHECK_HAS(sentence, fake_name(functions[i]));
            transfer_frame(&transfer, 0, transfer.stream, 4, sentence);
            CHECK_STR(sentence, "");
            transfer_end(&transfer);
        }
    }
    const char *rule = fake_broken_rule();
    if (rule)
        FAIL("a rule was broken: %s", rule);
}

/* ---- copies in flight ---- */

/* The GPU is lost while copies are in flight. */
static void lose(uint32_t graph)
{
    struct sluice_ticket done[6], lost;
    struct sluice_frame frame;
    char sentence[1024];

    TEST_KEEPS_FDS(); /* of memory that could not be released */
    struct transfer transfer = transfer_begin_with(0, 1, graph);

    for (int i = 0; i < 12; i++) {
        transfer_frame(&transfer, 2, transfer.stream, 1, sentence);
        CHECK_STR(sentence, "");
    }
    for (int i = 0; i < 6; i++) {
        CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, &done[i]));
        CHECK_OK(sluice_ticket_wait(done[i], 20 * SLUICE_S));
    }
    transfer_block(&transfer);
    CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, &lost));
    CHECK_RESULT(sluice_ticket_query(lost), SLUICE_NOT_READY);
    fake_lose(0, SL_CU_ILLEGAL_ADDRESS);
    CHECK_SAYS(sluice_ticket_wait(lost, 20 * SLUICE_S), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    for (int kind = 0; kind < TRANSFER_KINDS; kind++)
        CHECK_RESULT(sluice_writer_send(transfer.writer, &transfer.arrays[kind], 1, SLUICE_ON_CPU, NULL),
                     SLUICE_E_DRIVER);
    CHECK_RESULT(sluice_writer_begin(transfer.writer, 0, &frame),
                 SLUICE_E_DRIVER); /* which reports that frame as lost */
    CHECK_SAYS(sluice_ticket_wait(lost, 20 * SLUICE_S), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    for (int i = 0; i < 6; i++) /* also of those that were in its slot */
        CHECK_OK(sluice_ticket_query(done[i]));
    CHECK_OK(sluice_reader_close(&transfer.reader));
    CHECK_OK(sluice_writer_close(&transfer.writer));
    CHECK_RESULT(sluice_device_close(&transfer.device), SLUICE_E_DRIVER);
    free(transfer.arrays[0].data);
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
    transfer_unblock();
    return nothing;
}

/* A wait asks the driver now and then whether the GPU is lost. A failure of that query does not mean that the copy has
 * ended. */
TEST(a_wait_outlives_a_call_that_fails)
{
    static const enum fake_function functions[] = { FAKE_StreamQuery, FAKE_CtxGetCurrent, FAKE_CtxPushCurrent };
    struct transfer transfer = transfer_begin();
    struct sluice_ticket ticket;
    char sentence[1024];

    transfer_frame(&transfer, 1, transfer.stream, 1, sentence);
    CHECK_STR(sentence, "");
    transfer_block(&transfer);
    CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[1], 1, transfer.stream, &ticket));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        fake_fail(functions[i], 1, SL_CU_INVALID_VALUE);
        CHECK_RESULT(sluice_ticket_wait(ticket, SLUICE_S / 5), SLUICE_TIMEOUT);
        CHECK(fake_failed());
    }
    transfer_unblock();
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    transfer_end(&transfer);
}

/* The same for a reader that gets copies of frames. */
TEST(a_readers_copy_outlives_a_call_that_fails)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct transfer transfer = transfer_begin();
    struct sluice_frame frame;
    sluice_reader *reader;

    params.name = "cam";
    params.device = "cuda:1";
    params.staged = SLUICE_STAGED_ALWAYS;
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, NULL));
        CHECK_OK(sluice_stream_synchronize(transfer.stream));
        if (i == 1)
            fake_fail(FAKE_StreamQuery, 1, SL_CU_INVALID_VALUE);
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(fake_failed(), i == 1);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_reader_close(&reader));
    transfer_end(&transfer);
}

static struct sl_cu_stream *capturing;
static _Atomic bool has_ended;

static void *capture_for_a_while(void *nothing)
{
    struct sl_cu_graph *graph;

    test_nap(SLUICE_S / 2); /* the send has begun, and waits for a staging buffer */
    gpu_use(0);
    CU(StreamBeginCapture, capturing, SL_CU_CAPTURE_MODE_RELAXED);
    test_nap(SLUICE_S / 2);
    atomic_store(&has_ended, true);
    CU(StreamEndCapture, capturing, &graph);
    CU(GraphDestroy, graph);
    return nothing;
}

/* The GPU works on two of a frame's three pieces when the stream begins to capture. Their end cannot be known before
 * the capture ends; the writer's close waits for it. */
TEST(a_send_that_is_half_queued_when_a_capture_begins)
{
    struct transfer transfer = transfer_begin();
    struct sluice_writer_stats stats = { .size = sizeof stats };
    bool waits = false;
    uintptr_t native;
    pthread_t thread;

    gpu_begin();
    for (int i = 0; i < 20 && !waits; i++) { /* this machine may reach the capture too early or too late */
        if (i > 0) { /* a channel that has sent once has its staging buffers: no send waits for one */
            transfer_end(&transfer);
            transfer = transfer_begin();
        }
        CHECK_OK(sluice_stream_native(transfer.stream, &native));
        capturing = (struct sl_cu_stream *)native;
        fake_machine.delay = 300 * SLUICE_MS;
        atomic_store(&has_ended, false);
        CHECK(pthread_create(&thread, NULL, capture_for_a_while, NULL) == 0);
        long copies = fake_calls(FAKE_MemcpyAsync);
        int r = sluice_writer_send(transfer.writer, &transfer.arrays[0], 1, transfer.stream, NULL);
        fake_machine.delay = 0;
        CHECK_OK(sluice_writer_stats(transfer.writer, &stats));
        waits = r == SLUICE_E_CAPTURING && stats.cancelled == 0 && fake_calls(FAKE_MemcpyAsync) > copies;
        if (!waits)
            CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(waits);
    CHECK_OK(sluice_reader_close(&transfer.reader));
    CHECK_OK(sluice_writer_close(&transfer.writer));
    CHECK(atomic_load(&has_ended));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(sluice_device_close(&transfer.device));
    free(transfer.arrays[0].data);
    fake_end_contexts();
}

/* One of two copies is queued when the next one fails: a caller that gets the error may free the memory, so the copy
 * has ended by then. */
TEST(a_frame_that_is_copied_in_part)
{
    struct transfer transfer = transfer_begin_with(3, 2, 0);
    struct sluice_array arrays[] = { transfer.arrays[1], transfer.arrays[2] };
    struct sluice_frame frames[2];
    pthread_t thread;

    memcpy(arrays[1].name, "more", 5);
    CHECK_OK(sluice_writer_send(transfer.writer, arrays, 2, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(transfer.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frames[0]));
    CHECK_OK(sluice_reader_release(transfer.reader, &frames[0], SLUICE_ON_CPU));
    transfer_block(&transfer);
    fake_fail(FAKE_MemcpyAsync, 2, SL_CU_UNKNOWN);
    int64_t began = test_now();
    CHECK(pthread_create(&thread, NULL, go_on_later, NULL) == 0);
    CHECK_SAYS(sluice_writer_send(transfer.writer, arrays, 2, transfer.stream, NULL), SLUICE_E_DRIVER, "cuMemcpyAsync");
    CHECK_GE(test_now() - began, SLUICE_S / 8);
    CHECK(fake_failed());
    CHECK(pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_begin(transfer.writer, 0, &frames[i]));
    transfer_end(&transfer);
}

static void *wait_for(void *ticket)
{
    return (void *)(intptr_t)sluice_ticket_wait(*(struct sluice_ticket *)ticket, 15 * SLUICE_S);
}

/* A wait for a copy that does not end returns when the writer closes, which does not wait for ever. */
TEST(closed_while_somebody_waits)
{
    struct sluice_ticket ticket;
    pthread_t thread;
    void *result;

    TEST_KEEPS_FDS(); /* what such a copy uses stays */
    struct transfer transfer = transfer_begin();
    CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, SLUICE_ON_CPU, NULL));
    transfer_block(&transfer);
    CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, &ticket));
    CHECK(pthread_create(&thread, NULL, wait_for, &ticket) == 0);
    test_nap(50 * SLUICE_MS);
    int64_t began = test_now();
    CHECK_OK(sluice_writer_close(&transfer.writer));
    CHECK_LE(test_now() - began, 10 * SLUICE_S);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK_EQ((intptr_t)result, SLUICE_E_STALE);
    transfer_unblock();
    transfer_end(&transfer);
}
