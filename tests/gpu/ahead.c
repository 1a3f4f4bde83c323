/* SPDX-License-Identifier: MIT
 *
 * Frames taken ahead of their readiness: the stream waits for them on the GPU.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/channel.h"

static uint32_t parked(void)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    uint32_t count = 0;

    CHECK_OK(sluice_channel_info("cam", 20 * SLUICE_S, &info, readers, 4));
    for (uint32_t i = 0; i < info.readers; i++)
        count += readers[i].parked;
    return count;
}

TEST(the_stream_waits_and_the_program_does_not)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);
    struct sluice_frame frame;

    channel_greet(&fixture, reader);
    for (uint32_t i = 1; i <= 5; i++) {
        channel_commit_behind(&gate, fixture.writer, fixture.writing, i);
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame)); /* though the gate is closed */
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        CHECK_EQ(parked(), 1);
        gpu_gate_open_later(&gate);
        channel_check(&frame, fixture.reading, i); /* waits for the stream, which waits for the frame */
        gpu_gate_join(&gate);
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
        CHECK_OK(sluice_stream_synchronize(fixture.reading));
        CHECK_SOON(parked() == 0, 5);
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

struct late_commit {
    struct channel_fixture *fixture;
    uint32_t value;
};

static void *commit_later(void *shared)
{
    struct late_commit *late = shared;

    gpu_use(0);
    nanosleep(&(struct timespec){ .tv_nsec = 100 * SLUICE_MS }, NULL);
    channel_commit(late->fixture->writer, late->fixture->writing, 0, late->value);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

/* Also if acquire began before there was a frame, spinning or asleep. */
static void wait_then_go_ahead(int64_t spin_ns)
{
    struct channel_fixture fixture = channel_fixture();
    struct sluice_reader_params params = channel_reader_params(2);
    struct late_commit late = { &fixture, 7 };
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;
    sluice_reader *reader;
    pthread_t thread;

    params.ahead = 1;
    params.ahead_ns = 20 * SLUICE_S;
    params.spin_ns = spin_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    channel_greet(&fixture, reader);
    gpu_gate_close(&gate, gpu_native(fixture.writing));
    CHECK(pthread_create(&thread, NULL, commit_later, &late) == 0);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_open(&gate);
    channel_check(&frame, fixture.reading, late.value);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    CHECK_OK(sluice_stream_synchronize(fixture.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(a_spinning_acquire_goes_ahead_once_a_frame_is_committed)
{
    wait_then_go_ahead(SLUICE_FOREVER);
}

TEST(a_sleeping_acquire_goes_ahead_once_a_frame_is_committed)
{
    wait_then_go_ahead(-1);
}

TEST(a_frame_that_is_ready_is_not_waited_for)
{
    struct channel_fixture fixture = channel_fixture();
    sluice_reader *reader = channel_reader_ahead(1, 20 * SLUICE_S);
    struct sluice_frame frame;

    channel_greet(&fixture, reader);
    channel_commit(fixture.writer, fixture.writing, 0, 7);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
    channel_check(&frame, fixture.reading, 7);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* Frames that are ready when the reader looks for them: it stops asking for signals to streams. */
static void pass_ready(struct channel_fixture *fixture, sluice_reader *reader, uint32_t count)
{
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= count; i++) {
        channel_commit(fixture->writer, fixture->writing, 0, i);
        CHECK_OK(sluice_stream_synchronize(fixture->writing));
        CHECK_OK(sluice_reader_acquire(reader, fixture->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, fixture->reading));
        CHECK_OK(sluice_stream_synchronize(fixture->reading)); /* else it counts among those held */
    }
}

/* Takes a frame that is not ready when the reader looks for it. Was it taken ahead? */
static bool take_late(struct channel_fixture *fixture, struct gpu_gate *gate, sluice_reader *reader, uint32_t value)
{
    struct sluice_frame frame;
    int r;

    channel_commit_behind(gate, fixture->writer, fixture->writing, value);
    while ((r = sluice_reader_acquire(reader, fixture->reading, 0, &frame)) == 0 &&
           !(frame.flags & SLUICE_FRAME_AHEAD)) {
        CHECK_OK(sluice_reader_release(reader, &frame, fixture->reading)); /* one before it */
        CHECK_OK(sluice_stream_synchronize(fixture->reading));
    }
    gpu_gate_open_later(gate);
    if (r != 0) {
        CHECK_EQ(r, SLUICE_TIMEOUT);
        CHECK_OK(sluice_reader_acquire(reader, fixture->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
    }
    channel_check(&frame, fixture->reading, value);
    gpu_gate_join(gate);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture->reading));
    CHECK_OK(sluice_stream_synchronize(fixture->reading));
    return r == 0;
}

/* Of frames that are late the CPU waits for the first one; streams wait for the next ones, also of a reader that takes
 * one frame in a hundred. */
TEST(streams_get_signals_that_they_need)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();

    CHECK_OK(sluice_writer_close(
        &fixture.writer)); /* that writer grows, and no stream waits for a slot that is not mapped yet */
    fixture.writer = channel_writer_of(8);
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);

    pass_ready(&fixture, reader, 70);
    CHECK(!take_late(&fixture, &gate, reader, 1));
    for (uint32_t i = 2; i <= 4; i++)
        CHECK(take_late(&fixture, &gate, reader, i));
    for (uint32_t i = 5; i <= 9; i++) {
        for (uint32_t missed = 1; missed < 100; missed++)
            channel_commit(fixture.writer, fixture.writing, 0, 0);
        CHECK_OK(sluice_stream_synchronize(fixture.writing));
        CHECK_EQ(take_late(&fixture, &gate, reader, i), i > 5);
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

static int refusals; /* logged refusals with this reason */
static const char *refused_for;

static void count_refusals(void *unused, enum sluice_log_level level, const char *text)
{
    (void)unused;
    (void)level;
    refusals += strstr(text, "no frame is taken ahead") && strstr(text, refused_for);
}

static void begin_to_count(const char *reason)
{
    refusals = 0;
    refused_for = reason;
    sluice_log_set(count_refusals, NULL, SLUICE_LOG_WARN);
}

/* A launch on a stream behind one that waits would block the launching thread. (The driver has read the variable
 * before, and does not change.) */
static void launches_block(const char *value, bool so)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();

    CHECK(setenv("CUDA_LAUNCH_BLOCKING", value, 1) == 0);
    begin_to_count("CUDA_LAUNCH_BLOCKING");
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);
    channel_greet(&fixture, reader);
    for (uint32_t i = 1; i <= 3; i++)
        CHECK_EQ(take_late(&fixture, &gate, reader, i), !so);
    CHECK_EQ(refusals, so); /* logged once */
    CHECK(unsetenv("CUDA_LAUNCH_BLOCKING") == 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    sluice_log_set(NULL, NULL, SLUICE_LOG_WARN);
    channel_end(&fixture);
}

TEST(no_stream_waits_where_launches_block)
{
    launches_block("1", true);
    launches_block("2", true); /* an unknown value */
    launches_block("0", false);
}

/* MPS clients share the queues of one server (protocol, part 7). */
TEST(under_mps_no_stream_waits)
{
    int clients = 0;

    CHECK(setenv("SLUICE_FAKE_MPS", "1", 1) == 0);
    gpu_begin();
    if (!gpu_is_fake() && (cu.DeviceGetAttribute(&clients, SL_CU_MPS_ENABLED, 0) != 0 || !clients))
        SKIP("this process does not work through an MPS server, and cannot choose to");
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    begin_to_count("MPS server");
    sluice_reader *reader = channel_reader_ahead(2, 20 * SLUICE_S);
    channel_greet(&fixture, reader);
    for (uint32_t i = 1; i <= 3; i++)
        CHECK(!take_late(&fixture, &gate, reader, i));
    CHECK_EQ(refusals, 1);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    sluice_log_set(NULL, NULL, SLUICE_LOG_WARN);
    channel_end(&fixture);
}

TEST(three_streams_of_a_process_wait_at_most)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *readers[4];
    struct sluice_stream streams[4];
    struct sluice_frame frames[4];

    for (int i = 0; i < 4; i++) {
        readers[i] = channel_reader_ahead(1, 20 * SLUICE_S);
        CHECK_OK(sluice_stream_create(fixture.device, NULL, &streams[i]));
    }
    for (int i = 0; i < 4; i++)
        channel_greet(&fixture, readers[i]);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 9);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_reader_acquire(readers[i], streams[i], 20 * SLUICE_S, &frames[i]));
        CHECK(frames[i].flags & SLUICE_FRAME_AHEAD);
    }
    CHECK_EQ(parked(), 3);
    CHECK_RESULT(sluice_reader_acquire(readers[3], streams[3], 0, &frames[3]), SLUICE_TIMEOUT);
    CHECK_RESULT(sluice_reader_acquire(readers[3], streams[3], 20 * SLUICE_MS, &frames[3]),
                 SLUICE_TIMEOUT); /* the CPU waits */
    CHECK_EQ(parked(), 3);
    gpu_gate_open_later(&gate);
    CHECK_OK(
        sluice_reader_acquire(readers[3], streams[3], 20 * SLUICE_S, &frames[3])); /* one of the three may have ended */
    gpu_gate_join(&gate);
    for (int i = 0; i < 4; i++) {
        channel_check(&frames[i], streams[i], 9);
        CHECK_OK(sluice_reader_release(readers[i], &frames[i], streams[i]));
        CHECK_OK(sluice_reader_close(&readers[i]));
    }
    gpu_gate_end(&gate);
    channel_end(&fixture);
}

TEST(a_capturing_stream_is_not_made_to_wait)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(1, 20 * SLUICE_S);
    struct sl_cu_graph *graph;
    struct sluice_frame frame;
    size_t nodes = 0;

    channel_greet(&fixture, reader);
    CU(StreamBeginCapture, gpu_native(fixture.reading), CAPTURE_RELAXED);
    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 0, &frame), SLUICE_E_CAPTURING);
    gpu_gate_open(&gate);
    CU(StreamEndCapture, gpu_native(fixture.reading), &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    channel_check(&frame, fixture.reading, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}
