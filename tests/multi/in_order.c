/* SPDX-License-Identifier: MIT
 *
 * How many frames a reader may hold, keep and skip; every frame in order, within depth and policy.
 */
#include <stdio.h>
#include <string.h>

#include "multi/kit.h"

#define SOON (10 * SLUICE_S) /* "at once" on a busy machine */

TEST(a_reader_that_holds_too_many_learns_which)
{
    sluice_writer *writer = kit_open_writer(0, 0, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 0, 2, 0), *one = kit_open_reader(SLUICE_NEWEST, 0, 0, 0);
    struct sluice_frame a, b, c;

    kit_commits(writer, 4);
    a = kit_take(reader);
    b = kit_take(reader);
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &c), SLUICE_E_LIMIT,
               "holds 2 frames already (1, 2)");
    CHECK_EQ(kit_reader_stats(reader).held, 2);
    kit_give(reader, &a);
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &c));
    CHECK_EQ(c.sequence, 3);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &a), SLUICE_E_LIMIT);
    CHECK_HAS(sluice_last_error(), "2");
    CHECK_HAS(sluice_last_error(), "3");
    kit_give(reader, &c);
    kit_give(reader, &b);

    a = kit_take(one); /* one at a time is the default */
    CHECK_SAYS(sluice_reader_acquire(one, SLUICE_ON_CPU, 0, &b), SLUICE_E_LIMIT, "(4)");
    kit_give(one, &a);
    CHECK_OK(sluice_reader_close(&one));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_reader_holds_as_many_as_each_writer_allows)
{
    sluice_writer *writer = kit_open_writer(4, 8, 0);
    struct sluice_reader_params params = kit_reader_params("cam");
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info seen;
    struct sluice_frame frames[8];
    sluice_reader *reader;
    int r;

    params.open_timeout_ns = 20 * SLUICE_S;
    params.hold = SLUICE_MOST;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(kit_reader_stats(reader).hold, 6);
    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, &seen, 1));
    CHECK_EQ(seen.hold, 6); /* the writer holds it to that */
    for (int i = 0; i < 6; i++) {
        kit_commits(writer, 1);
        frames[i] = kit_take(reader);
    }
    kit_commits(writer, 50);
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frames[6]), SLUICE_E_LIMIT, "holds 6 frames");
    CHECK_EQ(kit_writer_stats(writer).evicted, 0);
    CHECK_OK(sluice_writer_close(&writer));

    CHECK_SOON(!kit_reader_stats(reader).connected, 10);
    frames[6] = kit_take(reader); /* a writer that is gone needs no slot */
    writer = kit_open_writer(3, 5, 0);
    kit_commits(writer, 1);
    do /* the frames of the last writer do not count for this one */
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frames[7]);
    while (r == SLUICE_CLOSED || r == SLUICE_NO_WRITER);
    CHECK_EQ(r, 0);
    CHECK_EQ(kit_reader_stats(reader).hold, 3);
    for (int i = 0; i < 8; i++)
        kit_give(reader, &frames[i]);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(depth_and_hold_over_what_the_channel_has_are_refused)
{
    sluice_writer *writer = kit_open_writer(4, 8, 0);
    struct sluice_reader_params params = kit_reader_params("cam");
    sluice_reader *reader = NULL;

    params.open_timeout_ns = 20 * SLUICE_S;
    params.mode = SLUICE_IN_ORDER;
    params.hold = 7;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_LIMIT, "hold 7 is too much, 8 slots allow 6");
    params.hold = 0;
    params.depth = 7;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_LIMIT, "depth 7 is too much, 8 slots allow 6");
    params.depth = 65;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_LIMIT, "64 at most");
    CHECK(reader == NULL);
    CHECK_GE(kit_writer_stats(writer).refused, 2); /* a busy machine leaves time for one retry */

    params.depth = 6;
    params.hold = 6;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_EQ(kit_reader_stats(reader).depth, 6);
    struct sluice_frame frames[6];
    for (int i = 0; i < 6; i++) {
        kit_commits(writer, 1);
        frames[i] = kit_take(reader);
    }
    kit_commits(writer, 50); /* what it holds does not starve the writer */
    for (int i = 0; i < 6; i++)
        kit_give(reader, &frames[i]);
    CHECK_OK(sluice_reader_close(&reader));
    reader = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 0);
    CHECK_EQ(kit_reader_stats(reader).depth, 4); /* the default */
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(every_third_frame_is_every_third)
{
    sluice_writer *writer = kit_open_writer(0, 0, 0);
    sluice_reader *recorder = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 3),
                  *newest = kit_open_reader(SLUICE_NEWEST, 0, 0, 3);
    struct sluice_frame frame;

    for (uint64_t i = 1; i <= 30; i++) {
        kit_commits(writer, 1);
        if (i % 3 != 1) {
            CHECK_RESULT(sluice_reader_acquire(recorder, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
            CHECK_RESULT(sluice_reader_acquire(newest, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
            continue;
        }
        frame = kit_take(recorder);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.missed, 0);
        kit_give(recorder, &frame);
        frame = kit_take(newest);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.missed, 0);
        kit_give(newest, &frame);
    }
    /* Late: it gets the newest one, and frames since the third that it asked for count as missed. */
    kit_commits(writer, 7);
    frame = kit_take(newest);
    CHECK_EQ(frame.sequence, 37);
    CHECK_EQ(frame.missed, 6);
    kit_give(newest, &frame);
    CHECK_EQ(kit_reader_stats(newest).missed, 6);
    CHECK_OK(sluice_reader_close(&newest));
    CHECK_OK(sluice_reader_close(&recorder));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(in_order_under_a_waiting_writer_loses_nothing)
{
    long n = test_scale(10000);
    char line[32];

    test_dir();
    struct child writer = kit_start("writer", "bytes=8192", "wait_ms=20000", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 0);
    snprintf(line, sizeof line, "commit %ld", n);
    child_send(&writer, line);
    for (long i = 1; i <= n; i++) {
        struct sluice_frame frame;
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.missed, 0);
        CHECK(kit_whole(&frame, (uint64_t)i));
        if (i % 100 == 0)
            test_nap(2 * SLUICE_MS); /* slow: the writer has to wait */
        kit_give(reader, &frame);
    }
    snprintf(line, sizeof line, "committed %ld", n);
    child_expect(&writer, line, 5);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "dropped"), 0);
    CHECK_EQ(NUMBER(ask(&writer, "stats"), "stolen"), 0);
    CHECK_EQ(kit_reader_stats(reader).missed, 0);
    CHECK_EQ(kit_reader_stats(reader).taken, n);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_waiting_writer_names_who_has_not_read)
{
    sluice_writer *writer = kit_open_writer(4, 4, 50 * SLUICE_MS);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 2, 0, 0);
    struct sluice_frame frame;

    kit_commits(writer, 4);
    CHECK_SAYS(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), SLUICE_NO_SLOT, "has not read 4 frames");
    for (uint64_t i = 1; i <= 4; i++) {
        frame = kit_take(reader);
        CHECK_EQ(frame.sequence, i);
        kit_give(reader, &frame);
    }
    kit_commits(writer, 1);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(in_order_under_a_dropping_writer_loses_its_oldest_counted)
{
    sluice_writer *writer = kit_open_writer(4, 6, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 4, 0, 0);
    struct sluice_frame frame;

    kit_commits(writer, 100);
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    /* At least the newest four were kept; with six slots it may be five. */
    frame = kit_take(reader);
    CHECK_LE(frame.sequence, 97);
    CHECK_GE(frame.sequence, 95);
    CHECK_EQ(frame.missed, frame.sequence - 1);
    CHECK_EQ(kit_writer_stats(writer).stolen, frame.missed);
    uint64_t last = frame.sequence;
    kit_give(reader, &frame);
    while (last < 100) {
        frame = kit_take(reader);
        CHECK_EQ(frame.sequence, ++last);
        CHECK_EQ(frame.missed, 0);
        kit_give(reader, &frame);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(taken_and_missed_account_for_every_frame)
{
    test_dir();
    struct child writer = kit_start("writer", "bytes=20000", NULL);
    child_expect(&writer, "open", 5);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 0);
    uint64_t taken = 0, missed = 0, last = 0;
    int64_t until = test_now() + test_scale(1000) * SLUICE_MS;
    struct sluice_frame frame;
    int r;

    EXPECT_ANSWER(&writer, "run 20", "running");
    while (test_now() < until || missed == 0) {
        frame = kit_take(reader);
        CHECK(frame.sequence > last);
        CHECK_EQ(frame.sequence - last, frame.missed + 1);
        last = frame.sequence;
        taken++;
        missed += frame.missed;
        if (taken % 50 == 0)
            test_nap(3 * SLUICE_MS); /* behind by more than its depth */
        kit_give(reader, &frame);
    }
    CHECK_EQ(NUMBER(ask(&writer, "stop"), "dropped"), 0);
    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame)) == 0 || r == SLUICE_AGAIN) {
        if (r != 0)
            continue; /* its memory has not arrived yet */
        taken++;
        missed += frame.missed;
        kit_give(reader, &frame);
    }
    CHECK_EQ(r, SLUICE_TIMEOUT);
    const char *stats = ask(&writer, "stats");
    CHECK_EQ(taken + missed, NUMBER(stats, "committed"));
    CHECK_EQ(missed, NUMBER(stats, "stolen"));
    CHECK(missed > 0);
    CHECK_EQ(kit_reader_stats(reader).missed, missed);
    CHECK_EQ(kit_reader_stats(reader).taken, taken);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_reader_that_stopped_holds_no_writer_up)
{
    sluice_writer *writer = kit_open_writer(4, 4, 20 * SLUICE_S);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 2, 2, 0);
    struct sluice_frame frame, more;

    kit_commits(writer, 4);
    frame = kit_take(reader);
    CHECK_RESULT(sluice_writer_begin(writer, 20 * SLUICE_MS, &more), SLUICE_NO_SLOT); /* 2 to 4 are unread */
    CHECK_OK(sluice_reader_stop(reader));
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S, &more), SLUICE_E_CLOSED, "");
    int64_t began = test_now();
    for (uint64_t i = 5; i <= 100; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &more));
        kit_fill(&more, i);
        CHECK_OK(sluice_writer_commit(writer, &more, SLUICE_ON_CPU));
    }
    CHECK_LE(test_now() - began, SOON);
    kit_give(reader, &frame); /* whole to the end */
    CHECK_OK(sluice_reader_stop(reader));
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_RESULT(sluice_reader_stop(reader), SLUICE_E_INVALID);
    CHECK_OK(sluice_writer_close(&writer));
}
