/* SPDX-License-Identifier: MIT
 *
 * When a reader looks for a frame that a GPU works on.
 */
#include "core/reader.h"
#include "harness/test.h"

#define SINCE (7 * SLUICE_S)

/* How long after its commit a frame is found that was ready after `took`, and by how many looks. */
static int64_t found_after(int64_t took, int64_t expected, int *looks)
{
    int64_t now = SINCE;

    for (*looks = 1; now - SINCE < took; ++*looks) {
        int64_t next = sl_wait_look_at(now, SINCE, expected);
        CHECK(next > now);
        now = next;
    }
    return now - SINCE;
}

/* A machine that stood still makes one frame take long, and the next ones are ready as soon as ever. */
TEST(wait_finds_a_frame_that_comes_sooner_than_expected)
{
    static const int64_t expected[] = { 0, SLUICE_MS / 100, SLUICE_MS, 16 * SLUICE_MS, SLUICE_S, 100 * SLUICE_S };
    int looks;

    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        for (int64_t took = 1000; took < 10 * SLUICE_S; took = took * 5 / 4)
            CHECK_LE(found_after(took, expected[i], &looks), 2 * took + SLUICE_MS);
}

/* Who sleeps is woken seldom, and often only where a frame is due. */
TEST(wait_looks_seldom_before_a_frame_is_due)
{
    int looks;

    CHECK_LE(found_after(16 * SLUICE_MS * 7 / 8, 16 * SLUICE_MS, &looks), 16 * SLUICE_MS * 7 / 8);
    CHECK_LE(looks, 6);
    CHECK_LE(found_after(16 * SLUICE_MS, 16 * SLUICE_MS, &looks), 16 * SLUICE_MS + SLUICE_MS / 10);
    CHECK_LE(looks, 6 + 41);
    (void)found_after(7 * SLUICE_S / 8, SLUICE_S, &looks);
    CHECK_LE(looks, 12);
}
