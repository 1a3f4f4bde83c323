/* SPDX-License-Identifier: MIT
 *
 * Timers: what they count, who may read them, and that they are off by default.
 */
#include <pthread.h>
#include <string.h>

#include <sluice/timers.h>

#include "harness/test.h"
#include "trace/trace.h"

static struct sluice_timer timer(const char *name)
{
    struct sluice_timer timers[64];
    size_t count;

    CHECK_OK(sluice_timers(timers, 64, &count));
    CHECK_LE(count, 64);
    for (size_t i = 0; i < count; i++)
        if (strcmp(timers[i].name, name) == 0)
            return timers[i];
    FAIL("there is no timer '%s'", name);
}

static uint64_t sum(const struct sluice_timer *timer)
{
    uint64_t all = 0;

    for (int k = 0; k < SLUICE_TIMER_BUCKETS; k++)
        all += timer->buckets[k];
    return all;
}

static void sleep_in_map(int64_t ns)
{
    SL_STAGE_BEGIN(MAP);
    test_nap(ns);
    SL_STAGE_END(MAP);
}

TEST(off_unless_wanted)
{
    sl_trace_open();
    sleep_in_map(1000);
    CHECK_EQ(timer("map").count, 0);
    CHECK_OK(sluice_timers_set(1));
    sleep_in_map(1000);
    CHECK_OK(sluice_timers_set(0));
    sleep_in_map(1000);
    CHECK_EQ(timer("map").count, 1);
    CHECK_RESULT(sluice_timers_set(2), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_timers_set(-1), SLUICE_E_INVALID);
    sl_trace_close();
}

TEST(counts_sums_and_longest)
{
    CHECK_OK(sluice_timers_set(1));
    sleep_in_map(2000000);
    sleep_in_map(5000000);
    struct sluice_timer map = timer("map");
    CHECK_EQ(map.count, 2);
    CHECK_EQ(sum(&map), 2);
    CHECK_GE(map.total_ns, 7000000);
    CHECK_GE(map.longest_ns, 5000000);
    CHECK_LE(map.longest_ns, map.total_ns - 2000000);
    for (int k = 0; k < 20; k++) /* under 2^20 ns, 1 ms */
        CHECK_EQ(map.buckets[k], 0);
    CHECK(map.what[0]);
    CHECK_OK(sluice_timers_clear());
    map = timer("map");
    CHECK_EQ(map.count + map.total_ns + map.longest_ns + sum(&map), 0);
}

TEST(buckets_are_powers_of_two)
{
    static const struct {
        int64_t ns;
        int bucket;
    } cases[] = { { -5, 0 },
                  { 0, 0 },
                  { 1, 0 },
                  { 2, 1 },
                  { 3, 1 },
                  { 4, 2 },
                  { 1023, 9 },
                  { 1024, 10 },
                  { 1 << 30, 30 },
                  { INT64_C(1) << 31, 31 },
                  { INT64_C(1) << 40, 31 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_OK(sluice_timers_clear());
        sl_timers_add(SL_STAGE_MAP, cases[i].ns);
        struct sluice_timer map = timer("map");
        CHECK_EQ(map.buckets[cases[i].bucket], 1);
        CHECK_EQ(sum(&map), 1);
        CHECK_EQ(map.total_ns, cases[i].ns > 0 ? cases[i].ns : 0);
    }
}

static void *add_many(void *context)
{
    for (int i = 1; i <= 20000; i++)
        sl_timers_add(SL_STAGE_WAKE, i);
    return context;
}

TEST(threads_count_together)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    struct sluice_timer wake = timer("wake");
    CHECK_EQ(wake.count, 80000);
    CHECK_EQ(sum(&wake), 80000);
    CHECK_EQ(wake.total_ns, 4 * INT64_C(20000) * 20001 / 2);
    CHECK_EQ(wake.longest_ns, 20000);
}

TEST(a_span_ends_on_any_thread_and_once)
{
    struct sl_span span = { 0 };

    SL_SPAN_BEGIN(READ, &span, "cam", 1); /* while they are off */
    CHECK_OK(sluice_timers_set(1));
    SL_SPAN_END(READ, &span);
    CHECK_EQ(timer("read").count, 0);
    SL_SPAN_BEGIN(READ, &span, "cam", 1);
    test_nap(1000000);
    SL_SPAN_END(READ, &span);
    SL_SPAN_END(READ, &span);
    CHECK_EQ(timer("read").count, 1);
    CHECK_GE(timer("read").total_ns, 1000000);
}

TEST(reading_takes_any_room)
{
    struct sluice_timer timers[3];
    size_t count = 0, again = 0;

    CHECK_OK(sluice_timers(NULL, 0, &count));
    CHECK_EQ(count, SL_STAGE_COUNT);
    memset(timers, 0x55, sizeof timers);
    CHECK_OK(sluice_timers(timers, 2, &again));
    CHECK_EQ(again, count);
    CHECK_STR(timers[0].name, "write");
    CHECK_EQ(timers[2].name[0], 0x55);
    CHECK_RESULT(sluice_timers(NULL, 1, &count), SLUICE_E_INVALID);
    CHECK_RESULT(sluice_timers(timers, 2, NULL), SLUICE_E_INVALID);
}
