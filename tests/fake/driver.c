/* SPDX-License-Identifier: MIT
 *
 * Finding the driver: everything that can be wrong with it, and the error message that says how to fix it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device/device.h"
#include "fake/fake.h"
#include "harness/test.h"

static void check_none(int result, const char *word)
{
    struct sluice_device device = { 42 };

    CHECK_SAYS(sluice_device_open(&device, "cuda:0"), result, word);
    CHECK_EQ(device.id, 42);
    CHECK_EQ(sl_device_counts().devices, 0);
}

static void check_there(void)
{
    struct sluice_device device;

    CHECK_OK(sluice_device_open(&device, "cuda:0"));
    CHECK_OK(sluice_device_close(&device));
}

TEST(no_driver)
{
    CHECK(setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "libno-such-driver.so.1");
    CHECK_HAS(sluice_last_error(), "no CUDA driver");
    CHECK_HAS(sluice_last_error(), "\"host\"");
    fake_use(); /* it tries again */
    check_there();
}

TEST(a_library_that_is_no_driver)
{
    CHECK(setenv("SLUICE_CUDA_DRIVER", "libm.so.6", 1) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "libm.so.6 is not a CUDA driver");
}

TEST(a_driver_that_lacks_a_function)
{
    CHECK(setenv("SLUICE_CUDA_DRIVER", FAKE_STUB_DRIVER, 1) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "has no cuInit");
    CHECK_HAS(sluice_last_error(), "13.0");
    fake_use();
    check_there();
}

TEST(a_driver_that_is_too_old)
{
    fake_use();
    fake_machine.version = 11080;
    check_none(SLUICE_E_UNSUPPORTED, "is for CUDA 11.8, Sluice needs 12.0");
    CHECK_HAS(sluice_last_error(), "525.60.13");
    CHECK_EQ(fake_calls(FAKE_Init), 0);
    fake_machine.version = 12000;
    check_there();
}

TEST(no_gpu)
{
    fake_use();
    unsetenv("CUDA_VISIBLE_DEVICES");
    fake_machine.devices = 0;
    check_none(SLUICE_E_UNSUPPORTED, "nvidia-smi");
    fake_machine.devices = 2;
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "", 1) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "CUDA_VISIBLE_DEVICES is \"\", which hides every GPU");
    unsetenv("CUDA_VISIBLE_DEVICES");
    check_there();
}

TEST(errors_of_the_driver_at_its_start)
{
    static const struct {
        int code;
        const char *mend;
    } says[] = {
        { SL_CU_SYSTEM_DRIVER_MISMATCH, "restart the machine" },
        { SL_CU_SYSTEM_NOT_READY, "nvidia-fabricmanager" },
        { SL_CU_STUB_LIBRARY, "stub" },
        { SL_CU_OUT_OF_MEMORY, "no memory left" },
        { SL_CU_MPS_CONNECTION_FAILED, "MPS" },
        { SL_CU_UNKNOWN, "999" },
        { 12345, "12345" },
    };

    fake_use();
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        fake_machine.init = says[i].code;
        check_none(SLUICE_E_UNSUPPORTED, says[i].mend);
        CHECK_HAS(sluice_last_error(), "cuInit");
    }
    fake_machine.init = 0;
    check_there();
}

/* Limits the process to `count` more descriptors; returns the old limit. */
static struct rlimit leave_descriptors(int count)
{
    struct rlimit before, now;
    int free = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(free >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    close(free);
    now = (struct rlimit){ (rlim_t)(free + count), before.rlim_max };
    CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0);
    return before;
}

TEST(no_descriptors_to_load_it_with)
{
    CHECK(setenv("SLUICE_CUDA_DRIVER", FAKE_STUB_DRIVER, 1) == 0);
    struct rlimit before = leave_descriptors(0);
    check_none(SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_HAS(sluice_last_error(), FAKE_STUB_DRIVER);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "has no cuInit");
    fake_use();
    check_there();
}

/* The driver then fails with another code when it starts. */
TEST(too_few_descriptors_to_start_with)
{
    char limit[40];

    fake_use();
    fake_machine.init = SL_CU_UNKNOWN;
    struct rlimit before = leave_descriptors(5);
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    snprintf(limit, sizeof limit, "RLIMIT_NOFILE is %llu", (unsigned long long)now.rlim_cur);
    check_none(SLUICE_E_NO_DESCRIPTORS, limit);
    CHECK_HAS(sluice_last_error(), "999");
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    check_none(SLUICE_E_UNSUPPORTED, "999");
    fake_machine.init = 0;
    check_there();
}

TEST(a_gpu_that_is_taken)
{
    fake_use();
    check_there();
    fake_fail(FAKE_DevicePrimaryCtxRetain, 1, SL_CU_DEVICE_UNAVAILABLE);
    check_none(SLUICE_E_UNSUPPORTED, "exclusive");
    CHECK(fake_failed());
    check_there();
}

TEST(ordinals_and_uuids)
{
    struct sluice_device device = { 42 };

    fake_use();
    CHECK(setenv("CUDA_VISIBLE_DEVICES", "0,1", 1) == 0);
    CHECK_SAYS(sluice_device_open(&device, "cuda:2"), SLUICE_E_UNSUPPORTED, "sees 2");
    CHECK_HAS(sluice_last_error(), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe00");
    CHECK_HAS(sluice_last_error(), "CUDA_VISIBLE_DEVICES is \"0,1\"");
    CHECK_OK(sluice_device_open(&device, "cuda:F0F1F2F3-F4F5-F6F7-F8F9-FAFBFCFDFE01"));
    struct sluice_stream stream;
    CHECK_OK(sluice_stream_create(device, NULL, &stream));
    CHECK_OK(sluice_device_close(&device));
    CHECK_SAYS(sluice_device_open(&device, "cuda:f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe02"), SLUICE_E_UNSUPPORTED,
               "no such GPU");
}

/* The kind is known, and its error is clear, with and without a GPU. */
TEST(the_kind_is_known_by_name)
{
    CHECK(sl_device_kind("cuda:0") == &sl_device_cuda);
    CHECK(sl_device_kind("cuda") == NULL);
}
