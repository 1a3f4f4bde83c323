/* SPDX-License-Identifier: MIT
 *
 * Streams of a GPU: their creation, and what waits for what.
 */
#include <string.h>

#include "gpu/kit.h"

struct channel_fixture {
    struct sluice_device device;
    struct sluice_stream first, second;
};

static struct channel_fixture set_up(void)
{
    struct channel_fixture fixture;

    gpu_begin();
    gpu_use(0);
    fixture.device = gpu_open();
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.first));
    CHECK_OK(sluice_stream_create(fixture.device, NULL, &fixture.second));
    gpu_spin(gpu_native(fixture.first), 0); /* the first launch takes longer */
    gpu_spin(NULL, 0);
    CHECK_OK(sluice_device_synchronize(fixture.device));
    return fixture;
}

static void tear_down(struct channel_fixture *fixture)
{
    CHECK_OK(sluice_device_close(&fixture->device));
    gpu_end();
}

static struct sluice_stream_info info_of(struct sluice_stream stream)
{
    struct sluice_stream_info info = { .size = sizeof info };

    CHECK_OK(sluice_stream_info(stream, &info));
    return info;
}

TEST(made_as_asked)
{
    struct channel_fixture fixture = set_up();
    struct sluice_stream_params params = { .size = sizeof params, .priority = -1000 };
    struct sluice_stream stream;
    unsigned flags;

    CHECK(gpu_native(fixture.first) != NULL);
    CU(StreamGetFlags, gpu_native(fixture.first), &flags);
    CHECK_EQ(flags, SL_CU_STREAM_NON_BLOCKING);
    CHECK_EQ(info_of(fixture.first).blocking, 0);
    CHECK_EQ(info_of(fixture.first).priority, 0);

    params.blocking = 1;
    CHECK_OK(sluice_stream_create(fixture.device, &params, &stream));
    CU(StreamGetFlags, gpu_native(stream), &flags);
    CHECK_EQ(flags, 0);
    CHECK_EQ(info_of(stream).blocking, 1);
    int sooner = info_of(stream).priority; /* the nearest that the GPU has */
    CHECK(sooner < 0 && sooner > -1000);
    int priority;
    CU(StreamGetPriority, gpu_native(stream), &priority);
    CHECK_EQ(priority, sooner);
    CHECK_OK(sluice_stream_destroy(&stream));
    tear_down(&fixture);
}

TEST(the_default_stream)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream stream, again;

    CHECK_OK(sluice_stream_default(fixture.device, &stream));
    CHECK_OK(sluice_stream_default(fixture.device, &again));
    CHECK_EQ(stream.id, again.id);
    CHECK(gpu_native(stream) == NULL);
    CHECK_EQ(info_of(stream).kind, SLUICE_STREAM_DEFAULT);
    CHECK_EQ(info_of(stream).blocking, 1);
    gpu_gate_close(&gate, NULL);
    CHECK_RESULT(sluice_stream_query(stream), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(stream));
    gpu_gate_join(&gate);
    CHECK_OK(sluice_stream_query(stream));
    gpu_gate_end(&gate);
    CHECK_RESULT(sluice_stream_destroy(&again), SLUICE_E_INVALID);
    tear_down(&fixture);
}

TEST(query_and_synchronize_tell_the_truth)
{
    struct channel_fixture fixture = set_up();
    struct gpu_gate gate = gpu_gate_new();

    CHECK_OK(sluice_stream_query(fixture.first));
    gpu_gate_close(&gate, gpu_native(fixture.first));
    CHECK_SAYS(sluice_stream_query(fixture.first), SLUICE_NOT_READY, "still has work");
    CHECK_OK(sluice_stream_query(fixture.second));
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.first));
    gpu_gate_join(&gate);
    CHECK_OK(sluice_stream_query(fixture.first));
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

TEST(destroy_waits_for_nothing)
{
    struct channel_fixture fixture = set_up();
    uint64_t memory = gpu_memory(4096);
    struct sl_cu_stream *native = gpu_native(fixture.first);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event;

    gpu_fill(native, memory, 1024, 4); /* loads the kernel */
    CHECK_OK(sluice_stream_synchronize(fixture.first));
    gpu_gate_close(&gate, native);
    gpu_fill(native, memory, 1024, 5);
    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    CHECK_OK(sluice_event_record(event, fixture.first));
    CHECK_OK(sluice_stream_destroy(&fixture.first)); /* though the gate is closed */
    CHECK_RESULT(sluice_event_query(event), SLUICE_NOT_READY);
    gpu_gate_open(&gate); /* and its work still runs */
    CHECK_OK(sluice_event_synchronize(event));
    gpu_gate_end(&gate);
    CHECK_EQ(gpu_differ(gpu_native(fixture.second), memory, 1024, 5), 0);
    tear_down(&fixture);
}

