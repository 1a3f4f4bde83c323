/* SPDX-License-Identifier: MIT */
#include "util/params.h"

#include <sluice/sluice.h>
#include <string.h>

#include "harness/test.h"

struct thing {
    uint32_t size, a;
    uint64_t b, c;
};

#define LEAST offsetof(struct thing, b)

TEST(params_of_this_release_are_copied)
{
    struct thing caller = { sizeof caller, 1, 2, 3 }, own;
    CHECK_OK(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"));
    CHECK_MEM(&own, &caller, sizeof own);
}

TEST(params_of_an_older_caller_end_where_he_ends)
{
    struct thing caller = { LEAST, 1, 2, 3 }, own;
    memset(&own, 0xee, sizeof own);
    CHECK_OK(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"));
    CHECK_EQ(own.a, 1);
    CHECK_EQ(own.b, 0);
    CHECK_EQ(own.c, 0);
    caller.size = offsetof(struct thing, c);
    CHECK_OK(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"));
    CHECK_EQ(own.b, 2);
    CHECK_EQ(own.c, 0);
}

TEST(params_of_a_newer_caller_may_not_ask_for_what_is_not_there)
{
    struct {
        struct thing now;
        uint64_t later[3];
    } caller = { .now = { sizeof caller, 1, 2, 3 } };
    struct thing own;
    CHECK_OK(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"));
    CHECK_EQ(own.c, 3);
    caller.later[2] = 1;
    CHECK_SAYS(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"), SLUICE_E_UNSUPPORTED,
               "struct thing sets a field at byte 40");
    CHECK_HAS(sluice_last_error(), sluice_version());
}

TEST(params_without_a_size_are_refused)
{
    struct thing caller = { 0, 1, 2, 3 }, own = { .a = 7 };
    static const uint32_t sizes[] = { 0, 1, LEAST - 1, 65537, UINT32_MAX };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        caller.size = sizes[i];
        CHECK_SAYS(sl_params_load(&own, sizeof own, LEAST, &caller, "struct thing"), SLUICE_E_INVALID, "initialiser");
        CHECK_SAYS(sl_params_store(&caller, &own, sizeof own, LEAST, "struct thing"), SLUICE_E_INVALID, "struct thing");
        CHECK_EQ(caller.a, 1);
    }
    CHECK_SAYS(sl_params_load(&own, sizeof own, LEAST, NULL, "struct thing"), SLUICE_E_INVALID, "no struct thing");
    CHECK_SAYS(sl_params_store(NULL, &own, sizeof own, LEAST, "struct thing"), SLUICE_E_INVALID, "no struct thing");
    CHECK_EQ(own.a, 7);
}

TEST(params_go_out_as_far_as_the_caller_goes)
{
    const struct thing own = { sizeof own, 1, 2, 3 };
    struct {
        struct thing now;
        uint64_t later;
    } caller;

    memset(&caller, 0xee, sizeof caller);
    caller.now.size = LEAST;
    CHECK_OK(sl_params_store(&caller, &own, sizeof own, LEAST, "struct thing"));
    CHECK_EQ(caller.now.size, LEAST); /* the caller's size stays */
    CHECK_EQ(caller.now.a, 1);
    CHECK_EQ(caller.now.b, 0xeeeeeeeeeeeeeeee);
    caller.now.size = sizeof caller;
    CHECK_OK(sl_params_store(&caller, &own, sizeof own, LEAST, "struct thing"));
    CHECK_EQ(caller.now.c, 3);
    CHECK_EQ(caller.later, 0xeeeeeeeeeeeeeeee);
}
