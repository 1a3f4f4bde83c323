/* SPDX-License-Identifier: MIT
 *
 * Readers that die, are stopped, fork, exec or lose their connection while a GPU works for them: whose frames count as
 * held, and until when (protocol 4.1).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/channel.h"
#include "gpu/peers.h"

struct pair {
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_writer *writer;
    struct child reader;
};

/* A writer with three slots and these parameters. */
static struct pair open_pair(struct sluice_writer_params params)
{
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct pair pair;

    gpu_begin();
    gpu_use(0);
    pair.device = gpu_open();
    CHECK_OK(sluice_stream_create(pair.device, NULL, &pair.stream));
    params.format = &format;
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&pair.writer, &params));
    return pair;
}

/* The reader holds the frame before the newest: one slot is left. */
static struct pair set_up(const char *options)
{
    struct pair pair = open_pair(channel_writer_params());

    channel_commit(pair.writer, pair.stream, 0, 1);
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    pair.reader = peer_reader(options);
    PEER(&pair.reader, "take 20000", "took 1");
    channel_commit(pair.writer, pair.stream, 0, 2);
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    return pair;
}

static void tear_down(struct pair *pair)
{
    CHECK_OK(sluice_writer_close(&pair->writer));
    CHECK_OK(sluice_device_close(&pair->device));
    gpu_end();
}

static struct sluice_writer_stats stats_of(sluice_writer *writer)
{
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_writer_stats(writer, &stats));
    return stats;
}

TEST_TIMEOUT(a_killed_reader_gives_its_slots_back, 60)
{
    struct pair pair = set_up("");

    PEER(&pair.reader, "release " PEER_ENDLESS, "released");
    test_nap(SLUICE_S / 10);
    CHECK_EQ(channel_free_slots(pair.writer), 1);
    int64_t began = test_now();
    child_kill(&pair.reader, SIGKILL); /* waits for the end of the process */
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    peer_fact("SIGKILL of a reader until its slots are free", test_now() - began);
    CHECK_EQ(stats_of(pair.writer).readers_died, 1);
    CHECK_EQ(stats_of(pair.writer).readers, 0);
    tear_down(&pair);
}

/* Until then one slot is free, and what one frame holds is held, however late this checks. */
static void check_kept(sluice_writer *writer, int64_t until)
{
    for (;;) {
        int slots = channel_free_slots(writer);
        if (test_now() >= until)
            return;
        CHECK_EQ(slots, 1);
        test_nap(20 * SLUICE_MS);
    }
}

static bool works_through_mps(void)
{
    int shared = 0;

    return cu.DeviceGetAttribute(&shared, SL_CU_MPS_ENABLED, 0) == 0 && shared;
}

/* Its work belongs to the MPS server, which outlives it. */
TEST_TIMEOUT(a_killed_reader_under_mps_keeps_its_slots_for_a_second, 60)
{
    gpu_begin();
    if (!gpu_is_fake() && !works_through_mps())
        SKIP("this process does not work through an MPS server, and cannot choose to");
    CHECK(setenv("SLUICE_FAKE_MPS", "1", 1) == 0); /* for processes that start from now on */
    struct child writer = peer_writer("few");
    PEER(&writer, "commit 0", "committed 1");
    struct child reader = peer_reader("");
    PEER(&reader, "take 20000", "took 1");
    PEER(&writer, "commit 0", "committed 2");
    PEER(&writer, "finish", "finished");
    int64_t began = test_now();
    child_kill(&reader, SIGKILL);
    CHECK_SOON(strcmp(peer_ask(&writer, "free"), "2 free") == 0, 5);
    CHECK_GE(test_now() - began, SLUICE_S * 9 / 10);
    role_stop(&writer);
}

/* The driver's descriptors live on in the child, and with them the dead process's work. Frames in host memory are no
 * longer held. */
TEST_TIMEOUT(a_forked_child_keeps_what_a_killed_readers_gpu_uses, 60)
{
    gpu_begin();
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(64);
    struct sluice_frame frame;
    sluice_writer *near;
    params.name = "near";
    params.device = "host";
    params.format = &format;
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&near, &params));
    CHECK_OK(sluice_writer_begin(near, 0, &frame));
    CHECK_OK(sluice_writer_commit(near, &frame, SLUICE_ON_CPU));
    struct pair pair = set_up("host");
    CHECK_OK(sluice_writer_begin(near, 0, &frame));
    CHECK_OK(sluice_writer_commit(near, &frame, SLUICE_ON_CPU));
    CHECK_EQ(channel_free_slots(near), 1);

    int64_t began = test_now();
    PEER(&pair.reader, "fork 4000", "forked");
    child_kill(&pair.reader, SIGKILL);
    CHECK_SOON(channel_free_slots(near) == 2, 5);
    check_kept(pair.writer, began + 4 * SLUICE_S); /* not only while they are */
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    CHECK_GE(test_now() - began, SLUICE_S * 42 / 10); /* the child's end, and the driver's after it */
    CHECK_OK(sluice_writer_close(&near));
    tear_down(&pair);
}

