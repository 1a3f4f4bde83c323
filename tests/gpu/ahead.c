/* SPDX-License-Identifier: MIT
 *
 * Frames taken ahead of their readiness: the stream waits for them on the GPU.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/channel.h"

#define DEADLINE ((int64_t)(SLUICE_S * test_slowness())) /* for streams that wait in vain */

static sluice_reader *open_ahead(uint32_t hold, int64_t ahead_ns)
{
    struct sluice_reader_params params = channel_reader_params(hold);
    sluice_reader *reader;

    params.ahead = 1;
    params.ahead_ns = ahead_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    return reader;
}

/* The writer's begin takes note of who waits ahead: from here on its frames are for them too. */
static void greet(struct scene *scene, sluice_reader *reader)
{
    struct sluice_frame frame;

    channel_commit(scene->writer, scene->writing, 0, 0);
    CHECK_OK(sluice_reader_acquire(reader, scene->reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, scene->reading));
    CHECK_OK(sluice_stream_synchronize(scene->reading));
}

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
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_ahead(2, 20 * SLUICE_S);
    struct sluice_frame frame;

    greet(&scene, reader);
    for (uint32_t i = 1; i <= 5; i++) {
        channel_commit_behind(&gate, scene.writer, scene.writing, i);
        CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame)); /* though the gate is closed */
        CHECK(frame.flags & SLUICE_FRAME_AHEAD);
        CHECK_EQ(parked(), 1);
        gpu_gate_open_later(&gate);
        channel_check(&frame, scene.reading, i); /* waits for the stream, and the stream for the frame */
        gpu_gate_opened(&gate);
        CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
        CHECK_OK(sluice_stream_synchronize(scene.reading));
        CHECK_SOON(parked() == 0, 5);
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

struct late_commit {
    struct scene *scene;
    uint32_t value;
};

static void *commit_later(void *shared)
{
    struct late_commit *late = shared;

    gpu_use(0);
    nanosleep(&(struct timespec){ .tv_nsec = 100 * SLUICE_MS }, NULL);
    channel_commit(late->scene->writer, late->scene->writing, 0, late->value);
    cu.CtxSetCurrent(NULL);
    return NULL;
}

