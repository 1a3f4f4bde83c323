/* SPDX-License-Identifier: MIT
 *
 * Copies of "cipd:" frames that are in flight when the program goes on: whether they were whole depends on how far the
 * writer was when they ended, not on when the program asks.
 */
#include <string.h>

#include "gpu/cipd_kit.h"

struct copying {
    struct cipd_side side;
    sluice_reader *reader;
    struct sluice_stream stream; /* of the copies */
    struct gpu_gate gate;
    struct sluice_frame frame;
    struct sluice_array array; /* the destination */
    struct sluice_ticket ticket;
};

static void send(struct copying *copying, uint32_t frames)
{
    for (uint32_t i = 0; i < frames; i++) {
        CHECK_OK(cipd_send(copying->side.writer, &copying->side.array, copying->side.stream, 7, NULL));
        CHECK_OK(sluice_stream_synchronize(copying->side.stream));
    }
}

static struct copying begin_with(uint32_t slots, bool disguised)
{
    struct copying copying = { .side = cipd_begin() };
    struct sluice_cipd_writer_params cipd;
    struct sluice_writer_params params = cipd_writer_params(&cipd, &copying.side.format);

    params.slots = slots;
    CHECK_OK(sluice_writer_open(&copying.side.writer, &params));
    if (disguised)
        cipd_disguise();
    send(&copying, 1);
    copying.reader = cipd_reader();
    CHECK_OK(sluice_stream_create(copying.side.device, NULL, &copying.stream));
    copying.array = cipd_array(gpu_memory(copying.side.format.arrays[0].nbytes), &copying.side.format);
    copying.gate = gpu_gate_new();
    return copying;
}

/* Takes the frame that is there, and queues a copy of it and the overwrite check. */
static void copy(struct copying *copying, bool gated)
{
    CHECK_OK(sluice_reader_acquire(copying->reader, SLUICE_ON_CPU, 20 * SLUICE_S, &copying->frame));
    if (gated)
        gpu_gate_close(&copying->gate, gpu_native(copying->stream));
    CHECK_OK(
        sluice_reader_fetch(copying->reader, &copying->frame, &copying->array, 1, copying->stream, &copying->ticket));
    CHECK_OK(sluice_cipd_mark(copying->reader, &copying->frame, copying->stream));
    if (!gated)
        CHECK_OK(sluice_stream_synchronize(copying->stream));
}

static void release(struct copying *copying)
{
    (void)sluice_reader_release(copying->reader, &copying->frame, SLUICE_ON_CPU);
}

static void end(struct copying *copying)
{
    gpu_gate_end(&copying->gate);
    CHECK_OK(sluice_reader_close(&copying->reader));
    cipd_end(&copying->side);
}

/* The writer comes round after the copy: it is whole, whenever the program asks. */
static void lapped_later(uint32_t slots, bool disguised)
{
    struct copying copying = begin_with(slots, disguised);

    for (uint32_t laps = 1; laps <= 3; laps++) {
        copy(&copying, false);
        send(&copying, laps * slots);
        CHECK_RESULT(sluice_reader_check(copying.reader, &copying.frame), SLUICE_E_LOST);
        CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
        release(&copying);
    }
    end(&copying);
}

TEST(cipd_a_copy_that_ended_in_time_is_whole)
{
    lapped_later(3, false);
}
TEST(cipd_a_copy_out_of_two_slots_that_ended_in_time_is_whole)
{
    lapped_later(2, false);
}
TEST(cipd_a_copy_of_another_writers_frame_that_ended_in_time_is_whole)
{
    lapped_later(3, true);
}

/* The copy ends `later` frames later: the overwrite check shows it. */
static void lapped_before(uint32_t slots, bool disguised, uint32_t later, int expected)
{
    struct copying copying = begin_with(slots, disguised);

    copy(&copying, true);
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame)); /* whole until now */
    send(&copying, later);
    gpu_gate_open(&copying.gate);
    CHECK_OK(sluice_stream_synchronize(copying.stream));
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), expected);
    send(&copying, slots);
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), expected);
    release(&copying);
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), SLUICE_E_STALE);
    end(&copying);
}

TEST(cipd_a_copy_that_ended_too_late_is_lost)
{
    lapped_before(3, false, 3, SLUICE_E_LOST);
}
TEST(cipd_a_copy_that_ended_just_in_time_is_whole)
{
    lapped_before(3, false, 2, SLUICE_OK);
}
TEST(cipd_a_copy_of_another_writers_frame_that_ended_too_late_is_lost)
{
    lapped_before(3, true, 2, SLUICE_E_LOST);
}
TEST(cipd_a_copy_of_another_writers_frame_that_ended_just_in_time_is_whole)
{
    lapped_before(3, true, 1, SLUICE_OK);
}

TEST(cipd_an_overwrite_check_is_for_one_frame)
{
    struct copying copying = begin_with(3, false);

    copy(&copying, false);
    release(&copying);
    send(&copying, 1);
    CHECK_OK(sluice_reader_acquire(copying.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &copying.frame));
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
    send(&copying, 3);
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), SLUICE_E_LOST);
    CHECK_SAYS(sluice_cipd_mark(copying.reader, &copying.frame, SLUICE_ON_CPU), SLUICE_E_INVALID, "stream");
    release(&copying);
    end(&copying);
}

/* ---- writers that end a session while a stream has not reached the overwrite check ---- */

#define GRACE (100 * SLUICE_MS) /* how long a closed writer keeps its memory */

static struct child begin_beside(struct copying *copying, bool disguised)
{
    *copying = (struct copying){ .side = cipd_begin() };
    struct child child = cipd_start_writer("3");

