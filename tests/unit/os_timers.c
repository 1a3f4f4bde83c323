/* SPDX-License-Identifier: MIT
 *
 * The heap of deadlines, compared with a search of all of them.
 */
#include <stdlib.h>

#include "harness/test.h"
#include "os/timers.h"

enum { MANY = 500 };

static struct sl_watch watches[MANY];

static int64_t earliest(void)
{
    int64_t first = SLUICE_FOREVER;
    for (int i = 0; i < MANY; i++)
        if (watches[i].heap_index && watches[i].deadline < first)
            first = watches[i].deadline;
    return first;
}

static void check_heap(const struct sl_timers *timers)
{
    for (size_t i = 0; i < timers->count; i++) {
        CHECK_EQ(timers->heap[i]->heap_index, i + 1);
        CHECK_LE(timers->heap[(i - (i > 0)) / 2]->deadline, timers->heap[i]->deadline);
    }
}

TEST(timers_empty)
{
    struct sl_timers timers = { 0 };
    CHECK(sl_timers_first(&timers) == SLUICE_FOREVER);
    sl_timers_remove(&timers, &watches[0]);
    sl_timers_finish(&timers);
}

TEST(timers_come_in_order)
{
    struct sl_timers timers = { 0 };
    CHECK(sl_timers_reserve(&timers, MANY));
    srand(1);
    for (int i = 0; i < MANY; i++) {
        watches[i].deadline = rand() % 1000;
        sl_timers_insert(&timers, &watches[i]);
        CHECK_EQ(sl_timers_first(&timers), earliest());
    }
    for (int64_t before = -1; timers.count;) {
        struct sl_watch *first = timers.heap[0];
        CHECK(first->deadline >= before);
        before = first->deadline;
        sl_timers_remove(&timers, first);
        CHECK_EQ(first->heap_index, 0);
    }
    sl_timers_finish(&timers);
}

TEST(timers_any_can_be_removed)
{
    struct sl_timers timers = { 0 };
    srand(2);
    for (int step = 0; step < 20000; step++) {
        struct sl_watch *watch = &watches[rand() % MANY];
        if (watch->heap_index) {
            sl_timers_remove(&timers, watch);
        } else {
            CHECK(sl_timers_reserve(&timers, timers.count + 1));
            watch->deadline = rand() % 100;
            sl_timers_insert(&timers, watch);
        }
        CHECK_EQ(sl_timers_first(&timers), earliest());
        if (step % 10 == 0)
            check_heap(&timers);
    }
    sl_timers_finish(&timers);
}