/* Also when it was in acquire before there was a frame, spinning or asleep. */
static void wait_then_go_ahead(int64_t spin_ns)
{
    struct scene scene = channel_scene();
    struct sluice_reader_params params = channel_reader_params(2);
    struct late_commit late = { &scene, 7 };
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;
    sluice_reader *reader;
    pthread_t thread;

    params.ahead = 1;
    params.ahead_ns = 20 * SLUICE_S;
    params.spin_ns = spin_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    greet(&scene, reader);
    gpu_gate_close(&gate, gpu_native(scene.writing));
    CHECK(pthread_create(&thread, NULL, commit_later, &late) == 0);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    CHECK(frame.flags & SLUICE_FRAME_AHEAD);
    CHECK(pthread_join(thread, NULL) == 0);
    gpu_gate_open(&gate);
    channel_check(&frame, scene.reading, late.value);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    CHECK_OK(sluice_stream_synchronize(scene.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

TEST(who_spins_in_acquire_goes_ahead_as_soon_as_a_frame_is_committed)
{
    wait_then_go_ahead(SLUICE_FOREVER);
}

TEST(who_sleeps_in_acquire_goes_ahead_as_soon_as_a_frame_is_committed)
{
    wait_then_go_ahead(-1);
}

TEST(a_frame_that_is_ready_is_not_waited_for)
{
    struct scene scene = channel_scene();
    sluice_reader *reader = open_ahead(1, 20 * SLUICE_S);
    struct sluice_frame frame;

    greet(&scene, reader);
    channel_commit(scene.writer, scene.writing, 0, 7);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
    channel_check(&frame, scene.reading, 7);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

/* Frames that are ready as soon as they are looked for: no words for streams are asked for any more. */
static void pass_ready(struct scene *scene, sluice_reader *reader, uint32_t count)
{
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= count; i++) {
        channel_commit(scene->writer, scene->writing, 0, i);
        CHECK_OK(sluice_stream_synchronize(scene->writing));
        CHECK_OK(sluice_reader_acquire(reader, scene->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
        CHECK_OK(sluice_reader_release(reader, &frame, scene->reading));
        CHECK_OK(sluice_stream_synchronize(scene->reading)); /* or it counts among those held */
    }
}

/* A frame that is not ready when it is looked for: was it taken ahead? */
static bool take_late(struct scene *scene, struct gpu_gate *gate, sluice_reader *reader, uint32_t value)
{
    struct sluice_frame frame;
    int r;

    channel_commit_behind(gate, scene->writer, scene->writing, value);
    while ((r = sluice_reader_acquire(reader, scene->reading, 0, &frame)) == 0 && !(frame.flags & SLUICE_FRAME_AHEAD)) {
        CHECK_OK(sluice_reader_release(reader, &frame, scene->reading)); /* one before it */
        CHECK_OK(sluice_stream_synchronize(scene->reading));
    }
    gpu_gate_open_later(gate);
    if (r != 0) {
        CHECK_EQ(r, SLUICE_TIMEOUT);
        CHECK_OK(sluice_reader_acquire(reader, scene->reading, 20 * SLUICE_S, &frame));
        CHECK_EQ(frame.flags & SLUICE_FRAME_AHEAD, 0);
    }
    channel_check(&frame, scene->reading, value);
    gpu_gate_opened(gate);
    CHECK_OK(sluice_reader_release(reader, &frame, scene->reading));
    CHECK_OK(sluice_stream_synchronize(scene->reading));
    return r == 0;
}

/* Of frames that are late the first one is waited for on the CPU then, and the next ones ahead; also by a reader that takes
 * one of a hundred. */
TEST(words_are_raised_for_streams_that_have_a_use_for_them)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();

    CHECK_OK(sluice_writer_close(&scene.writer)); /* that one grows, and no stream waits for a slot that is not mapped yet */
    scene.writer = channel_writer_of(8);
    sluice_reader *reader = open_ahead(2, 20 * SLUICE_S);

    pass_ready(&scene, reader, 70);
    CHECK(!take_late(&scene, &gate, reader, 1));
    for (uint32_t i = 2; i <= 4; i++)
        CHECK(take_late(&scene, &gate, reader, i));
    for (uint32_t i = 5; i <= 9; i++) {
        for (uint32_t missed = 1; missed < 100; missed++)
            channel_commit(scene.writer, scene.writing, 0, 0);
        CHECK_OK(sluice_stream_synchronize(scene.writing));
        CHECK_EQ(take_late(&scene, &gate, reader, i), i > 5);
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

static int refusals; /* that were logged, with this reason */
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

/* Each launch behind a stream that waits would wait, too, on the thread that it is made on. (The driver has read the
 * variable by now, and does as ever.) */
static void launches_block(const char *value, bool so)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();

    CHECK(setenv("CUDA_LAUNCH_BLOCKING", value, 1) == 0);
    begin_to_count("CUDA_LAUNCH_BLOCKING");
    sluice_reader *reader = open_ahead(2, 20 * SLUICE_S);
    greet(&scene, reader);
    for (uint32_t i = 1; i <= 3; i++)
        CHECK_EQ(take_late(&scene, &gate, reader, i), !so);
    CHECK_EQ(refusals, so); /* said once */
    CHECK(unsetenv("CUDA_LAUNCH_BLOCKING") == 0);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    sluice_log_set(NULL, NULL, SLUICE_LOG_WARN);
    channel_end(&scene);
}

TEST(where_launches_block_no_stream_waits)
{
    launches_block("1", true);
    launches_block("2", true); /* nobody says what that is */
    launches_block("0", false);
}

/* Clients share the queues of one server (protocol, part 7). */
TEST(under_mps_no_stream_waits)
{
    int clients = 0;

    CHECK(setenv("SLUICE_FAKE_MPS", "1", 1) == 0);
    gpu_begin();
    if (!gpu_is_fake() && (cu.DeviceGetAttribute(&clients, SL_CU_MPS_ENABLED, 0) != 0 || !clients))
        SKIP("this process does not work through an MPS server, and cannot choose to");
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    begin_to_count("MPS server");
    sluice_reader *reader = open_ahead(2, 20 * SLUICE_S);
    greet(&scene, reader);
    for (uint32_t i = 1; i <= 3; i++)
        CHECK(!take_late(&scene, &gate, reader, i));
    CHECK_EQ(refusals, 1);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    sluice_log_set(NULL, NULL, SLUICE_LOG_WARN);
    channel_end(&scene);
}

TEST(no_stream_waits_beyond_its_deadline)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_ahead(2, DEADLINE);
    struct sluice_frame frame;

    greet(&scene, reader);
    /* Told by release, which comes after the loss. */
    channel_commit_behind(&gate, scene.writer, scene.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_stream_synchronize(scene.reading)); /* though the gate is closed */
    uint64_t sequence = frame.sequence;
    CHECK_SAYS(sluice_reader_release(reader, &frame, scene.reading), SLUICE_E_LOST, "did not finish");
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.writing));

    /* Told by the next acquire, for the release was queued before. */
    channel_commit_behind(&gate, scene.writer, scene.writing, 2);
    int r = sluice_reader_acquire(reader, scene.reading, 0, &frame);
    if (r == 0 && frame.flags & SLUICE_FRAME_AHEAD) { /* in another slot: the one before is not waited for again */
        r = sluice_reader_release(reader, &frame, scene.reading);
        CHECK_OK(sluice_stream_synchronize(scene.reading));
        if (r == 0)
            r = sluice_reader_acquire(reader, scene.reading, 0, &frame);
        CHECK_SAYS(r, SLUICE_E_LOST, "did not finish"); /* by release, if a machine that stood still has let the deadline pass */
    } else {
        CHECK_EQ(r, SLUICE_TIMEOUT);
    }
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    channel_commit(scene.writer, scene.writing, 0, 3);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    CHECK_GE(frame.sequence, sequence + 2);
    channel_check(&frame, scene.reading, 3);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_GE(stats.lost, 1);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

TEST(three_streams_of_a_process_wait_at_most)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *readers[4];
    struct sluice_stream streams[4];
    struct sluice_frame frames[4];

    for (int i = 0; i < 4; i++) {
        readers[i] = open_ahead(1, 20 * SLUICE_S);
        CHECK_OK(sluice_stream_create(scene.device, NULL, &streams[i]));
    }
    for (int i = 0; i < 4; i++)
        greet(&scene, readers[i]);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    channel_commit_behind(&gate, scene.writer, scene.writing, 9);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_reader_acquire(readers[i], streams[i], 20 * SLUICE_S, &frames[i]));
        CHECK(frames[i].flags & SLUICE_FRAME_AHEAD);
    }
    CHECK_EQ(parked(), 3);
    CHECK_RESULT(sluice_reader_acquire(readers[3], streams[3], 0, &frames[3]), SLUICE_TIMEOUT);
    CHECK_RESULT(sluice_reader_acquire(readers[3], streams[3], 20 * SLUICE_MS, &frames[3]), SLUICE_TIMEOUT); /* by the CPU */
    CHECK_EQ(parked(), 3);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_reader_acquire(readers[3], streams[3], 20 * SLUICE_S, &frames[3])); /* one of the three may have ended */
    gpu_gate_opened(&gate);
    for (int i = 0; i < 4; i++) {
        channel_check(&frames[i], streams[i], 9);
        CHECK_OK(sluice_reader_release(readers[i], &frames[i], streams[i]));
        CHECK_OK(sluice_reader_close(&readers[i]));
    }
    gpu_gate_end(&gate);
    channel_end(&scene);
}

