/* SPDX-License-Identifier: MIT
 *
 * Access to the bytes of arrays in any memory. With SLUICE_TEST_DEVICE=cuda:0 the same tests run with channels on a
 * GPU, a fake one or NVIDIA's; the CPU then reads and writes by copies.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "multi/kit.h"

/* As the rest of a program uses the driver. The fake one has other names for tests, without its rules for the library.
 * */
static void *look_up(const char *prefix, const char *name)
{
    static void *library;
    char symbol[80];

    if (!library)
        library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
    return dlsym(library, symbol);
}

static bool is_fake(void)
{
    return look_up("test_", "cuInit") != NULL;
}

static void *find(const char *name)
{
    void *found = look_up("test_", name);

    found = found ? found : look_up("", name);
    CHECK(found);
    return found;
}

static void do_nothing(void *data)
{
    (void)data;
}

/* NVIDIA's driver has a thread and descriptors of its own from a process's first context on, and keeps them: they are
 * made before the harness counts. */
static void warm_up(int gpu)
{
    struct sl_cu_context *context;
    struct sl_cuda_driver cu;
    int (*launch)(struct sl_cu_stream * stream, void (*function)(void *data), void *data);
    int (*synchronize)(void);

    *(void **)&cu.Init = find("cuInit");
    *(void **)&cu.DevicePrimaryCtxRetain = find("cuDevicePrimaryCtxRetain");
    *(void **)&cu.CtxPushCurrent = find("cuCtxPushCurrent_v2");
    *(void **)&cu.CtxPopCurrent = find("cuCtxPopCurrent_v2");
    *(void **)&launch = find("cuLaunchHostFunc");
    *(void **)&synchronize = find("cuCtxSynchronize");
    CHECK_EQ(cu.Init(0), 0);
    CHECK_EQ(cu.DevicePrimaryCtxRetain(&context, gpu), 0);
    CHECK_EQ(cu.CtxPushCurrent(context), 0);
    CHECK_EQ(launch(NULL, do_nothing, NULL), 0);
    CHECK_EQ(synchronize(), 0);
    CHECK_EQ(cu.CtxPopCurrent(&context), 0);
    TEST_BEGINS_HERE();
    TEST_KEEPS_FDS(); /* the driver's own come and go; the fake one counts ours */
}

const char *kit_device(void)
{
    static bool warm;
    const char *device = getenv("SLUICE_TEST_DEVICE");

    if (!device || strcmp(device, "host") == 0)
        return NULL;
    if (!warm && !is_fake())
        warm_up(atoi(device + strcspn(device, "0123456789")));
    warm = true;
    return device;
}

int kit_frees_in(void)
{
    return kit_device() ? 2 : 0;
}

/* Copies and waits, in the context that the channel's device has in this process. */
static void copy(uint64_t to, uint64_t from, size_t size)
{
    struct sl_cuda_driver cu;
    struct sl_cu_context *context;
    int gpu = atoi(kit_device() + strcspn(kit_device(), "0123456789"));

    *(void **)&cu.DevicePrimaryCtxRetain = find("cuDevicePrimaryCtxRetain");
    *(void **)&cu.DevicePrimaryCtxRelease = find("cuDevicePrimaryCtxRelease_v2");
    *(void **)&cu.CtxPushCurrent = find("cuCtxPushCurrent_v2");
    *(void **)&cu.CtxPopCurrent = find("cuCtxPopCurrent_v2");
    *(void **)&cu.MemcpyAsync = find("cuMemcpyAsync");
    *(void **)&cu.StreamSynchronize = find("cuStreamSynchronize");
    CHECK_EQ(cu.DevicePrimaryCtxRetain(&context, gpu), 0);
    CHECK_EQ(cu.CtxPushCurrent(context), 0);
    CHECK_EQ(cu.MemcpyAsync(to, from, size, NULL), 0);
    CHECK_EQ(cu.StreamSynchronize(NULL), 0);
    CHECK_EQ(cu.CtxPopCurrent(&context), 0);
    CHECK_EQ(cu.DevicePrimaryCtxRelease(gpu), 0);
}

void kit_get(const struct sluice_array *array, void *bytes)
{
    if (kit_device() && array->nbytes > 0)
        copy((uintptr_t)bytes, (uintptr_t)array->data, (size_t)array->nbytes);
    else
        memcpy(bytes, array->data, (size_t)array->nbytes);
}

void kit_put(const struct sluice_array *array, const void *bytes)
{
    if (kit_device() && array->nbytes > 0)
        copy((uintptr_t)array->data, (uintptr_t)bytes, (size_t)array->nbytes);
    else
        memcpy(array->data, bytes, (size_t)array->nbytes);
}

int kit_byte(const struct sluice_array *array, uint64_t at)
{
    struct sluice_array one = *array;
    unsigned char byte;

    CHECK(at < array->nbytes);
    one.data = (char *)array->data + at;
    one.nbytes = 1;
    kit_get(&one, &byte);
    return byte;
}
