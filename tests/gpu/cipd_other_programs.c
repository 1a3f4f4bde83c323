/* SPDX-License-Identifier: MIT
 *
 * Other programs beside the writer of a "cipd:" channel: with the same name, in the same segment, and with a barrier
 * that holds back its frames.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/cipd_kit.h"

/* ---- one writer for each name ---- */

ROLE(cipd_rival)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8);
    struct sluice_cipd_writer_params cipd;
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    gpu_begin();
    cipd_set_name(argv[1]);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    int r = sluice_writer_open(&writer, &params);
    role_say("%d", r);
    if (r == 0 && role_line())
        CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

TEST(cipd_a_name_has_one_writer)
{
    struct cipd_side side = cipd_begin();
    sluice_writer *writer;

    side.writer = cipd_writer(&side.format);
    struct child child = role_start("cipd_rival", cipd_name(), NULL);
    char text[8];
    snprintf(text, sizeof text, "%d", SLUICE_E_EXISTS);
    child_expect(&child, text, 20);
    CHECK_EQ(child_wait(&child, 20), 0);
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);
    CHECK_RESULT(sluice_writer_open(&writer, &params), SLUICE_E_EXISTS);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL)); /* which is as it was */
    CHECK_OK(sluice_writer_close(&side.writer));
    child = role_start("cipd_rival", cipd_name(), NULL);
    child_expect(&child, "0", 20);
    child_kill(&child, SIGKILL);
    side.writer = cipd_writer(&side.format); /* at once */
    cipd_end(&side);
}

/* Its frames are too rare for open to see that it lives. */
TEST(cipd_a_writer_learns_of_another_program_in_its_segment)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    cipd_publish_as_another(77);
    CHECK_SOON(cipd_send(side.writer, &side.array, side.stream, 1, NULL) == SLUICE_E_EXISTS, 10);
    CHECK_HAS(sluice_last_error(), "another program writes into the same segment");
    CHECK_OK(sluice_writer_close(&side.writer));
    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    cipd_end(&side);
}

/* Nothing is sent in between that could have shown the writer the other one. */
static void leave_another_alone(bool same_handles)
{
    struct cipd_side side = cipd_begin();
    struct sluice_format other = cipd_format(cipd_uint8, 32, 16);
    unsigned char before[CIPD_SEGMENT], after[CIPD_SEGMENT];

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_stream_synchronize(side.stream));
    cipd_begin_as_another(same_handles);
    cipd_load_segment(before);
    CHECK_SAYS(sluice_writer_reformat(side.writer, &other), SLUICE_E_EXISTS, "another program");
    CHECK_SAYS(sluice_cipd_set_slots(side.writer, 2), SLUICE_E_EXISTS, "another program");
    CHECK_SAYS(sluice_writer_reformat(side.writer, &side.format), SLUICE_E_EXISTS, "another program");
    cipd_load_segment(after);
    CHECK_MEM(after, before, sizeof before);
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd_load_segment(after);
    CHECK_MEM(after, before, 2048); /* the rest is not in the protocol: there the writer says that its memory is gone */
    cipd_end(&side);
}

TEST(cipd_a_writer_begins_no_session_over_another_programs)
{
    leave_another_alone(false);
}
TEST(cipd_a_writer_begins_no_session_over_another_programs_with_its_handles)
{
    leave_another_alone(true);
}

/* As Python's resource tracker does when a process that was attached ends. */
TEST(cipd_a_name_that_was_taken_away_is_given_back)
{
    struct cipd_side side = cipd_begin();
    char path[128];

    side.writer = cipd_writer(&side.format);
    snprintf(path, sizeof path, "/dev/shm/%s", cipd_name() + strlen("cipd:"));
    CHECK_EQ(unlink(path), 0);
    CHECK_SOON(access(path, F_OK) == 0, 10);
    CHECK_SOON(cipd_info_of_writer(side.writer).relinked == 1, 10);
    sluice_reader *reader = cipd_reader();
    CHECK_OK(sluice_reader_close(&reader));
    /* Where another program has put a segment in its place, nobody sees our frames. */
    CHECK_EQ(unlink(path), 0);
    FILE *other = fopen(path, "w");
    CHECK(other && fputs("something else", other) >= 0 && fclose(other) == 0);
    CHECK_SOON(cipd_send(side.writer, &side.array, side.stream, 1, NULL) == SLUICE_E_EXISTS, 10);
    cipd_end(&side);
}

/* ---- the barrier ---- */

/* Raises it and stays. */
ROLE(cipd_holder)
{
    struct sluice_format format = cipd_format(cipd_uint8, 8, 8);
    struct sluice_cipd_writer_params cipd;
    sluice_writer *writer;
    char name[160];

    CHECK_EQ(argc, 2);
    gpu_begin();
    cipd_set_name(argv[1]);
    struct sluice_writer_params params = cipd_writer_params(&cipd, &format);
    snprintf(name, sizeof name, "%s.holder", argv[1]);
    params.name = name;
    cipd.holds_barrier = 1;
    cipd.settle_frames = 2;
    CHECK_OK(sluice_writer_open(&writer, &params));
    role_say("up");
    while (role_line()) {
        struct sluice_frame frame;
        CHECK_OK(sluice_writer_begin(writer, SLUICE_DEFAULT, &frame));
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
        struct sluice_cipd_info info = cipd_info_of_writer(writer);
        role_say(info.holds_barrier ? "up" : "down");
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

static bool skips(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, SLUICE_DEFAULT, &frame);

    if (r == 0)
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    return r == SLUICE_NO_SLOT;
}

TEST(cipd_frames_are_skipped_while_a_barrier_is_up)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    struct child child = role_start("cipd_holder", cipd_name(), NULL);
    child_expect(&child, "up", 20);
    CHECK_SOON(skips(side.writer), 20); /* found by a notification of the kernel, or by a search every 10 ms */
    CHECK_SAYS(cipd_send(side.writer, &side.array, side.stream, 2, NULL), SLUICE_NO_SLOT, "barrier");
    struct sluice_cipd_info info = cipd_info_of_writer(side.writer);
    CHECK_EQ(info.barrier_skips, 2);
    CHECK_EQ(info.index, 1);
    CHECK_EQ(info.published, 1);
    child_send(&child, "frame");
    child_expect(&child, "up", 20);
    child_send(&child, "frame");
    child_expect(&child, "down", 20);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    role_stop(&child);
    cipd_end(&side);
}

/* A writer ignores its own hold, and respects others' after that has ended. */
TEST(cipd_a_writer_that_has_held_the_barrier_respects_it)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    cipd.holds_barrier = 1;
    cipd.settle_frames = 2;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK_EQ(cipd_info_of_writer(side.writer).holds_barrier, i <= 2);
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
    }
    struct child child = role_start("cipd_holder", cipd_name(), NULL);
    child_expect(&child, "up", 20);
    CHECK_SOON(skips(side.writer), 20);
    role_stop(&child);
    cipd_end(&side);
}

TEST(cipd_a_barrier_can_be_ignored_and_gets_stale)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &side.format);

    struct child child = role_start("cipd_holder", cipd_name(), NULL);
    child_expect(&child, "up", 20);
    cipd.barrier = SLUICE_CIPD_OFF;
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_writer_close(&side.writer));
    cipd.barrier = SLUICE_CIPD_ON;
    cipd.barrier_stale_ns = 1; /* so it is by now */
    CHECK_OK(sluice_writer_open(&side.writer, &params));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    role_stop(&child);
    cipd_end(&side);
}
