/* SPDX-License-Identifier: MIT
 *
 * "cipd:" channels: a writer's frames, as another process sees them and as its own does.
 */
#include <stdlib.h>

#include "gpu/cipd.h"

/* ---- another process reads ---- */

/* Arguments: the channel; the last frame's number. Says each frame's number once it has looked at all of it. */
ROLE(cipd_reader)
{
    struct sluice_frame frame;
    uint32_t value = 0, last = (uint32_t)atoi(argv[2]);

    CHECK_EQ(argc, 3);
    gpu_begin();
    gpu_use(0);
    cipd_call(argv[1]);
    sluice_reader *reader = cipd_reader();
    struct sl_cu_stream *stream = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    role_say("ready");
    while (value < last) {
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        uint32_t now = cipd_value(&frame, stream);
        CHECK(now > value);
        value = now;
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        role_say("%u", value);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CU(StreamDestroy, stream);
    gpu_end();
    return 0;
}

static void expect_number(struct child *child, uint32_t number)
{
    char text[16];

    snprintf(text, sizeof text, "%u", number);
    child_expect(child, text, 20);
}

TEST(cipd_frames_reach_another_process)
{
    struct sluice_format format;
    struct sluice_stream stream;

    gpu_begin();
    gpu_use(0);
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    format = cipd_format(cipd_float32, CIPD_WIDTH, CIPD_HEIGHT);
    sluice_writer *writer = cipd_writer(&format);
    struct sluice_array array = cipd_array(gpu_memory(format.arrays[0].nbytes), &format);
    struct child child = role_start("cipd_reader", cipd_name(), "20", NULL);
    child_expect(&child, "ready", 20);
    for (uint32_t i = 1; i <= 20; i++) {
        CHECK_OK(cipd_send(writer, &array, stream, i, NULL));
        expect_number(&child, i);
    }
    CHECK_EQ(child_wait(&child, 20), 0);
    struct sluice_cipd_info info = cipd_info_of_writer(writer);
    CHECK_EQ(info.published, 20);
    CHECK_EQ(info.failed, 0);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}