TEST(what_is_made_of_a_lost_frame_is_not_published)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_ahead(2, 20 * SLUICE_S);
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_frame in, out;
    sluice_writer *second;

    params.name = "next";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&second, &params));
    greet(&scene, reader);

    /* Whole: commit waits for what its stream waits for. */
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    channel_commit_behind(&gate, scene.writer, scene.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &in));
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_writer_commit(second, &out, scene.reading));
    gpu_gate_opened(&gate);
    CHECK_OK(sluice_reader_release(reader, &in, scene.reading));
    CHECK_OK(sluice_stream_synchronize(scene.reading));

    CHECK_OK(sluice_reader_close(&reader));
    reader = open_ahead(2, DEADLINE);
    greet(&scene, reader);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    channel_commit_behind(&gate, scene.writer, scene.writing, 2);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &in));
    CHECK(in.flags & SLUICE_FRAME_AHEAD);
    CHECK_SAYS(sluice_writer_commit(second, &out, scene.reading), SLUICE_E_LOST, "not whole");
    CHECK_OK(sluice_writer_cancel(second, &out, scene.reading));
    CHECK_RESULT(sluice_reader_release(reader, &in, scene.reading), SLUICE_E_LOST);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* told: it goes on */
    CHECK_OK(sluice_writer_commit(second, &out, scene.reading));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

/* Ways by which work on `behind` comes behind `first`. */
enum way { BY_STREAM, BY_EVENT, BY_THREE, BY_DEFAULT, BY_LAUNCH, BY_NAME, WAYS };

static struct sluice_stream put_behind(struct scene *scene, enum way way, struct sluice_stream streams[3],
                                       struct sluice_event event)
{
    struct sluice_stream stream;
    uintptr_t native;