/* A process that only lost its connection goes on, and so does its GPU. */
TEST_TIMEOUT(a_reader_that_lost_its_connection_keeps_what_it_holds, 60)
{
    struct pair pair = set_up("order");

    PEER(&pair.reader, "cut", "cut 1");
    CHECK_SOON(stats_of(pair.writer).readers == 2, 5); /* it has joined again, and its old entry is still there */
    check_kept(pair.writer, test_now() + 3 * SLUICE_S / 2);
    PEER(&pair.reader, "release 100", "released");
    CHECK_SOON(stats_of(pair.writer).readers == 1, 5);
    channel_commit(pair.writer, pair.stream, 0, 3);    /* would be kept unread for it, if it were not the newest */
    PEER(&pair.reader, "take 20000", "hung up on it"); /* once */
    PEER(&pair.reader, "take 20000", "took 2");
    PEER(&pair.reader, "release 0", "released");
    PEER(&pair.reader, "take 20000", "took 3");
    PEER(&pair.reader, "release 0", "released");
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    role_stop(&pair.reader);
    tear_down(&pair);
}

/* The reader is stopped in acquire, while it waits for a frame that is not ready or does not exist: wherever that is,
 * the writer and another reader work as before, and its death gives back what it held. */
static void stop_while_it_acquires(const char *options)
{
    struct sluice_frame frame;
    struct pair pair;
    uint32_t value = 0; /* the same as the frame's sequence, as the peer expects */

    gpu_begin();
    gpu_use(0);
    pair.device = gpu_open();
    CHECK_OK(sluice_stream_create(pair.device, NULL, &pair.stream));
    pair.writer = channel_writer_of(4);
    sluice_reader *other = channel_reader(1);
    for (uint32_t turn = 0; turn < 6; turn++) {
        struct gpu_gate gate = gpu_gate_new();
        pair.reader = peer_reader(options);
        channel_commit(pair.writer, pair.stream, 0, ++value);
        PEER(&pair.reader, "take 20000", "took");
        PEER(&pair.reader, "release 0", "released");
        child_send(&pair.reader, "take 20000");
        if (turn % 3 == 1)
            test_nap(5 * SLUICE_MS); /* it may sleep now */
        if (turn % 3 == 2)
            channel_commit_behind(&gate, pair.writer, pair.stream, ++value);
        child_kill(&pair.reader, SIGSTOP);
        if (turn % 3 == 2)
            gpu_gate_open(&gate);
        CHECK_OK(sluice_stream_synchronize(pair.stream));
        for (int i = 0; i < 20; i++) {
            channel_commit(pair.writer, pair.stream, 0, ++value);
            CHECK_OK(sluice_stream_synchronize(pair.stream)); /* it is the newest that is ready */
            CHECK_OK(sluice_reader_acquire(other, pair.stream, 5 * SLUICE_S, &frame));
            channel_check(&frame, pair.stream, value);
            CHECK_OK(sluice_reader_release(other, &frame, pair.stream));
        }
        CHECK_OK(sluice_stream_synchronize(pair.stream));
        CHECK_GE(channel_free_slots(pair.writer),
                 2); /* of four, without the newest one and the one that the reader may hold */
        child_kill(&pair.reader, SIGKILL);
        CHECK_SOON(channel_free_slots(pair.writer) == 3, 5);
        gpu_gate_end(&gate);
    }
    CHECK_OK(sluice_reader_close(&other));
    tear_down(&pair);
}

TEST_TIMEOUT(a_reader_stopped_while_it_acquires_harms_nobody, 120)
{
    stop_while_it_acquires("");
}

TEST_TIMEOUT(a_reader_stopped_while_its_stream_waits_harms_nobody, 120)
{
    stop_while_it_acquires("ahead");
}

/* Entries are short, and the reader in this one only lost its connection: its frames take precedence over a new reader.
 * */
TEST_TIMEOUT(a_new_reader_gets_no_entry_whose_frames_are_in_use, 60)
{
    struct sluice_writer_params params = channel_writer_params();
    struct pair pair;

    params.readers = 1;
    pair = open_pair(params);
    channel_commit(pair.writer, pair.stream, 0, 1);
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    pair.reader = peer_reader("");
    PEER(&pair.reader, "take 20000", "took 1");
    channel_commit(pair.writer, pair.stream, 0, 2);
    CHECK_OK(sluice_stream_synchronize(pair.stream));
    PEER(&pair.reader, "cut", "cut 1");
    CHECK_SOON(stats_of(pair.writer).refused > 0, 5); /* it asks for a second entry at once */
    check_kept(pair.writer, test_now() + SLUICE_S);
    CHECK_EQ(stats_of(pair.writer).readers, 1);
    CHECK_EQ(stats_of(pair.writer).readers_died, 0);
    PEER(&pair.reader, "release 0", "released");
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    child_kill(&pair.reader, SIGKILL);
    tear_down(&pair);
}

