/* SPDX-License-Identifier: MIT
 *
 * CU_STREAM_PER_THREAD: one handle that is another stream on each thread. What is done for a thread later, or on
 * another thread, must be ordered after its own stream, which no other thread can name.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "gpu/channel.h"
#include "gpu/frames.h"

#define WORDS    1024
#define DEADLINE ((int64_t)(SLUICE_S * test_slowness()))

static struct sluice_stream wrap(struct sluice_device device)
{
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_wrap(device, (uintptr_t)SL_CU_PER_THREAD, NULL, NULL, &stream));
    return stream;
}

/* ---- a release that a capture defers ---- */

struct stage {
    struct sluice_device device;
    struct sluice_stream stream;
    struct gpu_gate gate;
    sluice_writer *writer;
    sluice_reader *reader;
    atomic_int held; /* as seen by another thread, which acquires without a stream */
};

static void *look(void *data)
{
    struct stage *stage = data;

    gpu_use(0);
    stage->held = (int)frames_held(stage->reader, SLUICE_ON_CPU);
    return NULL;
}

static int held_elsewhere(struct stage *stage)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, look, stage) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return stage->held;
}

static struct stage release_in_capture(void)
{
    struct stage stage = { 0 };
    struct sluice_frame frame;

    gpu_begin();
    gpu_use(0);
    frames_warm_up(SL_CU_PER_THREAD);
    stage.gate = gpu_gate_new();
    stage.device = gpu_open();
    stage.stream = wrap(stage.device);
    stage.writer = frames_writer("cam", WORDS, 3);
    stage.reader = frames_reader("cam", 1);
    CHECK_OK(sluice_writer_begin(stage.writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_writer_commit(stage.writer, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_reader_acquire(stage.reader, stage.stream, 20 * SLUICE_S, &frame));
    gpu_gate_close(&stage.gate, SL_CU_PER_THREAD);
    CU(StreamBeginCapture, SL_CU_PER_THREAD, CAPTURE_RELAXED);
    CHECK_OK(sluice_reader_release(stage.reader, &frame, stage.stream));
    return stage;
}

static void end_capture(void)
{
    struct sl_cu_graph *graph;
    size_t nodes = 77;

    CU(StreamEndCapture, SL_CU_PER_THREAD, &graph);
    CU(GraphGetNodes, graph, NULL, &nodes);
    CHECK_EQ(nodes, 0);
    CU(GraphDestroy, graph);
}

static void finish(struct stage *stage)
{
    CHECK_OK(sluice_writer_close(&stage->writer));
    CHECK_OK(sluice_device_close(&stage->device));
    gpu_gate_end(&stage->gate);
    gpu_end();
}

TEST(a_release_that_another_thread_queues_follows_the_right_stream)
{
    struct stage stage = release_in_capture();

    CHECK_EQ(held_elsewhere(&stage), 1); /* this thread's stream captures nothing, but it is another one */
    end_capture();
    CHECK_EQ(held_elsewhere(&stage), 1); /* now it is queued, after the work on this thread's stream */
    CHECK_EQ(held_elsewhere(&stage), 1);
    gpu_gate_open(&stage.gate);
    CHECK_SOON(held_elsewhere(&stage) == 0, 5);
    CHECK_OK(sluice_reader_close(&stage.reader));
    finish(&stage);
}

TEST(a_reader_that_is_closed_in_the_capture_releases_after_the_right_stream)
{
    struct stage stage = release_in_capture();
    struct sluice_writer_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_close(&stage.reader));
    end_capture();
    test_nap(50 * SLUICE_MS); /* a thread of the reader's checks meanwhile */
    CHECK_OK(sluice_writer_stats(stage.writer, &stats));
    CHECK_EQ(stats.readers, 1);
    gpu_gate_open(&stage.gate);
    CHECK_SOON(sluice_writer_stats(stage.writer, &stats) == 0 && stats.readers == 0, 5);
    finish(&stage);
}

/* ---- work after a stream that waits ---- */

struct other {
    sluice_writer *writer;
    struct sluice_stream stream;
    struct sluice_event event;
};

static void *commit_there(void *data)
{
    const struct other *other = data;
    struct sluice_frame frame;

    gpu_use(0);
    CHECK_OK(sluice_writer_begin(other->writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_event_record(other->event, other->stream)); /* on this thread's stream, which has no work */
    CHECK_OK(sluice_writer_commit(other->writer, &frame, other->stream));
    return NULL;
}

TEST(another_threads_stream_does_not_follow_the_one_that_waits)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_reader_params params = channel_reader_params(2);
    struct sluice_writer_params writing = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    struct other other = { .stream = wrap(fixture.device) };
    struct sluice_frame in, out;
    sluice_reader *reader;
    pthread_t thread;

    writing.name = "next";
    writing.format = &format;
    CHECK_OK(sluice_writer_open(&other.writer, &writing));
    CHECK_OK(sluice_event_create(fixture.device, 0, &other.event));
    params.ahead = 1;
    params.ahead_ns = DEADLINE;
    CHECK_OK(sluice_reader_open(&reader, &params));
    channel_commit(fixture.writer, fixture.writing, 0, 0);
    CHECK_OK(sluice_reader_acquire(reader, other.stream, 20 * SLUICE_S, &in));
    CHECK_OK(sluice_reader_release(reader, &in, other.stream));
    CHECK_OK(sluice_stream_synchronize(other.stream));

    channel_commit_behind(&gate, fixture.writer, fixture.writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, other.stream, 20 * SLUICE_S, &in));
    CHECK(in.flags & SLUICE_FRAME_AHEAD);
    CHECK(pthread_create(&thread, NULL, commit_there, &other) ==
          0); /* though the gate stays closed beyond the deadline */
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(sluice_writer_begin(other.writer, 20 * SLUICE_S, &out));
    CHECK_SAYS(sluice_writer_commit(other.writer, &out, other.stream), SLUICE_E_LOST,
               "not whole"); /* this thread's is */
    CHECK_OK(sluice_writer_cancel(other.writer, &out, other.stream));
    CHECK_RESULT(sluice_reader_release(reader, &in, other.stream), SLUICE_E_LOST);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    CHECK_OK(sluice_stream_synchronize(other.stream));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&other.writer));
    channel_end(&fixture);
}

/* ---- which stream it is ---- */

static uint64_t line_of(struct sluice_stream handle)
{
    struct sl_stream *stream;

    CHECK_OK(sl_stream_hold(handle, &stream));
    uint64_t line = sl_stream_queue_id(stream);
    sl_object_drop(&stream->object);
    return line;
}

struct lines {
    struct sluice_stream stream, own;
    uint64_t line, line_of_own;
};

static void *lines_there(void *data)
{
    struct lines *lines = data;

    lines->line = line_of(lines->stream);
    lines->line_of_own = line_of(lines->own);
    return NULL;
}

TEST(a_handle_is_another_stream_on_each_thread)
{
    struct lines lines;
    pthread_t thread;

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    struct sluice_stream again = wrap(device);
    lines.stream = wrap(device);
    CHECK_OK(sluice_stream_create(device, NULL, &lines.own));
    CHECK(pthread_create(&thread, NULL, lines_there, &lines) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(line_of(lines.stream), line_of(again));
    CHECK_NE(line_of(lines.stream), lines.line);
    CHECK_EQ(line_of(lines.own), lines.line_of_own);
    CHECK_NE(line_of(lines.own), line_of(lines.stream));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}
