/* SPDX-License-Identifier: MIT
 *
 * The promises of docs/gpu.md, and its table of invalid input: on the fake driver, and on a GPU.
 */
#include <poll.h>
#include <stdio.h>

#include <sluice/sluice.h>

#include "gpu/kit.h"

#define WORDS 1024

struct fixture {
    struct sluice_device device;
    struct sluice_stream stream, other;
    sluice_writer *writer;
};

static struct sluice_writer_params writer_params(struct sluice_format *format, int64_t words)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    test_dir();
    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(format, "data", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words));
    params.name = "camera";
    params.device = "cuda:0";
    params.format = format;
    return params;
}

static struct fixture set_up(void)
{
    struct sluice_format format;
    struct sluice_writer_params params = writer_params(&format, WORDS);
    struct fixture fixture;

    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.other));
    gpu_spin(gpu_native(fixture.stream), 0); /* loads the kernels */
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    CHECK_OK(sluice_writer_open(&fixture.writer, &params));
    return fixture;
}

static void tear_down(struct fixture *fixture)
{
    CHECK_OK(sluice_writer_close(&fixture->writer));
    CHECK_OK(sluice_device_close(&fixture->device));
    gpu_end();
}

static sluice_reader *open_reader(uint32_t mode, uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = "camera";
    params.mode = mode;
    params.hold = hold;
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

/* A frame that is ready after `ns`. */
static void put(struct fixture *fixture, struct sluice_stream stream, int64_t ns)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(fixture->writer, SLUICE_DEFAULT, &frame));
    if (ns)
        gpu_spin(gpu_native(stream), ns);
    CHECK_OK(sluice_writer_commit(fixture->writer, &frame, stream));
}

static struct sluice_frame take(sluice_reader *reader, struct sluice_stream stream, uint64_t sequence)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
    CHECK_EQ(frame.sequence, sequence);
    return frame;
}

/* ---- "What waits for what" ---- */

TEST(gpu_doc_a_reader_waits_for_its_own_work)
{
    struct fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;

    for (uint32_t hold = 1; hold <= 2; hold++) {
        sluice_reader *reader = open_reader(SLUICE_IN_ORDER, hold);
        put(&fixture, fixture.stream, 0);
        CHECK_OK(sluice_reader_acquire(reader, fixture.other, 20 * SLUICE_S, &frame));
        put(&fixture, fixture.stream, 0);
        CHECK_OK(sluice_stream_synchronize(fixture.stream));
        gpu_gate_close(&gate, gpu_native(fixture.other));
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.other));
        if (hold == 1)
            CHECK_SAYS(sluice_reader_acquire(reader, fixture.other, 0, &frame), SLUICE_TIMEOUT,
                       "all 1 frames that this reader may hold are still being worked on");
        else
            CHECK_OK(sluice_reader_acquire(reader, fixture.other, 0, &frame));
        gpu_gate_open(&gate);
        CHECK_OK(sluice_stream_synchronize(fixture.other));
        CHECK_OK(sluice_reader_close(&reader));
    }
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

TEST(gpu_doc_a_frame_acquired_for_the_cpu_may_be_released_on_a_stream)
{
    struct fixture fixture = set_up();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 1);

    put(&fixture, fixture.stream, 0);
    struct sluice_frame frame = take(reader, SLUICE_ON_CPU, 1);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.other));
    CHECK_OK(sluice_reader_close(&reader));
    tear_down(&fixture);
}

TEST(gpu_doc_a_frame_on_several_streams)
{
    struct fixture fixture = set_up();
    struct sluice_stream display = fixture.stream, inference = fixture.other;
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 1);

    put(&fixture, fixture.stream, 0);
    struct sluice_frame frame = take(reader, inference, 1), next;
    gpu_gate_close(&gate, gpu_native(display));
    sluice_frame_used_on(&frame, display, NULL, NULL);
    sluice_reader_release(reader, &frame, inference);
    CHECK_OK(sluice_stream_synchronize(inference));
    put(&fixture, inference, 0);
    CHECK_RESULT(sluice_reader_acquire(reader, inference, 0, &next), SLUICE_TIMEOUT); /* the first is still held */
    gpu_gate_open(&gate);
    next = take(reader, inference, 2);
    CHECK_OK(sluice_reader_release(reader, &next, inference));
    CHECK_OK(sluice_reader_close(&reader));
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

