/* SPDX-License-Identifier: MIT
 *
 * Readers that wait for a writer, and writers that wait for readers.
 */
#include <signal.h>

#include "multi/kit.h"

static struct child start_writer(void)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=50000", NULL);
    child_expect(&writer, "open", 5);
    return writer;
}

/* All frames of a session that began while it waited. */
static void wait_and_count(uint32_t mode)
{
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_frame frame;
    sluice_reader *reader;

    params.mode = mode;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    for (int session = 1; session <= 2; session++) {
        struct child writer = start_writer();
        uint64_t missed = 0, taken = 0, last = 0;
        EXPECT_ANSWER(&writer, "commit 9", "committed 9");
        while (last < 9) {
            CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
            CHECK_EQ((bool)(frame.flags & SLUICE_FRAME_NEW_SESSION), taken == 0);
            last = frame.sequence;
            missed += frame.missed;
            taken++;
            kit_give(reader, &frame);
        }
        CHECK_EQ(missed + taken, 9);
        child_kill(&writer, SIGKILL);
    }
    CHECK_OK(sluice_reader_close(&reader));
}

TEST(a_reader_that_waited_is_told_what_it_missed)
{
    test_dir();
    wait_and_count(SLUICE_NEWEST);
    wait_and_count(SLUICE_IN_ORDER);
}

TEST(a_reader_that_did_not_wait_missed_nothing_before_its_first_frame)
{
    struct child writer = start_writer();
    struct sluice_frame frame;

    EXPECT_ANSWER(&writer, "commit 9", "committed 9");
    sluice_reader *reader = kit_newest(20 * SLUICE_S);
    frame = kit_take(reader);
    CHECK_EQ(frame.sequence, 9);
    CHECK_EQ(frame.missed, 0);
    kit_give(reader, &frame);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_writer_waits_for_readers)
{
    sluice_writer *writer = kit_writer("cam", 8192);
    struct child readers[2];

    CHECK_OK(sluice_writer_wait_readers(writer, 0, 0));
    CHECK_SAYS(sluice_writer_wait_readers(writer, 1, 0), SLUICE_TIMEOUT, "has 0 readers, not 1 yet");
    CHECK_RESULT(sluice_writer_wait_readers(writer, 1, -1), SLUICE_E_INVALID);
    for (int i = 0; i < 2; i++)
        readers[i] = kit_start("reader", "name=cam", "open_ms=20000", NULL);
    CHECK_OK(sluice_writer_wait_readers(writer, 2, 20 * SLUICE_S));
    CHECK_EQ(kit_writer_stats(writer).readers, 2);
    for (int i = 0; i < 2; i++) {
        child_expect(&readers[i], "open", 5);
        role_stop(&readers[i]);
    }
    sluice_writer *closed = writer;
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_RESULT(sluice_writer_wait_readers(closed, 1, SLUICE_FOREVER), SLUICE_E_CLOSED);
}
