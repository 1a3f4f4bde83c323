/* SPDX-License-Identifier: MIT
 *
 * What happens when slots run out, and how many frames a reader may hold, keep and skip.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multi/kit.h"

#define SOON (10 * SLUICE_S) /* "at once" on a busy machine */

/* Two reader processes that hold a frame each, of a channel with 3 slots: none is free. */
struct starved {
    struct child a, b;
    int64_t began;
};

static struct starved starve(sluice_writer *writer)
{
    struct starved s = { .a = kit_start("reader", NULL), .began = test_now() };
    child_expect(&s.a, "open", 5);
    s.b = kit_start("reader", NULL);
    child_expect(&s.b, "open", 5);
    kit_commits(writer, 1);
    EXPECT_ANSWER(&s.a, "hold 20000", "holds 1 ");
    kit_commits(writer, 1);
    EXPECT_ANSWER(&s.b, "hold 20000", "holds 2 ");
    kit_commits(writer, 1);
    return s;
}

static void feed(struct starved *s)
{
    EXPECT_ANSWER(&s->a, "check", "whole 1");
    EXPECT_ANSWER(&s->b, "check", "whole 1");
    role_stop(&s->a);
    role_stop(&s->b);
}

static void check_names(const struct starved *s, const struct child *holder)
{
    char text[64];
    snprintf(text, sizeof text, "(process %d) has held 1 for ", (int)holder->pid);
    CHECK_HAS(sluice_last_error(), text);
    double seconds = strtod(strstr(sluice_last_error(), text) + strlen(text), NULL);
    CHECK(seconds >= 0 && seconds <= (double)(test_now() - s->began) / 1e9 + 0.001);
}

static void check_names_both(const struct starved *s)
{
    check_names(s, &s->a);
    check_names(s, &s->b);
}

TEST(a_dropping_writer_learns_at_once_who_holds_what)
{
    sluice_writer *writer = kit_open_writer(3, 3, 0);
    struct starved s = starve(writer);
    struct sluice_frame frame;

    for (int i = 1; i <= 3; i++) {
        int64_t began = test_now();
        CHECK_SAYS(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), SLUICE_NO_SLOT,
                   "none of its 3 slots is free (0 being written)");
        CHECK_LE(test_now() - began, SOON);
        check_names_both(&s);
        CHECK_EQ(kit_writer_stats(writer).dropped, i);
    }
    EXPECT_ANSWER(&s.a, "give", "gave 1");
    kit_commits(writer, 1);
    EXPECT_ANSWER(&s.a, "take 20000", "took 4 missed 5 "); /* 2 passed over, 3 dropped */
    EXPECT_ANSWER(&s.b, "check", "whole 1");
    role_stop(&s.a);
    role_stop(&s.b);
    CHECK_OK(sluice_writer_close(&writer));
}

static bool line_is_there(const struct child *child)
{
    struct pollfd out = { .fd = child->out, .events = POLLIN };
    return poll(&out, 1, 0) > 0;
}

TEST(a_waiting_writer_is_woken_by_a_release)
{
    test_dir();
    struct child writer = kit_start("writer", "slots=3", "max_slots=3", "wait_ms=20000", NULL);
    child_expect(&writer, "open", 5);
    struct child a = kit_start("reader", NULL), b = kit_start("reader", NULL);
    child_expect(&a, "open", 5);
    child_expect(&b, "open", 5);
    EXPECT_ANSWER(&writer, "commit 1", "committed 1");
    EXPECT_ANSWER(&a, "hold 20000", "holds 1 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 2");
    EXPECT_ANSWER(&b, "hold 20000", "holds 2 ");
    EXPECT_ANSWER(&writer, "commit 1", "committed 3");

    child_send(&writer, "commit 1");
    test_nap(50 * SLUICE_MS);
    CHECK(!line_is_there(&writer)); /* it waits */
    int64_t began = test_now();
    EXPECT_ANSWER(&a, "give", "gave 1");
    child_expect(&writer, "committed 4", 5);
    CHECK_LE(test_now() - began, SOON);
    EXPECT_ANSWER(&b, "check", "whole 1");
    role_stop(&a);
    role_stop(&b);
    role_stop(&writer);
}