/* policies.md: 1 begun, 1 newest, 1 in flight, and a reader that holds 2. */
TEST(gpu_doc_slots)
{
    struct sluice_format format;
    struct sluice_writer_stats stats = { .size = sizeof stats };
    struct fixture fixture = set_up();
    struct sluice_writer_params params = writer_params(&format, WORDS);
    struct sluice_frame held[2], begun;

    CHECK_OK(sluice_writer_close(&fixture.writer));
    params.slots = params.max_slots = 5;
    CHECK_OK(sluice_writer_open(&fixture.writer, &params));
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 2);
    for (uint64_t i = 0; i < 2; i++) {
        put(&fixture, fixture.stream, 0);
        held[i] = take(reader, fixture.other, i + 1);
    }
    put(&fixture, fixture.stream, 0);
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    put(&fixture, fixture.stream, SPIN); /* in flight */
    for (int i = 0; i < 3; i++) {
        CHECK_OK(sluice_writer_begin(fixture.writer, 0, &begun));
        CHECK_OK(sluice_writer_cancel(fixture.writer, &begun, SLUICE_ON_CPU));
    }
    CHECK_OK(sluice_writer_stats(fixture.writer, &stats));
    CHECK_EQ(stats.dropped, 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_reader_release(reader, &held[i], fixture.other));
    CHECK_OK(sluice_reader_close(&reader));
    tear_down(&fixture);
}

/* ---- "Frames become ready in any order" ---- */

TEST(gpu_doc_any_order)
{
    struct fixture fixture = set_up();
    sluice_reader *newest = open_reader(SLUICE_NEWEST, 1), *in_order = open_reader(SLUICE_IN_ORDER, 1);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_frame frame;

    gpu_gate_close(&gate, gpu_native(fixture.stream));
    put(&fixture, fixture.stream, 0); /* 1 is late */
    put(&fixture, fixture.other, 0);  /* 2 is not */
    frame = take(newest, fixture.other, 2);
    CHECK_OK(sluice_reader_release(newest, &frame, fixture.other));
    CHECK_RESULT(sluice_reader_acquire(in_order, fixture.other, 0, &frame), SLUICE_TIMEOUT);
    gpu_gate_open(&gate);
    frame = take(in_order, fixture.other, 1);
    CHECK_OK(sluice_reader_release(in_order, &frame, fixture.other));
    CHECK_OK(sluice_stream_synchronize(fixture.stream));
    CHECK_RESULT(sluice_reader_acquire(newest, fixture.other, 0, &frame),
                 SLUICE_TIMEOUT); /* 1 is not returned any more */
    frame = take(in_order, fixture.other, 2);
    CHECK_OK(sluice_reader_release(in_order, &frame, fixture.other));
    CHECK_OK(sluice_reader_close(&newest));
    CHECK_OK(sluice_reader_close(&in_order));
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

TEST(gpu_doc_the_descriptor_tells_of_ready_frames)
{
    struct fixture fixture = set_up();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 1);
    struct pollfd poller = { .fd = sluice_reader_fd(reader), .events = POLLIN };
    struct sluice_frame frame;

    while (sluice_reader_acquire(reader, fixture.other, 0, &frame) == 0)
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.other));
    int64_t began = test_now();
    put(&fixture, fixture.stream, SPIN);
    CHECK_EQ(poll(&poller, 1, 20000), 1);
    CHECK_GE(test_now() - began, SPIN * 9 / 10);
    CHECK_OK(sluice_reader_acquire(reader, fixture.other, 0, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.other));
    CHECK_OK(sluice_reader_close(&reader));
    tear_down(&fixture);
}

/* ---- the table of invalid input ---- */

