/* SPDX-License-Identifier: MIT
 *
 * The tests of captures can fail: they do when one of the library's guards is bypassed (guard_bypass.c).
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/cipd_kit.h"
#include "gpu/kit.h"

/* The exit status of a role whose driver bypasses one guard. */
static int without(const char *guard, const char *file, const char *role, const char *first, const char *second)
{
    char behind[512];

    snprintf(behind, sizeof behind, "%s", sl_cuda_library());
    CHECK(setenv("SLUICE_BYPASS_DRIVER", behind, 1) == 0);
    CHECK(setenv("SLUICE_BYPASS_GUARD", guard, 1) == 0);
    CHECK(setenv("SLUICE_CUDA_DRIVER", GPU_GUARD_BYPASS, 1) == 0);
    struct child child = role_start_at(file, role, first, second, *guard ? "quiet" : "", NULL);
    pid_t pid = child.pid;
    int status = child_wait(&child, 60);
    CHECK(setenv("SLUICE_CUDA_DRIVER", behind, 1) == 0);
    cipd_clean_after(pid); /* a role that fails leaves its names */
    return status;
}

/* Checks that the role passes with the guard and fails without it. Where a GPU's driver itself refuses the call that
 * would break a capture, such as a wait for another process's event, the role passes without the guard; that is
 * recorded, and `certain` is what a GPU shows. */
static void needs(const char *guard, const char *where, const char *what, bool certain)
{
    if (without("", "cipd_capture_guards.c", "cipd_guarded", where, what) != 0)
        FAIL("cipd, %s a capture, %s: it fails as it is", where, what);
    bool needed = without(guard, "cipd_capture_guards.c", "cipd_guarded", where, what) != 0;
    FILE *facts = gpu_facts();
    if (facts) {
        fprintf(
            facts,
            "{\"fact\": \"guard of cipd\", \"guard\": \"%s\", \"where\": \"%s\", \"act\": \"%s\", \"needed\": %s}\n",
            guard, where, what, needed ? "true" : "false");
        fclose(facts);
    }
    if (!needed && (certain || gpu_is_fake()))
        FAIL("cipd, %s a capture, %s: it passes without \"%s\"", where, what, guard);
}

TEST_TIMEOUT(each_guard_of_cipd_is_needed, 480)
{
    static const char *const inside[] = {
        "send", "commit", "cancel", "release a copy", "fetch", "mark", "acquire ahead"
    };
    static const char *const beside[] = { "send",    "blocking send",  "begin", "begin again",
                                          "acquire", "acquire a copy", "mark",  "acquire ahead",
                                          "wait",    "open and close" };
    static const char *const shut[] = {
        "send", "commit", "cancel", "release a copy", "fetch", "mark", "acquire ahead"
    };

    gpu_begin();
    unsetenv("SLUICE_FAKE_FATAL"); /* a call that breaks no capture is no failure here, as on a GPU */
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        needs("capturing", "inside", inside[i], strcmp(inside[i], "send") == 0 || strcmp(inside[i], "fetch") == 0);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        needs("exchange", "beside", beside[i], false);
    for (size_t i = 0; i < sizeof shut / sizeof *shut; i++)
        needs("beside", "default", shut[i], false);
    gpu_end();
}

TEST_TIMEOUT(each_guard_is_needed, 240)
{
    gpu_begin();
    CHECK_EQ(without("", "capture_other_thread.c", "life_beside", "own", "non-blocking"), 0);
    CHECK_NE(without("exchange", "capture_other_thread.c", "life_beside", "own", "non-blocking"), 0);
    CHECK_EQ(without("", "capture_other_thread.c", "life_beside", "default", "blocking"), 0);
    /* Not certain on a GPU, where the library's call would have to meet the capture. */
    if (gpu_is_fake())
        CHECK_NE(without("beside", "capture_other_thread.c", "life_beside", "default", "blocking"), 0);
    static const char *const inside[] = { "release", "commit", "end" };
    for (int i = 0; i < 3; i++) {
        if (without("", "capture_own_thread.c", "inside", inside[i], "") != 0)
            FAIL("%s inside a capture: it fails as it is", inside[i]);
        if (without("capturing", "capture_own_thread.c", "inside", inside[i], "") == 0)
            FAIL("%s inside a capture: it passes without the guard", inside[i]);
    }
    gpu_end();
}
