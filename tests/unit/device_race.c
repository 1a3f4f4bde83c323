/* SPDX-License-Identifier: MIT
 *
 * Devices, streams and events used by some threads while others end them.
 */
#include <pthread.h>

#include "device_kit.h"

/* A thread may find an object just as it ends, and use it only when it is another one or none. Here that moment is made
 * to last: a second handle leads to the same object. */
TEST(a_late_lookup_finds_no_object)
{
    struct sluice_device device = open_host();
    struct sluice_stream stream;
    struct sl_stream *object;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sl_stream_hold(stream, &object));
    struct sluice_stream late = { sl_handle_new(SL_HANDLE_STREAM, object) };
    CHECK_RESULT(sluice_stream_query(late), SLUICE_E_CLOSED); /* another one */
    CHECK_EQ(object->object.uses, 2);
    sl_object_drop(&object->object);
    CHECK_OK(sluice_stream_query(stream));
    CHECK_OK(sluice_stream_destroy(&stream));
    CHECK_RESULT(sluice_stream_query(late), SLUICE_E_CLOSED); /* none */
    CHECK_EQ(object->object.uses, 0);
    CHECK(sl_handle_end(late.id, SL_HANDLE_STREAM) == object);
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

struct race {
    struct sluice_device device;
    _Atomic uint64_t stream, event;
    _Atomic bool over;
    _Atomic int ended;
};

static bool fine_or_stale(int result)
{
    return result == 0 || result == SLUICE_E_CLOSED || result == SLUICE_E_STALE || result == SLUICE_E_NOT_RECORDED;
}

static void *use(void *shared)
{
    struct race *race = shared;

    while (!race->over) {
        struct sluice_stream stream = { race->stream }, standard;
        struct sluice_event event = { race->event };
        struct sluice_stream_info info = { .size = sizeof info };
        CHECK(fine_or_stale(sluice_event_record(event, stream)));
        CHECK(fine_or_stale(sluice_stream_wait_event(stream, event)));
        CHECK(fine_or_stale(sluice_stream_synchronize(stream)));
        CHECK(fine_or_stale(sluice_event_elapsed(event, event, &(double){ 0 })));
        CHECK(fine_or_stale(sluice_stream_info(stream, &info)));
        CHECK(fine_or_stale(sl_stream_check(stream, &sl_device_host)));
        CHECK(fine_or_stale(sluice_stream_default(race->device, &standard)));
        if (sluice_stream_push_current(stream) == 0)
            CHECK_OK(sluice_stream_pop_current(stream));
    }
    return NULL;
}

static void *end(void *shared)
{
    struct race *race = shared;

    while (!race->over) {
        struct sluice_stream stream = { race->stream };
        struct sluice_event event = { race->event };
        int r = sluice_stream_destroy(&stream);
        CHECK(fine_or_stale(r) || r == SLUICE_E_BUSY);
        race->ended += r == 0;
        CHECK(fine_or_stale(sluice_event_destroy(&event)));
    }
    return NULL;
}

/* Threads use and destroy the same stream and event while others replace them and reset the device. */
TEST(threads_race_destroy_against_use)
{
    struct race race = { .device = open_host() };
    struct sluice_stream stream;
    struct sluice_event event;
    pthread_t threads[4];

    CHECK_OK(sluice_stream_create(race.device, NULL, &stream));
    CHECK_OK(sluice_event_create(race.device, SLUICE_EVENT_TIMING, &event));
    race.stream = stream.id;
    race.event = event.id;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, i < 2 ? use : end, &race) == 0);
    int64_t until = test_now() + SLUICE_S;
    for (int i = 0; test_now() < until || race.ended == 0; i++) {
        if (i % 16 == 0)
            CHECK_OK(sluice_device_reset(race.device));
        CHECK_OK(sluice_stream_create(race.device, NULL, &stream));
        CHECK_OK(sluice_event_create(race.device, SLUICE_EVENT_TIMING, &event));
        race.stream = stream.id;
        race.event = event.id;
    }
    race.over = true;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(race.ended > 0);
    CHECK_OK(sluice_device_close(&race.device));
    check_nothing_lives();
}

struct closing {
    struct sluice_device device;
    _Atomic int won;
};

static void *close_it(void *shared)
{
    struct closing *closing = shared;
    struct sluice_device mine = closing->device;
    struct sluice_stream stream;

    int r = sluice_stream_create(mine, NULL, &stream);
    CHECK(r == 0 || r == SLUICE_E_CLOSED);
    r = sluice_device_close(&mine);
    CHECK(r == 0 || r == SLUICE_E_CLOSED);
    closing->won += r == 0;
    return NULL;
}

TEST(one_of_many_closes_wins)
{
    for (long i = 0; i < test_scale(200); i++) {
        struct closing closing = { .device = open_host() };
        pthread_t threads[3];
        for (int k = 0; k < 3; k++)
            CHECK(pthread_create(&threads[k], NULL, close_it, &closing) == 0);
        for (int k = 0; k < 3; k++)
            CHECK(pthread_join(threads[k], NULL) == 0);
        CHECK_EQ(closing.won, 1);
        check_nothing_lives();
    }
}