TEST(a_waiting_writer_gives_up_in_time)
{
    sluice_writer *writer = kit_open_writer(3, 3, 200 * SLUICE_MS);
    struct starved s = starve(writer);
    struct sluice_frame frame;

    int64_t began = test_now();
    CHECK_RESULT(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), SLUICE_NO_SLOT);
    CHECK_GE(test_now() - began, 200 * SLUICE_MS);
    CHECK_LE(test_now() - began, 200 * SLUICE_MS + SOON);
    check_names_both(&s);
    CHECK_GE(kit_writer_stats(writer).waited_ns, 200 * SLUICE_MS);
    feed(&s);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_time_out_of_begin_overrules_the_policy)
{
    for (int64_t wait_ns = 0; wait_ns <= 60 * SLUICE_S; wait_ns += 60 * SLUICE_S) {
        sluice_writer *writer = kit_open_writer(3, 3, wait_ns);
        struct starved s = starve(writer);
        struct sluice_frame frame;

        int64_t began = test_now();
        CHECK_RESULT(sluice_writer_begin(writer, 0, &frame), SLUICE_NO_SLOT);
        CHECK_LE(test_now() - began, SOON);
        began = test_now();
        CHECK_RESULT(sluice_writer_begin(writer, 100 * SLUICE_MS, &frame), SLUICE_NO_SLOT);
        CHECK_GE(test_now() - began, 100 * SLUICE_MS);
        CHECK_LE(test_now() - began, 100 * SLUICE_MS + SOON);
        CHECK_RESULT(sluice_writer_begin(writer, -2, &frame), SLUICE_E_INVALID);
        feed(&s);
        CHECK_OK(sluice_writer_close(&writer));
    }
}

