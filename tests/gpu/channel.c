/* SPDX-License-Identifier: MIT
 *
 * Channels whose slots are on a GPU.
 */
#include <poll.h>
#include <stdlib.h>

#include "gpu/channel.h"

struct sluice_format channel_format(int64_t words)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 32, 1 }, 1, &words));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

struct sluice_writer_params channel_writer_params(void)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;

    test_dir();
    params.name = "cam";
    params.device = "cuda:0";
    return params;
}

struct sluice_reader_params channel_reader_params(uint32_t hold)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    test_dir();
    params.name = "cam";
    params.hold = hold;
    params.open_timeout_ns = params.ahead_ns = 20 * SLUICE_S;
    return params;
}

sluice_writer *channel_writer(void)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    sluice_writer *writer;

    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_writer *channel_writer_of(uint32_t slots)
{
    struct sluice_writer_params params = channel_writer_params();
    struct sluice_format format = channel_format(CHANNEL_WORDS);
    sluice_writer *writer;

    params.format = &format;
    params.slots = params.max_slots = slots;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

sluice_reader *channel_reader(uint32_t hold)
{
    struct sluice_reader_params params = channel_reader_params(hold);
    sluice_reader *reader;

    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

sluice_reader *channel_reader_ahead(uint32_t hold, int64_t ahead_ns)
{
    struct sluice_reader_params params = channel_reader_params(hold);
    sluice_reader *reader;

    params.ahead = 1;
    params.ahead_ns = ahead_ns;
    CHECK_OK(sluice_reader_open(&reader, &params));
    gpu_settle();
    return reader;
}

uint64_t channel_words(const struct sluice_frame *frame)
{
    struct sluice_array array;

    CHECK_OK(sluice_frame_array(frame, NULL, &array));
    return (uintptr_t)array.data;
}

void channel_commit(sluice_writer *writer, struct sluice_stream stream, int64_t ns, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    if (ns)
        gpu_spin(gpu_native(stream), ns);
    gpu_fill(gpu_native(stream), channel_words(&frame), CHANNEL_WORDS, value);
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
}

void channel_commit_behind(struct gpu_gate *gate, sluice_writer *writer, struct sluice_stream stream, uint32_t value)
{
    struct sluice_frame frame;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    gpu_fill(gpu_native(stream), channel_words(&frame), CHANNEL_WORDS, value);
    gpu_gate_close(gate, gpu_native(stream)); /* behind the kernel: a first launch may wait for others */
    CHECK_OK(sluice_writer_commit(writer, &frame, stream));
}

bool channel_readable(int fd, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    return poll(&poll_fd, 1, timeout_ms) == 1;
}

uint64_t channel_lost(sluice_reader *reader)
{
    struct sluice_reader_stats stats = { .size = sizeof stats };

    CHECK_OK(sluice_reader_stats(reader, &stats));
    return stats.lost;
}

int channel_free_slots(sluice_writer *writer)
{
    struct sluice_frame frames[8];
    int count = 0;

    while (count < 8 && sluice_writer_begin(writer, 0, &frames[count]) == 0)
        count++;
    for (int i = 0; i < count; i++)
        CHECK_OK(sluice_writer_cancel(writer, &frames[i], SLUICE_ON_CPU));
    return count;
}

void channel_check(const struct sluice_frame *frame, struct sluice_stream stream, uint32_t value)
{
    CHECK_EQ(gpu_differ(gpu_native(stream), channel_words(frame), CHANNEL_WORDS, value), 0);
}

struct channel_fixture channel_fixture(void)
{
    struct channel_fixture fixture;

    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.writing));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.reading));
    fixture.writer = channel_writer();
    gpu_spin(gpu_native(fixture.writing), 0); /* loads the kernels */
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    return fixture;
}

void channel_end(struct channel_fixture *fixture)
{
    CHECK_OK(sluice_writer_close(&fixture->writer));
    CHECK_OK(sluice_device_close(&fixture->device));
    gpu_end();
}

void channel_greet(struct channel_fixture *fixture, sluice_reader *reader)
{
    struct sluice_frame frame;

    channel_commit(fixture->writer, fixture->writing, 0, 0);
    CHECK_OK(sluice_reader_acquire(reader, fixture->reading, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_reader_release(reader, &frame, fixture->reading));
    CHECK_OK(sluice_stream_synchronize(fixture->reading));
}

TEST(a_frame_is_acquired_when_the_gpu_has_finished_it)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame frame;

    for (uint32_t i = 1; i <= 3; i++) {
        channel_commit_behind(&gate, fixture.writer, fixture.writing,
                              i); /* does not wait; otherwise it would wait for ever */
        CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 0, &frame), SLUICE_TIMEOUT);
        CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 5 * SLUICE_MS, &frame), SLUICE_TIMEOUT);
        gpu_gate_open_later(&gate);
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
        gpu_gate_join(&gate);
        CHECK_EQ(frame.sequence, i);
        channel_check(&frame, fixture.reading, i);
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    }
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* Commits a frame in this slot, written by the CPU. */
static void commit_in(sluice_writer *writer, uint32_t slot)
{
    struct sluice_frame frame;
    uint32_t last;

    do {
        CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
        last = frame.slot;
        CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    } while (last != slot);
}

/* A release that the reader has not noticed yet counts for the frame that it ended, not for the next one in its slot.
 * */
TEST(a_slot_that_comes_again_at_once_is_held_once)
{
    struct channel_fixture fixture = channel_fixture();
    sluice_reader *reader = channel_reader(2);
    struct sluice_frame frame, again, other;

    for (int i = 0; i < 20; i++) {
        channel_commit(fixture.writer, fixture.writing, 0, 1);
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
        uint32_t slot = frame.slot;
        CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
        CHECK_OK(sluice_stream_synchronize(fixture.reading));
        commit_in(fixture.writer, slot);
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &again));
        CHECK_EQ(again.slot, slot);
        channel_commit(fixture.writer, fixture.writing, 0, 2);
        CHECK_OK(sluice_stream_synchronize(fixture.writing));
        CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &other));
        CHECK(other.slot != slot);
        CHECK_OK(sluice_reader_release(reader, &again, fixture.reading));
        CHECK_OK(sluice_reader_release(reader, &other, fixture.reading));
        CHECK_OK(sluice_stream_synchronize(fixture.reading));
    }
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
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
    sluice_reader *reader = channel_reader(2);
    role_say("open");
    while (frames-- > 0) {
        CHECK_OK(sluice_reader_acquire(reader, stream, 20 * SLUICE_S, &frame));
        channel_check(&frame, stream, (uint32_t)frame.sequence);
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
    sluice_writer *writer = channel_writer();
    struct child child = role_start("gpu_reader", "200", NULL);
    child_expect(&child, "open", 20);
    uint32_t value = 0;
    while (!child_ended(&child)) {
        channel_commit(writer, stream, 0, ++value);
        test_nap(100000);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}
