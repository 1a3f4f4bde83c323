/* SPDX-License-Identifier: MIT
 *
 * The bytes of arrays, wherever they lie. With SLUICE_TEST_DEVICE=cuda:0 the same tests run on channels on a
 * GPU, a fake one or NVIDIA's; their CPU work goes by way of copies.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/driver.h"
#include "multi/kit.h"

const char *kit_device(void)
{
    const char *device = getenv("SLUICE_TEST_DEVICE");
    return device && strcmp(device, "host") != 0 ? device : NULL;
}

/* As the rest of a program uses the driver. The fake one lets a test do what it does not let the library do,
 * by other names. */
static void *find(const char *name)
{
    static void *library;
    char symbol[80];

    if (!library)
        library = dlopen(sl_cuda_library(), RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    snprintf(symbol, sizeof symbol, "test_%s", name);
    void *found = dlsym(library, symbol);
    found = found ? found : dlsym(library, name);
    CHECK(found);
    return found;
}

/* Copies and waits. The context is the one that the channel's device has in this process already. */
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