    switch (way) {
    case BY_STREAM:
        CHECK_OK(sluice_stream_wait_stream(streams[0], scene->reading));
        return streams[0];
    case BY_EVENT:
        CHECK_OK(sluice_event_record(event, scene->reading));
        CHECK_OK(sluice_stream_wait_event(streams[0], event));
        return streams[0];
    case BY_THREE:
        for (int i = 0; i < 3; i++)
            CHECK_OK(sluice_stream_wait_stream(streams[i], i ? streams[i - 1] : scene->reading));
        return streams[2];
    case BY_DEFAULT: /* streams[0] is blocking, so is the default one */
        CHECK_OK(sluice_stream_default(scene->device, &stream));
        CHECK_OK(sluice_stream_wait_stream(stream, scene->reading));
        return streams[0];
    case BY_LAUNCH: /* the program's own work on the default stream is between two blocking ones, and Sluice sees nothing of it */
        CU(MemsetD8Async, gpu_memory(8), 0, 8, NULL);
        return streams[0];
    default:
        CHECK_OK(sluice_stream_native(scene->reading, &native));
        CHECK_OK(sluice_stream_wrap(scene->device, native, NULL, NULL, &stream));
        return stream;
    }
}

/* A frame that is late: `stream` publishes once it is whole. Then one that never comes: what is made of it on `stream`
 * is not published. */
static void check_way(enum way way)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_ahead(2, DEADLINE);
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct sluice_stream_params blocking = { .size = sizeof blocking, .blocking = way == BY_DEFAULT || way == BY_LAUNCH };
    struct sluice_stream streams[3], behind, apart, reading = scene.reading;
    struct sluice_event event;
    struct sluice_frame in, out;
    sluice_writer *second;

    params.name = "next";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&second, &params));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_stream_create(scene.device, &blocking, &streams[i]));
    if (way == BY_LAUNCH)
        reading = streams[1];
    CHECK_OK(sluice_stream_create(scene.device, NULL, &apart));
    CHECK_OK(sluice_event_create(scene.device, 0, &event));
    greet(&scene, reader);

    channel_commit_behind(&gate, scene.writer, scene.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, reading, 20 * SLUICE_S, &in));
    CHECK(in.flags & SLUICE_FRAME_AHEAD);
    behind = put_behind(&scene, way, streams, event);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* who waits for nothing is not held up */
    CHECK_OK(sluice_event_record(event, apart));           /* nor is who waits for what the event is now */
    CHECK_OK(sluice_stream_wait_event(apart, event));
    CHECK_OK(sluice_writer_commit(second, &out, apart)); /* though the gate is closed, and stays so beyond the deadline */
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out));
    CHECK_SAYS(sluice_writer_commit(second, &out, behind), SLUICE_E_LOST, "not whole");
    CHECK_OK(sluice_writer_cancel(second, &out, behind));
    CHECK_RESULT(sluice_reader_release(reader, &in, reading), SLUICE_E_LOST);
    CHECK_OK(sluice_writer_begin(second, 20 * SLUICE_S, &out)); /* told: it goes on */
    CHECK_OK(sluice_writer_commit(second, &out, behind));
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    CHECK_OK(sluice_stream_synchronize(behind));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_writer_close(&second));
    CHECK_OK(sluice_reader_close(&reader));
    if (way == BY_NAME)
        CHECK_OK(sluice_stream_destroy(&behind));
    CHECK_OK(sluice_event_destroy(&event));
    CHECK_OK(sluice_stream_destroy(&apart));
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_stream_destroy(&streams[i]));
    channel_end(&scene);
}

TEST_TIMEOUT(nor_is_it_by_a_stream_that_waited_for_that_one, 60)
{
    for (enum way way = 0; way < WAYS; way++)
        check_way(way);
}

TEST(a_capturing_stream_is_not_made_to_wait)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_ahead(1, 20 * SLUICE_S);
    struct sl_cu_graph *graph;
    struct sluice_frame frame;
    size_t nodes = 0;

    greet(&scene, reader);
    CU(StreamBeginCapture, gpu_native(scene.reading), CAPTURE_RELAXED);
    channel_commit_behind(&gate, scene.writer, scene.writing, 1);
    CHECK_RESULT(sluice_reader_acquire(reader, scene.reading, 0, &frame), SLUICE_E_CAPTURING);
    gpu_gate_open(&gate);
    CU(StreamEndCapture, gpu_native(scene.reading), &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    channel_check(&frame, scene.reading, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

static bool is_told(sluice_writer *writer)
{
    struct sluice_frame frame;
    int r = sluice_writer_begin(writer, 0, &frame);

    if (r == 0)
        CHECK_OK(sluice_writer_cancel(writer, &frame, SLUICE_ON_CPU));
    return r == SLUICE_E_DRIVER;
}

/* Commits two frames, the second when the reader is there. */
static sluice_writer *first_frames(struct sluice_stream *stream)
{
    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, stream));
    sluice_writer *writer = channel_writer();
    channel_commit(writer, *stream, 0, 1);
    role_say("open");
    role_line();
    gpu_settle();
    channel_commit(writer, *stream, 0, 2);
    return writer;
}

