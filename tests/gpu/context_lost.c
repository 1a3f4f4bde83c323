/* SPDX-License-Identifier: MIT
 *
 * Contexts that die: by a reset of the GPU, or a crashed kernel. Every call reports it, nothing crashes, and all can be
 * closed.
 */
#include <pthread.h>
#include <string.h>

#include "device/device.h"
#include "gpu/channel.h"

struct stage {
    struct sluice_device device;
    struct sluice_stream stream, standard;
    struct sluice_event event;
};

static struct stage set_up(void)
{
    struct stage fixture;

    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.stream));
    CHECK_OK(sluice_stream_default(fixture.device, &fixture.standard));
    CHECK_OK(sluice_event_create(fixture.device, SLUICE_EVENT_TIMING, &fixture.event));
    CHECK_OK(sluice_event_record(fixture.event, fixture.stream));
    CHECK_OK(sluice_event_synchronize(fixture.event));
    return fixture;
}

static void check_lost(struct stage *fixture, const char *word)
{
    struct sluice_stream stream = { 42 };
    struct sluice_event event = { 42 };
    struct sluice_stream_info info = { .size = sizeof info };
    double ms;

    CHECK_SAYS(sluice_stream_synchronize(fixture->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_query(fixture->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_synchronize(fixture->standard), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_wait_stream(fixture->stream, fixture->standard), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_wait_event(fixture->stream, fixture->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_create(fixture->device, NULL, &stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_create(fixture->device, 0, &event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_record(fixture->event, fixture->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_query(fixture->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_synchronize(fixture->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_elapsed(fixture->event, fixture->event, &ms), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_device_synchronize(fixture->device), SLUICE_E_DRIVER, word);
    CHECK_OK(sluice_stream_info(fixture->stream, &info));
    CHECK_EQ(stream.id, 42);
    CHECK_EQ(event.id, 42);

    /* All of it can be ended. */
    CHECK_OK(sluice_stream_destroy(&fixture->stream));
    CHECK_SAYS(sluice_device_reset(fixture->device), SLUICE_E_DRIVER, word);
    CHECK_EQ(sl_device_counts().streams, 0);
    CHECK_EQ(sl_device_counts().events, 0);
    CHECK_SAYS(sluice_device_close(&fixture->device), SLUICE_E_DRIVER, word);
    CHECK_EQ(fixture->device.id, 0);
    CHECK_EQ(sl_device_counts().devices, 0);
}

TEST(somebody_resets_the_gpu)
{
    struct stage fixture = set_up();
    struct sluice_stream stream;

    TEST_KEEPS_FDS();
    CU(DevicePrimaryCtxReset, 0);
    check_lost(&fixture, "has reset the GPU");

    /* Opened again, it works. */
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &stream));
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
}

/* The next context has the address of the one before; the old one's handles must not be used. */
TEST(somebody_resets_the_gpu_and_uses_it_again)
{
    struct stage fixture = set_up();
    struct sl_cu_context *again;

    TEST_KEEPS_FDS();
    CU(DevicePrimaryCtxReset, 0);
    CU(DevicePrimaryCtxRetain, &again, 0);
    CU(CtxSetCurrent, again);
    gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    check_lost(&fixture, "has reset the GPU");
    CU(DevicePrimaryCtxRelease, 0);
    gpu_end();
}

TEST(a_kernel_crashes)
{
    struct stage fixture = set_up();

    TEST_KEEPS_FDS();
    gpu_store(gpu_native(fixture.stream), 0x10, 1);
    CHECK_SAYS(sluice_stream_synchronize(fixture.stream), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    CHECK_HAS(sluice_last_error(), "may only read");
    CHECK_HAS(sluice_last_error(), "cuda:0");
    check_lost(&fixture, "ILLEGAL_ADDRESS");
    if (gpu_is_fake())
        gpu_end();
}

/* ---- a writer that waits meanwhile ---- */

static void *crash_in_a_moment(void *stream)
{
    test_nap(100 * SLUICE_MS);
    gpu_use(0);
    gpu_store(stream, 0x10, 1);
    return NULL;
}

/* All three slots are in use, none of them by the work that crashes: only the driver can tell. */
static void wait_for_a_slot(int (*wait)(sluice_writer *writer, struct sluice_frame *frame))
{
    struct sluice_stream stream;
    struct sluice_frame frames[4];
    pthread_t thread;

    gpu_begin();
    gpu_use(0);
    TEST_KEEPS_FDS();
    struct sluice_device device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    gpu_spin(gpu_native(stream), 0);
    CHECK_OK(sluice_stream_synchronize(stream));
    sluice_writer *writer = channel_writer_of(3);
    for (int i = 0; i < 3; i++)
        CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frames[i]));
    int64_t began = test_now();
    CHECK(pthread_create(&thread, NULL, crash_in_a_moment, gpu_native(stream)) == 0);
    CHECK_SAYS(wait(writer, &frames[3]), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    CHECK(test_now() - began < 15 * SLUICE_S); /* of 20 s, or of for ever */
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_RESULT(sluice_writer_begin(writer, 0, &frames[3]), SLUICE_E_DRIVER);
    (void)sluice_writer_close(&writer);
    (void)sluice_device_close(&device);
    if (gpu_is_fake())
        gpu_end();
}

static int begin(sluice_writer *writer, struct sluice_frame *frame)
{
    return sluice_writer_begin(writer, SLUICE_FOREVER, frame);
}

static int only_wait(sluice_writer *writer, struct sluice_frame *frame)
{
    (void)frame;
    return sluice_writer_wait(writer, 20 * SLUICE_S);
}

TEST_TIMEOUT(begin_ends_when_the_gpu_is_lost, 60)
{
    wait_for_a_slot(begin);
}

TEST_TIMEOUT(a_wait_for_a_slot_ends_when_the_gpu_is_lost, 60)
{
    wait_for_a_slot(only_wait);
}
