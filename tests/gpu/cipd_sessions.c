/* SPDX-License-Identifier: MIT
 *
 * "cipd:" channels whose writers and readers come and go: sessions, and peers that die.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "gpu/cipd_kit.h"

TEST_TIMEOUT(cipd_readers_follow_a_writer_that_closes_and_comes_again, 60)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    sluice_reader *reader = cipd_reader();
    struct sluice_frame frame;

    cipd_command(&writer, "1");
    cipd_take_and_release(reader, &side, 1);
    cipd_command(&writer, "shut");
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_CLOSED);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_MS, &frame), SLUICE_CLOSED);
    CHECK_EQ(cipd_info_of_reader(reader).slots[0].memory_open, 0);
    role_stop(&writer);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame),
                 SLUICE_CLOSED); /* until another one starts */
    CHECK_EQ(cipd_info_of_reader(reader).state, SLUICE_CIPD_ABSENT);
    writer = cipd_start_writer("2");
    cipd_command(&writer, "5");
    cipd_take(reader, &side, 5, &frame);
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    struct sluice_cipd_info info = cipd_info_of_reader(reader);
    CHECK_EQ(info.reconnects, 1);
    CHECK_EQ(info.slot_count, 2);
    CHECK_EQ(info.state, SLUICE_CIPD_RUNNING);
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

static void expect_missed(sluice_reader *reader, struct cipd_side *side, uint32_t value, uint64_t missed)
{
    struct sluice_frame frame;

    cipd_take(reader, side, value, &frame);
    CHECK_EQ(frame.missed, missed);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
}

static void send_three(struct child *writer)
{
    cipd_command(writer, "1");
    cipd_command(writer, "2");
    cipd_command(writer, "3");
}

TEST_TIMEOUT(cipd_readers_that_waited_are_told_what_they_missed, 60)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader, *late;

    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    struct child writer = cipd_start_writer("3");
    send_three(&writer);
    late = cipd_reader();
    expect_missed(late, &side, 3, 0); /* it did not wait */
    expect_missed(reader, &side, 3, 2);
    cipd_command(&writer, "again"); /* the index goes on */
    send_three(&writer);
    expect_missed(late, &side, 3, 2);
    expect_missed(reader, &side, 3, 2);
    child_kill(&writer, SIGKILL);
    writer = cipd_start_writer("2");
    send_three(&writer);
    expect_missed(late, &side, 3, 2);
    expect_missed(reader, &side, 3, 2);
    role_stop(&writer);
    CHECK_OK(sluice_reader_close(&late));
    cipd_end_reader(&side, reader);
}

TEST_TIMEOUT(cipd_readers_follow_a_writer_that_is_killed, 60)
{
    struct cipd_side side = cipd_begin();
    sluice_reader *reader = NULL;
    struct sluice_frame frame;

    for (uint32_t round = 0; round < 4; round++) {
        struct child writer = cipd_start_writer(round % 2 ? "2" : "3");
        if (!reader)
            reader = cipd_reader();
        for (uint32_t i = 1; i <= 5; i++) {
            char text[8];
            snprintf(text, sizeof text, "%u", i);
            cipd_command(&writer, text);
            cipd_take_and_release(reader, &side, i);
        }
        child_kill(&writer, SIGKILL);
        int r;
        int64_t until = test_now() + (int64_t)(20e9 * test_slowness());
        while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 50 * SLUICE_MS, &frame)) == SLUICE_TIMEOUT)
            CHECK(test_now() < until);
        CHECK_RESULT(r, SLUICE_NO_WRITER); /* known of Sluice's writers */
    }
    CHECK_EQ(cipd_info_of_reader(reader).reconnects, 3);
    cipd_end_reader(&side, reader);
    /* The next writer removes what the last one left. */
    side = cipd_begin();
    side.writer = cipd_writer(&side.format);
    cipd_end(&side);
}

/* Closes its reader during a fetch: what the fetch uses stays until this process ends. Arguments: the channel. */
ROLE(cipd_closes_under_a_fetch)
{
    struct sluice_ticket ticket;
    struct sluice_frame frame;
    void *memory;

    CHECK_EQ(argc, 2);
    cipd_set_name(argv[1]);
    struct cipd_side side = cipd_begin();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_array to = side.array;
    CHECK_OK(sluice_device_host_alloc(side.device, to.nbytes, &memory));
    to.data = memset(memory, 0, to.nbytes);
    sluice_reader *reader = cipd_reader();
    cipd_take(reader, &side, 7, &frame);
    gpu_gate_close(&gate, gpu_native(side.stream));
    CHECK_OK(sluice_reader_fetch(reader, &frame, &to, 1, side.stream, &ticket));
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_close(&reader));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(side.stream));
    for (uint64_t i = 0; i < to.nbytes / 4; i++)
        CHECK_EQ(((uint32_t *)memory)[i], 7);
    return 0;
}

/* The driver closes the writer's memory after the program's work, so a later copy still finds its source. */
TEST_TIMEOUT(cipd_a_reader_closes_while_a_fetch_is_under_way, 60)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 7, NULL));
    struct child reader = role_start("cipd_closes_under_a_fetch", cipd_name(), NULL);
    CHECK_EQ(child_wait(&reader, 40), 0);
    cipd_end(&side);
}

