/* SPDX-License-Identifier: MIT
 *
 * Streams on the host, and each thread's stack of current ones.
 */
#include <pthread.h>
#include <string.h>

#include "device_kit.h"
#include "fake_device.h"

static const struct sluice_stream none = { 0 };

static struct sluice_stream create(struct sluice_device device)
{
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    return stream;
}

TEST(create_and_destroy)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream = create(device), copy = stream;
    uintptr_t native = 42;

    CHECK(stream.id != 0 && stream.id != SLUICE_ON_CPU.id);
    CHECK_OK(sluice_stream_native(stream, &native));
    CHECK_EQ(native, 0);
    CHECK_OK(sluice_stream_query(stream));
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_EQ(stream.id, 0);
    CHECK_OK(sluice_stream_destroy(&stream));

    CHECK_SAYS(sluice_stream_destroy(&copy), SLUICE_E_CLOSED, "was destroyed");
    CHECK_NE(copy.id, 0);
    CHECK_SAYS(sluice_stream_query(copy), SLUICE_E_CLOSED, "was destroyed");
    CHECK_RESULT(sluice_stream_synchronize(copy), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_native(copy, &native), SLUICE_E_CLOSED);
    CHECK_RESULT(sluice_stream_push_current(copy), SLUICE_E_CLOSED);
    CHECK_OK(sluice_device_close(&device));
    CHECK_SAYS(sluice_stream_query(copy), SLUICE_E_CLOSED, "was destroyed"); /* still that, not "closed" */
}

