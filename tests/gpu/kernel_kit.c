/* SPDX-License-Identifier: MIT */
#include "gpu/kernel_kit.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/nvrtc.h"

struct kernel_test kernel_test_begin(void)
{
    const struct sl_nvrtc *nvrtc;
    struct kernel_test test;

    CHECK(setenv("SLUICE_CACHE", "off", 1) == 0);
    gpu_begin();
    if (gpu_is_fake())
        TEST_KEEPS_FDS(); /* the fake driver keeps each image open */
    gpu_use(0);
    test.device = gpu_open();
    CHECK_OK(sluice_stream_create(test.device, NULL, &test.stream));
    if (!gpu_is_fake() && !getenv("SLUICE_NVRTC") && sl_nvrtc_find(&nvrtc) != 0)
        SKIP("no NVRTC: %s", sluice_last_error());
    return test;
}

void kernel_test_end(struct kernel_test *test)
{
    CHECK_OK(sluice_stream_destroy(&test->stream));
    CHECK_OK(sluice_device_close(&test->device));
    gpu_settle();
    gpu_end();
}

int kernel_source_load(const struct kernel_test *test, const char *text, struct sluice_module *module)
{
    const char *options[] = { "--fmad=false" };
    struct sluice_module_params params = {
        .size = sizeof params, .name = "fx.cu", .options = options, .option_count = 1
    };

    return sluice_module_load(test->device, text, strlen(text), &params, module);
}

struct sluice_module kernel_source(const struct kernel_test *test, const char *text)
{
    struct sluice_module module = { 0 };

    CHECK_OK(kernel_source_load(test, text, &module));
    return module;
}

struct sluice_kernel kernel_of(struct sluice_module module, const char *name)
{
    struct sluice_kernel kernel = { 0 };

    CHECK_OK(sluice_kernel_get(module, name, &kernel));
    return kernel;
}