TEST(a_writer_may_wait_without_giving_up_a_frame)
{
    sluice_writer *writer = kit_open_writer(3, 3, 0);
    struct starved s = starve(writer);
    struct sluice_frame frame;

    int64_t began = test_now();
    CHECK_RESULT(sluice_writer_wait(writer, 100 * SLUICE_MS), SLUICE_NO_SLOT);
    CHECK_GE(test_now() - began, 100 * SLUICE_MS);
    CHECK_LE(test_now() - began, 100 * SLUICE_MS + SOON);
    check_names_both(&s);
    CHECK_RESULT(sluice_writer_wait(writer, 0), SLUICE_NO_SLOT);
    CHECK_RESULT(sluice_writer_wait(writer, -1), SLUICE_E_INVALID);
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    EXPECT_ANSWER(&s.a, "give", "gave 1");
    CHECK_OK(sluice_writer_wait(writer, 20 * SLUICE_S));
    CHECK_OK(sluice_writer_wait(writer, 0)); /* it takes none */
    CHECK_OK(sluice_writer_begin(writer, 0, &frame));
    kit_fill(&frame, 4);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    EXPECT_ANSWER(&s.a, "take 20000", "took 4 missed 2 ");
    CHECK_EQ(kit_writer_stats(writer).cancelled, 0);
    EXPECT_ANSWER(&s.b, "check", "whole 1");
    role_stop(&s.a);
    role_stop(&s.b);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_writer_grows_to_its_limit_then_drops)
{
    sluice_writer *writer = kit_open_writer(0, 0, 0); /* 4, growing to 8 */
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 6, 0, 0);
    struct sluice_frame frames[8], frame;

    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    for (int i = 0; i < 8; i++) {
        CHECK_OK(sluice_writer_begin(writer, kit_device() ? 20 * SLUICE_S : SLUICE_DEFAULT,
                                     &frames[i])); /* a GPU makes it when it can */
        CHECK_EQ(kit_writer_stats(writer).slots, i < 4 ? 4 : i + 1);
    }
    CHECK_SAYS(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame), SLUICE_NO_SLOT,
               "8 slots is free (8 being written)");
    for (int i = 0; i < 8; i++) {
        kit_fill(&frames[i], (uint64_t)i + 1);
        CHECK_OK(sluice_writer_commit(writer, &frames[i], SLUICE_ON_CPU));
    }
    /* All of them can be read, also in the memories of added slots. */
    for (uint64_t i = 1; i <= 8; i++) {
        frame = kit_take(reader);
        CHECK_EQ(frame.sequence, i);
        CHECK_EQ(frame.generation, 1);
        CHECK_EQ(frame.flags, i == 1 ? SLUICE_FRAME_NEW_FORMAT | SLUICE_FRAME_NEW_SESSION : 0);
        kit_give(reader, &frame);
    }
    kit_commits(writer, 20);
    CHECK_EQ(kit_writer_stats(writer).slots, 8);
    CHECK_EQ(kit_writer_stats(writer).dropped, 1);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_waiting_writer_grows_before_it_waits)
{
    sluice_writer *writer = kit_open_writer(3, 4, SLUICE_S);
    struct starved s = starve(writer);

    kit_commits(writer, 1);
    CHECK_EQ(kit_writer_stats(writer).slots, 4);
    if (!kit_device()) /* a GPU makes the slot when it can */
        CHECK_EQ(kit_writer_stats(writer).waited_ns, 0);
    feed(&s);
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(a_cancelled_frame_never_was)
{
    sluice_writer *writer = kit_open_writer(0, 0, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 0);
    struct sluice_frame frame;

    kit_commits(writer, 1);
    for (int i = 0; i < 30; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        kit_fill(&frame, 666);
        CHECK_RESULT(sluice_writer_cancel(writer, &frame, (struct sluice_stream){ 0 }), SLUICE_E_INVALID);
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
        CHECK_RESULT(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU), SLUICE_E_STALE);
        CHECK_RESULT(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU), SLUICE_E_STALE);
    }
    frame = kit_take(reader); /* the newest one stayed throughout */
    CHECK_EQ(frame.sequence, 1);
    kit_give(reader, &frame);
    kit_commits(writer, 1);
    frame = kit_take(reader);
    CHECK_EQ(frame.sequence, 2);
    CHECK_EQ(frame.missed, 0);
    kit_give(reader, &frame);
    CHECK_EQ(kit_writer_stats(writer).cancelled, 30);
    CHECK_EQ(kit_writer_stats(writer).dropped, 0);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST(frames_are_numbered_in_the_order_of_commits)
{
    sluice_writer *writer = kit_open_writer(0, 0, 0);
    sluice_reader *reader = kit_open_reader(SLUICE_IN_ORDER, 0, 0, 0);
    static const int order[4] = { 2, 0, 3, 1 };
    struct sluice_frame frames[4], frame;

    for (int i = 0; i < 4; i++) {
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frames[i]));
        for (int k = 0; k < i; k++)
            CHECK_NE(frames[i].slot, frames[k].slot);
        frames[i].meta_size = (uint32_t)sprintf(frames[i].meta, "begun %d", i) + 1;
    }
    for (int i = 0; i < 4; i++) {
        kit_fill(&frames[order[i]], (uint64_t)i + 1);
        CHECK_OK(sluice_writer_commit(writer, &frames[order[i]], SLUICE_ON_CPU));
        CHECK_EQ(frames[order[i]].sequence, i + 1);
    }
    for (int i = 0; i < 4; i++) {
        char text[16];
        sprintf(text, "begun %d", order[i]);
        frame = kit_take(reader);
        CHECK_EQ(frame.sequence, i + 1);
        CHECK_STR((const char *)frame.meta, text);
        kit_give(reader, &frame);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
