/* SPDX-License-Identifier: MIT
 *
 * As many readers as a channel admits, in a process each, all of them killed at once.
 */
#include <signal.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "multi/kit.h"

#define FRAMES 200

static sluice_writer *open_writer(void)
{
    struct sluice_format format = kit_format(10000);
    struct sluice_writer_params params = kit_writer_params("cam", &format);
    sluice_writer *writer;

    test_dir();
    params.slots = 8;
    params.max_slots = SLUICE_MAX_SLOTS;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

/* Every other one takes all frames in order, the others the newest. */
static void join(struct child *crowd)
{
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        crowd[i] = kit_start("reader", i % 2 ? "mode=1" : "mode=0", "depth=8", "open_ms=20000", NULL);
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        child_expect(&crowd[i], "open", 30);
}

static void one_more_is_refused(void)
{
    CHECK_SAYS(kit_try_read("cam"), SLUICE_E_LIMIT, "all 64 places for readers are taken");
}

static void check_reading(struct child *reader, bool in_order, uint64_t before, uint64_t last)
{
    char text[256];

    snprintf(text, sizeof text, "%s", ask(reader, "stats"));
    CHECK_HAS(text, "ran ");
    CHECK_EQ(NUMBER(text, "torn"), 0);
    CHECK_EQ(NUMBER(text, "back"), 0);
    CHECK_EQ(NUMBER(text, "lost"), 0);
    CHECK_EQ(NUMBER(text, "sessions"), 1);
    CHECK_EQ(NUMBER(text, "last"), last);
    CHECK_GE(NUMBER(text, "first"), before); /* the newest one was there already */
    /* Each frame was taken or counted as missed; those before its first one do not count. */
    long long seen = NUMBER(text, "last") - NUMBER(text, "first") + 1;
    CHECK_GE(NUMBER(text, "ran") + NUMBER(text, "missed"), seen);
    if (in_order) /* also those before its first one, which a reader that gets no CPU may lose */
        CHECK_GE(NUMBER(text, "ran") + NUMBER(text, "missed"), last - before);
}

static bool all_have_read(void)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[SLUICE_MAX_READERS];

    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, readers, SLUICE_MAX_READERS));
    CHECK_EQ(info.readers, SLUICE_MAX_READERS);
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        if (readers[i].lag != 0)
            return false;
    return true;
}

/* Frames at a rate at which nobody loses one, unless the machine is busy. */
static void write_and_check(sluice_writer *writer, struct child *crowd)
{
    uint64_t before = kit_writer_stats(writer).committed;

    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        EXPECT_ANSWER(&crowd[i], "run", "running");
    for (int i = 0; i < FRAMES; i++) {
        CHECK_OK(kit_commit(writer));
        test_nap(2 * SLUICE_MS);
    }
    uint64_t last = kit_writer_stats(writer).committed;
    CHECK_EQ(last, before + FRAMES);
    CHECK_SOON(all_have_read(), 10); /* the slowest one reaches the end */
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        check_reading(&crowd[i], i % 2, before, last);
}

static void kill_all(struct child *crowd)
{
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        kill(crowd[i].pid, SIGKILL);
    for (int i = 0; i < SLUICE_MAX_READERS; i++)
        CHECK_EQ(child_wait(&crowd[i], 10), -SIGKILL);
}

/* All slots but the newest frame's. */
static void check_all_slots_free(sluice_writer *writer)
{
    struct sluice_frame frames[SLUICE_MAX_SLOTS];
    uint32_t begun = 0;

    while (begun < SLUICE_MAX_SLOTS && sluice_writer_begin(writer, 0, &frames[begun]) == 0)
        begun++;
    for (uint32_t i = 0; i < begun; i++)
        CHECK_OK(sluice_writer_cancel(writer, &frames[i], SLUICE_ON_CPU));
    CHECK_EQ(begun, SLUICE_MAX_SLOTS - 1);
}

TEST_TIMEOUT(sixty_four_readers_at_once, 240)
{
    struct child crowd[SLUICE_MAX_READERS];
    sluice_writer *writer = open_writer();

    for (uint64_t round = 1; round <= 2; round++) {
        join(crowd);
        CHECK_EQ(kit_writer_stats(writer).readers, SLUICE_MAX_READERS);
        one_more_is_refused();
        write_and_check(writer, crowd);
        for (int i = 0; i < SLUICE_MAX_READERS; i++) { /* each holds a frame, many of them another one */
            CHECK_OK(kit_commit(writer));
            EXPECT_ANSWER(&crowd[i], "hold 20000", "holds ");
        }
        kill_all(crowd);
        kit_commits(writer, 20); /* the writer goes on at once */
        CHECK_SOON(kit_writer_stats(writer).readers == 0, 5);
        CHECK_EQ(kit_writer_stats(writer).readers_died, round * SLUICE_MAX_READERS);
        check_all_slots_free(writer);
    }
    CHECK_OK(kit_try_read("cam"));
    CHECK_OK(sluice_writer_close(&writer));
}
