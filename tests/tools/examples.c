/* SPDX-License-Identifier: MIT
 *
 * The demo on the fake driver's GPU, with the example filter, which loads the fake driver as libcuda.so.1; and the
 * example whose kernel runs on both devices.
 */
#include "kit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sluice/sluice.h>

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

#define PICTURE (64 * 48)

/* Sends a picture, and compares what the program makes of it. */
static void check_inverted(sluice_writer *writer, sluice_reader **reader, unsigned char first)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_frame frame;
    unsigned char picture[PICTURE];

    CHECK_OK(sluice_writer_format(writer, &format));
    format.arrays[0].data = picture;
    for (unsigned i = 0; i < PICTURE; i++)
        picture[i] = (unsigned char)(first + i * i / 7);
    CHECK_OK(sluice_writer_send(writer, format.arrays, 1, SLUICE_ON_CPU, NULL));
    if (!*reader) { /* the program opens its channel with the first frame */
        params.name = "inverted";
        params.open_timeout_ns = 60 * SLUICE_S;
        CHECK_OK(sluice_reader_open(reader, &params));
    }
    CHECK_OK(sluice_reader_acquire(*reader, SLUICE_ON_CPU, 60 * SLUICE_S, &frame));
    memset(picture, 0, sizeof picture);
    CHECK_OK(sluice_reader_fetch(*reader, &frame, format.arrays, 1, SLUICE_ON_CPU, NULL));
    for (unsigned i = 0; i < PICTURE; i++)
        CHECK_EQ(picture[i], 255 - (unsigned char)(first + i * i / 7));
    CHECK_OK(sluice_reader_release(*reader, &frame, SLUICE_ON_CPU));
}

static void run_kernel_filter(const char *device)
{
    const char *const program[] = { EXAMPLES "/example-kernel-filter", "camera", "inverted", NULL };
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer;
    sluice_reader *reader = NULL;

    if (access(program[0], X_OK) != 0)
        SKIP("the examples are not built");
    test_dir();
    setenv("SLUICE_CACHE", "off", 1);
    setenv("SLUICE_CHECK", "streams", 1);
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 48));
    params.name = "camera";
    params.device = device;
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    struct child child = child_start(program);
    CHECK_OK(sluice_writer_wait_readers(writer, 1, 60 * SLUICE_S));
    for (unsigned char first = 0; first < 5; first++)
        check_inverted(writer, &reader, first);
    CHECK_OK(sluice_writer_close(&writer)); /* the program ends with its input */
    CHECK_EQ(child_wait(&child, 60), 0);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(the_kernel_filter_on_host, 90)
{
    run_kernel_filter("host");
}

TEST_TIMEOUT(the_kernel_filter_on_a_gpu, 90)
{
    use_fake_gpu();
    setenv("SLUICE_NVRTC", FAKE_NVRTC, 1);
    run_kernel_filter("cuda:0");
}
