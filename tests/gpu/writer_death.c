/* SPDX-License-Identifier: MIT
 *
 * Writers that die, are stopped or fork while a GPU works for them: which frames are lost with them, which are not, and
 * who takes their place.
 */
#include <signal.h>

#include "gpu/channel.h"
#include "gpu/peers.h"

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream;
    sluice_reader *reader;
    struct child writer;
};

/* The writer has committed frames 1 and 2, which are ready. */
static struct fixture set_up(uint32_t mode)
{
    struct sluice_reader_params params = channel_reader_params(2);
    struct fixture all;

    gpu_begin();
    gpu_use(0);
    all.device = gpu_open();
    CHECK_OK(sluice_stream_create(all.device, NULL, &all.stream));
    all.writer = peer_writer("");
    PEER(&all.writer, "commit 0", "committed 1");
    params.mode = mode;
    CHECK_OK(sluice_reader_open(&all.reader, &params));
    PEER(&all.writer, "commit 0", "committed 2");
    PEER(&all.writer, "finish", "finished");
    return all;
}

static void tear_down(struct fixture *all)
{
    CHECK_OK(sluice_reader_close(&all->reader));
    CHECK_OK(sluice_device_close(&all->device));
    gpu_end();
}

static struct sluice_frame take(struct fixture *all, uint64_t sequence)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(all->reader, all->stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, sequence);
    channel_check(&frame, all->stream, (uint32_t)sequence);
    return frame;
}

TEST_TIMEOUT(a_killed_writers_ready_frames_stay_and_those_in_flight_are_lost, 60)
{
    struct fixture all = set_up(SLUICE_IN_ORDER);
    struct sluice_frame first = take(&all, 1), second, frame;

    PEER(&all.writer, "commit " PEER_ENDLESS, "committed 3");
    int64_t began = test_now();
    child_kill(&all.writer, SIGKILL);
    second = take(&all, 2); /* mapped before, taken after */
    channel_check(&first, all.stream, 1);
    CHECK_OK(sluice_reader_release(all.reader, &first, all.stream));
    int r;
    CHECK_SOON((r = sluice_reader_acquire(all.reader, all.stream, 0, &frame)) == SLUICE_NO_WRITER &&
                   channel_lost(all.reader),
               5);
    peer_fact("SIGKILL of a writer until a reader counts its frames as lost", test_now() - began);
    CHECK_EQ(channel_lost(all.reader), 1);
    channel_check(&second, all.stream, 2);

    /* Frames of the dead session are held while the next one is read. */
    all.writer = peer_writer("");
    PEER(&all.writer, "commit 0", "committed 1");
    frame = take(&all, 1);
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    channel_check(&second, all.stream, 2);
    CHECK_OK(sluice_reader_release(all.reader, &second, all.stream));
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    CHECK_EQ(channel_lost(all.reader), 1);
    role_stop(&all.writer);
    tear_down(&all);
}

/* The hang-up is reported at once, and the fate of frames in flight a moment later, also to a program that only polls.
 * */
TEST_TIMEOUT(a_poller_wakes_for_frames_of_a_killed_writer, 60)
{
    struct fixture all = set_up(SLUICE_IN_ORDER);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(all.reader);

    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        frame = take(&all, sequence);
        CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    }
    PEER(&all.writer, "commit " PEER_ENDLESS, "committed 3");
    child_kill(&all.writer, SIGKILL);
    while (channel_lost(all.reader) == 0) {
        CHECK(channel_readable(fd, 20000));
        int r = sluice_reader_acquire(all.reader, SLUICE_ON_CPU, 0, &frame);
        if (r != SLUICE_NO_WRITER)
            CHECK_RESULT(r, SLUICE_TIMEOUT);
    }
    CHECK_EQ(channel_lost(all.reader), 1);
    tear_down(&all);
}

/* Nothing was mapped before: the descriptor alone keeps the memory. */
TEST_TIMEOUT(a_dead_writers_frame_is_taken_by_whoever_was_connected, 60)
{
    struct fixture all = set_up(SLUICE_NEWEST);

    child_kill(&all.writer, SIGKILL);
    test_nap(SLUICE_S / 2);
    struct sluice_frame frame = take(&all, 2);
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    tear_down(&all);
}

