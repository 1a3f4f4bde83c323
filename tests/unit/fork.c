/* SPDX-License-Identifier: MIT
 *
 * Parallel sections: which streams a device lends, and that they come back.
 */
#include <pthread.h>

#include <sluice/graph.h>

#include "device_kit.h"
#include "fake_device.h"

#define MOST SLUICE_MAX_FORK

static struct sluice_stream new_stream(struct sluice_device device)
{
    struct sluice_stream stream;

    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    return stream;
}

static bool differ(const struct sluice_stream *streams, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (streams[i].id == streams[j].id)
                return false;
    return true;
}

TEST(a_fork_lends_streams_and_a_join_takes_them_back)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), streams[4], first;

    CHECK_OK(sluice_fork(parent, 4, streams));
    CHECK(differ(streams, 4));
    for (int i = 0; i < 4; i++)
        CHECK_OK(sluice_stream_query(streams[i]));
    first = streams[0];
    CHECK_OK(sluice_join(parent, 4, streams));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(streams[i].id, 0);
    CHECK_OK(sluice_fork(parent, 1, streams));
    CHECK_EQ(streams[0].id, first.id); /* the one that was given back first */
    CHECK_OK(sluice_join(parent, 1, streams));
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

TEST(a_hundred_forks_in_a_row_make_no_more_than_the_limit)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), streams[MOST];

    for (uint32_t i = 0; i < 100; i++) {
        uint32_t count = 1 + i % MOST;
        CHECK_OK(sluice_fork(parent, count, streams));
        CHECK_OK(sluice_join(parent, count, streams));
    }
    CHECK_EQ(sl_device_counts().streams, 1 + MOST);
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

TEST(the_limit_of_streams_at_once)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), other = new_stream(device), streams[MOST + 1], more[2];

    CHECK_SAYS(sluice_fork(parent, 0, streams), SLUICE_E_INVALID, "0 streams");
    CHECK_SAYS(sluice_fork(parent, MOST + 1, streams), SLUICE_E_LIMIT, "33 streams");
    CHECK_EQ(sl_device_counts().streams, 2);
    CHECK_OK(sluice_fork(parent, MOST - 1, streams));
    CHECK_SAYS(sluice_fork(other, 2, more), SLUICE_E_LIMIT, "\"host\" lends 32 at once");
    CHECK_OK(sluice_fork(other, 1, more)); /* the failed one has given back what it had */
    CHECK_RESULT(sluice_fork(other, 1, more + 1), SLUICE_E_LIMIT);
    CHECK_OK(sluice_join(other, 1, more));
    CHECK_OK(sluice_join(parent, MOST - 1, streams));
    CHECK_OK(sluice_device_close(&device));
}

TEST(two_parents_share_no_stream)
{
    struct sluice_device device = open_host();
    struct sluice_stream parents[2] = { new_stream(device), new_stream(device) }, streams[8];

    CHECK_OK(sluice_fork(parents[0], 4, streams));
    CHECK_OK(sluice_fork(parents[1], 4, streams + 4));
    CHECK(differ(streams, 8));
    CHECK_OK(sluice_join(parents[1], 4, streams + 4));
    CHECK_OK(sluice_join(parents[0], 4, streams));
    CHECK_OK(sluice_device_close(&device));
}

TEST(a_join_refuses_what_is_not_lent_to_its_parent)
{
    struct sluice_device device = open_host(), second = open_host();
    struct sluice_stream parent = new_stream(device), other = new_stream(device), far = new_stream(second);
    struct sluice_stream streams[3], twice[2], given;

    CHECK_OK(sluice_fork(parent, 3, streams));
    given = streams[0];
    CHECK_RESULT(sluice_join(parent, 0, streams), SLUICE_E_INVALID);
    CHECK_SAYS(sluice_join(other, 3, streams), SLUICE_E_INVALID, "is not lent to stream");
    CHECK_RESULT(sluice_join(far, 3, streams), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_join(parent, 1, &other), SLUICE_E_INVALID); /* of the program's own */
    CHECK_EQ(streams[0].id, given.id);
    twice[0] = twice[1] = streams[0];
    CHECK_RESULT(sluice_join(parent, 2, twice), SLUICE_E_INVALID);
    CHECK_OK(sluice_join(parent, 3, streams));
    CHECK_RESULT(sluice_join(parent, 1, &given), SLUICE_E_INVALID); /* it was taken back */
    CHECK_OK(sluice_device_close(&second));
    CHECK_OK(sluice_device_close(&device));
}

