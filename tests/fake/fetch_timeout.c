/* SPDX-License-Identifier: MIT
 *
 * Fetches that time out: the GPU does not reach the copy in time, or its end cannot be known. The copy may come later,
 * and finds the memory that it reads.
 */
#include <stdio.h>

#include "fake/send_kit.h"
#include "harness/test.h"

/* A frame whose copies get no signal at their end, and a stream that does not reach them. */
static struct sluice_frame frame_without_a_word(struct transfer *transfer, struct sluice_stream stream)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_send(transfer->writer, &transfer->arrays[1], 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(transfer->reader, stream, 20 * SLUICE_S, &frame));
    transfer_block(transfer);
    fake_fail(FAKE_StreamWriteValue64, 0, SL_CU_UNKNOWN);
    return frame;
}

TEST_TIMEOUT(a_copy_without_a_word_is_not_waited_for_without_end, 60)
{
    TEST_KEEPS_FDS();
    struct transfer transfer = transfer_begin();
    struct sluice_frame frame = frame_without_a_word(&transfer, transfer.stream);
    struct sluice_ticket ticket;
    char sentence[1024];

    CHECK_OK(sluice_reader_fetch(transfer.reader, &frame, &transfer.arrays[1], 1, transfer.stream, &ticket));
    CHECK(fake_failed());
    CHECK_RESULT(sluice_stream_query(transfer.stream), SLUICE_NOT_READY);
    CHECK_SAYS(sluice_ticket_wait(ticket, SLUICE_FOREVER), SLUICE_E_DRIVER, "the copy failed");
    CHECK_OK(sluice_reader_release(transfer.reader, &frame, transfer.stream));
    transfer_unblock();
    CHECK_OK(sluice_stream_synchronize(transfer.stream)); /* the copy was still in flight */
    transfer_frame(&transfer, 1, transfer.stream, 7, sentence);
    CHECK_STR(sentence, "");
    transfer_end(&transfer);
}

static void fetch_without_a_word(int kind)
{
    TEST_KEEPS_FDS();
    struct transfer transfer = transfer_begin();
    struct sluice_frame frame = frame_without_a_word(&transfer, transfer.stream);
    char sentence[1024];

    CHECK_SAYS(sluice_reader_fetch(transfer.reader, &frame, &transfer.arrays[kind], 1, transfer.stream, NULL),
               SLUICE_TIMEOUT, "did not reach the copy within 10 s");
    CHECK(fake_failed());
    CHECK_OK(sluice_reader_release(transfer.reader, &frame, transfer.stream));
    transfer_unblock();
    CHECK_OK(sluice_stream_synchronize(transfer.stream));
    for (int i = 0; i < 2; i++) {
        transfer_frame(&transfer, kind, transfer.stream, 7, sentence);
        CHECK_STR(sentence, "");
    }
    transfer_end(&transfer);
}

/* The program's memory may still be written to: that is not a failure. */
TEST_TIMEOUT(a_fetch_without_a_word_may_be_under_way_still, 60)
{
    fetch_without_a_word(1);
}

TEST_TIMEOUT(a_stage_without_a_word_fails_no_later_copy, 60)
{
    fetch_without_a_word(0);
}

/* One of two copies is queued when the next one fails, and is still in flight. */
static void fail_in_part(struct transfer *transfer, const struct sluice_array *arrays, uint32_t count)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_send(transfer->writer, arrays, count, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(transfer->reader, transfer->stream, 20 * SLUICE_S, &frame));
    transfer_block(transfer);
    fake_fail(FAKE_MemcpyAsync, 2, SL_CU_UNKNOWN);
    CHECK_SAYS(sluice_reader_fetch(transfer->reader, &frame, arrays, count, transfer->stream, NULL), SLUICE_TIMEOUT,
               "did not reach the copy within 10 s");
    CHECK(fake_failed());
    CHECK_OK(sluice_reader_release(transfer->reader, &frame, transfer->stream));
    transfer_unblock();
    transfer_finish();
    transfer_end(transfer);
}

