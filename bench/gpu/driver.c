/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"
#include "stage.h"

enum {
    NON_BLOCKING = 1,
    POSIX_FD = 1,
    ON_DEVICE = 1,
    PINNED = 1,
    READ_WRITE = 3,
    PORTABLE = 1,
    MAPPED = 2,
};
#define EVERYWHERE 256 /* blocks: no GPU has many more multiprocessors */

struct cu_driver cu;
static void *library;
static struct {
    struct cu_context *context;
    struct cu_module *module;
    struct cu_function *spin;
} gpus[2];
static int current;

void cu_check(const char *function, int code)
{
    const char *name = NULL;
    if (code == 0)
        return;
    cu.GetErrorName(code, &name);
    die("%s returned %s (%d)", function, name ? name : "?", code);
}

/* Stands in for a function that this driver lacks. */
static int not_supported(void)
{
    return 801;
}

/* The tests' fake driver has separate entry points for callers other than the library. */
static void *find(const char *symbol)
{
    char name[80];
    snprintf(name, sizeof name, "test_%s", symbol);
    void *found = dlsym(library, name);
    if (!found)
        found = dlsym(library, symbol);
    return found;
}

static void set(void *member, void *function)
{
    if (function)
        *(void **)member = function;
    else
        *(int (**)(void))member = not_supported;
}

static void load(void)
{
    static const struct {
        const char *symbol;
        size_t offset;
    } functions[] = {
#define FUNCTION(name, version, parameters) { "cu" #name #version, offsetof(struct cu_driver, name) },
        CU_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    const char *path = getenv("SLUICE_CUDA_DRIVER");
    library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die_missing("there is no CUDA driver: %s", dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        set((char *)&cu + functions[i].offset, find(functions[i].symbol));
}

struct cu_context *gpu_context(void)
{
    return gpus[current].context;
}

struct cu_module *gpu_module(void)
{
    return gpus[current].module;
}

struct cu_stream *gpu_stream(void)
{
    struct cu_stream *stream;
    CU(StreamCreateWithPriority, &stream, NON_BLOCKING, 0);
    return stream;
}

static void launch(struct cu_stream *stream, int64_t ns, unsigned blocks)
{
    uint64_t time = (uint64_t)ns;
    CU(LaunchKernel, gpus[current].spin, blocks, 1, 1, 32, 1, 1, 0, stream, (void *[]){ &time }, NULL);
}

void gpu_spin(struct cu_stream *stream, int64_t ns)
{
    launch(stream, ns, 1);
}

void gpu_spin_everywhere(struct cu_stream *stream, int64_t ns)
{
    launch(stream, ns, EVERYWHERE);
}

/* The driver may load a kernel at its first use, and would then wait for streams that wait. */
static void use_kernel(void)
{
    struct cu_stream *stream = gpu_stream();
    gpu_spin(stream, 1000);
    gpu_spin_everywhere(stream, 1000);
    CU(StreamSynchronize, stream);
    CU(StreamDestroy, stream);
}

static void start(void)
{
    const char *name = NULL;
    load();
    int code = cu.Init(0);
    if (code != 0) {
        cu.GetErrorName(code, &name);
        die_missing("there is no GPU: cuInit returned %s (%d)", name ? name : "?", code);
    }
}

void gpu_open(int device)
{
    if (!library)
        start();
    current = device;
    if (gpus[device].context) {
        CU(CtxSetCurrent, gpus[device].context);
        return;
    }
    CU(DevicePrimaryCtxRetain, &gpus[device].context, device);
    CU(CtxSetCurrent, gpus[device].context);
    CU(ModuleLoadData, &gpus[device].module, gpu_kernels);
    CU(ModuleGetFunction, &gpus[device].spin, gpus[device].module, "spin");
    use_kernel();
}

bool gpu_has_peer(void)
{
    int count, can = 0;
    CU(DeviceGetCount, &count);
    if (count > 1)
        CU(DeviceCanAccessPeer, &can, 1, 0);
    return can != 0;
}

/* ---- memory ---- */

uint64_t gpu_register(void *memory, size_t size)
{
    uint64_t address;
    CU(MemHostRegister, memory, size, PORTABLE | MAPPED);
    CU(MemHostGetDevicePointer, &address, memory, 0);
    return address;
}

void *gpu_pinned(size_t size)
{
    void *memory = memory_of(size);
    gpu_register(memory, (size + 4095) / 4096 * 4096);
    return memory;
}

void gpu_pinned_free(void *memory, size_t size)
{
    CU(MemHostUnregister, memory);
    munmap(memory, size);
}

static void map(struct gpu_shared *memory)
{
    const struct cu_access who = { { ON_DEVICE, current }, READ_WRITE };
    CU(MemAddressReserve, &memory->address, memory->size, 0, 0, 0);
    CU(MemMap, memory->address, memory->size, 0, memory->handle, 0);
    CU(MemSetAccess, memory->address, memory->size, &who, 1);
}

static struct gpu_shared pages(size_t size)
{
    return (struct gpu_shared){ .size = (size + GPU_PAGE - 1) / GPU_PAGE * GPU_PAGE };
}

struct gpu_shared gpu_shared_make(size_t size, int *fd)
{
    const struct cu_allocation what = { .type = PINNED, .handle_types = POSIX_FD, .location = { ON_DEVICE, 0 } };
    struct gpu_shared memory = pages(size);
    CU(MemCreate, &memory.handle, memory.size, &what, 0);
    CU(MemExportToShareableHandle, fd, memory.handle, POSIX_FD, 0);
    map(&memory);
    return memory;
}

struct gpu_shared gpu_shared_take(size_t size, int fd)
{
    struct gpu_shared memory = pages(size);
    CU(MemImportFromShareableHandle, &memory.handle, (void *)(intptr_t)fd, POSIX_FD);
    map(&memory);
    close(fd);
    return memory;
}

void gpu_shared_free(struct gpu_shared memory)
{
    CU(MemUnmap, memory.address, memory.size);
    CU(MemAddressFree, memory.address, memory.size);
    CU(MemRelease, memory.handle);
}
