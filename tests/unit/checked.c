/* SPDX-License-Identifier: MIT
 *
 * Checked arithmetic at its limits.
 */
#include "util/checked.h"

#include "harness/test.h"

TEST(checked_add)
{
    uint64_t sum;
    CHECK(sl_checked_add(1, 2, &sum));
    CHECK_EQ(sum, 3);
    CHECK(sl_checked_add(UINT64_MAX, 0, &sum));
    CHECK(sum == UINT64_MAX);
    CHECK(sl_checked_add(UINT64_MAX - 5, 5, &sum));
    CHECK(sum == UINT64_MAX);
    CHECK(!sl_checked_add(UINT64_MAX, 1, &sum));
    CHECK(!sl_checked_add(UINT64_MAX, UINT64_MAX, &sum));
    CHECK(!sl_checked_add(UINT64_C(1) << 63, UINT64_C(1) << 63, &sum));
}

TEST(checked_mul)
{
    uint64_t product;
    CHECK(sl_checked_mul(0, UINT64_MAX, &product));
    CHECK_EQ(product, 0);
    CHECK(sl_checked_mul(UINT64_MAX, 0, &product));
    CHECK_EQ(product, 0);
    CHECK(sl_checked_mul(UINT64_MAX, 1, &product));
    CHECK(product == UINT64_MAX);
    CHECK(sl_checked_mul(UINT32_MAX, UINT32_MAX, &product));
    CHECK(product == UINT64_C(0xfffffffe00000001));
    CHECK(!sl_checked_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &product));
    CHECK(!sl_checked_mul(UINT64_MAX / 2 + 1, 2, &product));
    CHECK(!sl_checked_mul(3, UINT64_MAX / 3 + 1, &product));
}

TEST(checked_align)
{
    uint64_t aligned;
    CHECK(sl_checked_align(0, 4096, &aligned));
    CHECK_EQ(aligned, 0);
    CHECK(sl_checked_align(1, 4096, &aligned));
    CHECK_EQ(aligned, 4096);
    CHECK(sl_checked_align(4096, 4096, &aligned));
    CHECK_EQ(aligned, 4096);
    CHECK(sl_checked_align(10, 3, &aligned));
    CHECK_EQ(aligned, 12);
    CHECK(sl_checked_align(7, 0, &aligned));
    CHECK_EQ(aligned, 7);
    CHECK(sl_checked_align(UINT64_MAX, 1, &aligned));
    CHECK(aligned == UINT64_MAX);
    CHECK(!sl_checked_align(UINT64_MAX, 4096, &aligned));
    CHECK(!sl_checked_align(UINT64_MAX - 4094, 4096, &aligned));
    CHECK(sl_checked_align(UINT64_MAX - 4095, 4096, &aligned));
    CHECK(aligned == UINT64_MAX - 4095);
}
