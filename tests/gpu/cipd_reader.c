/* SPDX-License-Identifier: MIT
 *
 * Readers of "cipd:" channels: frames that are rewritten under them, late frames, and the descriptor.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include "gpu/cipd_kit.h"

/* The writer ends, and another one starts, while the first reader holds a frame. */
static void take_over(struct child *writer, sluice_reader *first, sluice_reader *second, struct cipd_side *side)
{
    struct sluice_frame frame;

    cipd_command(writer, "3");
    cipd_take(first, side, 3, &frame);
    cipd_command(writer, "shut");
    role_stop(writer);
    *writer = cipd_start_writer("3");
    cipd_command(writer, "4");
    cipd_take_and_release(second, side, 4);
    int r = sluice_reader_release(first, &frame, SLUICE_ON_CPU);
    CHECK(r == 0 || r == SLUICE_E_LOST); /* its memory is gone, or was */
    cipd_take_and_release(first, side, 4);
    cipd_command(writer, "4");
}

/* A process cannot open memory twice, so the readers share it. */
TEST(two_readers_in_one_process_take_turns)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    sluice_reader *first = cipd_reader(), *second = cipd_reader();
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= 6; i++) {
        cipd_command(&writer, i % 2 ? "1" : "2");
        cipd_take(first, &side, 2 - i % 2, &frame);
        cipd_take_and_release(second, &side, 2 - i % 2);
        CHECK_OK(sluice_reader_release(first, &frame, SLUICE_ON_CPU));
    }
    CHECK_EQ(cipd_info_of_reader(first).reconnects + cipd_info_of_reader(second).reconnects, 0);
    take_over(&writer, first, second, &side);
    CHECK_OK(sluice_reader_close(&first));
    cipd_take_and_release(second, &side, 4);
    role_stop(&writer);
    cipd_end_reader(&side, second);
}

/* ---- frames that are rewritten ---- */

static void overrun_with(const char *slots)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer(slots);
    sluice_reader *reader = cipd_reader();
    struct sluice_frame frame;
    int spare = atoi(slots) - 1;

    cipd_command(&writer, "1");
    cipd_take(reader, &side, 1, &frame);
    for (int i = 0; i < spare; i++) {
        cipd_command(&writer, "2");
        CHECK_OK(sluice_reader_check(reader, &frame)); /* its slot is not due yet */
    }
    CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), 1);
    cipd_command(&writer, "begin"); /* from here on the writer may overwrite it */
    CHECK_RESULT(sluice_reader_check(reader, &frame), SLUICE_E_LOST);
    CHECK_SAYS(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_LOST, "written to this frame");
    CHECK_EQ(cipd_info_of_reader(reader).overruns, 1);
    CHECK_RESULT(sluice_reader_check(reader, &frame), SLUICE_E_STALE);
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

TEST(cipd_a_reader_learns_that_its_frame_may_be_rewritten)
{
    overrun_with("3");
}
TEST(cipd_a_reader_of_two_slots_learns_so)
{
    overrun_with("2");
}
TEST(cipd_a_reader_of_one_slot_learns_so)
{
    overrun_with("1");
}

/* A fast writer in another process: sends until its stdin ends. Arguments: the channel; slots. */
ROLE(cipd_fast_writer)
{
    struct cipd_side side = cipd_writer_role(argc, argv);
    struct pollfd input = { .fd = 0, .events = POLLIN };
    for (uint32_t i = 1; poll(&input, 1, 0) == 0; i++) {
        int r = cipd_send(side.writer, &side.array, side.stream, i, NULL);
        if (r != SLUICE_NO_SLOT) /* a busy machine may keep its GPU waiting for long */
            CHECK_OK(r);
        if (i % 64 == 0)
            CHECK_OK(sluice_stream_synchronize(side.stream)); /* no further ahead of the GPU */
    }
    cipd_end(&side);
    return 0;
}

/* The rate of copies is a fact about the GPU, and how processes share it. */
static void note_copies(sluice_reader *reader, uint32_t whole, int64_t began)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };
    FILE *facts = gpu_facts();

    CHECK_OK(sluice_reader_stats(reader, &stats));
    fprintf(facts, "{\"fact\": \"cipd copies\", \"whole\": %u, \"overtaken\": %llu, \"seconds\": %.2f}\n", whole,
            (unsigned long long)stats.retries, (double)(test_now() - began) / 1e9);
    CHECK(fclose(facts) == 0);
}

/* All words must hold the frame's number, which the writer counts as its words: so it is no later frame either. */
static uint32_t take_a_copy(sluice_reader *reader, struct cipd_side *side, struct sluice_stream stream,
                            struct sluice_frame *frame)
{
    struct sluice_array array;
    int r;

