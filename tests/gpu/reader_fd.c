/* SPDX-License-Identifier: MIT
 *
 * What a reader's descriptor tells a program that polls it, beside frames that are ready.
 */
#include "gpu/channel.h"

#define DEADLINE ((int64_t)(SLUICE_S / 4 * test_slowness())) /* for streams that wait in vain */

/* A frame that a stream waits for in vain, and a release behind that. What release said: it may have come after the loss. */
static int lose_a_frame(struct scene *scene, struct gpu_gate *gate, sluice_reader *reader)
{
    struct sluice_frame frame;

    channel_commit_behind(gate, scene->writer, scene->writing, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene->reading, 20 * SLUICE_S, &frame));
    return sluice_reader_release(reader, &frame, scene->reading);
}

static void go_on(struct scene *scene, struct gpu_gate *gate)
{
    gpu_gate_open(gate);
    CHECK_OK(sluice_stream_synchronize(scene->writing));
    CHECK_OK(sluice_stream_synchronize(scene->reading));
}

TEST(who_waits_is_told_that_a_stream_waited_in_vain)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader_ahead(2, DEADLINE);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader), r;

    channel_greet(&scene, reader);
    if ((r = lose_a_frame(&scene, &gate, reader)) == 0)
        while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame)) == SLUICE_TIMEOUT)
            CHECK(channel_readable(fd, 20000));
    CHECK_SAYS(r, SLUICE_E_LOST, "did not finish");
    go_on(&scene, &gate);

    if ((r = lose_a_frame(&scene, &gate, reader)) == 0)
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, SLUICE_FOREVER, &frame);
    CHECK_SAYS(r, SLUICE_E_LOST, "did not finish");
    go_on(&scene, &gate);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

/* A frame is ready, and there is no room for it. */
TEST(who_polls_sleeps_while_all_its_frames_are_worked_on)
{
    struct scene scene = channel_scene();
    struct gpu_gate gate = gpu_gate_new();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader), r;
    int64_t looks = 0, began;

    channel_commit(scene.writer, scene.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    gpu_gate_close(&gate, gpu_native(scene.reading));
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    channel_commit(scene.writer, scene.writing, 0, 2);
    CHECK_OK(sluice_stream_synchronize(scene.writing));
    for (began = test_now(); test_now() - began < SLUICE_S / 4; looks++) {
        CHECK_RESULT(sluice_reader_acquire(reader, scene.reading, 0, &frame), SLUICE_TIMEOUT);
        (void)channel_readable(fd, 100);
    }
    CHECK_LE(looks, (test_now() - began) / (SLUICE_MS / 20) + 10); /* each is asked for by a timer */
    gpu_gate_open(&gate);
    while ((r = sluice_reader_acquire(reader, scene.reading, 0, &frame)) == SLUICE_TIMEOUT)
        CHECK(channel_readable(fd, 20000));
    CHECK_OK(r);
    CHECK_EQ(frame.sequence, 2);
    CHECK_OK(sluice_reader_release(reader, &frame, scene.reading));
    gpu_gate_end(&gate);
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

TEST(a_reader_that_stops_stays_readable)
{
    struct scene scene = channel_scene();
    sluice_reader *reader = channel_reader(1);
    struct sluice_frame frame;
    int fd = sluice_reader_fd(reader);

    CHECK_OK(sluice_reader_stop(reader));
    for (int i = 0; i < 2; i++) {
        CHECK(channel_readable(fd, 20000));
        CHECK_RESULT(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame), SLUICE_E_CLOSED);
    }
    CHECK_OK(sluice_reader_close(&reader));
    channel_end(&scene);
}

/* The program has its GPU reset, and nobody but release has come to know: acquire says so, again and again. */
TEST(who_polls_is_told_that_release_found_the_gpu_lost)
{
    struct scene scene = channel_scene();
    sluice_reader *reader = channel_reader(2);
    struct sluice_frame frame, none;
    int fd = sluice_reader_fd(reader);

    TEST_KEEPS_FDS();
    channel_commit(scene.writer, scene.writing, 0, 1);
    CHECK_OK(sluice_reader_acquire(reader, scene.reading, 20 * SLUICE_S, &frame));
    CHECK_RESULT(sluice_reader_acquire(reader, scene.reading, 0, &none), SLUICE_TIMEOUT);
    CHECK(!channel_readable(fd, 0));
    CU(DevicePrimaryCtxReset, 0);
    CHECK_SAYS(sluice_reader_release(reader, &frame, scene.reading), SLUICE_E_DRIVER, "has reset the GPU");
    for (int i = 0; i < 2; i++) {
        CHECK(channel_readable(fd, 20000));
        CHECK_SAYS(sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &none), SLUICE_E_DRIVER, "has reset the GPU");
    }
    (void)sluice_reader_close(&reader);
    (void)sluice_writer_close(&scene.writer);
    (void)sluice_device_close(&scene.device);
    if (gpu_is_fake())
        gpu_end();
}
