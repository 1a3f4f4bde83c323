/* SPDX-License-Identifier: MIT
 *
 * When a reader looks for a frame that a GPU works on, whether it sleeps or spins until then, and what it learns. Time
 * is simulated.
 */
#include "native/reader/completion_estimate.h"
#include "harness/test.h"

#define US    INT64_C(1000)
#define SINCE (7 * SLUICE_S)

static struct sl_completion_estimate due_after(int64_t duration, int64_t off)
{
    return (struct sl_completion_estimate){ .duration_ns = (uint64_t)duration, .error_ns = (uint64_t)off };
}

/* How a reader gets a frame. */
struct way {
    int64_t found, watched; /* after its commit; and the time spent spinning */
    int looks, watches;
};

/* A frame that is ready `took` after its commit. The reader first looks `first` after that, and wakes from a sleep
 * `late`. */
static struct way go(const struct sl_completion_estimate *due, int64_t took, int64_t first, int64_t late)
{
    struct way way = { .found = first, .looks = 1 };

    for (; way.found < took; way.looks++) {
        int64_t now = SINCE + way.found;
        struct sl_poll_step step = sl_completion_estimate_next(due, now, SINCE, way.watches > 0);
        CHECK(step.until > now);
        int64_t until = step.until - SINCE;
        if (step.watch)
            until = took < until ? took : until;
        way.watches += step.watch;
        way.watched += step.watch ? until - way.found : 0;
        way.found = step.watch ? until : until + late;
    }
    return way;
}

/* The same, and learns. */
static struct way pass(struct sl_completion_estimate *due, int64_t took, int64_t first, int64_t late)
{
    int64_t unready = 0, found = first;
    bool watched = false;
    struct way way = go(due, took, first, late);

    while (found < took) {
        struct sl_poll_step step = sl_completion_estimate_next(due, SINCE + found, SINCE, watched);
        int64_t until = step.until - SINCE;
        unready = step.watch && until >= took ? took - 1 : found;
        found = !step.watch ? until + late : until < took ? until : took;
        watched |= step.watch;
    }
    CHECK_EQ(found, way.found);
    if (unready > 0 || found < (int64_t)sl_load(&due->duration_ns, relaxed))
        sl_completion_estimate_update(due, unready, found);
    return way;
}

/* ---- when ---- */

/* A suspended machine makes one frame take long, and the next ones are ready as early as before. */
TEST(estimate_finds_a_frame_that_comes_sooner_than_expected)
{
    static const int64_t expected[] = { 0, 10 * US, SLUICE_MS, 16 * SLUICE_MS, SLUICE_S, 100 * SLUICE_S };

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        for (int64_t took = US; took < 10 * SLUICE_S; took = took * 5 / 4)
            for (int64_t off = 0; off <= expected[i]; off += expected[i] / 2 + 1) {
                struct sl_completion_estimate due = due_after(expected[i], off);
                CHECK_LE(go(&due, took, 0, 0).found, 2 * took + (off > SL_POLL_WATCH_NS ? SLUICE_MS / 3 : SLUICE_MS));
            }
}

/* A sleeping reader wakes rarely, and often only when a frame is due. */
TEST(estimate_polls_rarely_before_a_frame_is_due)
{
    struct sl_completion_estimate due = due_after(16 * SLUICE_MS, SLUICE_S);
    struct way way = go(&due, 16 * SLUICE_MS * 7 / 8 - SL_POLL_WATCH_NS, 0, 0);
    CHECK_LE(way.found, 16 * SLUICE_MS * 7 / 8);
    CHECK_LE(way.looks, 8);
    way = go(&due, 16 * SLUICE_MS, 0, 0);
    CHECK_LE(way.found, 16 * SLUICE_MS + SLUICE_MS / 10);
    CHECK_LE(way.looks, 8 + 41);
    due = due_after(SLUICE_S, 0);
    CHECK_LE(go(&due, SLUICE_S - SL_POLL_WATCH_NS, 0, 0).looks, 12);
    due = due_after(SLUICE_MS, 0); /* a frame that may never be ready */
    CHECK_LE(go(&due, 2 * SLUICE_S, 0, 0).looks, 2200);
}

/* ---- spinning ---- */

TEST(estimate_sleeps_until_a_frame_is_due_and_spins_once)
{
    struct sl_completion_estimate due = due_after(200 * US, 0);
    struct sl_poll_step step = sl_completion_estimate_next(&due, SINCE + 30 * US, SINCE, false);

    CHECK(!step.watch);
    CHECK_EQ(step.until, SINCE + 200 * US - SL_POLL_WATCH_NS);
    step = sl_completion_estimate_next(&due, step.until, SINCE, false);
    CHECK(step.watch);
    CHECK_EQ(step.until, SINCE + 200 * US + SL_POLL_WATCH_NS / 2);
    step = sl_completion_estimate_next(&due, step.until, SINCE, true);
    CHECK(!step.watch);
    CHECK_EQ(step.until, SINCE + 200 * US + SL_POLL_WATCH_NS / 2 + SL_POLL_INTERVAL_NS);
    due = due_after(200 * US, SL_POLL_WATCH_NS + 1); /* frames are not ready when they are due */
    CHECK(!sl_completion_estimate_next(&due, SINCE + 200 * US, SINCE, false).watch);
}

