/* SPDX-License-Identifier: MIT
 *
 * Fetches that are given up: the GPU does not get to the copy in time, or nobody can be told when it has. The copy may come later,
 * and finds the memory that it reads.
 */
#include <stdio.h>

#include "fake/send_kit.h"
#include "harness/test.h"

/* A frame whose copies have no word that tells when they end, and a stream that does not get to them. */
static struct sluice_frame frame_without_a_word(struct sending *sending, struct sluice_stream stream)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_send(sending->writer, &sending->arrays[1], 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(sending->reader, stream, 20 * SLUICE_S, &frame));
    sending_hold_up(sending);
    fake_fail(FAKE_StreamWriteValue64, 0, SL_CU_UNKNOWN);
    return frame;
}

TEST_TIMEOUT(a_copy_without_a_word_is_not_waited_for_without_end, 60)
{
    TEST_KEEPS_FDS();
    struct sending sending = sending_begin();
    struct sluice_frame frame = frame_without_a_word(&sending, sending.stream);
    struct sluice_ticket ticket;
    char sentence[1024];

    CHECK_OK(sluice_reader_fetch(sending.reader, &frame, &sending.arrays[1], 1, sending.stream, &ticket));
    CHECK(fake_failed());
    CHECK_RESULT(sluice_stream_query(sending.stream), SLUICE_NOT_READY);
    CHECK_SAYS(sluice_ticket_wait(ticket, SLUICE_FOREVER), SLUICE_E_DRIVER, "the copy failed");
    CHECK_OK(sluice_reader_release(sending.reader, &frame, sending.stream));
    sending_go_on();
    CHECK_OK(sluice_stream_synchronize(sending.stream)); /* the copy was under way still */
    sending_turn(&sending, 1, sending.stream, 7, sentence);
    CHECK_STR(sentence, "");
    sending_end(&sending);
}

static void fetch_without_a_word(int kind)
{
    TEST_KEEPS_FDS();
    struct sending sending = sending_begin();
    struct sluice_frame frame = frame_without_a_word(&sending, sending.stream);
    char sentence[1024];

    CHECK_SAYS(sluice_reader_fetch(sending.reader, &frame, &sending.arrays[kind], 1, sending.stream, NULL), SLUICE_TIMEOUT,
               "did not get to the copy within 10 s");
    CHECK(fake_failed());
    CHECK_OK(sluice_reader_release(sending.reader, &frame, sending.stream));
    sending_go_on();
    CHECK_OK(sluice_stream_synchronize(sending.stream));
    for (int i = 0; i < 2; i++) {
        sending_turn(&sending, kind, sending.stream, 7, sentence);
        CHECK_STR(sentence, "");
    }
    sending_end(&sending);
}

/* The program's memory may still be written to: that is not any failure. */
TEST_TIMEOUT(a_fetch_without_a_word_may_be_under_way_still, 60)
{
    fetch_without_a_word(1);
}

TEST_TIMEOUT(a_stage_without_a_word_fails_no_later_copy, 60)
{
    fetch_without_a_word(0);
}

/* One of two copies is queued when it comes to a failure, and is under way still. */
static void fail_in_part(struct sending *sending, const struct sluice_array *arrays, uint32_t count)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_send(sending->writer, arrays, count, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(sending->reader, sending->stream, 20 * SLUICE_S, &frame));
    sending_hold_up(sending);
    fake_fail(FAKE_MemcpyAsync, 2, SL_CU_UNKNOWN);
    CHECK_SAYS(sluice_reader_fetch(sending->reader, &frame, arrays, count, sending->stream, NULL), SLUICE_TIMEOUT,
               "did not get to the copy within 10 s");
    CHECK(fake_failed());
    CHECK_OK(sluice_reader_release(sending->reader, &frame, sending->stream));
    sending_go_on();
    sending_finish();
    sending_end(sending);
}

