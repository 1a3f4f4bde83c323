/* SPDX-License-Identifier: MIT
 *
 * A GPU as a device: found by ordinal and UUID; its context shared; reset and close.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "device/device.h"
#include "gpu/kit.h"

TEST(opens_by_ordinal_and_by_uuid)
{
    struct sluice_device device, same;
    unsigned char uuid[16];
    char text[SL_CUDA_UUID_TEXT], name[64], known[64];

    gpu_begin();
    CU(DeviceGetUuid, uuid, 0);
    sl_cuda_uuid_text(uuid, text);
    snprintf(name, sizeof name, "cuda:%s", text);
    device = gpu_open();
    CHECK_OK(sluice_device_open(&same, name));
    CHECK_OK(sluice_device_name(same, known, sizeof known));
    CHECK_STR(known, name);
    CHECK_OK(sluice_device_close(&same));
    snprintf(name, sizeof name, "cuda:%s", text + 4); /* without "GPU-" */
    for (char *c = name + 5; *c; c++)
        if (*c >= 'a' && *c <= 'f')
            *c = (char)(*c - 'a' + 'A');
    CHECK_OK(sluice_device_open(&same, name));

    /* Two opens are two devices on one context: their streams may wait for each other. */
    struct sluice_stream one, two;
    CHECK_OK(sluice_stream_create(device, NULL, &one));
    CHECK_OK(sluice_stream_create(same, NULL, &two));
    CHECK_OK(sluice_stream_wait_stream(one, two));
    CHECK_OK(sluice_device_close(&same));
    CHECK_OK(sluice_stream_synchronize(one));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(sl_device_counts().devices, 0);
    CHECK_EQ(sl_device_counts().streams, 0);
}

TEST(gpus_that_are_not_there)
{
    struct sluice_device device = { 42 };

    gpu_begin();
    CHECK_SAYS(sluice_device_open(&device, "cuda:99"), SLUICE_E_UNSUPPORTED, "no such GPU");
    CHECK_HAS(sluice_last_error(), "GPU-");
    CHECK_SAYS(sluice_device_open(&device, "cuda:00000000-0000-0000-0000-000000000000"), SLUICE_E_UNSUPPORTED,
               "no such GPU");
    CHECK_EQ(device.id, 42);
}

/* Prints the error. */
ROLE(sees_no_gpu)
{
    struct sluice_device device = { 42 };

    CHECK_RESULT(sluice_device_open(&device, "cuda:0"), SLUICE_E_UNSUPPORTED);
    CHECK_EQ(device.id, 42);
    role_say("%s", sluice_last_error());
    return 0;
}

TEST(gpus_that_are_hidden)
{
    static const char *const hide[] = { "", "-1", "GPU-00000000-0000-0000-0000-000000000000" };
    char error[160];

    gpu_begin();
    const char *before = getenv("CUDA_VISIBLE_DEVICES");
    char *kept = before ? strdup(before) : NULL;
    for (int i = 0; i < 3; i++) {
        snprintf(error, sizeof error, "CUDA_VISIBLE_DEVICES is \"%s\", which hides every GPU", hide[i]);
        CHECK(setenv("CUDA_VISIBLE_DEVICES", hide[i], 1) == 0);
        struct child child = role_start("sees_no_gpu", NULL);
        CHECK_HAS(child_line(&child, 20), error);
        CHECK_EQ(child_wait(&child, 20), 0);
    }
    if (kept)
        CHECK(setenv("CUDA_VISIBLE_DEVICES", kept, 1) == 0);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    free(kept);
}

TEST(its_context_is_the_one_that_all_share)
{
    struct sluice_device device;
    struct sluice_stream stream;
    struct sl_cu_context *shared, *owner;

    gpu_begin();
    shared = gpu_use(0);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CU(StreamGetCtx, gpu_native(stream), &owner);
    CHECK(owner == shared);
    CHECK_OK(sluice_device_close(&device));
    gpu_end();
}

TEST(without_anybody_else_the_context_ends_with_the_device)
{
    struct sluice_device device;
    unsigned flags;
    int active;

    gpu_begin();
    if (!gpu_is_fake())
        SKIP("the tests hold the context, so that the driver's threads do not count");
    device = gpu_open();
    CU(DevicePrimaryCtxGetState, 0, &flags, &active);
    CHECK(active);
    CHECK_OK(sluice_device_close(&device));
    CU(DevicePrimaryCtxGetState, 0, &flags, &active);
    CHECK(!active);
}

TEST(reset_makes_everything_stale_and_ends_it)
{
    struct sluice_device device;
    struct sluice_stream stream, standard, borrowed, fresh;
    struct sluice_event event;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_wrap(device, (uintptr_t)theirs, NULL, NULL, &borrowed));
    CHECK_OK(sluice_stream_default(device, &standard));
    CHECK_OK(sluice_event_create(device, 0, &event));
    CHECK_OK(sluice_event_record(event, borrowed));
    CHECK_OK(sluice_device_reset(device));

    CHECK_SAYS(sluice_stream_synchronize(stream), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_stream_query(borrowed), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_stream_query(standard), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_event_query(event), SLUICE_E_STALE, "its device was reset");
    CHECK_SAYS(sluice_event_record(event, stream), SLUICE_E_STALE, "its device was reset");
    CHECK_EQ(sl_device_counts().streams, 0);
    CHECK_EQ(sl_device_counts().events, 0);

    /* The borrowed one lives: it was never ours. */
    CU(StreamSynchronize, theirs);
    CU(StreamDestroy, theirs);
    CHECK_OK(sluice_stream_create(device, NULL, &fresh));
    CHECK_OK(sluice_device_close(&device));
    CHECK_SAYS(sluice_stream_query(fresh), SLUICE_E_STALE, "its device was closed");
    gpu_end();
}

