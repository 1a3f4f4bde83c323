/* SPDX-License-Identifier: MIT
 *
 * The driver calls of send and fetch: no more than necessary.
 */
#include "fake/batching.h"
#include "fake/send_kit.h"
#include "gpu/kit.h"
#include "harness/test.h"

/* A steady sequence of frames from the same memory: the driver is asked once where that is; then only whether it is
 * still the same. */
TEST(pointers_are_queried_once)
{
    struct transfer transfer = transfer_begin();
    char sentence[1024];

    for (int kind = 0; kind < TRANSFER_KINDS; kind++) {
        transfer_frame(&transfer, kind, transfer.stream, 1, sentence);
        fake_forget();
        for (int i = 0; i < 10; i++)
            transfer_frame(&transfer, kind, transfer.stream, 2, sentence);
        CHECK_STR(sentence, "");
        CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), kind == 0 ? 40 : 20);
        CHECK_EQ(fake_calls(FAKE_MemHostAlloc), 0);
    }
    transfer_end(&transfer);
}

/* How often the writer signals several words at once in ten frames, with a reader that has asked for its own. */
static long batches(void)
{
    struct transfer transfer = transfer_begin();
    struct sluice_reader_params ahead = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;

    ahead.name = "cam";
    ahead.ahead = 1;
    ahead.ahead_ns = 20 * SLUICE_S;
    ahead.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &ahead));
    gpu_settle();
    fake_forget();
    for (int i = 0; i < 10; i++) {
        CHECK_OK(sluice_writer_begin(transfer.writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(transfer.writer, &frame, transfer.stream));
        CHECK_OK(sluice_reader_acquire(reader, transfer.stream, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, transfer.stream));
    }
    long calls = fake_calls(FAKE_StreamBatchMemOp);
    CHECK_OK(sluice_reader_close(&reader));
    transfer_end(&transfer);
    return calls;
}

TEST(signals_for_readers_that_wait_ahead)
{
    CHECK_EQ(batches(), 10);
}

/* No stream waits ahead there. */
TEST(no_signals_for_readers_that_wait_ahead_under_mps)
{
    fake_machine.mps = 1;
    CHECK_EQ(batches(), 0);
}

/* The driver calls of a send of known memory: a ticket is done by the signal of its frame. */
static void check_send(uint32_t graph)
{
    struct transfer transfer = transfer_begin_with(3, 1, graph);
    struct sluice_ticket ticket;
    char sentence[1024];

    for (int i = 0; i < 12; i++) {
        transfer_frame(&transfer, 2, transfer.stream, 1, sentence);
        CHECK_STR(sentence, "");
    }
    fake_forget();
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[2], 1, transfer.stream, i ? &ticket : NULL));
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_StreamIsCapturing),
             (graph ? 2 : 4) + (driver_batches() ? 2 : 0)); /* before each call on the stream */
    CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), 2);
    CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), 2);
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    transfer_end(&transfer);
}

TEST(a_send_asks_the_driver_for_little)
{
    check_send(0);
    check_send(1);
}