    if (disguised)
        cipd_disguise();
    cipd_command(&child, "1");
    copying->reader = cipd_reader();
    CHECK_OK(sluice_stream_create(copying->side.device, NULL, &copying->stream));
    copying->array = cipd_array(gpu_memory(copying->side.format.arrays[0].nbytes), &copying->side.format);
    copying->gate = gpu_gate_new();
    return child;
}

static void end_beside(struct copying *copying, struct child *child)
{
    release(copying);
    gpu_gate_end(&copying->gate);
    CHECK_OK(sluice_reader_close(&copying->reader));
    role_stop(child);
    cipd_end(&copying->side);
}

/* Both happen before the copy has ended. `second` is NULL if there is only one. Then the memory is no longer the
 * frame's, or may not be. */
static void ended_before(bool disguised, const char *first, const char *second)
{
    struct copying copying;
    struct child child = begin_beside(&copying, disguised);

    copy(&copying, true);
    cipd_command(&child, first);
    if (second)
        cipd_command(&child, second);
    gpu_gate_open(&copying.gate);
    CHECK_OK(sluice_stream_synchronize(copying.stream));
    test_nap(GRACE);
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), SLUICE_E_LOST);
    end_beside(&copying, &child);
}

TEST(cipd_a_copy_that_ended_when_its_writer_had_freed_is_lost)
{
    ended_before(false, "shut", NULL);
}
TEST(cipd_a_copy_that_ended_in_the_next_session_is_lost)
{
    ended_before(false, "again", "2");
}
TEST(cipd_a_copy_that_ended_with_other_slots_is_lost)
{
    ended_before(false, "slots", "2");
}
TEST(cipd_a_copy_of_another_writers_that_ended_when_it_had_freed_is_lost)
{
    ended_before(true, "shut", NULL);
}
TEST(cipd_a_copy_of_another_writers_that_ended_in_the_next_session_is_lost)
{
    ended_before(true, "again", "2");
}

static void ended_later(bool disguised, const char *how)
{
    struct copying copying;
    struct child child = begin_beside(&copying, disguised);

    copy(&copying, false);
    cipd_command(&child, how);
    test_nap(GRACE);
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
    end_beside(&copying, &child);
}

TEST(cipd_a_copy_that_ended_before_its_writer_closed_is_whole)
{
    ended_later(false, "shut");
}
TEST(cipd_a_copy_that_ended_before_the_next_session_is_whole)
{
    ended_later(false, "again");
}
TEST(cipd_a_copy_of_another_writers_that_ended_before_it_closed_is_whole)
{
    ended_later(true, "shut");
}

/* It closes during the copy: its memory stays for a moment. */
static void closed_meanwhile(bool disguised, int later)
{
    struct copying copying = begin_with(3, disguised);
    int64_t began = test_now();

    copy(&copying, true);
    cipd_raise_flag(3);
    gpu_gate_open(&copying.gate);
    CHECK_OK(sluice_stream_synchronize(copying.stream));
    int r = sluice_cipd_check_mark(copying.reader, &copying.frame);
    CHECK(r == 0 || test_now() - began >= GRACE);
    test_nap(GRACE);
    CHECK_RESULT(sluice_cipd_check_mark(copying.reader, &copying.frame), later);
    release(&copying);
    end(&copying);
}

TEST(cipd_a_copy_that_ended_while_its_writer_closed_is_whole)
{
    closed_meanwhile(false, SLUICE_OK);
} /* it reports when it frees */
TEST(cipd_a_copy_of_another_writers_that_ended_while_it_closed_is_whole_for_a_moment)
{
    closed_meanwhile(true, SLUICE_E_LOST);
}

/* Streams that have not reached their overwrite checks hold up nobody. */
TEST(cipd_a_reader_that_leaves_does_not_wait_for_its_overwrite_checks)
{
    struct copying copying = begin_with(3, false);

    CHECK_OK(sluice_reader_acquire(copying.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &copying.frame));
    gpu_gate_close(&copying.gate, gpu_native(copying.stream));
    CHECK_OK(sluice_cipd_mark(copying.reader, &copying.frame, copying.stream));
    release(&copying);
    CHECK_OK(sluice_reader_close(&copying.reader));
    gpu_gate_open(&copying.gate);
    CHECK_OK(sluice_stream_synchronize(copying.stream));
    copying.reader = cipd_reader();
    end(&copying);
}

TEST(cipd_a_session_that_has_ended_has_no_overwrite_checks)
{
    struct copying copying = begin_with(3, false);
    struct sluice_frame next;

    copy(&copying, false);
    send(&copying, 3);
    CHECK_OK(sluice_cipd_set_slots(copying.side.writer, 2));
    send(&copying, 1);
    CHECK_RESULT(sluice_reader_acquire(copying.reader, SLUICE_ON_CPU, 0, &next), SLUICE_E_LIMIT); /* one is held */
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
    release(&copying);
    CHECK_OK(sluice_reader_acquire(copying.reader, SLUICE_ON_CPU, 20 * SLUICE_S, &copying.frame));
    CHECK_OK(sluice_cipd_mark(copying.reader, &copying.frame, copying.stream));
    CHECK_OK(sluice_stream_synchronize(copying.stream));
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
    release(&copying);
    end(&copying);
}

TEST(cipd_copies_of_a_reader_need_no_overwrite_check)
{
    struct copying copying = begin_with(3, false);
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);

    CHECK_OK(sluice_reader_close(&copying.reader));
    cipd.copy = 1;
    CHECK_OK(sluice_reader_open(&copying.reader, &params));
    copy(&copying, false);
    send(&copying, 4);
    CHECK_OK(sluice_cipd_check_mark(copying.reader, &copying.frame));
    release(&copying);
    end(&copying);
}