TEST(estimate_spins_no_longer_than_it_says)
{
    for (int64_t after = 0; after < 4 * SLUICE_MS; after = after * 9 / 8 + US)
        for (int64_t off = 0; off <= SL_POLL_WATCH_NS; off += SL_POLL_WATCH_NS / 4)
            for (int64_t took = US; took < 8 * SLUICE_MS; took = took * 9 / 8 + US) {
                struct sl_completion_estimate due = due_after(after, off);
                struct way way = go(&due, took, 5 * US, 15 * US);
                CHECK_LE(way.watches, 1);
                CHECK_LE(way.watched, SL_POLL_WATCH_NS * 3 / 2);
            }
}

/* ---- learning ---- */

/* Whatever the estimate was before, and however late it wakes: as with frames that always took that long. */
TEST(estimate_learns_when_frames_are_ready)
{
    static const int64_t takes[] = { 22, 25, 35, 60, 100, 300, 1000, 3000, 16000 }, before[] = { 0, 10, 700, 250000 };

    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
        for (size_t k = 0; k < sizeof before / sizeof *before; k++)
            for (int64_t late = 0; late <= 30 * US; late += 10 * US) {
                struct sl_completion_estimate due = due_after(before[k] * US, before[k] * US / 8);
                int64_t took = takes[i] * US, lateness = 0, watched = 0;
                for (int n = 0; n < 200; n++)
                    (void)pass(&due, took, 20 * US, late);
                for (int n = 0; n < 16; n++) {
                    struct way way = pass(&due, took, 20 * US, late);
                    lateness += way.found - took;
                    watched += way.watched;
                }
                CHECK_LE(lateness / 16, 10 * US);
                CHECK_LE(watched / 16, SL_POLL_WATCH_NS * 5 / 4);
            }
}

TEST(estimate_learns_at_once_that_frames_take_much_less)
{
    struct sl_completion_estimate due = due_after(SLUICE_S, 0);

    (void)pass(&due, 100 * US, 20 * US, 15 * US);
    CHECK_LE(pass(&due, 100 * US, 20 * US, 15 * US).found, 300 * US);
    CHECK_LE((int64_t)sl_load(&due.duration_ns, relaxed), 300 * US);
}

/* It does not spin for frames that take any time. */
TEST(estimate_does_not_spin_where_frames_come_at_any_time)
{
    struct sl_completion_estimate due = { 0 };
    uint64_t chance = 1;
    int watches = 0;

    for (int n = 0; n < 1000; n++) {
        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407;
        watches += pass(&due, 30 * US + (int64_t)(chance >> 33) % (2 * SLUICE_MS), 20 * US, 15 * US).watches;
    }
    CHECK_LE(watches, 50);
}

/* As after a change of the GPU's work: it spins for a few without success. */
TEST(estimate_stops_spinning_once_frames_take_longer)
{
    struct sl_completion_estimate due = { 0 };
    int64_t watched = 0;

    for (int n = 0; n < 20; n++)
        (void)pass(&due, 25 * US, 20 * US, 15 * US);
    for (int n = 0; n < 40; n++) {
        struct way way = pass(&due, 3 * SLUICE_MS, 20 * US, 15 * US);
        watched += way.found < 3 * SLUICE_MS + US ? 0 : way.watched; /* without success */
        if (n >= 25)
            CHECK_LE(way.found, 3 * SLUICE_MS + 250 * US);
    }
    CHECK_LE(watched, 12 * SL_POLL_WATCH_NS);
}

TEST(estimate_ignores_the_time_of_a_suspended_machine)
{
    static const int64_t takes[] = { 25, 100, 3000 };

    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        struct sl_completion_estimate due = { 0 };
        int64_t took = takes[i] * US;
        for (int n = 0; n < 60; n++)
            (void)pass(&due, took, 20 * US, 15 * US);
        (void)pass(&due, SLUICE_S, 20 * US, 15 * US);
        int64_t late = pass(&due, took, 20 * US, 15 * US).found - took;
        CHECK_LE(late, took / 2 + 50 * US);
        for (int n = 0; n < 40; n++)
            late = pass(&due, took, 20 * US, 15 * US).found - took;
        CHECK_LE(late, 20 * US);
    }
}

TEST(estimate_survives_any_times)
{
    static const int64_t times[] = { 0, 1, US, SLUICE_MS, SLUICE_S, INT64_MAX / 16 };
    enum { COUNT = sizeof times / sizeof *times };

    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++)
            for (int n = 0; n < COUNT; n++) {
                struct sl_completion_estimate due = due_after(times[i], times[k]);
                sl_completion_estimate_update(&due, times[n] / 2, times[n]);
                CHECK_GE((int64_t)sl_load(&due.duration_ns, relaxed), 1);
                CHECK_GE((int64_t)sl_load(&due.error_ns, relaxed), 0);
                CHECK(sl_completion_estimate_next(&due, SINCE, SINCE, false).until > SINCE);
            }
}
