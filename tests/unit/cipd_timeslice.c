/* SPDX-License-Identifier: MIT
 *
 * When frames for copies are chosen in the GPU's time slice, and how much work keeps one.
 */
#include "cuda_link/cuda_link.h"
#include "harness/test.h"

/* A copy is made as requested, and is whole or not. Was it made in a time slice? */
static bool copy(struct sl_cipd_turns *turns, enum sl_cipd_way in_timeslice, bool whole)
{
    bool wanted = turns->left > 0;

    if (wanted)
        turns->way = in_timeslice;
    sl_cipd_turns_judge(turns, whole);
    CHECK_EQ(turns->way, SL_CIPD_PLAIN);
    return wanted;
}

/* The number of copies in time slices before one that is not, all of them whole. */
static uint32_t turns_in_row(struct sl_cipd_turns *turns)
{
    uint32_t count = 0;

    while (turns->left) {
        CHECK(copy(turns, SL_CIPD_KEPT, true));
        count++;
    }
    return count;
}

TEST(cipd_no_timeslice_is_wanted_while_copies_are_whole)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    for (int i = 0; i < 1000; i++)
        CHECK(!copy(&turns, SL_CIPD_KEPT, true));
}

TEST(cipd_an_overtaken_copy_asks_for_a_few_timeslices)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    for (int i = 0; i < 3; i++) { /* each is a separate one */
        CHECK(!copy(&turns, SL_CIPD_KEPT, false));
        CHECK_EQ(turns_in_row(&turns), 4);
        CHECK(!copy(&turns, SL_CIPD_KEPT, true));
    }
}

TEST(cipd_a_writer_that_overtakes_all_others_asks_for_more_each_time)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    for (uint32_t expected = 4; expected <= 64; expected *= 2) {
        CHECK(!copy(&turns, SL_CIPD_KEPT, false));
        CHECK_EQ(turns_in_row(&turns), expected);
    }
    CHECK(!copy(&turns, SL_CIPD_KEPT, false));
    CHECK_EQ(turns_in_row(&turns), 64);
}

/* The number of overtaken copies without a time slice before one is tried, which is overtaken, too. */
static uint32_t plain_in_row(struct sl_cipd_turns *turns)
{
    uint32_t count = 0;

    while (!turns->left) {
        CHECK(!copy(turns, SL_CIPD_KEPT, false));
        count++;
    }
    CHECK(copy(turns, SL_CIPD_KEPT, false));
    return count;
}

TEST(cipd_timeslices_that_do_not_help_are_tried_less_often)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    CHECK_EQ(plain_in_row(&turns), 1);
    for (uint32_t expected = 1; expected <= 64; expected *= 2)
        CHECK_EQ(plain_in_row(&turns), expected + 1);
    CHECK_EQ(plain_in_row(&turns), 65);
    for (int i = 0; i < 65; i++)
        CHECK(!copy(&turns, SL_CIPD_KEPT, false));
    CHECK_EQ(turns_in_row(&turns), 4); /* they help after all */
    CHECK_EQ(plain_in_row(&turns), 1);
    CHECK_EQ(plain_in_row(&turns), 2);
}

/* A copy that came too late does not show whether time slices help. But none is late for ever. */
TEST(cipd_a_copy_that_missed_its_timeslice_is_tried_again_in_one)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    CHECK(!copy(&turns, SL_CIPD_LATE, false));
    for (int i = 0; i < 4; i++)
        CHECK(copy(&turns, SL_CIPD_LATE, false));
    CHECK(!copy(&turns, SL_CIPD_LATE, false));
    CHECK(copy(&turns, SL_CIPD_LATE, false));
}

static void learn(struct sl_cipd_turns *turns, int64_t piece_ns)
{
    turns->way = SL_CIPD_KEPT;
    sl_cipd_turns_learn(turns, piece_ns * (turns->pieces + 2));
}

TEST(cipd_a_timeslice_is_kept_by_as_much_work_as_is_needed)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    CHECK_EQ(turns.pieces, 16);
    learn(&turns, 2000);
    CHECK_EQ(turns.pieces, 50); /* 100 us */
    learn(&turns, 20000);
    CHECK_EQ(turns.pieces, 5);
    learn(&turns, 5000000);
    CHECK_EQ(turns.pieces, 1);
    learn(&turns, 0);
    CHECK_EQ(turns.pieces, 64);
    turns.way = SL_CIPD_PLAIN;
    sl_cipd_turns_learn(&turns, 5000000); /* which shows nothing about pieces */
    CHECK_EQ(turns.pieces, 64);
}

TEST(cipd_a_timeslice_that_ended_too_soon_is_kept_longer)
{
    struct sl_cipd_turns turns;

    sl_cipd_turns_begin(&turns);
    learn(&turns, 10000);
    CHECK_EQ(turns.pieces, 10);
    sl_cipd_turns_late(&turns);
    CHECK_EQ(turns.pieces, 20);
    CHECK_EQ(turns.way, SL_CIPD_LATE);
    uint32_t before = 20;
    for (int i = 0; i < 50; i++) { /* that was once, and is gradually forgotten */
        learn(&turns, 10000);
        CHECK_LE(turns.pieces, before);
        before = turns.pieces;
    }
    CHECK_LE(turns.pieces, 11);
    for (int i = 0; i < 20; i++)
        sl_cipd_turns_late(&turns);
    CHECK_EQ(turns.pieces, 64);
    learn(&turns, 100000);
    CHECK_EQ(turns.pieces, 10); /* of at most 1 ms */
}