TEST(zero_and_on_cpu_are_no_streams_of_a_device)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream = create(device), on_cpu = SLUICE_ON_CPU;
    struct sluice_stream_info info = { .size = sizeof info };
    uintptr_t native;

    CHECK_SAYS(sluice_stream_query(none), SLUICE_E_INVALID, "zero handle");
    CHECK_SAYS(sluice_stream_synchronize(SLUICE_ON_CPU), SLUICE_E_INVALID, "SLUICE_ON_CPU");
    CHECK_RESULT(sluice_stream_native(SLUICE_ON_CPU, &native), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_info(SLUICE_ON_CPU, &info), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_wait_stream(stream, SLUICE_ON_CPU), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_wait_stream(none, stream), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_push_current(SLUICE_ON_CPU), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_push_current(none), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_stream_destroy(&on_cpu), SLUICE_E_INVALID, "SLUICE_ON_CPU");
    CHECK_RESULT(sluice_stream_query((struct sluice_stream){ device.id }), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_stream_query((struct sluice_stream){ 99 }), SLUICE_E_HANDLE);
    CHECK_RESULT(sluice_stream_create(device, NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_wrap(device, 0, NULL, NULL, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_default(device, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_native(stream, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_info(stream, NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_current(NULL), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_stream_destroy(NULL), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_close(&device));
}

TEST(params_and_info_of_other_sizes)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream;
    struct {
        struct sluice_stream_params params;
        uint32_t later[4];
    } wide = { .params = { .size = sizeof wide, .blocking = 1, .priority = -3 } };
    struct {
        struct sluice_stream_info info;
        uint32_t later[4];
    } answer = { .info = { .size = sizeof answer }, .later = { 9, 9, 9, 9 } };

    CHECK_OK(sluice_stream_create(device, &wide.params, &stream));
    CHECK_OK(sluice_stream_info(stream, &answer.info));
    CHECK_EQ(answer.info.size, sizeof answer);
    CHECK_EQ(answer.info.kind, SLUICE_STREAM_OWNED);
    CHECK_EQ(answer.info.priority, -3);
    CHECK_EQ(answer.info.blocking, 1);
    CHECK_EQ(answer.info.capturing, 0);
    CHECK_EQ(answer.info.device.id, device.id);
    CHECK_EQ(answer.later[0] + answer.later[3], 0);

    struct sluice_stream_info small = { .size = offsetof(struct sluice_stream_info, blocking), .blocking = 77 };
    CHECK_OK(sluice_stream_info(stream, &small));
    CHECK_EQ(small.priority, -3);
    CHECK_EQ(small.blocking, 77); /* beyond the caller's size */
    CHECK_EQ(small.device.id, 0);

    struct sluice_stream_params old = { .size = offsetof(struct sluice_stream_params, priority), .priority = 5 };
    CHECK_OK(sluice_stream_create(device, &old, &stream));
    struct sluice_stream_info info = { .size = sizeof info };
    CHECK_OK(sluice_stream_info(stream, &info));
    CHECK_EQ(info.priority, 0);

    uint32_t sizes[] = { 0, 3, 4097, UINT32_MAX };
    for (int i = 0; i < 4; i++) {
        old.size = info.size = sizes[i];
        CHECK_SAYS(sluice_stream_create(device, &old, &stream), SLUICE_E_INVALID, "sizeof");
        CHECK_SAYS(sluice_stream_info(stream, &info), SLUICE_E_INVALID, "sizeof");
    }
    struct sluice_stream_params wrong = { .size = sizeof wrong, .reserved = 1 };
    CHECK_RESULT(sluice_stream_create(device, &wrong, &stream), SLUICE_E_INVALID);
    CHECK_OK(sluice_device_close(&device));
}

TEST(the_default_stream)
{
    struct sluice_device device = open_host(), other = open_host();
    struct sluice_stream stream, again, others;
    struct sluice_stream_info info = { .size = sizeof info };

    CHECK_OK(sluice_stream_default(device, &stream));
    CHECK_OK(sluice_stream_default(device, &again));
    CHECK_OK(sluice_stream_default(other, &others));
    CHECK_EQ(stream.id, again.id);
    CHECK_NE(stream.id, others.id);
    CHECK_OK(sluice_stream_info(stream, &info));
    CHECK_EQ(info.kind, SLUICE_STREAM_DEFAULT);
    CHECK_EQ(sl_device_counts().streams, 2);
    CHECK_OK(sluice_stream_synchronize(stream));
    CHECK_SAYS(sluice_stream_destroy(&again), SLUICE_E_INVALID, "default stream");
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&other));
}

struct owner {
    int released;
    struct sluice_device device;
};

static void release(void *user)
{
    struct owner *owner = user;

    owner->released++;
    sluice_device_synchronize(owner->device); /* may call Sluice: no lock is held */
}

TEST(a_native_stream_has_one_handle_and_is_let_go_with_the_last_count)
{
    struct sluice_device device = open_host();
    struct owner owners[4] = { { 0, device }, { 0, device }, { 0, device }, { 0, device } };
    struct sluice_stream streams[4], ended;
    struct sluice_stream_info info = { .size = sizeof info };
    uintptr_t native = 42;

    for (int i = 0; i < 4; i++)
        CHECK_OK(sluice_stream_wrap(device, i < 3 ? 0x1234 : 0x5678, release, &owners[i], &streams[i]));
    CHECK_EQ(streams[0].id, streams[1].id);
    CHECK_EQ(streams[0].id, streams[2].id);
    CHECK_NE(streams[0].id, streams[3].id);
    CHECK_OK(sluice_stream_info(streams[0], &info));
    CHECK_EQ(info.kind, SLUICE_STREAM_BORROWED);
    CHECK_OK(sluice_stream_native(streams[0], &native));
    CHECK_EQ(native, 0);
    CHECK_OK(sluice_stream_wait_stream(streams[0], streams[1]));
    CHECK_OK(sluice_stream_destroy(&streams[0]));
    CHECK_EQ(streams[0].id, 0);
    CHECK_OK(sluice_stream_destroy(&streams[1]));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(owners[i].released, 0);
    ended = streams[2];
    CHECK_OK(sluice_stream_destroy(&streams[2]));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(owners[i].released, 1);
    CHECK_RESULT(sluice_stream_destroy(&ended), SLUICE_E_CLOSED);
    CHECK_OK(sluice_device_reset(device));
    CHECK_EQ(owners[3].released, 1);
    CHECK_OK(sluice_stream_wrap(device, 0x5678, release, &owners[3], &streams[0]));
    CHECK_NE(streams[0].id, streams[3].id); /* that one has ended */
    CHECK_OK(sluice_stream_wrap(device, 0x5678, NULL, NULL, &streams[1]));
    CHECK_OK(sluice_device_close(&device));
    CHECK_EQ(owners[3].released, 2);
}

TEST(waits_between_devices)
{
    struct sluice_device device = open_host(), other = open_host(), odd = fake_open();
    struct sluice_stream stream = create(device), near = create(device), far = create(other);
    struct sluice_stream foreign = create(odd);

    CHECK_OK(sluice_stream_wait_stream(stream, near));
    CHECK_OK(sluice_stream_wait_stream(stream, stream));
    CHECK_OK(sluice_stream_wait_stream(stream, far));
    CHECK_SAYS(sluice_stream_wait_stream(stream, foreign), SLUICE_E_WRONG_DEVICE, "fake:0");
    CHECK_OK(sluice_device_close(&other));
    CHECK_SAYS(sluice_stream_wait_stream(stream, far), SLUICE_E_STALE, "closed");
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&odd));
}

