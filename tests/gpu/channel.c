/* SPDX-License-Identifier: MIT
 *
 * Channels whose slots lie on a GPU.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "gpu/kit.h"

#define WORDS (256 * 1024)

static struct sluice_format format_of(int64_t words)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

static sluice_writer *open_writer(int64_t words)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = format_of(words);
    sluice_writer *writer;

    test_dir();
    params.name = "cam";
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

static sluice_reader *open_reader(uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    params.name = "cam";
    params.hold = hold;
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

static uint64_t words_of(const struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    return (uintptr_t)array.data;
}

/* Fills a frame with `value` behind a kernel that takes `ns`, and commits it behind that. */
static void commit_slowly(sluice_writer *writer, struct sluice_stream stream, int64_t ns, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 5 * SLUICE_S, &frame));
    if (ns)
        gpu_spin(gpu_native(stream), ns);
    gpu_fill(gpu_native(stream), words_of(&frame), WORDS, value);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
}

static void check_frame(const struct sluice_frame *frame, struct sluice_stream stream, uint32_t value)
{
    CHECK_EQ(gpu_differ(gpu_native(stream), words_of(frame), WORDS, value), 0);
}

TEST(a_frame_is_acquired_when_the_gpu_has_finished_it)
{
    struct sluice_device device;
    struct sluice_stream writing, reading;
    struct sluice_frame frame;

    gpu_begin();
    gpu_use(0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &writing));
    CHECK_OK(sluice_stream_create(device, NULL, &reading));
    sluice_writer *writer = open_writer(WORDS);
    sluice_reader *reader = open_reader(1);
    gpu_spin(gpu_native(writing), 0);
    CHECK_OK(sluice_stream_synchronize(writing));

    for (uint32_t i = 1; i <= 3; i++) {
        int64_t began = test_now();
        commit_slowly(writer, writing, SPIN, i);
        CHECK_LE(test_now() - began, SOON);
        CHECK_RESULT(sluice_reader_acquire(reader, reading, 0, &frame), SLUICE_TIMEOUT);
        CHECK_OK(sluice_reader_acquire(reader, reading, 5 * SLUICE_S, &frame));
        CHECK_GE(test_now() - began, SPIN * 9 / 10);
        CHECK_EQ(frame.sequence, i);
        check_frame(&frame, reading, i);
        CHECK_OK(sluice_reader_release(reader, &frame, reading));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

ROLE(gpu_reader)
{
    struct sluice_stream stream;
    struct sluice_frame frame;
    long frames = atol(argv[1]);

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    sluice_reader *reader = open_reader(2);
    role_say("open");
    while (frames-- > 0) {
        CHECK_OK(sluice_reader_acquire(reader, stream, 10 * SLUICE_S, &frame));
        check_frame(&frame, stream, (uint32_t)frame.sequence);
        CHECK_OK(sluice_reader_release(reader, &frame, stream));
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
    return 0;
}

TEST_TIMEOUT(another_process_reads_every_frame_whole, 60)
{
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    sluice_writer *writer = open_writer(WORDS);
    struct child child = role_start("gpu_reader", "200", NULL);
    child_expect(&child, "open", 20);
    uint32_t value = 0;
    while (!child_ended(&child)) {
        commit_slowly(writer, stream, 0, ++value);
        test_nap(100000);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}
