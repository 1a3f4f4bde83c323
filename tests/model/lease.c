/* SPDX-License-Identifier: MIT
 *
 * The settings that are explored, and the mutations that must be found.
 */
#include "harness/test.h"
#include "model/world.h"

static void holds(struct setting what)
{
    if (test_slowness() > 1)
        SKIP("coroutines and sanitizers do not go together");
    struct explore_result result = world_explore(what, true);
    CHECK_STR(result.violation, "");
    CHECK(result.complete);
}

static void is_caught(struct setting what, const char *how)
{
    if (test_slowness() > 1)
        SKIP("coroutines and sanitizers do not go together");
    struct explore_result result = world_explore(what, false);
    CHECK_HAS(result.violation, how);
}

#define BOTH(x) \
    { \
        (x), (x) \
    }

/* With SLUICE_TEST_SCALE above 1 one more. */
static uint32_t frames(uint32_t count)
{
    return count + (test_scale(100) > 100);
}

#define NEWEST   BOTH(SLUICE_NEWEST)
#define IN_ORDER BOTH(SLUICE_IN_ORDER)
#define MIXED \
    { \
        SLUICE_NEWEST, SLUICE_IN_ORDER \
    }

/* The time and the size of each walk are in the tests' output: --verbose. */
#define HOLDS(name, ...) \
    TEST_TIMEOUT(name, 600) \
    { \
        holds((struct setting){ __VA_ARGS__ }); \
    }
#define HOLDS_LONG(name, ...) \
    TEST_TIMEOUT(name, 600) \
    { \
        if (frames(0) == 0) \
            SKIP("takes long; SLUICE_TEST_SCALE=2 runs it"); \
        holds((struct setting){ __VA_ARGS__ }); \
    }
#define CAUGHT(name, how, ...) \
    TEST_TIMEOUT(name, 600) \
    { \
        is_caught((struct setting){ __VA_ARGS__ }, how); \
    }

HOLDS(newest, .mode = NEWEST, .there = 1, .frames = frames(3), .keep = SL_KEEP_DEPTH)
HOLDS(newest_buffered, .mode = NEWEST, .there = 1, .frames = frames(4), .keep = SL_KEEP_DEPTH, .buffers = true,
      .second = ABSENT)
HOLDS_LONG(two_newest_buffered, .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true)
HOLDS(newest_killed, .mode = NEWEST, .there = 1, .frames = frames(4), .keep = SL_KEEP_DEPTH, .kill = { true, false },
      .second = ABSENT)
HOLDS_LONG(one_of_two_newest_killed, .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
           .kill = { true, false })
HOLDS_LONG(newest_joins, .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = JOINS)
HOLDS(newest_holds_two, .mode = NEWEST, .hold = BOTH(2), .there = 1, .frames = frames(4), .slots = 4,
      .keep = SL_KEEP_DEPTH, .second = ABSENT, .buffers = true)
HOLDS(in_order_and_newest, .mode = MIXED, .there = 3, .frames = frames(2), .keep = SL_KEEP_ALL)
HOLDS(in_order_and_newest_buffered, .mode = MIXED, .there = 3, .frames = frames(1), .keep = SL_KEEP_ALL,
      .buffers = true)
HOLDS(in_order_killed, .mode = MIXED, .there = 3, .frames = frames(1), .keep = SL_KEEP_ALL, .kill = { false, true })
HOLDS(in_order_joins, .mode = MIXED, .there = 3, .frames = frames(2), .keep = SL_KEEP_ALL, .second = JOINS)
HOLDS(in_order_holds_two, .mode = IN_ORDER, .hold = BOTH(2), .there = 4, .frames = frames(4), .slots = 4,
      .keep = SL_KEEP_ALL, .second = ABSENT)
HOLDS(by_depth, .mode = MIXED, .depth = BOTH(1), .there = 3, .frames = frames(1), .keep = SL_KEEP_DEPTH)
HOLDS_LONG(two_by_depth, .mode = IN_ORDER, .depth = BOTH(1), .there = 3, .frames = 1, .keep = SL_KEEP_DEPTH)
HOLDS(by_depth_alone, .mode = IN_ORDER, .depth = BOTH(2), .there = 3, .frames = frames(4), .keep = SL_KEEP_DEPTH,
      .second = ABSENT)
HOLDS(by_depth_buffered, .mode = IN_ORDER, .depth = BOTH(2), .there = 3, .frames = frames(3), .keep = SL_KEEP_DEPTH,
      .second = ABSENT, .buffers = true)
HOLDS(by_depth_stolen, .mode = MIXED, .depth = BOTH(2), .there = 3, .frames = frames(1), .keep = SL_KEEP_DEPTH,
      .steal = true)

CAUGHT(mutation_weak_lease, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .buffers = true, .second = ABSENT, .mutation = WEAK_LEASE)
CAUGHT(mutation_weak_mark, "reader 0", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .buffers = true,
       .second = ABSENT, .mutation = WEAK_MARK)
CAUGHT(mutation_weak_publish, "reader 0", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .buffers = true, .second = ABSENT, .mutation = WEAK_PUBLISH)
CAUGHT(mutation_no_validation, "reads", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .second = ABSENT, .mutation = NO_VALIDATION)
CAUGHT(mutation_no_restore, "marked for ever", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .second = ABSENT, .mutation = NO_RESTORE)
CAUGHT(mutation_no_cursors, "before reader 0 has read it", .mode = IN_ORDER, .there = 3, .frames = 2,
       .keep = SL_KEEP_ALL, .second = ABSENT, .mutation = NO_CURSORS)
CAUGHT(mutation_no_leases, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .second = ABSENT, .mutation = NO_LEASES)
CAUGHT(mutation_cursor_first, "relies on", .mode = IN_ORDER, .there = 3, .frames = 2, .keep = SL_KEEP_ALL,
       .second = ABSENT, .mutation = CURSOR_FIRST)
CAUGHT(mutation_head_reused, "no newer frame", .mode = NEWEST, .hold = BOTH(2), .there = 1, .frames = 3,
       .keep = SL_KEEP_DEPTH, .second = ABSENT, .mutation = HEAD_REUSED)
CAUGHT(mutation_lapse_alive, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH,
       .second = ABSENT, .kill = { true, false }, .mutation = LAPSE_ALIVE)
CAUGHT(mutation_join_late, "relies on", .mode = NEWEST, .there = 1, .frames = 3, .keep = SL_KEEP_DEPTH, .second = JOINS,
       .mutation = JOIN_LATE)