TEST(gpu_doc_bad_streams)
{
    struct fixture fixture = set_up();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 1);
    struct sluice_device host;
    struct sluice_stream foreign, zero = { 0 }, gone = fixture.other;
    struct sluice_frame begun, other;
    struct sluice_array array;
    const char *what_to_pass = "pass SLUICE_ON_CPU if the CPU did the work, or the stream that does it";

    CHECK_OK(sluice_device_open(&host, "host"));
    CHECK_OK(sluice_stream_create(host, NULL, &foreign));
    CHECK_OK(sluice_stream_destroy(&fixture.other));
    put(&fixture, fixture.stream, 0);
    struct sluice_frame frame = take(reader, fixture.stream, 1);
    CHECK_OK(sluice_writer_begin(fixture.writer, 0, &begun));
    CHECK_SAYS(sluice_writer_commit(fixture.writer, &begun, zero), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_writer_cancel(fixture.writer, &begun, zero), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_writer_commit(fixture.writer, &begun, foreign), SLUICE_E_WRONG_DEVICE,
               "channel 'camera': stream");
    CHECK_HAS(sluice_last_error(), "is of device \"host\"");
    CHECK_SAYS(sluice_writer_commit(fixture.writer, &begun, gone), SLUICE_E_CLOSED, "was destroyed");
    CHECK_OK(sluice_writer_commit(fixture.writer, &begun, fixture.stream)); /* begun throughout */
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_SAYS(sluice_writer_send(fixture.writer, &array, 1, zero, NULL), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_reader_fetch(reader, &frame, &array, 1, zero, NULL), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_reader_release(reader, &frame, zero), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_reader_release(reader, &frame, foreign), SLUICE_E_WRONG_DEVICE, "the channel's frames live on");
    CHECK_SAYS(sluice_reader_release(reader, &frame, gone), SLUICE_E_CLOSED, "was destroyed");
    CHECK_SAYS(sluice_reader_acquire(reader, zero, 0, &other), SLUICE_E_INVALID, what_to_pass);
    CHECK_SAYS(sluice_reader_release(reader, &frame, SLUICE_ON_CPU), SLUICE_E_INVALID, "release it on a stream");
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.stream)); /* held throughout */
    CHECK_SAYS(sluice_reader_release(reader, &frame, fixture.stream), SLUICE_E_STALE,
               "this frame was released already, or is not this reader's");
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&host));
    tear_down(&fixture);
}

TEST(gpu_doc_streams_of_another_gpu)
{
    struct sluice_device second;
    struct sluice_stream far;

    gpu_begin_with(2);
    struct fixture fixture = set_up();
    sluice_reader *reader = open_reader(SLUICE_NEWEST, 1);
    CHECK_OK(sluice_device_open(&second, "cuda:1"));
    CHECK_OK(sluice_stream_create(second, NULL, &far));
    put(&fixture, fixture.stream, 0);
    struct sluice_frame frame = take(reader, fixture.stream, 1);
    CHECK_SAYS(sluice_reader_release(reader, &frame, far), SLUICE_E_WRONG_DEVICE,
               "channel 'camera': the stream is one of \"cuda:1\", the frame is used on \"cuda:0\": use a stream of "
               "that GPU, and let it "
               "wait for the other");
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.stream));
    CHECK_OK(sluice_device_close(&second));
    CHECK_OK(sluice_reader_close(&reader));
    tear_down(&fixture);
}

TEST(gpu_doc_a_reader_on_the_host)
{
    struct fixture fixture = set_up();
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    params.name = "camera";
    params.device = "host";
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_SAYS(sluice_reader_open(&reader, &params), SLUICE_E_WRONG_DEVICE, "leave the reader's device out");
    tear_down(&fixture);
}

TEST(gpu_doc_more_slots_than_memory)
{
    struct sluice_format format;
    struct sluice_writer_params params = writer_params(&format, INT64_C(1) << 40);
    sluice_writer *writer;

    gpu_begin();
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_NO_MEMORY, "bytes were asked for, cuda:0 has ");
    CHECK_HAS(sluice_last_error(), " free (use fewer or smaller slots)");
}