    while ((r = sluice_reader_acquire(reader, stream, 10 * SLUICE_S, frame)) == SLUICE_AGAIN)
        continue;
    CHECK_OK(r);
    uint32_t value = (uint32_t)frame->sequence;
    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    CHECK_EQ(gpu_differ(gpu_native(side->stream), (uintptr_t)array.data, array.nbytes / 4, value), 0);
    return value;
}

/* Its writer, if this process has started one, is stopped before the channel's names are removed. */
static void take_copies(struct child *writer, uint32_t frames)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame, first;
    struct sluice_array array;
    sluice_reader *reader;
    uint32_t last = 0;

    cipd.copy = 1;
    params.hold = 2;
    CHECK_OK(sluice_reader_open(&reader, &params));
    uint32_t kept = take_a_copy(reader, &side, SLUICE_ON_CPU, &first);
    int64_t began = test_now();
    for (uint32_t i = 1; i <= frames; i++) {
        uint32_t value = take_a_copy(reader, &side, side.stream, &frame);
        CHECK(value > last);
        CHECK_OK(sluice_frame_array(&frame, NULL, &array));
        CHECK_EQ(array.read_only, 0);
        gpu_fill(gpu_native(side.stream), (uintptr_t)array.data, cipd_words(&side.format),
                 0); /* it is the reader's own */
        last = value;
        CHECK_OK(sluice_reader_check(reader, &frame));
        CHECK_OK(sluice_reader_release(reader, &frame, side.stream));
        if (i % 500 == 0 || i == frames)
            note_copies(reader, i, began);
    }
    CHECK_EQ(cipd_value(&first, gpu_native(side.stream)), kept); /* held throughout */
    CHECK_OK(sluice_reader_release(reader, &first, SLUICE_ON_CPU));
    if (writer)
        role_stop(writer);
    cipd_end_reader(&side, reader);
}

TEST_TIMEOUT(cipd_copies_are_never_torn, 60)
{
    gpu_begin();
    struct child writer = role_start("cipd_fast_writer", cipd_name(), "3", NULL);

    child_expect(&writer, "open", 20);
    take_copies(&writer, gpu_is_fake() ? 30 : (uint32_t)test_scale(2000));
}

/* Arguments: the channel; how many. */
ROLE(cipd_copier)
{
    CHECK_EQ(argc, 3);
    cipd_set_name(argv[1]);
    take_copies(NULL, (uint32_t)atoi(argv[2]));
    return 0;
}

/* As on a GPU without MPS, which works for one process at a time. What the reader has chosen in the writer's time slice
 * is overwritten before it is copied. */
TEST_TIMEOUT(cipd_copies_come_where_processes_are_time_sliced, 60)
{
    char slices[PATH_MAX + 16];

    if (!gpu_is_fake())
        SKIP("cipd_copies_are_never_torn tries it on a GPU");
    snprintf(slices, sizeof slices, "30000:%s/turns", test_dir());
    CHECK(setenv("SLUICE_FAKE_SLICES", slices, 1) == 0);
    CHECK(setenv("SLUICE_FAKE_DELAY", "2000", 1) == 0); /* of three pieces of work for each frame: five in a slice */
    struct child writer = role_start("cipd_fast_writer", cipd_name(), "3", NULL);
    child_expect(&writer, "open", 20);
    CHECK(setenv("SLUICE_FAKE_DELAY", "1000", 1) == 0);
    struct child reader = role_start("cipd_copier", cipd_name(), "30", NULL);
    CHECK_EQ(child_wait(&reader, 55), 0);
    role_stop(&writer);
    cipd_clean();
}

/* ---- late frames ---- */

TEST(cipd_acquire_waits_for_the_frame_to_be_finished)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_cipd_info info;
    uint64_t waited = 0, turns = 0;

    while (waited == 0 && turns < 30) { /* the gate may open before the reader waits, on a busy machine */
        gpu_gate_close(&gate, gpu_native(side.stream));
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT, "not finished");
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 5 * SLUICE_MS, &frame), SLUICE_TIMEOUT, "not finished");
        gpu_gate_open_later(&gate);
        cipd_take_and_release(reader, &side, 3);
        gpu_gate_join(&gate);
        info = cipd_info_of_reader(reader);
        waited = (uint64_t)info.slots[turns % info.slot_count].last_wait_ns;
        CHECK_EQ(info.slots[turns % info.slot_count].event_open, 1);
        CHECK_EQ(info.taken, ++turns);
    }
    gpu_gate_end(&gate);
    CHECK_GE(waited, 1);
    cipd_end_reader(&side, reader);
}