TEST(cipd_a_killed_reader_is_nothing_to_the_writer)
{
    struct cipd_side side = cipd_begin();

    side.writer = cipd_writer(&side.format);
    for (int i = 0; i < 3; i++) {
        struct child reader = cipd_start_reader("1000000");
        for (uint32_t k = 1; k <= 4; k++)
            CHECK_OK(cipd_send(side.writer, &side.array, side.stream, (uint32_t)i * 10 + k, NULL));
        child_kill(&reader, SIGKILL);
    }
    CHECK_EQ(cipd_info_of_writer(side.writer).published, 12);
    CHECK_EQ(cipd_info_of_writer(side.writer).failed, 0);
    cipd_end(&side);
}

/* It holds two frames at once. */
static sluice_reader *reader_of_two(void)
{
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    sluice_reader *reader;

    params.hold = 2;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

TEST(cipd_a_frame_of_a_session_before_is_known_as_such)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    struct sluice_frame old, frame;
    sluice_reader *reader = reader_of_two();

    cipd_command(&writer, "1");
    cipd_take(reader, &side, 1, &old);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_TIMEOUT);
    cipd_command(&writer, "shut");
    role_stop(&writer);
    writer = cipd_start_writer("3");
    cipd_command(&writer, "2");
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), 2);
    CHECK_NE(frame.session, old.session);
    CHECK_RESULT(sluice_reader_check(reader, &old), SLUICE_E_LOST);
    CHECK_RESULT(sluice_reader_release(reader, &old, SLUICE_ON_CPU), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

/* Each slot's memory holds its number, and is not written again. */
TEST(cipd_a_session_with_the_same_handles_is_read_from_the_same_memory)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    struct sluice_frame old, frame;
    sluice_reader *reader = reader_of_two();

    cipd_command(&writer, "1");
    cipd_take_and_release(reader, &side, 1);
    cipd_command(&writer, "2");
    cipd_take(reader, &side, 2, &frame);
    uint64_t second = channel_words(&frame);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    cipd_command(&writer, "3");
    cipd_take(reader, &side, 3, &old);
    CHECK_OK(sluice_reader_check(reader, &old));
    cipd_begin_as_another(true);
    CHECK_RESULT(sluice_reader_check(reader, &old), SLUICE_E_LOST);
    cipd_publish_as_another(5);
    cipd_take(reader, &side, 2, &frame);
    CHECK_NE(frame.session, old.session);
    CHECK_EQ(channel_words(&frame), second); /* as the driver opens a handle once in a process */
    CHECK_EQ(cipd_info_of_reader(reader).reconnects, 1);
    CHECK_RESULT(sluice_reader_check(reader, &old), SLUICE_E_LOST);
    CHECK_EQ(cipd_value(&old, gpu_native(side.stream)), 3); /* its memory is there until it is released, */
    CHECK_RESULT(sluice_reader_release(reader, &old, SLUICE_ON_CPU), SLUICE_E_LOST);
    CHECK_EQ(cipd_value(&frame, gpu_native(side.stream)), 2); /* and the other one's still is */
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    cipd_publish_as_another(6);
    cipd_take_and_release(reader, &side, 3);
    CHECK_GE(cipd_info_of_reader(reader).reconnects,
             2); /* nothing is held: it was opened again, as the handles might be others */
    cipd_begin_as_another(true);
    cipd_publish_as_another(7);
    cipd_take_and_release(reader, &side, 1);
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

TEST(cipd_a_reader_may_not_reconnect)
{
    struct cipd_side side = cipd_begin();
    struct child writer = cipd_start_writer("3");
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame;
    sluice_reader *reader;

    cipd.reconnect = SLUICE_CIPD_OFF;
    CHECK_OK(sluice_reader_open(&reader, &params));
    cipd_command(&writer, "1");
    cipd_take_and_release(reader, &side, 1);
    cipd_command(&writer, "shut");
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_CLOSED);
    role_stop(&writer);
    writer = cipd_start_writer("3");
    cipd_command(&writer, "2");
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_S / 2, &frame), SLUICE_CLOSED);
    role_stop(&writer);
    cipd_end_reader(&side, reader);
}

TEST(cipd_open_waits_for_a_writer_as_asked)
{
    struct cipd_side side = cipd_begin();
    struct sluice_cipd_reader_params cipd;
    struct sluice_reader_params params = cipd_reader_params(&cipd);
    struct sluice_frame frame;
    sluice_reader *reader;

    params.open_timeout_ns = 0;
    CHECK_RESULT(sluice_reader_open(&reader, &params), SLUICE_E_NOT_FOUND);
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    struct sluice_format format = SLUICE_FORMAT_INIT;
    CHECK_RESULT(sluice_reader_format(reader, &format), SLUICE_NO_WRITER);
    CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_MS, &frame), SLUICE_NO_WRITER);
    side.writer = cipd_writer(&side.format);
    CHECK_OK(cipd_send(side.writer, &side.array, side.stream, 1, NULL));
    CHECK_OK(sluice_cipd_retry(reader));
    cipd_take_and_release(reader, &side, 1);
    CHECK_OK(sluice_reader_format(reader, &format));
    CHECK_EQ(format.arrays[0].shape[1], CIPD_WIDTH);
    char device[64];
    CHECK_OK(sluice_reader_device(reader, device, sizeof device));
    CHECK_STR(device, "cuda:0");
    cipd_end_reader(&side, reader);
}
