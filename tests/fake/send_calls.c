/* SPDX-License-Identifier: MIT
 *
 * What send and fetch ask of the driver: no more than they must.
 */
#include "fake/batching.h"
#include "fake/send_kit.h"
#include "gpu/kit.h"
#include "harness/test.h"

/* A steady stream of frames from the same memory: the driver is asked where that is once; then only
 * whether it is the same still. */
TEST(pointers_are_looked_at_once)
{
    struct sending sending = sending_begin();
    char sentence[1024];

    for (int kind = 0; kind < SENDING_KINDS; kind++) {
        sending_turn(&sending, kind, sending.stream, 1, sentence);
        fake_forget();
        for (int i = 0; i < 10; i++)
            sending_turn(&sending, kind, sending.stream, 2, sentence);
        CHECK_STR(sentence, "");
        CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), kind == 0 ? 40 : 20);
        CHECK_EQ(fake_calls(FAKE_MemHostAlloc), 0);
    }
    sending_end(&sending);
}

/* How often the writer raises several words at once in ten frames, a reader being there that asked for its own. */
static long batches(void)
{
    struct sending sending = sending_begin();
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
        CHECK_OK(sluice_writer_begin(sending.writer, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(sending.writer, &frame, sending.stream));
        CHECK_OK(sluice_reader_acquire(reader, sending.stream, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, sending.stream));
    }
    long calls = fake_calls(FAKE_StreamBatchMemOp);
    CHECK_OK(sluice_reader_close(&reader));
    sending_end(&sending);
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
    struct sending sending = sending_begin_with(3, 1, graph);
    struct sluice_ticket ticket;
    char sentence[1024];

    for (int i = 0; i < 12; i++) {
        sending_turn(&sending, 2, sending.stream, 1, sentence);
        CHECK_STR(sentence, "");
    }
    fake_forget();
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_writer_send(sending.writer, &sending.arrays[2], 1, sending.stream, i ? &ticket : NULL));
    CHECK_EQ(fake_calls(FAKE_GraphLaunch), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_GraphExecBatchMemOpNodeSetParams), graph ? 2 : 0);
    CHECK_EQ(fake_calls(FAKE_MemcpyAsync), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamWriteValue64), graph ? 0 : 2);
    CHECK_EQ(fake_calls(FAKE_StreamBatchMemOp), 0);
    CHECK_EQ(fake_calls(FAKE_StreamIsCapturing), (graph ? 2 : 4) + (gathers() ? 2 : 0)); /* before each call on the stream */
    CHECK_EQ(fake_calls(FAKE_PointerGetAttributes), 2);
    CHECK_EQ(fake_calls(FAKE_CtxPushCurrent), 2);
    CHECK_OK(sluice_ticket_wait(ticket, 20 * SLUICE_S));
    sending_end(&sending);
}

TEST(a_send_asks_the_driver_for_little)
{
    check_send(0);
    check_send(1);
}