TEST(a_stream_does_not_wait_for_the_default_stream_unless_it_is_blocking)
{
    struct channel_fixture fixture = set_up();
    struct sluice_stream_params params = { .size = sizeof params, .blocking = 1 };
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_stream blocking;

    CHECK_OK(sluice_stream_create(fixture.device, &params, &blocking));
    gpu_gate_close(&gate, NULL);
    gpu_spin(gpu_native(fixture.first), 0);
    CHECK_OK(sluice_stream_synchronize(fixture.first)); /* though the gate is closed */
    gpu_spin(gpu_native(blocking), 0);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(blocking));
    gpu_gate_join(&gate);
    CU(StreamSynchronize, NULL);
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

/* Work on `first`, then `second` reads it, in order or not. */
TEST(a_stream_waits_for_another)
{
    struct channel_fixture fixture = set_up();
    uint64_t memory = gpu_memory(4 << 20);
    struct sl_cu_stream *first = gpu_native(fixture.first), *second = gpu_native(fixture.second);

    for (uint32_t round = 1; round <= 20; round++) {
        gpu_spin(first, 2 * SLUICE_MS);
        gpu_fill(first, memory, 1 << 20, round);
        CHECK_OK(sluice_stream_wait_stream(fixture.second, fixture.first));
        CHECK_EQ(gpu_differ(second, memory, 1 << 20, round), 0);
    }
    /* It depends on what was queued then, and the CPU does not wait. */
    struct gpu_gate gate = gpu_gate_new();
    CHECK_OK(sluice_stream_wait_stream(fixture.second, fixture.first));
    gpu_gate_close(&gate, first);
    CHECK_OK(sluice_stream_synchronize(fixture.second)); /* though the gate is closed */
    CHECK_OK(sluice_stream_wait_stream(fixture.second, fixture.first));
    CHECK_RESULT(sluice_stream_query(fixture.second), SLUICE_NOT_READY);
    gpu_gate_open_later(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.second));
    gpu_gate_join(&gate);
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

TEST(a_stream_waits_for_an_event_as_it_was)
{
    struct channel_fixture fixture = set_up();
    struct sl_cu_stream *first = gpu_native(fixture.first);
    struct gpu_gate gate = gpu_gate_new();
    struct sluice_event event;

    CHECK_OK(sluice_event_create(fixture.device, 0, &event));
    CHECK_SAYS(sluice_stream_wait_event(fixture.second, event), SLUICE_E_NOT_RECORDED, "never recorded");
    CHECK_OK(sluice_event_record(event, fixture.first));
    CHECK_OK(sluice_stream_wait_event(fixture.second, event));
    gpu_gate_close(&gate, first);
    CHECK_OK(sluice_event_record(event, fixture.first)); /* too late for the wait above */
    CHECK_OK(sluice_stream_synchronize(fixture.second)); /* though the gate is closed */
    CHECK_OK(sluice_stream_wait_event(fixture.second, event));
    CHECK_RESULT(sluice_stream_query(fixture.second), SLUICE_NOT_READY);
    gpu_gate_open(&gate);
    CHECK_OK(sluice_stream_synchronize(fixture.second));
    CHECK(gate.open);
    gpu_gate_end(&gate);
    tear_down(&fixture);
}

/* Two spins run in parallel: never if the streams are one, and at least once however busy the machine is. As a control,
 * one after the other. */
