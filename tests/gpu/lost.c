/* SPDX-License-Identifier: MIT
 *
 * Contexts that die: somebody resets the GPU, a kernel crashes. Every call says so, nothing
 * crashes, and all can be closed.
 */
#include <string.h>

#include "device/device.h"
#include "gpu/kit.h"

struct scene {
    struct sluice_device device;
    struct sluice_stream stream, standard;
    struct sluice_event event;
};

static struct scene set_up(void)
{
    struct scene scene;

    gpu_begin();
    gpu_use(0);
    scene.device = gpu_open();
    CHECK_OK(sluice_stream_create(scene.device, NULL, &scene.stream));
    CHECK_OK(sluice_stream_default(scene.device, &scene.standard));
    CHECK_OK(sluice_event_create(scene.device, SLUICE_EVENT_TIMING, &scene.event));
    CHECK_OK(sluice_event_record(scene.event, scene.stream));
    CHECK_OK(sluice_event_synchronize(scene.event));
    return scene;
}

static void check_lost(struct scene *scene, const char *word)
{
    struct sluice_stream stream = { 42 };
    struct sluice_event event = { 42 };
    struct sluice_stream_info info = { .size = sizeof info };
    double ms;

    CHECK_SAYS(sluice_stream_synchronize(scene->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_query(scene->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_synchronize(scene->standard), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_wait_stream(scene->stream, scene->standard), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_wait_event(scene->stream, scene->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_stream_create(scene->device, NULL, &stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_create(scene->device, 0, &event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_record(scene->event, scene->stream), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_query(scene->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_synchronize(scene->event), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_event_elapsed(scene->event, scene->event, &ms), SLUICE_E_DRIVER, word);
    CHECK_SAYS(sluice_device_synchronize(scene->device), SLUICE_E_DRIVER, word);
    CHECK_OK(sluice_stream_info(scene->stream, &info));
    CHECK_EQ(stream.id, 42);
    CHECK_EQ(event.id, 42);

    /* All of it can be ended. */
    CHECK_OK(sluice_stream_destroy(&scene->stream));
    CHECK_SAYS(sluice_device_reset(scene->device), SLUICE_E_DRIVER, word);
    CHECK_EQ(sl_device_counts().streams, 0);
    CHECK_EQ(sl_device_counts().events, 0);
    CHECK_SAYS(sluice_device_close(&scene->device), SLUICE_E_DRIVER, word);
    CHECK_EQ(scene->device.id, 0);
    CHECK_EQ(sl_device_counts().devices, 0);
}

TEST(somebody_resets_the_gpu)
{
    struct scene scene = set_up();
    struct sluice_stream stream;

    TEST_KEEPS_FDS();
    CU(DevicePrimaryCtxReset, 0);
    check_lost(&scene, "has reset the GPU");

    /* Opened again, it is as new. */
    scene.device = gpu_open();
    CHECK_OK(sluice_stream_create(scene.device, NULL, &stream));
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_device_close(&scene.device));
    gpu_end();
}

/* The next life of the context lies at the address of the one before; handles of that are not used.
 */
TEST(somebody_resets_the_gpu_and_uses_it_again)
{
    struct scene scene = set_up();
    struct sl_cu_context *again;

    TEST_KEEPS_FDS();
    CU(DevicePrimaryCtxReset, 0);
    CU(DevicePrimaryCtxRetain, &again, 0);
    CU(CtxSetCurrent, again);
    gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    check_lost(&scene, "has reset the GPU");
    CU(DevicePrimaryCtxRelease, 0);
    gpu_end();
}

TEST(a_kernel_crashes)
{
    struct scene scene = set_up();

    TEST_KEEPS_FDS();
    gpu_store(gpu_native(scene.stream), 0x10, 1);
    CHECK_SAYS(sluice_stream_synchronize(scene.stream), SLUICE_E_DRIVER, "ILLEGAL_ADDRESS");
    CHECK_HAS(sluice_last_error(), "may only read");
    CHECK_HAS(sluice_last_error(), "cuda:0");
    check_lost(&scene, "ILLEGAL_ADDRESS");
    if (gpu_is_fake())
        gpu_end();
}
