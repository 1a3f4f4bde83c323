/* SPDX-License-Identifier: MIT
 *
 * What a reader's descriptor reports to a program that polls it, other than ready frames.
 */
#include "gpu/channel.h"

#define DEADLINE ((int64_t)(SLUICE_S / 4 * test_slowness())) /* for streams that wait for a lost frame */

/* A stream waits for a frame that is lost, and a release is queued after that. Returns the result of release, which may
 * come after the loss. */
static int lose_a_frame(struct channel_fixture *fixture, struct gpu_gate *gate, sluice_reader *reader)
{
    struct sluice_frame frame;

    channel_commit_behind(gate, fixture->writer, fixture->writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture->reading, 20 * SLUICE_S, &frame));
    return sluice_reader_release(reader, &frame, fixture->reading);
}

static void go_on(struct channel_fixture *fixture, struct gpu_gate *gate)
{
    gpu_gate_open(gate);
    CHECK_OK(sluice_stream_synchronize(fixture->writing));
    CHECK_OK(sluice_stream_synchronize(fixture->reading));
}

TEST(acquire_reports_that_a_stream_waited_for_a_lost_frame)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, DEADLINE);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader), r;

    channel_greet(&fixture, reader);
    if ((r = lose_a_frame(&fixture, &gate, reader)) == 0)
        while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == SLUICE_TIMEOUT)
            CHECK(channel_readable(fd, 20000));
    CHECK_SAYS(r, SLUICE_E_LOST, "did not finish");
    go_on(&fixture, &gate);

    if ((r = lose_a_frame(&fixture, &gate, reader)) == 0)
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_FOREVER, &frame);
    CHECK_SAYS(r, SLUICE_E_LOST, "did not finish");
    go_on(&fixture, &gate);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* A frame is ready, and the reader may not hold another one. */
TEST(a_poller_sleeps_while_the_gpu_works_on_all_its_frames)
{
    struct channel_fixture fixture = channel_fixture();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader), r;
    int64_t looks = 0, began;

    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    gpu_gate_close(&gate, gpu_native(fixture.reading));
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    channel_commit(fixture.writer, fixture.writing, 0, 2);
    CHECK_OK(sluice_stream_synchronize(fixture.writing));
    for (began = test_now(); test_now() - began < SLUICE_S / 4; looks++) {
        CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 0, &frame), SLUICE_TIMEOUT);
        (void)channel_readable(fd, 100);
    }
    CHECK_LE(looks, (test_now() - began) / (SLUICE_MS / 20) + 10); /* each poll is set by a timer */
    gpu_gate_open(&gate);
    while ((r = sluice_reader_acquire(reader, fixture.reading, 0, &frame)) == SLUICE_TIMEOUT)
        CHECK(channel_readable(fd, 20000));
    CHECK_OK(r);
    CHECK_EQ(frame.sequence, 2);
    CHECK_OK(sluice_reader_release(reader, &frame, fixture.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

TEST(a_reader_that_stops_stays_readable)
{
    struct channel_fixture fixture = channel_fixture();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader);

    CHECK_OK(sluice_reader_stop(reader));
    for (int i = 0; i < 2; i++) {
        CHECK(channel_readable(fd, 20000));
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_E_CLOSED);
    }
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&fixture);
}

/* The program has reset its GPU, and only release has noticed: acquire reports it, again and again. */
TEST(a_poller_wakes_when_release_finds_the_gpu_lost)
{
    struct channel_fixture fixture = channel_fixture();
    sluice_reader *reader = channel_reader(2);
    struct sluice_frame frame, none;
    int fd = sluice_reader_fd(reader);

    TEST_KEEPS_FDS();
    channel_commit(fixture.writer, fixture.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, fixture.reading, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_reader_acquire(reader, fixture.reading, 0, &none), SLUICE_TIMEOUT);
    CHECK(!channel_readable(fd, 0));
    CU(DevicePrimaryCtxReset, 0);
    CHECK_SAYS(sluice_reader_release(reader, &frame, fixture.reading), SLUICE_E_DRIVER, "has reset the GPU");
    for (int i = 0; i < 2; i++) {
        CHECK(channel_readable(fd, 20000));
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &none), SLUICE_E_DRIVER, "has reset the GPU");
    }
    (void)sluice_reader_close(&reader);
    (void)sluice_writer_close(&fixture.writer);
    (void)sluice_device_close(&fixture.device);
    if (gpu_is_fake())
        gpu_end();
}