TEST(reused_memory_does_not_revive_a_handle)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream = create(device), old = stream;
    struct sl_stream *object, *first;

    CHECK_OK(sl_stream_hold(stream, &first));
    sl_object_drop(&first->object);
    CHECK_OK(sluice_stream_destroy(&stream));
    for (int i = 0; i < 1000; i++) {
        struct sluice_stream next = create(device);
        CHECK_NE(next.id, old.id);
        CHECK_OK(sl_stream_hold(next, &object));
        CHECK(object == first); /* the same address, and still: */
        sl_object_drop(&object->object);
        CHECK_RESULT(sluice_stream_query(old), SLUICE_E_CLOSED);
        CHECK_OK(sluice_stream_destroy(&next));
    }
    CHECK_OK(sluice_device_close(&device));
}

TEST(what_the_core_asks_of_a_stream)
{
    struct sluice_device device = open_host(), odd = fake_open();
    struct sluice_stream stream = create(device), foreign = create(odd), old = create(device), gone = old;

    CHECK_OK(sluice_stream_destroy(&old));
    CHECK_OK(sl_stream_check(SLUICE_ON_CPU, &sl_device_host));
    CHECK_OK(sl_stream_check_handle(SLUICE_ON_CPU, &sl_device_host));
    CHECK_OK(sl_stream_check(stream, &sl_device_host));
    CHECK_OK(sl_stream_check(stream, NULL));
    CHECK_OK(sl_stream_check(foreign, NULL));
    CHECK_SAYS(sl_stream_check(none, &sl_device_host), SLUICE_E_INVALID, "no stream given: pass SLUICE_ON_CPU");
    CHECK_SAYS(sl_stream_check(foreign, &sl_device_host), SLUICE_E_WRONG_DEVICE, "fake:0");
    CHECK_RESULT(sl_stream_check(gone, &sl_device_host), SLUICE_E_CLOSED);
    CHECK_RESULT(sl_stream_check((struct sluice_stream){ device.id }, &sl_device_host), SLUICE_E_HANDLE);
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&odd));
}

/* ---- current streams ---- */

static void check_current(struct sluice_stream expected)
{
    struct sluice_stream top = { 42 };

    if (expected.id == 0) {
        CHECK_SAYS(sluice_stream_current(&top), SLUICE_NOT_READY, "no current stream");
        CHECK_EQ(top.id, 42);
    } else {
        CHECK_OK(sluice_stream_current(&top));
        CHECK_EQ(top.id, expected.id);
    }
}

