/* SPDX-License-Identifier: MIT
 *
 * The recipe for scratch memory in docs/kernels-cookbook.md, on a GPU and on host: a blur in two passes.
 */
#include <stdlib.h>

#include <sluice/sluice.h>

#include "gpu/kernel_kit.h"

#define WIDTH  64u
#define HEIGHT 48u
#define PIXELS (WIDTH * HEIGHT)

/* `step` is 1 along a row, the width along a column: each pixel becomes the sum of itself and its two neighbours. */
static const char text[] =
    "__global__ void pass(unsigned *out, const unsigned *in, int count, int step)\n"
    "{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < count)\n"
    "        out[i] = in[i] + (i >= step ? in[i - step] : 0) + (i + step < count ? in[i + step] : 0);\n"
    "}\n";

static int blur(struct sluice_device device, struct sluice_stream stream, struct sluice_kernel pass, unsigned *out,
                const unsigned *in)
{
    struct sluice_launch launch = { .size = sizeof launch, .over = { PIXELS } };
    void *rows;
    int r = sluice_memory_alloc(device, stream, PIXELS * sizeof *out, &rows);
    if (r < 0)
        return r;
    struct sluice_argument across[] = { SLUICE_MEMORY(rows), SLUICE_HOST(in, PIXELS * sizeof *in),
                                        SLUICE_INTEGER(PIXELS), SLUICE_INTEGER(1) };
    struct sluice_argument down[] = { SLUICE_HOST(out, PIXELS * sizeof *out), SLUICE_MEMORY(rows),
                                      SLUICE_INTEGER(PIXELS), SLUICE_INTEGER(WIDTH) };
    if ((r = sluice_launch(pass, stream, &launch, across, 4)) == 0)
        r = sluice_launch(pass, stream, &launch, down, 4);
    sluice_memory_free(stream, &rows); /* on a GPU when both passes are done; the CPU does not wait */
    return r;
}

static void run(struct kernel_test here)
{
    struct sluice_module module = kernel_source(&here, text);
    unsigned in[PIXELS] = { 0 }, out[PIXELS] = { 0 };

    in[10 * WIDTH + 20] = 1;
    for (int i = 0; i < 3; i++)
        CHECK_OK(blur(here.device, here.stream, kernel_of(module, "pass"), out, in));
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++)
            CHECK_EQ(out[y * WIDTH + x], y >= 9 && y <= 11 && x >= 19 && x <= 21);
}

TEST_TIMEOUT(the_recipe_for_scratch_memory_on_a_gpu, 60)
{
    struct kernel_test test = kernel_test_begin();

    run(test);
    kernel_test_end(&test);
}

TEST_TIMEOUT(the_recipe_for_scratch_memory_on_host, 60)
{
    struct kernel_test test;

    CHECK(setenv("SLUICE_CACHE", "off", 1) == 0);
    CHECK_OK(sluice_device_open(&test.device, "host"));
    CHECK_OK(sluice_stream_create(test.device, NULL, &test.stream));
    run(test);
    CHECK_OK(sluice_device_close(&test.device));
}