/* No reader finds the channel under the other name. */
static void name_socket(const char *from, const char *to)
{
    char old[512], now[512];

    snprintf(old, sizeof old, "%s/%s", test_dir(), from);
    snprintf(now, sizeof now, "%s/%s", test_dir(), to);
    CHECK_EQ(rename(old, now), 0);
}

/* Frames that it had not read are not kept. */
TEST_TIMEOUT(a_reader_that_lost_its_connection_holds_up_no_writer, 60)
{
    struct sluice_writer_params params = channel_writer_params();
    struct pair pair;

    params.policy = SLUICE_WAIT;
    params.wait_ns = 20 * SLUICE_S;
    pair = open_pair(params);
    channel_commit(pair.writer, pair.stream, 0, 1);
    pair.reader = peer_reader("order");
    PEER(&pair.reader, "take 20000", "took 1");
    channel_commit(pair.writer, pair.stream, 0, 2);
    name_socket("cam", "away"); /* else it joins again if it is stopped late, and the writer rightly waits for it */
    PEER(&pair.reader, "cut", "cut 1");
    child_kill(&pair.reader, SIGSTOP);
    for (uint32_t i = 3; i < 20; i++)
        channel_commit(pair.writer, pair.stream, 0, i);
    name_socket("away", "cam");
    child_kill(&pair.reader, SIGKILL);
    tear_down(&pair);
}

/* So one process cannot take all entries and slots. */
TEST_TIMEOUT(a_process_that_hangs_up_with_frames_in_hand_is_let_in_no_more, 60)
{
    struct pair pair;

    gpu_begin();
    gpu_use(0);
    pair.device = gpu_open();
    CHECK_OK(sluice_stream_create(pair.device, NULL, &pair.stream));
    pair.writer = channel_writer_of(20);
    pair.reader = peer_reader("many");
    for (uint32_t i = 1; i <= 8; i++) {
        CHECK_SOON(stats_of(pair.writer).readers == i, 5);
        PEER(&pair.reader, "join", "joined");
        channel_commit(pair.writer, pair.stream, 0, i * 2 - 1);
        CHECK_SOON(strstr(peer_ask(&pair.reader, "take 1000"), "took"), 5);
        channel_commit(pair.writer, pair.stream, 0, i * 2);
        CHECK_SOON(strstr(peer_ask(&pair.reader, "take 1000"), "took"), 5); /* by the new connection at last */
        PEER(&pair.reader, "cut", "cut 1");
    }
    CHECK_SOON(stats_of(pair.writer).refused > 0, 5);
    CHECK_EQ(stats_of(pair.writer).readers, 8);
    child_kill(&pair.reader, SIGKILL);
    CHECK_SOON(stats_of(pair.writer).readers == 0, 5);
    tear_down(&pair);
}

/* exec ends the work on the GPU, and the process lives. */
TEST_TIMEOUT(a_reader_that_becomes_another_program_gives_its_slots_back, 60)
{
    struct pair pair = set_up("");

    int64_t began = test_now();
    PEER(&pair.reader, "exec", "exec");
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    CHECK_GE(test_now() - began, SLUICE_S / 2);
    child_kill(&pair.reader, SIGKILL);
    tear_down(&pair);
}

TEST_TIMEOUT(a_reader_that_leaves_in_a_hurry_gives_its_slots_back, 60)
{
    struct pair pair = set_up("");

    PEER(&pair.reader, "release " PEER_ENDLESS, "released");
    child_send(&pair.reader, "forget");
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 10);
    CHECK_EQ(child_wait(&pair.reader, 10), 0);
    tear_down(&pair);
}

/* A close waits a limited time for queued work; frames that the GPU still reads are not reused. */
TEST_TIMEOUT(a_closed_reader_keeps_what_its_gpu_still_uses, 60)
{
    struct pair pair = set_up("");

    int64_t began = test_now();
    PEER(&pair.reader, "release 6000", "released");
    PEER(&pair.reader, "close", "closed");
    CHECK_GE(test_now() - began, 3 * SLUICE_S / 2);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    check_kept(pair.writer, began + 11 * SLUICE_S / 2);
    CHECK_SOON(channel_free_slots(pair.writer) == 2, 5);
    CHECK_SOON(stats_of(pair.writer).readers == 0, 5);
    role_stop(&pair.reader);
    tear_down(&pair);
}
