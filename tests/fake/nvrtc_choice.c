/* SPDX-License-Identifier: MIT
 *
 * Which NVRTC is taken, and for what it compiles: versions of it, of the driver and of the GPU that do not fit.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/nvrtc.h"
#include "fake/fake.h"
#include "gpu/kernel_kit.h"
#include "kernel/kernel.h"

static struct sluice_device open_device(void)
{
    fake_use();
    CHECK(setenv("SLUICE_CACHE", "off", 1) == 0);
    CHECK(setenv("SLUICE_NVRTC", FAKE_NVRTC, 1) == 0);
    return gpu_open();
}

static int load(struct sluice_device device, struct sluice_module *module)
{
    return sluice_module_load(device, FILL, strlen(FILL), NULL, module);
}

static void check_refused(const char *sentence)
{
    struct sluice_device device = open_device();
    struct sluice_module module = { 42 };

    CHECK_RESULT(load(device, &module), SLUICE_E_UNSUPPORTED);
    CHECK_HAS(sluice_last_error(), sentence);
    CHECK_EQ(module.id, 42);
    CHECK_OK(sluice_device_close(&device));
}

TEST(no_nvrtc)
{
    struct sluice_device device = open_device();
    struct sluice_module module;

    CHECK(setenv("SLUICE_NVRTC", "/none/libnvrtc.so.13", 1) == 0);
    CHECK_SAYS(load(device, &module), SLUICE_E_UNSUPPORTED, "SLUICE_NVRTC names no NVRTC: /none/libnvrtc.so.13");
    CHECK(setenv("SLUICE_NVRTC", "libm.so.6", 1) == 0);
    CHECK_SAYS(load(device, &module), SLUICE_E_UNSUPPORTED, "libm.so.6 is not NVRTC 12 or later");
    CHECK(unsetenv("SLUICE_NVRTC") == 0);
    if (load(device, &module) != SLUICE_E_UNSUPPORTED)
        SKIP("this machine has one");
    CHECK_HAS(sluice_last_error(), "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit");
    CHECK(setenv("SLUICE_NVRTC", FAKE_NVRTC, 1) == 0); /* it looks again */
    CHECK_OK(load(device, &module));
    CHECK_OK(sluice_device_close(&device));
}

TEST(an_nvrtc_of_a_higher_major_version)
{
    CHECK(setenv("SLUICE_FAKE_NVRTC", "13.0", 1) == 0);
    fake_machine.version = 12020;
    check_refused("NVRTC 13.0 (" FAKE_NVRTC ") is newer than the driver, which is for CUDA 12.2: pip install "
                  "nvidia-cuda-nvrtc-cu12, or update the driver");
}

/* Machine code of a newer minor version is loaded by every driver of the same major version. */
TEST(an_nvrtc_of_a_higher_minor_version)
{
    struct sluice_module module = { 0 };

    CHECK(setenv("SLUICE_FAKE_NVRTC", "13.9", 1) == 0);
    struct sluice_device device = open_device();
    CHECK_OK(load(device, &module));
    CHECK_OK(sluice_device_close(&device));
}

/* But not its PTX. */
TEST(a_gpu_that_a_newer_nvrtc_does_not_know)
{
    CHECK(setenv("SLUICE_FAKE_NVRTC", "13.9", 1) == 0);
    CHECK(setenv("SLUICE_FAKE_ARCHS", "75,80,100", 1) == 0);
    check_refused("NVRTC 13.9 (" FAKE_NVRTC ") does not know \"cuda:0\", whose compute capability is 9.0");
    CHECK_HAS(sluice_last_error(), "the driver, which is for CUDA 13.0, does not take its PTX");
    CHECK_HAS(sluice_last_error(), "pip install 'nvidia-cuda-nvrtc==13.0.*'");
}

TEST(a_gpu_that_is_too_old_for_nvrtc)
{
    CHECK(setenv("SLUICE_FAKE_ARCHS", "100,120", 1) == 0);
    check_refused("does not compile for GPUs below compute capability 10.0; \"cuda:0\" has 9.0");
    CHECK_HAS(sluice_last_error(), "pip install nvidia-cuda-nvrtc-cu12");
}

/* It becomes PTX, and its description comes from the machine code behind that. */
TEST(a_gpu_that_nvrtc_does_not_know)
{
    struct sluice_module module = { 0 };
    struct sluice_kernel kernel;
    struct sluice_kernel_info info = { .size = sizeof info };

    CHECK(setenv("SLUICE_FAKE_ARCHS", "50,80,100", 1) == 0);
    struct sluice_device device = open_device();
    CHECK_OK(load(device, &module));
    CHECK_OK(sluice_kernel_get(module, "set", &kernel));
    CHECK_OK(sluice_kernel_info(kernel, &info));
    CHECK_EQ(info.parameter_count, 3);
    CHECK_EQ(info.parameters[0].kind, SLUICE_PARAMETER_POINTER);
    CHECK_OK(sluice_device_close(&device));
}

/* Another library has loaded it, by a name of its own. */
TEST(an_nvrtc_that_the_process_has)
{
    char folder[] = "/tmp/sluice-nvrtc-XXXXXX", path[80];
    const struct sl_nvrtc *nvrtc;
    void *library;
    struct sluice_device device = open_device();

    CHECK(unsetenv("SLUICE_NVRTC") == 0);
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libnvrtc-0a1b.so.12", folder);
    CHECK(symlink(FAKE_NVRTC, path) == 0);
    CHECK_OK(sl_os_dl_open(path, &library));
    CHECK_OK(sl_nvrtc_find(&nvrtc));
    CHECK_STR(nvrtc->path, path);
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    CHECK_OK(sluice_device_close(&device));
}

TEST(an_nvrtc_in_a_folder_that_was_added)
{
    char folder[] = "/tmp/sluice-nvrtc-XXXXXX", path[80];
    const struct sl_nvrtc *nvrtc;
    struct sluice_device device = open_device();

    CHECK(unsetenv("SLUICE_NVRTC") == 0);
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libnvrtc.so.12", folder);
    CHECK(symlink(FAKE_NVRTC, path) == 0);
    CHECK_OK(sl_nvrtc_add_folder("/none"));
    CHECK_OK(sl_nvrtc_add_folder(folder));
    CHECK_OK(sl_nvrtc_find(&nvrtc));
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    CHECK_OK(sluice_device_close(&device));
    if (strcmp(nvrtc->path, path) != 0)
        SKIP("this machine has one: %s", nvrtc->path);
}