TEST_TIMEOUT(a_fetch_that_fails_at_its_second_array, 60)
{
    struct sending sending = sending_begin_with(0, 2, 0);
    struct sluice_array arrays[] = { sending.arrays[1], sending.arrays[2] };

    snprintf(arrays[1].name, sizeof arrays[1].name, "more");
    fail_in_part(&sending, arrays, 2);
}

TEST_TIMEOUT(a_fetch_that_fails_at_its_second_stage, 60)
{
    struct sending sending = sending_begin();

    fail_in_part(&sending, &sending.arrays[0], 1);
}

/* ---- the GPU still reads the slot, whose memory stays for that ---- */

/* Of a frame that is released while a fetch of it is under way that was given up. Returns where its last byte will come. */
static volatile char *give_up(struct sending *sending)
{
    volatile char *last = (char *)sending->arrays[1].data + SENDING_SIZE - 1;
    struct sluice_frame frame;

    *last = 7;
    CHECK_OK(sluice_writer_send(sending->writer, &sending->arrays[1], 1, SLUICE_ON_CPU, NULL));
    CHECK_OK(sluice_reader_acquire(sending->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    *last = 0;
    fake_machine.delay = FAKE_ENDLESS;
    CHECK_RESULT(sluice_reader_fetch(sending->reader, &frame, &sending->arrays[1], 1, SLUICE_ON_CPU, NULL), SLUICE_TIMEOUT);
    fake_machine.delay = 0;
    CHECK_OK(sluice_reader_release(sending->reader, &frame, SLUICE_ON_CPU));
    CHECK_EQ(*last, 0);
    return last;
}

TEST_TIMEOUT(a_reader_that_closes_while_a_fetch_is_under_way, 60)
{
    TEST_KEEPS_FDS();
    struct sending sending = sending_begin();
    volatile char *last = give_up(&sending);

    CHECK_OK(sluice_reader_close(&sending.reader));
    CHECK_EQ(*last, 0);
    fake_release();
    sending_finish();
    CHECK_EQ(*last, 7);
    CHECK_OK(sluice_writer_send(sending.writer, &sending.arrays[1], 1, SLUICE_ON_CPU, NULL));
    sending_end(&sending);
}

/* All that the reader has of the old format but that. It is given back with the reader, which closes when the copy has ended. */
TEST_TIMEOUT(a_format_that_changes_while_a_fetch_is_under_way, 60)
{
    struct sluice_dtype u8 = { SLUICE_UINT, 8, 1 };
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sending sending = sending_begin();
    volatile char *last = give_up(&sending);
    struct sluice_frame frame;
    int64_t size = SENDING_SIZE / 2;

    CHECK_OK(sluice_format_add_tensor(&format, "data", u8, 1, &size));
    CHECK_OK(sluice_format_complete(&format));
    CHECK_OK(sluice_writer_reformat(sending.writer, &format));
    for (int i = 0; i < 12; i++) {
        CHECK_OK(sluice_writer_begin(sending.writer, SLUICE_S, &frame));
        CHECK_OK(sluice_writer_commit(sending.writer, &frame, SLUICE_ON_CPU));
        CHECK_OK(sluice_reader_acquire(sending.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_OK(sluice_reader_release(sending.reader, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(*last, 0);
    fake_release();
    sending_finish();
    CHECK_EQ(*last, 7);
    sending_end(&sending);
    CHECK_EQ(fake_things().mappings, 0);
}

/* Nobody will be told when it ends, so what it uses stays for good. */
TEST_TIMEOUT(a_reader_that_closes_while_a_fetch_without_a_word_is_under_way, 60)
{
    TEST_KEEPS_FDS();
    struct sending sending = sending_begin();
    struct sluice_frame frame = frame_without_a_word(&sending, SLUICE_ON_CPU);

    CHECK_RESULT(sluice_reader_fetch(sending.reader, &frame, &sending.arrays[1], 1, sending.stream, NULL), SLUICE_TIMEOUT);
    CHECK_OK(sluice_reader_release(sending.reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&sending.reader));
    sending_go_on();
    sending_finish();
    sending_end(&sending);
}