/* A writer that commits a frame which will never be ready, and waits to be killed. */
ROLE(stuck_writer)
{
    struct sluice_stream stream;
    sluice_writer *writer = first_frames(&stream);

    channel_commit(writer, stream, 60 * SLUICE_S, 3);
    role_say("stuck");
    role_line();
    return 0;
}

/* A writer whose kernel crashes when it may run. */
ROLE(crashing_writer)
{
    struct sluice_stream stream;
    struct sluice_frame frame;
    sluice_writer *writer = first_frames(&stream);
    struct gpu_gate gate = gpu_gate_new();

    gpu_store(gpu_native(stream), gpu_memory(8), 1); /* what is launched first may wait for others */
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    gpu_gate_close(&gate, gpu_native(stream));
    gpu_store(gpu_native(stream), 0x10, 1);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
    role_say("stuck");
    role_line();
    gpu_gate_open(&gate);
    CHECK_SOON(is_told(writer), 20);
    role_say("told");
    role_line();
    return 0;
}

/* A reader whose stream waits for a frame that never comes, of a writer in another process. */
struct parked {
    struct sluice_device device;
    struct sluice_stream stream;
    struct child writer;
    sluice_reader *reader;
    struct sluice_frame frame;
};

static struct parked park(const char *writer, int64_t ahead_ns)
{
    struct parked parked;

    gpu_begin();
    gpu_use(0);
    test_dir();
    parked.device = gpu_open();
    CHECK_OK(sluice_stream_create(parked.device, NULL, &parked.stream));
    parked.writer = role_start(writer, NULL);
    child_expect(&parked.writer, "open", 20);
    parked.reader = open_ahead(2, ahead_ns);
    CHECK_OK(sluice_reader_acquire(parked.reader, parked.stream, 20 * SLUICE_S, &parked.frame));
    CHECK_OK(sluice_reader_release(parked.reader, &parked.frame, parked.stream));
    child_send(&parked.writer, "go");
    child_expect(&parked.writer, "stuck", 20);
    CHECK_OK(sluice_reader_acquire(parked.reader, parked.stream, 20 * SLUICE_S, &parked.frame));
    CHECK_EQ(parked.frame.sequence, 3);
    CHECK(parked.frame.flags & SLUICE_FRAME_AHEAD);
    return parked;
}

TEST_TIMEOUT(a_killed_writer_frees_the_streams_that_wait_for_it, 40)
{
    struct parked parked = park("stuck_writer", 50 * SLUICE_S);

    child_kill(&parked.writer, 9);
    int64_t began = test_now();
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 20 * SLUICE_S); /* not until its deadline */
    CHECK_RESULT(sluice_reader_release(parked.reader, &parked.frame, parked.stream), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&parked.reader));
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

/* It lives on, and says itself that its frames are lost. */
TEST_TIMEOUT(a_writer_whose_kernel_crashed_frees_the_streams_that_wait_for_it, 60)
{
    struct parked parked = park("crashing_writer", 50 * SLUICE_S);

    int64_t began = test_now();
    child_send(&parked.writer, "crash");
    child_expect(&parked.writer, "told", 30);
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 40 * SLUICE_S);
    CHECK_RESULT(sluice_reader_release(parked.reader, &parked.frame, parked.stream), SLUICE_E_LOST);
    CHECK_OK(sluice_reader_close(&parked.reader));
    child_kill(&parked.writer, 9);
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

/* Nor is the program kept in close, where the driver waits for such a stream, nor the memory. */
static void leave(bool release)
{
    struct parked parked = park("stuck_writer", 1000 * SLUICE_S);

    if (release)
        CHECK_OK(sluice_reader_release(parked.reader, &parked.frame, parked.stream));
    int64_t began = test_now();
    CHECK_OK(sluice_reader_close(&parked.reader));
    CHECK_OK(sluice_stream_synchronize(parked.stream));
    CHECK_LE(test_now() - began, 20 * SLUICE_S);
    child_kill(&parked.writer, 9);
    CHECK_OK(sluice_device_close(&parked.device));
    gpu_end();
}

TEST_TIMEOUT(a_reader_that_closes_frees_the_stream_that_waits_for_its_frame, 60)
{
    leave(false);
}

TEST_TIMEOUT(so_it_does_when_the_release_is_queued_behind_that, 60)
{
    leave(true);
}