TEST_TIMEOUT(streams_run_side_by_side, 60)
{
    struct channel_fixture fixture = set_up();
    struct sl_cu_stream *first = gpu_native(fixture.first), *second = gpu_native(fixture.second);
    int64_t began, took = INT64_MAX;

    for (int turn = 0; turn < 50 && took > SPIN * 17 / 10; turn++) {
        began = test_now();
        gpu_spin(first, SPIN);
        gpu_spin(second, SPIN);
        CHECK_OK(sluice_device_synchronize(fixture.device));
        took = test_now() - began;
    }
    CHECK_LE(took, SPIN * 17 / 10);
    began = test_now();
    gpu_spin(first, SPIN);
    CHECK_OK(sluice_stream_wait_stream(fixture.second, fixture.first));
    gpu_spin(second, SPIN);
    CHECK_OK(sluice_device_synchronize(fixture.device));
    CHECK_GE(test_now() - began, SPIN * 18 / 10);
    tear_down(&fixture);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

TEST(streams_of_others)
{
    struct channel_fixture fixture = set_up();
    struct sl_cu_stream *plain = gpu_stream(0), *apart = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    struct sluice_stream wrapped[5];
    uintptr_t natives[5] = { (uintptr_t)plain, (uintptr_t)apart, 0, 1, 2 };
    struct gpu_gate gate = gpu_gate_new();
    int released = 0;

    for (int i = 0; i < 5; i++) {
        CHECK_OK(sluice_stream_wrap(fixture.device, natives[i], count_release, &released, &wrapped[i]));
        CHECK_EQ(info_of(wrapped[i]).kind, SLUICE_STREAM_BORROWED);
        CHECK_EQ(info_of(wrapped[i]).blocking, i != 1);
        CHECK((uintptr_t)gpu_native(wrapped[i]) == (i == 3 ? 0 : natives[i])); /* 1 is another name of 0 */
        gpu_gate_close(&gate, (struct sl_cu_stream *)natives[i]);
        CHECK_RESULT(sluice_stream_query(wrapped[i]), SLUICE_NOT_READY);
        gpu_gate_open_later(&gate);
        CHECK_OK(sluice_stream_synchronize(wrapped[i]));
        gpu_gate_join(&gate);
        CHECK_OK(sluice_stream_wait_stream(wrapped[i], fixture.first));
    }
    gpu_gate_end(&gate);
    CHECK_EQ(wrapped[2].id, wrapped[3].id);
    CHECK_EQ(released, 0);
    for (int i = 0; i < 5; i++)
        CHECK_OK(sluice_stream_destroy(&wrapped[i]));
    CHECK_EQ(released, 5);
    gpu_spin(plain, 0); /* they live on */
    CU(StreamSynchronize, plain);
    CU(StreamSynchronize, apart);
    CU(StreamDestroy, plain);
    CU(StreamDestroy, apart);
    tear_down(&fixture);
}

TEST(streams_of_another_context_are_refused)
{
    struct channel_fixture fixture = set_up();
    struct sl_cu_context *other;
    struct sluice_stream wrapped = { 42 };
    int released = 0;

    CU(CtxCreate, &other, 0, 0); /* current from now on */
    struct sl_cu_stream *foreign = gpu_stream(SL_CU_STREAM_NON_BLOCKING);
    CHECK_SAYS(sluice_stream_wrap(fixture.device, (uintptr_t)foreign, count_release, &released, &wrapped),
               SLUICE_E_WRONG_DEVICE, "primary");
    CHECK_EQ(wrapped.id, 42);
    CHECK_EQ(released, 0);
    CU(StreamDestroy, foreign);
    CU(CtxDestroy, other);
    gpu_use(0);
    tear_down(&fixture);
}

/* The driver takes a stream's handle for an address. */
TEST(addresses_where_there_is_no_stream_are_refused)
{
    static const uintptr_t natives[] = { 3, 7, 4096, UINTPTR_MAX, UINTPTR_MAX / 2 + 1 };
    struct channel_fixture fixture = set_up();
    struct sluice_stream wrapped = { 42 };
    int released = 0;

    for (size_t i = 0; i < sizeof natives / sizeof *natives; i++)
        CHECK_SAYS(sluice_stream_wrap(fixture.device, natives[i], count_release, &released, &wrapped), SLUICE_E_INVALID,
                   "there is no stream at ");
    CHECK_EQ(wrapped.id, 42);
    CHECK_EQ(released, 0);
    tear_down(&fixture);
}

/* The driver may reuse a destroyed stream's address; our handle does not mean the new stream. */
TEST(an_address_used_again_revives_nothing)
{
    struct channel_fixture fixture = set_up();
    struct sluice_stream old = fixture.first;
    struct sl_cu_stream *native = gpu_native(old);
    bool again = false;

    CHECK_OK(sluice_stream_destroy(&fixture.first));
    for (int i = 0; i < 100 && !again; i++) {
        struct sluice_stream next;
        CHECK_OK(sluice_stream_create(fixture.device, NULL, &next));
        again = gpu_native(next) == native;
        CHECK_SAYS(sluice_stream_query(old), SLUICE_E_CLOSED, "was destroyed");
    }
    CHECK_OK(sluice_device_close(&fixture.device));
    gpu_end();
    if (!again)
        SKIP("no address came again in 100 streams");
}
