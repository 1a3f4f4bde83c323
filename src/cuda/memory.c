/* SPDX-License-Identifier: MIT
 *
 * GPU memory that other processes can map: allocate, export, import, map.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/result.h"

/* 20 s, as the machine may be busy or suspended for a while, and 1 s for each GB */
#define CLEAR_PATIENCE(size) (20 * SLUICE_S + (int64_t)(size))
#define CLEAR_LOOK           (SLUICE_MS / 50)
#define MOST_A_LOOK          (SLUICE_S / 10) /* counts of that: this process may have been stopped, and its work with it */
#define MOST_FAILURES        3

/* Cleanup has no caller that could handle a failure, so it is only logged. */
static void tidy(struct sl_cuda_context *context, int code, const char *function)
{
    if (code != SL_CU_OK && sl_cuda_check(context, code, function) != 0)
        sl_log(SLUICE_LOG_WARN, "left behind: %s", sl_last_error());
}

static struct sl_cu_allocation kind_of(const struct sl_cuda_context *context)
{
    return (struct sl_cu_allocation){
        .type = SL_CU_ALLOCATION_PINNED,
        .handle_types = SL_CU_HANDLE_POSIX_FD,
        .location = { .type = SL_CU_LOCATION_DEVICE, .id = context->device },
    };
}

int sl_cuda_memory_supported(struct sl_cuda_context *context)
{
    int r = sl_cuda_check_cap(context, SL_CU_CAN_MAP_MEMORY, "map memory (cuMemMap)");

    return r == 0 ? sl_cuda_check_cap(context, SL_CU_CAN_EXPORT_FD, "hand memory to others as a descriptor") : r;
}

int sl_cuda_memory_unit(struct sl_cuda_context *context, size_t *unit)
{
    struct sl_cu_allocation kind = kind_of(context);
    int r = sl_cuda_memory_supported(context);

    return r == 0 ? sl_cu(context, MemGetAllocationGranularity, unit, &kind, 0) : r;
}

int sl_cuda_memory_exceeded(struct sl_cuda_context *context, const char *name, size_t size)
{
    size_t left = 0, total = 0;

    if (sl_cuda.MemGetInfo(&left, &total) != SL_CU_OK)
        return sl_fail(SLUICE_E_NO_MEMORY, "memory for %s: %s has no %zu bytes left (use fewer or smaller slots)", name,
                       context->name, size);
    return sl_fail(SLUICE_E_NO_MEMORY,
                   "memory for %s: %zu bytes were asked for, %s has %zu of its %zu free (use fewer or "
                   "smaller slots)",
                   name, size, context->name, left, total);
}

/* Memory is handed on as a descriptor; what the driver says if none is left is not documented. */
static int without_descriptors(const char *name, int result)
{
    return sl_os_descriptors_left(1) == 0
               ? result
               : sl_fail(SLUICE_E_NO_DESCRIPTORS, "memory for %s: no file descriptor is left for it: %s", name,
                         sl_last_error());
}

int sl_cuda_memory_make(struct sl_cuda_context *context, const char *name, size_t size, uint64_t *handle, int *fd)
{
    struct sl_cu_allocation kind = kind_of(context);
    uint64_t made;
    int exported = -1;

    int code = sl_cuda.MemCreate(&made, size, &kind, 0);
    if (code == SL_CU_OUT_OF_MEMORY)
        return sl_cuda_memory_exceeded(context, name, size);
    int r = sl_cuda_check(context, code, "cuMemCreate");
    if (r != 0)
        return r == SLUICE_E_DRIVER ? without_descriptors(name, r) : r;
    r = sl_cu(context, MemExportToShareableHandle, &exported, made, SL_CU_HANDLE_POSIX_FD, 0);
    if (r == SLUICE_E_DRIVER)
        r = without_descriptors(name, r);
    if (r == 0)
        r = sl_os_driver_fd_prepare(exported);
    if (r != 0) {
        sl_os_close(exported);
        sl_cuda_memory_release(context, made);
        return r;
    }
    *handle = made;
    *fd = exported;
    return 0;
}

/* What kind of file a memory descriptor is on this system, determined once a process from one of
 * our own. */
static int genuine_kind(struct sl_cuda_context *context, struct sl_os_driver_fd *kind)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct sl_os_driver_fd seen;
    static bool known;
    size_t unit;
    uint64_t handle;
    int fd;

    pthread_mutex_lock(&lock);
    int r = known ? 0 : sl_cuda_memory_unit(context, &unit);
    if (r == 0 && !known) {
        r = sl_cuda_memory_make(context, "a look at its descriptor", unit, &handle, &fd);
        if (r == 0) {
            r = sl_os_driver_fd_kind(fd, &seen);
            sl_os_close(fd);
            sl_cuda_memory_release(context, handle);
        }
        known = r == 0;
    }
    *kind = seen;
    pthread_mutex_unlock(&lock);
    return r;
}

