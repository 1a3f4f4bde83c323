/* SPDX-License-Identifier: MIT
 *
 * When frames for copies are chosen in the GPU's time slice, and how much work keeps one.
 */
#include "cuda_link/cuda_link.h"
#include "harness/test.h"

/* A copy is made as requested, and is whole or not. Was it made in a time slice? */
static bool copy(struct sl_cipd_timeslice *turns, enum sl_cipd_copy_mode in_timeslice, bool whole)
{
    bool wanted = turns->left > 0;

    if (wanted)
        turns->mode = in_timeslice;
    sl_cipd_timeslice_judge(turns, whole);
    CHECK_EQ(turns->mode, SL_CIPD_COPY_ANYTIME);
    return wanted;
}

/* The number of copies in time slices before one that is not, all of them whole. */
static uint32_t turns_in_row(struct sl_cipd_timeslice *turns)
{
    uint32_t count = 0;

    while (turns->left) {
        CHECK(copy(turns, SL_CIPD_COPY_IN_SLICE, true));
        count++;
    }
    return count;
}

TEST(cipd_no_timeslice_is_wanted_while_copies_are_whole)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    for (int i = 0; i < 1000; i++)
        CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, true));
}

TEST(cipd_an_overtaken_copy_asks_for_a_few_timeslices)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    for (int i = 0; i < 3; i++) { /* each is a separate one */
        CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, false));
        CHECK_EQ(turns_in_row(&turns), 4);
        CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, true));
    }
}

TEST(cipd_a_writer_that_overtakes_all_others_asks_for_more_each_time)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    for (uint32_t expected = 4; expected <= 64; expected *= 2) {
        CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, false));
        CHECK_EQ(turns_in_row(&turns), expected);
    }
    CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, false));
    CHECK_EQ(turns_in_row(&turns), 64);
}

/* The number of overtaken copies without a time slice before one is tried, which is overtaken, too. */
static uint32_t plain_in_row(struct sl_cipd_timeslice *turns)
{
    uint32_t count = 0;

    while (!turns->left) {
        CHECK(!copy(turns, SL_CIPD_COPY_IN_SLICE, false));
        count++;
    }
    CHECK(copy(turns, SL_CIPD_COPY_IN_SLICE, false));
    return count;
}

TEST(cipd_timeslices_that_do_not_help_are_tried_less_often)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    CHECK_EQ(plain_in_row(&turns), 1);
    for (uint32_t expected = 1; expected <= 64; expected *= 2)
        CHECK_EQ(plain_in_row(&turns), expected + 1);
    CHECK_EQ(plain_in_row(&turns), 65);
    for (int i = 0; i < 65; i++)
        CHECK(!copy(&turns, SL_CIPD_COPY_IN_SLICE, false));
    CHECK_EQ(turns_in_row(&turns), 4); /* they help after all */
    CHECK_EQ(plain_in_row(&turns), 1);
    CHECK_EQ(plain_in_row(&turns), 2);
}

/* A copy that came too late does not show whether time slices help. But none is late for ever. */
TEST(cipd_a_copy_that_missed_its_timeslice_is_tried_again_in_one)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    CHECK(!copy(&turns, SL_CIPD_COPY_SLICE_MISSED, false));
    for (int i = 0; i < 4; i++)
        CHECK(copy(&turns, SL_CIPD_COPY_SLICE_MISSED, false));
    CHECK(!copy(&turns, SL_CIPD_COPY_SLICE_MISSED, false));
    CHECK(copy(&turns, SL_CIPD_COPY_SLICE_MISSED, false));
}

static void learn(struct sl_cipd_timeslice *turns, int64_t piece_ns)
{
    turns->mode = SL_CIPD_COPY_IN_SLICE;
    sl_cipd_timeslice_measured(turns, piece_ns * (turns->pieces + 2));
}

TEST(cipd_a_timeslice_is_kept_by_as_much_work_as_is_needed)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    CHECK_EQ(turns.pieces, 16);
    learn(&turns, 2000);
    CHECK_EQ(turns.pieces, 50); /* 100 us */
    learn(&turns, 20000);
    CHECK_EQ(turns.pieces, 5);
    learn(&turns, 5000000);
    CHECK_EQ(turns.pieces, 1);
    learn(&turns, 0);
    CHECK_EQ(turns.pieces, 64);
    turns.mode = SL_CIPD_COPY_ANYTIME;
    sl_cipd_timeslice_measured(&turns, 5000000); /* which shows nothing about pieces */
    CHECK_EQ(turns.pieces, 64);
}

TEST(cipd_a_timeslice_that_ended_too_soon_is_kept_longer)
{
    struct sl_cipd_timeslice turns;

    sl_cipd_timeslice_init(&turns);
    learn(&turns, 10000);
    CHECK_EQ(turns.pieces, 10);
    sl_cipd_timeslice_missed(&turns);
    CHECK_EQ(turns.pieces, 20);
    CHECK_EQ(turns.mode, SL_CIPD_COPY_SLICE_MISSED);
    uint32_t before = 20;
    for (int i = 0; i < 50; i++) { /* that was once, and is gradually forgotten */
        learn(&turns, 10000);
        CHECK_LE(turns.pieces, before);
        before = turns.pieces;
    }
    CHECK_LE(turns.pieces, 11);
    for (int i = 0; i < 20; i++)
        sl_cipd_timeslice_missed(&turns);
    CHECK_EQ(turns.pieces, 64);
    learn(&turns, 100000);
    CHECK_EQ(turns.pieces, 10); /* of at most 1 ms */
}
