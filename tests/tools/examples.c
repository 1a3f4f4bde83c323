/* SPDX-License-Identifier: MIT
 *
 * The demo on the fake driver's GPU, with the example filter, which loads the fake driver as libcuda.so.1.
 */
#include "kit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void use_gpu(void)
{
    const char *libraries = getenv("LD_LIBRARY_PATH");
    char paths[4096];
    if (access(EXAMPLES "/example-gpu-filter", X_OK) != 0)
        SKIP("the examples are not built");
    snprintf(paths, sizeof paths, "%s%s%s", FAKE_PROGRAM, libraries ? ":" : "", libraries ? libraries : "");
    setenv("LD_LIBRARY_PATH", paths, 1);
    use_fake_gpu();
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(the_filter_says_what_it_lacks)
{
    const char *const usage[] = { EXAMPLES "/example-gpu-filter", "in", NULL };
    const char *const filter[] = { EXAMPLES "/example-gpu-filter", "in", "out", NULL };
    use_gpu();
    if (dlopen("libcuda.so.1", RTLD_LAZY))
        SKIP("there is a driver");
    test_dir();
    setenv("LD_LIBRARY_PATH", "", 1);
    struct child child = child_start(usage);
    CHECK_EQ(child_wait(&child, 10), 2);
    child = child_start(filter);
    CHECK_EQ(child_wait(&child, 10), 1);
}

TEST_TIMEOUT(the_demo_on_a_gpu, 90)
{
    static struct program p;
    use_gpu();
    CHECK_EQ(sluice_run(&p, "demo", "--seconds", "6", "--size", "160x90", "--fps", "30", "--out", in_dir("demo")), 0);
    CHECK_HAS(p.out, "demo: using the Fake GPU 0\n");
    CHECK_HAS(p.out, "device cuda:0");
    CHECK_HAS(p.out, "demo: killed player");
    CHECK_HAS(p.out, "demo: restarted the player");
    CHECK_HAS(p.out, "demo: killed filter");
    CHECK_HAS(p.out, "demo: restarted the filter");
    CHECK_HAS(p.out, "UNREAD");
    CHECK_HAS(p.out, "demo: ok, ");
    CHECK_HAS(p.out, ", 0 torn\n");
}

/* Without a usable GPU it prints why and uses host memory. It shows everything, however short its time is. */
TEST_TIMEOUT(the_demo_chooses_what_works, 90)
{
    static struct program p;
    use_gpu();
    setenv("SLUICE_FAKE_WITHOUT", "register", 1);
    sluice_run(&p, "demo", "--seconds", "0.3", "--size", "160x90", "--out", in_dir("demo"));
    CHECK_HAS(p.out, "demo: using host memory: the Fake GPU 0 lacks features that channels need");
    CHECK_HAS(p.out, "device host");
    setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1);
    sluice_run(&p, "demo", "--seconds", "0.3", "--size", "160x90", "--out", in_dir("demo"));
    CHECK_HAS(p.out, "demo: using host memory: no CUDA driver");
    CHECK_EQ(
        sluice_run(&p, "demo", "--seconds", "0.3", "--size", "160x90", "--out", in_dir("demo"), "--device", "host"), 0);
    CHECK_HAS(p.out, "demo: restarted the player");
    CHECK_HAS(p.out, "demo: restarted the filter");
    CHECK(strstr(p.out, "using host memory") == NULL);
    CHECK_HAS(p.out, "device host");
}