int sl_cuda_memory_import(struct sl_cuda_context *context, int fd, uint64_t *handle)
{
    struct sl_os_driver_fd genuine, kind;
    int r = genuine_kind(context, &genuine);
    if (r == 0)
        r = sl_os_driver_fd_kind(fd, &kind);
    if (r != 0)
        return r;
    /* The driver would send it ioctls that mean something else to another kind of file. */
    if (kind.file_system != genuine.file_system || kind.type != genuine.type || kind.driver != genuine.driver)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent a descriptor that is not GPU memory where that was announced");
    return sl_cu(context, MemImportFromShareableHandle, handle, (void *)(intptr_t)fd, SL_CU_HANDLE_POSIX_FD);
}

/* NVIDIA does not promise that memory can be shared between different versions of libcuda, e.g. one
 * for forward compatibility and the system's own. Lack of memory and invalid data from a peer have
 * other reasons. */
int sl_cuda_explain_versions(const struct sl_cuda_context *context, uint32_t theirs, int result)
{
    uint32_t ours = sl_cuda_version();
    char reason[400];

    if ((result != SLUICE_E_DRIVER && result != SLUICE_E_UNSUPPORTED && result != SLUICE_E_PERMISSION) || !theirs ||
        theirs == ours || (context && sl_load(&context->lost, relaxed)))
        return result;
    snprintf(reason, sizeof reason, "%s", sl_last_error());
    return sl_fail(
        result,
        "%s; the memory was made with a driver for CUDA %u.%u, and this process has one for %u.%u (%.100s): let both "
        "load the same",
        reason, theirs / 1000, theirs % 1000 / 10, ours / 1000, ours % 1000 / 10, sl_cuda_library());
}

int sl_cuda_memory_map(struct sl_cuda_context *context, uint64_t handle, size_t size, bool writable, uint64_t *address)
{
    struct sl_cu_access access = {
        .location = { .type = SL_CU_LOCATION_DEVICE, .id = context->device },
        .flags = writable ? SL_CU_ACCESS_READ_WRITE : SL_CU_ACCESS_READ,
    };
    uint64_t at;

    int r = sl_cu(context, MemAddressReserve, &at, size, 0, 0, 0);
    if (r != 0)
        return r;
    r = sl_cu(context, MemMap, at, size, 0, handle, 0);
    if (r == 0) {
        r = sl_cu(context, MemSetAccess, at, size, &access, 1);
        if (r != 0)
            tidy(context, sl_cuda.MemUnmap(at, size), "cuMemUnmap");
    }
    if (r != 0)
        tidy(context, sl_cuda.MemAddressFree(at, size), "cuMemAddressFree");
    else
        *address = at;
    return r;
}

void sl_cuda_memory_unmap(struct sl_cuda_context *context, uint64_t address, size_t size)
{
    int code = sl_cuda.MemUnmap(address, size);

    tidy(context, code, "cuMemUnmap");
    if (code == SL_CU_OK) /* else the memory is there still */
        tidy(context, sl_cuda.MemAddressFree(address, size), "cuMemAddressFree");
}

void sl_cuda_memory_release(struct sl_cuda_context *context, uint64_t handle)
{
    tidy(context, sl_cuda.MemRelease(handle), "cuMemRelease");
}

/* A stream that is blocked can block others, too, so this wait is bounded. */
static int wait_for(struct sl_cuda_context *context, struct sl_cu_stream *stream, size_t size)
{
    int64_t waited = 0, now = sl_os_now();
    int code, failures = 0;

    while ((code = sl_cuda.StreamQuery(stream)) != SL_CU_OK) {
        int r = code == SL_CU_NOT_READY ? 0 : sl_cuda_check(context, code, "cuStreamQuery");
        if (r != 0 && sl_cuda_alive(context) != 0)
            return r;
        /* The GPU may still be clearing the memory, which must then not be freed. */
        if (r != 0 && ++failures > MOST_FAILURES)
            return SLUICE_TIMEOUT;
        if (waited >= CLEAR_PATIENCE(size))
            return sl_fail(SLUICE_TIMEOUT,
                           "%s: %zu bytes were not cleared in %.1f s: work that was queued before does not end",
                           context->name, size, (double)CLEAR_PATIENCE(size) / 1e9);
        sl_os_sleep(CLEAR_LOOK);
        int64_t passed = sl_os_now() - now;
        waited += passed < MOST_A_LOOK ? passed : MOST_A_LOOK;
        now += passed;
    }
    return 0;
}

int sl_cuda_memory_clear(struct sl_cuda_context *context, uint64_t address, size_t size)
{
    struct sl_cu_stream *stream;

    int r = sl_cu(context, StreamCreateWithPriority, &stream, SL_CU_STREAM_NON_BLOCKING, 0);
    if (r != 0)
        return r;
    r = sl_cu(context, MemsetD8Async, address, 0, size, stream);
    if (r == 0)
        r = wait_for(context, stream, size);
    tidy(context, sl_cuda.StreamDestroy(stream), "cuStreamDestroy");
    return r;
}
