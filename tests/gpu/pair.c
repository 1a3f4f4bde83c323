/* SPDX-License-Identifier: MIT
 *
 * A channel on one GPU, and a reader on another.
 */
#include "gpu/pair.h"

#include <stdio.h>
#include <string.h>

#include "device/device.h"

const char *gpu_uuid(int device, char text[48])
{
    unsigned char uuid[SL_DEVICE_UUID];
    char name[SL_DEVICE_NAME];

    CU(DeviceGetUuid, uuid, device);
    sl_device_cuda.name_of(uuid, name);
    snprintf(text, 48, "%.47s", name + strlen("cuda:"));
    return text;
}

void pair_need_peers(void)
{
    int can = 0;

    CU(DeviceCanAccessPeer, &can, 1, 0);
    if (!can)
        SKIP("GPU 1 cannot reach GPU 0's memory here");
}

void pair_need_fake(void)
{
    gpu_begin_with(2);
    if (!gpu_is_fake())
        SKIP("what a driver lacks, or does not come to, is shown on the fake one");
}

struct pair pair_open(uint32_t hold, uint32_t staged, uint32_t ahead)
{
    struct sluice_reader_params params;
    struct pair pair;

    gpu_begin_with(2);
    pair_need_peers();
    pair.fixture = channel_fixture();
    params = channel_reader_params(hold);
    params.device = "cuda:1";
    params.staged = staged;
    params.ahead = ahead;
    CHECK_OK(sluice_reader_open(&pair.reader, &params));
    gpu_settle();
    CHECK_OK(sluice_device_open(&pair.device, "cuda:1"));
    CHECK_OK(sluice_stream_create(pair.device, NULL, &pair.stream));
    return pair;
}

void pair_close(struct pair *pair)
{
    CHECK_OK(sluice_reader_close(&pair->reader));
    CHECK_OK(sluice_device_close(&pair->device));
    channel_end(&pair->fixture);
}

void pair_commit(struct pair *pair, int64_t ns, uint32_t value)
{
    gpu_use(0);
    channel_commit(pair->fixture.writer, pair->fixture.writing, ns, value);
}

void pair_check(struct pair *pair, const struct sluice_frame *frame, uint32_t value)
{
    gpu_use(1);
    channel_check(frame, pair->stream, value);
}

void pair_take(struct pair *pair, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_acquire(pair->reader, pair->stream, 20 * SLUICE_S, frame));
}

void pair_give_back(struct pair *pair, struct sluice_frame *frame)
{
    CHECK_OK(sluice_reader_release(pair->reader, frame, pair->stream));
}

struct sluice_reader_info pair_info(void)
{
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info reader;

    /* A previous reader may still be leaving. */
    CHECK_SOON((sluice_channel_info("cam", 20 * SLUICE_S, &info, &reader, 1) == 0 && info.readers == 1), 10);
    return reader;
}

void pair_check_path(const char *how)
{
    char text[48], expected[80];

    snprintf(expected, sizeof expected, "%s %.12s", how, gpu_uuid(1, text));
    CHECK_STR(pair_info().path, expected);
}