TEST(a_section_whose_parent_has_ended_is_joined_to_another)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), other = new_stream(device), streams[2];

    CHECK_OK(sluice_fork(parent, 2, streams));
    CHECK_OK(sluice_stream_destroy(&parent));
    CHECK_OK(sluice_join(other, 2, streams));
    CHECK_OK(sluice_device_close(&device));
}

TEST(a_lent_stream_cannot_be_destroyed_and_ends_with_its_device)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), streams[2], copy;

    CHECK_OK(sluice_fork(parent, 2, streams));
    copy = streams[0];
    CHECK_SAYS(sluice_stream_destroy(&copy), SLUICE_E_INVALID, "sluice_join");
    CHECK_OK(sluice_stream_query(streams[0]));
    CHECK_OK(sluice_device_reset(device));
    CHECK_RESULT(sluice_stream_query(streams[0]), SLUICE_E_STALE);
    CHECK_RESULT(sluice_join(parent, 2, streams), SLUICE_E_STALE);
    parent = new_stream(device);
    CHECK_RESULT(sluice_join(parent, 2, streams), SLUICE_E_STALE);
    CHECK_OK(sluice_fork(parent, 2, streams));
    CHECK_OK(sluice_stream_query(streams[1]));
    CHECK_OK(sluice_device_close(&device));
    CHECK_RESULT(sluice_stream_query(streams[1]), SLUICE_E_STALE);
    check_nothing_lives();
}

TEST(sections_nest)
{
    struct sluice_device device = open_host();
    struct sluice_stream parent = new_stream(device), outer[2], inner[2];

    CHECK_OK(sluice_fork(parent, 2, outer));
    CHECK_OK(sluice_fork(outer[0], 2, inner));
    CHECK_OK(sluice_join(outer[0], 2, inner));
    CHECK_OK(sluice_join(parent, 2, outer));
    CHECK_OK(sluice_device_close(&device));
}

/* ---- a kind of device whose calls fail ---- */

TEST(idle_streams_are_lent_before_busy_ones)
{
    struct sluice_device device = fake_open();
    struct sluice_stream parent = new_stream(device), first[2], streams[MOST];

    CHECK_OK(sluice_fork(parent, 2, first));
    streams[0] = first[0];
    streams[1] = first[1];
    CHECK_OK(sluice_join(parent, 2, streams));
    fake.busy = true;
    CHECK_OK(sluice_fork(parent, 2, streams)); /* two more are made */
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            CHECK_NE(streams[i].id, first[j].id);
    CHECK_OK(sluice_join(parent, 2, streams));
    CHECK_OK(sluice_fork(parent, MOST, streams)); /* busy ones, too, at the limit */
    CHECK_OK(sluice_join(parent, MOST, streams));
    CHECK_EQ(sl_device_counts().streams, 1 + MOST);
    fake.busy = false;
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

TEST(a_failure_gives_all_streams_back)
{
    struct sluice_device device = fake_open();
    struct sluice_stream parent = new_stream(device), streams[MOST];

    fake.fails = SLUICE_E_DRIVER;
    CHECK_RESULT(sluice_fork(parent, 2, streams), SLUICE_E_DRIVER); /* making one fails */
    fake.fails = 0;
    CHECK_OK(sluice_fork(parent, MOST, streams));
    fake.fails = SLUICE_E_DRIVER;
    CHECK_SAYS(sluice_join(parent, MOST, streams), SLUICE_E_DRIVER, "set to fail"); /* waiting fails */
    CHECK_EQ(streams[MOST - 1].id, 0);
    CHECK_RESULT(sluice_fork(parent, 2, streams), SLUICE_E_DRIVER);
    fake.fails = 0;
    CHECK_OK(sluice_fork(parent, MOST, streams));
    CHECK_OK(sluice_join(parent, MOST, streams));
    CHECK_EQ(sl_device_counts().streams, 1 + MOST);
    CHECK_OK(sluice_device_close(&device));
    check_nothing_lives();
}

/* ---- threads ---- */

#define THREADS 8

static struct sluice_device shared;

static void *fork_and_join(void *argument)
{
    struct sluice_stream parent = new_stream(shared), streams[4];

    (void)argument;
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(sluice_fork(parent, 4, streams));
        CHECK(differ(streams, 4));
        CHECK_OK(sluice_join(parent, 4, streams));
    }
    return NULL;
}

TEST(eight_threads_fork_and_join)
{
    pthread_t threads[THREADS];

    shared = open_host();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, fork_and_join, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_LE(sl_device_counts().streams, THREADS + MOST);
    CHECK_OK(sluice_device_close(&shared));
    check_nothing_lives();
}