TEST(current_streams_nest)
{
    struct sluice_device device = open_host();
    struct sluice_stream a = create(device), b = create(device), busy = a;

    check_current(none);
    CHECK_SAYS(sluice_stream_pop_current(a), SLUICE_E_INVALID, "no current stream to pop");
    CHECK_OK(sluice_stream_push_current(a));
    CHECK_OK(sluice_stream_push_current(b));
    CHECK_OK(sluice_stream_push_current(a));
    check_current(a);
    CHECK_SAYS(sluice_stream_pop_current(b), SLUICE_E_INVALID, "is not this thread's current stream");
    check_current(a);
    CHECK_OK(sluice_stream_pop_current(a));
    check_current(b);
    CHECK_OK(sluice_stream_pop_current(b));
    check_current(a);
    CHECK_SAYS(sluice_stream_destroy(&busy), SLUICE_E_BUSY, "current stream");
    CHECK_EQ(busy.id, a.id);
    CHECK_OK(sluice_stream_pop_current(a));
    check_current(none);
    CHECK_OK(sluice_stream_destroy(&busy));
    CHECK_OK(sluice_device_close(&device));
}

TEST(sixty_four_current_streams)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream = create(device), copy = stream;

    for (int i = 0; i < 64; i++)
        CHECK_OK(sluice_stream_push_current(stream));
    CHECK_SAYS(sluice_stream_push_current(stream), SLUICE_E_LIMIT, "64");
    for (int i = 0; i < 64; i++) {
        CHECK_RESULT(sluice_stream_destroy(&copy), SLUICE_E_BUSY);
        CHECK_OK(sluice_stream_pop_current(stream));
    }
    CHECK_OK(sluice_stream_destroy(&copy));
    CHECK_OK(sluice_device_close(&device));
}

TEST(a_current_stream_ends_with_its_device)
{
    struct sluice_device device = open_host(), other = open_host();
    struct sluice_stream under = create(other), stream = create(device), top;

    CHECK_OK(sluice_stream_push_current(under));
    CHECK_OK(sluice_stream_push_current(stream));
    CHECK_OK(sluice_device_reset(device)); /* a thread's stack does not block it */
    CHECK_SAYS(sluice_stream_current(&top), SLUICE_E_STALE, "reset");
    struct sluice_stream fresh = create(device); /* at the same address */
    CHECK_OK(sluice_stream_pop_current(stream)); /* so that a scope can be left */
    check_current(under);
    CHECK_OK(sluice_stream_destroy(&fresh)); /* not current on any thread: the pop was the old one's */
    CHECK_OK(sluice_stream_pop_current(under));
    CHECK_OK(sluice_device_close(&device));
    CHECK_OK(sluice_device_close(&other));
}

struct visit {
    struct sluice_stream shared, mine;
    pthread_barrier_t *meet;
    bool leaves; /* pops what it pushed */
};

static void *visit(void *given)
{
    struct visit *v = given;

    check_current(none); /* each thread has its own stack */
    CHECK_OK(sluice_stream_push_current(v->mine));
    CHECK_OK(sluice_stream_push_current(v->shared));
    pthread_barrier_wait(v->meet); /* now on every stack */
    check_current(v->shared);
    pthread_barrier_wait(v->meet);
    if (v->leaves) {
        CHECK_OK(sluice_stream_pop_current(v->shared));
        check_current(v->mine);
        CHECK_OK(sluice_stream_pop_current(v->mine));
    }
    return NULL;
}

TEST(threads_have_their_own_and_drop_them_at_their_end)
{
    struct sluice_device device = open_host();
    struct sluice_stream shared = create(device), copy = shared;
    struct visit visits[2];
    pthread_barrier_t meet;
    pthread_t threads[2];

    CHECK(pthread_barrier_init(&meet, NULL, 3) == 0);
    for (int i = 0; i < 2; i++) {
        visits[i] = (struct visit){ shared, create(device), &meet, i == 0 };
        CHECK(pthread_create(&threads[i], NULL, visit, &visits[i]) == 0);
    }
    pthread_barrier_wait(&meet);
    check_current(none);
    CHECK_SAYS(sluice_stream_destroy(&copy), SLUICE_E_BUSY, "2 times");
    pthread_barrier_wait(&meet);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK_OK(sluice_stream_destroy(&visits[i].mine));
    CHECK_OK(sluice_stream_destroy(&copy));
    pthread_barrier_destroy(&meet);
    CHECK_OK(sluice_device_close(&device));
}
