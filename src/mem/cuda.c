/* SPDX-License-Identifier: MIT
 *
 * GPU memory that is shared as a descriptor. The driver cannot restrict a peer's access, so readers
 * map it read-only by convention.
 */

#include "cuda/cuda.h"
#include "mem/mem.h"
#include "os/os.h"
#include "util/checked.h"
#include "util/result.h"

static int cuda_able(const char *device)
{
    struct sl_cuda_context context;
    int r = sl_cuda_context_describe(device, &context);

    return r == 0 ? sl_cuda_memory_supported(&context) : r;
}

/* The context that a mapped memory holds a reference to. */
static struct sl_cuda_context *context_of(const struct sl_memory *memory)
{
    return memory->state;
}

/* Opens the device that memory->device names, and enters its context. */
static int open_device(struct sl_memory *memory, struct sl_cuda_scope *scope)
{
    struct sl_cuda_context *context;

    if (!memory->device)
        return sl_fail(SLUICE_E_INVALID, "memory of a GPU: no device was named");
    int r = sl_cuda_context_open(memory->device, &context);
    if (r != 0)
        return r;
    r = sl_cuda_enter(context, SL_CUDA_RELAXED, scope);
    if (r != 0)
        sl_cuda_context_close(context);
    else
        memory->state = context;
    return r;
}

static void close_device(struct sl_memory *memory, const struct sl_cuda_scope *scope)
{
    sl_cuda_leave(scope);
    sl_cuda_context_close(context_of(memory));
    memory->state = NULL;
}

static int make(struct sl_memory *memory, const char *name, uint64_t size)
{
    struct sl_cuda_context *context = context_of(memory);
    uint64_t handle, address;
    size_t unit;
    int fd;

    int r = sl_cuda_memory_unit(context, &unit);
    if (r != 0)
        return r;
    if (!size || !sl_checked_align(size, unit, &size) || size > SIZE_MAX)
        return sl_fail(SLUICE_E_INVALID, "memory for %s: that many bytes cannot be had", name);
    r = sl_cuda_memory_make(context, name, (size_t)size, &handle, &fd);
    if (r != 0)
        return r;
    r = sl_cuda_memory_map(context, handle, (size_t)size, true, &address);
    sl_cuda_memory_release(context, handle); /* the descriptor and the mapping keep the memory */
    if (r == 0) {
        r = sl_cuda_memory_clear(context, address, (size_t)size);
        if (r != 0 && r != SLUICE_TIMEOUT)
            sl_cuda_memory_unmap(context, address, (size_t)size);
    }
    if (r != 0) {
        sl_os_close(fd);
        return r;
    }
    memory->fd = fd;
    memory->size = size;
    memory->address = (void *)(uintptr_t)address;
    return 0;
}

static int cuda_create(struct sl_memory *memory, const char *name, uint64_t size, bool writable)
{
    struct sl_cuda_scope scope;

    (void)writable;
    int r = open_device(memory, &scope);
    if (r != 0)
        return r;
    r = make(memory, name, size);
    if (r != 0)
        close_device(memory, &scope);
    else
        sl_cuda_leave(&scope);
    return r;
}

static int cuda_import(struct sl_memory *memory, int fd, uint64_t size, bool writable)
{
    /* Only the driver can check what the descriptor is, and it must not be called on this thread. */
    (void)writable;
    memory->fd = fd;
    memory->size = size;
    memory->address = NULL;
    return 0;
}

static int map(struct sl_memory *memory, bool writable)
{
    struct sl_cuda_context *context = context_of(memory);
    uint64_t handle, address;
    size_t unit;

    int r = sl_cuda_memory_unit(context, &unit);
    if (r != 0)
        return r;
    if (!memory->size || memory->size % unit || memory->size > SIZE_MAX)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer announced %llu bytes of GPU memory, which comes in units of %zu",
                       (unsigned long long)memory->size, unit);
    r = sl_cuda_memory_import(context, memory->fd, &handle);
    if (r != 0)
        return sl_cuda_explain_versions(context, memory->driver, r);
    r = sl_cuda_memory_map(context, handle, (size_t)memory->size, writable, &address);
    sl_cuda_memory_release(context, handle);
    if (r == 0)
        memory->address = (void *)(uintptr_t)address;
    return r;
}

/* Whether another GPU's memory can be accessed is certain only once it is mapped. */
static int map_here(struct sl_memory *memory, bool writable)
{
    int r = map(memory, writable);

    return r != 0 && memory->home ? sl_cuda_peer_access_failed(context_of(memory), memory->home, r) : r;
}

static int cuda_map(struct sl_memory *memory, bool writable)
{
    struct sl_cuda_scope scope;
    int r = open_device(memory, &scope);
    if (r != 0)
        return r;
    r = map_here(memory, writable);
    if (r != 0) {
        close_device(memory, &scope);
        return r;
    }
    sl_cuda_leave(&scope);
    sl_os_close(memory->fd);
    memory->fd = -1;
    return 0;
}

static void cuda_destroy(struct sl_memory *memory)
{
    struct sl_cuda_context *context = context_of(memory);
    struct sl_cuda_scope scope;

    if (context && sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) == 0) {
        sl_cuda_memory_unmap(context, (uintptr_t)memory->address, (size_t)memory->size);
        sl_cuda_leave(&scope);
    } /* otherwise it was unmapped with the context */
    sl_cuda_context_close(context);
    sl_os_close(memory->fd);
    memory->state = NULL;
    memory->address = NULL;
    memory->fd = -1;
}

static int cuda_copy_begin(struct sl_memory *to, const struct sl_memory *from, uint64_t offset, uint64_t size)
{
    return sl_cuda_copy_begin(context_of(to), (uintptr_t)to->address, context_of(from),
                              (uintptr_t)from->address + offset, (size_t)size);
}

static int cuda_copy_look(struct sl_memory *to)
{
    return sl_cuda_copy_query(context_of(to));
}

extern const struct sl_mem_ops sl_mem_cuda;
const struct sl_mem_ops sl_mem_cuda = {
    .name = "cuda",
    .kind = SL_MEM_CUDA,
    .alignment = UINT64_C(2) << 20, /* what GPUs have required so far; `create` queries it */
    .able = cuda_able,
    .create = cuda_create,
    .import = cuda_import,
    .map = cuda_map,
    .destroy = cuda_destroy,
    .reach = sl_cuda_peer_access,
    .copy_begin = cuda_copy_begin,
    .copy_look = cuda_copy_look,
    .driver = sl_cuda_version,
};