TEST_TIMEOUT(a_fetch_that_fails_at_its_second_array, 60)
{
    struct transfer transfer = transfer_begin_with(0, 2, 0);
    struct sluice_array arrays[] = { transfer.arrays[1], transfer.arrays[2] };

    snprintf(arrays[1].name, sizeof arrays[1].name, "more");
    fail_in_part(&transfer, arrays, 2);
}

TEST_TIMEOUT(a_fetch_that_fails_at_its_second_stage, 60)
{
    struct transfer transfer = transfer_begin();

    fail_in_part(&transfer, &transfer.arrays[0], 1);
}

/* ---- the GPU still reads the slot, whose memory stays for that ---- */

/* Releases a frame while a fetch of it is in flight that timed out. Returns the address of the copy's last byte. */
static volatile char *give_up(struct transfer *transfer)
{
    volatile char *last = (char *)transfer->arrays[1].data + TRANSFER_SIZE - 1;
    struct sluice_frame frame;

    *last = 7;
    CHECK_OK(sluice_writer_send(transfer->writer, &transfer->arrays[1], 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(transfer->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    *last = 0;
    fake_machine.delay = FAKE_ENDLESS;
    CHECK_RESULT(sluice_reader_fetch(transfer->reader, &frame, &transfer->arrays[1], 1, SLUICE_ON_CPU, NULL),
                 SLUICE_TIMEOUT);
    fake_machine.delay = 0;
    CHECK_OK(sluice_reader_release(transfer->reader, &frame, SLUICE_ON_CPU));
    CHECK_EQ(*last, 0);
    return last;
}

TEST_TIMEOUT(a_reader_that_closes_while_a_fetch_is_under_way, 60)
{
    TEST_KEEPS_FDS();
    struct transfer transfer = transfer_begin();
    volatile char *last = give_up(&transfer);

    CHECK_OK(sluice_reader_close(&transfer.reader));
    CHECK_EQ(*last, 0);
    fake_release();
    transfer_finish();
    CHECK_EQ(*last, 7);
    CHECK_OK(sluice_writer_send(transfer.writer, &transfer.arrays[1], 1, SLUICE_ON_CPU, NULL));
    transfer_end(&transfer);
}

/* That is all that the reader has of the old format. It is given back with the reader, which closes when the copy has
 * ended. */
TEST_TIMEOUT(a_format_that_changes_while_a_fetch_is_under_way, 60)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct transfer transfer = transfer_begin();
    volatile char *last = give_up(&transfer);
    struct sluice_frame frame;
    int64_t size = TRANSFER_SIZE / 2;

    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    CHECK_OK(sluice_writer_reformat(transfer.writer, &format));
    for (int i = 0; i < 12; i++) {
        CHECK_OK(sluice_writer_begin(transfer.writer, SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(transfer.writer, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_acquire(transfer.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(transfer.reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(*last, 0);
    fake_release();
    transfer_finish();
    CHECK_EQ(*last, 7);
    transfer_end(&transfer);
    CHECK_EQ(fake_things().mappings, 0);
}

/* Its end will not be known, so what it uses stays for good. */
TEST_TIMEOUT(a_reader_that_closes_while_a_fetch_without_a_word_is_under_way, 60)
{
    TEST_KEEPS_FDS();
    struct transfer transfer = transfer_begin();
    struct sluice_frame frame = frame_without_a_word(&transfer, SLUICE_ON_CPU);

    CHECK_RESULT(sluice_reader_fetch(transfer.reader, &frame, &transfer.arrays[1], 1, transfer.stream, NULL),
                 SLUICE_TIMEOUT);
    CHECK_OK(sluice_reader_release(transfer.reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&transfer.reader));
    transfer_unblock();
    transfer_finish();
    transfer_end(&transfer);
}