TEST_TIMEOUT(a_killed_writer_is_replaced_though_its_forked_child_lives, 60)
{
    struct fixture all = set_up(SLUICE_NEWEST);
    struct sluice_frame frame = take(&all, 2);

    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    int64_t began = test_now();
    PEER(&all.writer, "fork 20000", "forked");
    child_kill(&all.writer, SIGKILL);
    all.writer = peer_writer("");
    PEER(&all.writer, "commit 0", "committed 1");
    frame = take(&all, 1);
    CHECK(frame.flags & SLUICE_FRAME_NEW_SESSION);
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    role_stop(&all.writer);
    tear_down(&all);
}

TEST_TIMEOUT(a_stopped_writers_gpu_finishes_its_frames, 60)
{
    struct fixture all = set_up(SLUICE_IN_ORDER);
    struct sluice_frame frame = take(&all, 1);

    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    frame = take(&all, 2);
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    PEER(&all.writer, "commit 200", "committed 3");
    if (!gpu_is_fake()) /* whose process does its work */
        child_kill(&all.writer, SIGSTOP);
    frame = take(&all, 3);
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    child_kill(&all.writer, SIGSTOP);
    int64_t began = test_now();
    CHECK_RESULT(sluice_reader_acquire(all.reader, all.stream, SLUICE_S / 2, &frame), SLUICE_TIMEOUT);
    CHECK_LE(test_now() - began, 5 * SLUICE_S);
    child_kill(&all.writer, SIGCONT);
    PEER(&all.writer, "commit 0", "committed 4");
    frame = take(&all, 4);
    CHECK_OK(sluice_reader_release(all.reader, &frame, all.stream));
    CHECK_EQ(channel_lost(all.reader), 0);
    role_stop(&all.writer);
    tear_down(&all);
}

/* To free a dead writer's session the driver waits for all of the program's work on the GPU; acquire and close do not
 * wait meanwhile. */
TEST_TIMEOUT(a_killed_writers_session_ends_beside_the_programs_own_work, 60)
{
    struct sluice_stream stream, busy;
    struct sluice_frame frame;

    gpu_begin();
    gpu_use(0);
    test_dir();
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_create(device, NULL, &busy));
    struct gpu_gate gate = gpu_gate_new();
    struct child writer = peer_writer("");
    PEER(&writer, "commit 0", "committed 1");
    sluice_reader *reader = channel_reader(1);
    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    uint64_t session = frame.session;
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_OK(sluice_stream_synchronize(stream));

    gpu_gate_close(&gate, gpu_native(busy));
    child_kill(&writer, SIGKILL);
    writer = peer_writer("");
    PEER(&writer, "commit 0", "committed 1");
    CHECK_SOON(sluice_reader_acquire(reader, stream, 50 * SLUICE_MS, &frame) == 0, 20);
    CHECK_NE(frame.session, session);
    CHECK_OK(sluice_reader_release(reader, &frame, stream));
    CHECK_OK(sluice_stream_synchronize(stream));
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    CHECK_RESULT(sluice_stream_query(busy), SLUICE_NOT_READY);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(busy));
    gpu_gate_end(&gate);
    role_stop(&writer);
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

/* It is freed a little later than the name (protocol 4.4). */
ROLE(takes_most_of_the_memory)
{
    struct sluice_writer_params params = channel_writer_params();
    size_t unused, total;
    sluice_writer *writer;

    gpu_begin();
    gpu_use(0);
    CU(MemGetInfo, &unused, &total);
    if (gpu_is_fake()) /* which needs its time to clear it, and does not share it between processes */
        unused /= 8;
    struct sluice_format format = channel_format((int64_t)(unused / 10 * 7 / 3 / 4));
    params.format = &format;
    params.slots = params.max_slots = 3;
    CHECK_OK(sluice_writer_open(&writer, &params));
    role_say("open");
    role_line();
    return 0;
}

TEST_TIMEOUT(a_writer_of_most_of_the_memory_is_replaced_at_once, 100)
{
    struct child child;

    gpu_begin();
    test_dir();
    for (int i = 0; i < 3; i++) {
        child = role_start("takes_most_of_the_memory", NULL);
        child_expect(&child, "open", 30);
        child_kill(&child, SIGKILL);
    }
}