TEST(cipd_a_frame_that_is_never_finished_is_lost)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame;
    sluice_reader *reader;

    side.writer = cipd_writer(&side.format);
    cipd.wait_ns = 50 * SLUICE_MS;
    CHECK_OK(sluice_reader_open(&reader, &params));
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 3, NULL));
    CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame), SLUICE_E_LOST,
               "look at the writer");
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 5 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
    CHECK_EQ(cipd_info_of_reader(reader).timeouts, 1);
    gpu_gate_open(&gate);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 4, NULL));
    CHECK_OK(sluice_stream_synchronize(side.stream)); /* before wait_ns begins, so this one is never late */
    cipd_take(reader, &side, 4, &frame);
    CHECK_EQ(frame.missed, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    gpu_gate_end(&gate);
    cipd_end_reader(&side, reader);
}

static uint64_t lag(sluice_reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats.lag;
}

TEST(cipd_frames_that_were_not_taken_are_counted)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    CHECK_EQ(lag(reader), 0);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_EQ(lag(reader), 1);
    cipd_take_and_release(reader, &side, 1);
    for (uint32_t i = 2; i <= 6; i++) {
        CHECK_EQ(lag(reader), i - 2);
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
    }
    CHECK_OK(sluice_stream_synchronize(side.stream)); /* else the finished one may be older */
    cipd_take(reader, &side, 6, &frame);
    CHECK_EQ(frame.missed, 4);
    CHECK_EQ(frame.sequence, 6);
    CHECK_EQ(lag(reader), 0);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &(struct sluice_frame){ 0 }), SLUICE_E_LIMIT);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_EQ(cipd_info_of_reader(reader).dropped, 4);
    CHECK_GE(cipd_info_of_reader(reader).latency_ns, 1);
    CHECK_OK(sluice_cipd_set_slots(side.writer, 2)); /* another session: nothing more of the one before */
    CHECK_EQ(lag(reader), 0);
    cipd_end_reader(&side, reader);
}

/* ---- the descriptor ---- */

TEST(cipd_a_reader_can_be_polled)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    int fd = sluice_reader_fd(reader);
    CHECK_GE(fd, 0);
    CHECK_EQ(sluice_reader_fd(reader), fd);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    CHECK(!channel_readable(fd, 20));
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK_OK(cipd_send(side.writer, &side.array, side.stream, i, NULL));
        CHECK(channel_readable(fd, 20000));
        cipd_take_and_release(reader, &side, i);
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
        CHECK(!channel_readable(fd, 20));
    }
    CHECK_OK(sluice_writer_close(&side.writer));
    CHECK(channel_readable(fd, 20000));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_CLOSED);
    cipd_end_reader(&side, reader);
}

/* A reader of a killed writer's channel, and its descriptor, which must not be readable. */
static int poll_a_killed_writer(struct cipd_side *side, bool disguised, sluice_reader **reader)
{
    struct sluice_frame frame;
    struct child writer = cipd_start_writer("3");

    if (disguised)
        cipd_disguise();
    cipd_command(&writer, "1");
    *reader = cipd_reader();
    int fd = sluice_reader_fd(*reader);
    CHECK_GE(fd, 0);
    CHECK(channel_readable(fd, 20000));
    cipd_take_and_release(*reader, side, 1);
    CHECK_RESULT(sluice_reader_acquire(*reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    CHECK(!channel_readable(fd, 20));
    child_kill(&writer, SIGKILL);
    return fd;
}

TEST(cipd_a_poller_wakes_when_the_writer_was_killed)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;
    sluice_reader *reader;
    int fd = poll_a_killed_writer(&side, false, &reader);

    CHECK(channel_readable(fd, 20000));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_NO_WRITER);
    cipd_end_reader(&side, reader);
    cipd_clean();
}

/* Python's resource tracker removes the name of a killed writer's segment; the next writer makes another one with that
 * name. */
TEST(cipd_a_poller_wakes_for_the_next_segment)
{
    struct cipd_side side = cipd_begin();
    sluice_reader *reader;
    int fd = poll_a_killed_writer(&side, true, &reader);

    cipd_clean();
    struct child writer = cipd_start_writer("3");
    cipd_disguise();
    cipd_command(&writer, "7");
    CHECK(channel_readable(fd, 20000));
    cipd_take_and_release(reader, &side, 7);
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

TEST(cipd_a_reader_that_stops_wakes_a_poller)
{
    struct cipd_side side = cipd_begin();
    struct sluice_frame frame;

    side.writer = cipd_writer(&side.format);
    sluice_reader *reader = cipd_reader();
    int fd = sluice_reader_fd(reader);
    CHECK_GE(fd, 0);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    CHECK(!channel_readable(fd, 20));
    CHECK_OK(sluice_reader_stop(reader));
    CHECK(channel_readable(fd, 20000));
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_E_CLOSED);
    CHECK(channel_readable(fd, 20000)); /* it would report it again */
    cipd_end_reader(&side, reader);
}