/* These wait for work on the device's own streams, and on the default stream, which all share. */
TEST(synchronize_waits_for_all_streams)
{
    struct sluice_device device;
    struct sluice_stream stream, borrowed;
    int64_t began;

    gpu_begin();
    gpu_use(0);
    struct sl_cu_stream *theirs = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    device = gpu_open();
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_stream_wrap(device, (uintptr_t)theirs, NULL, NULL, &borrowed));
    struct sl_cu_stream *busy[] = { gpu_native(stream), theirs, NULL };
    for (int i = 0; i < 3; i++) {
        gpu_spin(busy[i], 0); /* the first launch takes longer */
        CHECK_OK(sluice_device_synchronize(device));
        began = test_now();
        gpu_spin(busy[i], SPIN);
        CHECK_OK(sluice_device_synchronize(device));
        CHECK_GE(test_now() - began, SPIN * 9 / 10);
    }
    began = test_now();
    gpu_spin(busy[0], SPIN);
    CHECK_OK(sluice_device_close(&device));
    CHECK_GE(test_now() - began, SPIN * 9 / 10);
    CU(StreamDestroy, theirs);
    gpu_end();
}

static void *synchronize_or_not(void *device)
{
    if (device)
        CHECK_OK(sluice_device_synchronize(*(struct sluice_device *)device));
    return NULL;
}

/* Also for those that are destroyed with work, whoever else waits and however many there are; by close and reset, too.
 * */
TEST(synchronize_waits_for_streams_that_were_destroyed)
{
    struct sluice_device device;
    struct sluice_stream streams[3];
    pthread_t beside;

    gpu_begin();
    gpu_use(0);
    device = gpu_open();
    for (int way = 0; way < 4; way++) {
        int64_t began = 0;
        for (int i = 0; i < 3; i++) {
            CHECK_OK(sluice_stream_create(device, NULL, &streams[i]));
            gpu_spin(gpu_native(streams[i]), 0); /* the first launch takes longer */
        }
        CHECK_OK(sluice_device_synchronize(device));
        began = test_now();
        gpu_spin(gpu_native(streams[1]), SPIN);
        for (int i = 0; i < 3; i++)
            CHECK_OK(sluice_stream_destroy(&streams[i]));
        CHECK(pthread_create(&beside, NULL, synchronize_or_not, way < 2 ? &device : NULL) == 0);
        CHECK_OK(way < 2    ? sluice_device_synchronize(device)
                 : way == 2 ? sluice_device_reset(device)
                            : sluice_device_close(&device));
        CHECK_GE(test_now() - began, SPIN * 9 / 10);
        CHECK(pthread_join(beside, NULL) == 0);
        CHECK_GE(test_now() - began, SPIN * 9 / 10);
    }
    gpu_end();
}

TEST(ten_thousand_streams_over_a_hundred_resets)
{
    struct sluice_device device;
    long streams = test_scale(100);
    int64_t began = test_now();

    gpu_begin();
    device = gpu_open();
    for (int round = 0; round < 100; round++) {
        for (long i = 0; i < streams; i++) {
            struct sluice_stream stream;
            CHECK_OK(sluice_stream_create(device, NULL, &stream));
            if (i % 2)
                CHECK_OK(sluice_stream_destroy(&stream));
        }
        CHECK_OK(sluice_device_reset(device));
        CHECK_EQ(sl_device_counts().streams, 0);
        if (test_now() - began > 8 * SLUICE_S)
            break; /* the driver needs a while for each */
    }
    CHECK_OK(sluice_device_close(&device));
}

TEST(two_gpus_are_two)
{
    struct sluice_device first, second;
    struct sluice_stream stream, other, wrapped;
    struct sluice_event event;

    gpu_begin_with(2);
    first = gpu_open();
    CHECK_OK(sluice_device_open(&second, "cuda:1"));
    CHECK_OK(sluice_stream_create(first, NULL, &stream));
    CHECK_OK(sluice_stream_create(second, NULL, &other));
    CHECK_SAYS(sluice_stream_wrap(first, (uintptr_t)gpu_native(other), NULL, NULL, &wrapped), SLUICE_E_WRONG_DEVICE,
               "cuda:0");
    CHECK_OK(sluice_event_create(second, 0, &event));
    CHECK_RESULT(sluice_event_record(event, stream), SLUICE_E_WRONG_DEVICE);

    /* One can wait for the other's work. */
    gpu_use(1);
    struct gpu_gate gate = gpu_gate_new();
    gpu_gate_close(&gate, gpu_native(other));
    CHECK_OK(sluice_event_record(event, other));
    CHECK_OK(sluice_stream_wait_event(stream, event));
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(stream));
    gpu_gate_join(&gate);
    CHECK_OK(sluice_event_query(event));
    gpu_gate_close(&gate, gpu_native(other));
    CHECK_OK(sluice_stream_wait_stream(stream, other));
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_device_close(&second)); /* waits for its work */
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    CHECK_OK(sluice_device_close(&first));
    gpu_end();
}
