/* SPDX-License-Identifier: MIT
 *
 * A GPU's memory: a memfd, so that what another process maps is really shared, what is read-only really is, and a
 * pointer into it works here as it is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake/internal.h"

/* What a handle of the driver stands for. It lives as long as a handle or a mapping of it. */
struct fake_memory {
    int fd, device;
    size_t size;
    bool imported, released;
    long mappings;
    struct fake_memory *next;
};

static struct fake_memory *memories;
static size_t used[FAKE_GPUS];

/* The GPU's number in the machine is in the name: an importer has nothing else of it. */
#define NAME   "fake memory of GPU "
#define HIDDEN (-1) /* the device of memory whose GPU this process does not see */

static struct fake_memory *add(int fd, int device, size_t size)
{
    struct fake_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        abort();
    *memory = (struct fake_memory){ .fd = fd, .device = device, .size = size, .next = memories };
    memories = memory;
    fake_living.handles++;
    return memory;
}

static struct fake_memory *memory_of(uint64_t handle)
{
    for (struct fake_memory *m = memories; m; m = m->next)
        if ((uintptr_t)m == handle && !m->released)
            return m;
    fake_break_rule("on a handle of memory that is none, or not any more");
    return NULL;
}

static void end_if_unused(struct fake_memory *memory)
{
    struct fake_memory **at = &memories;

    if (!memory->released || memory->mappings)
        return;
    close(memory->fd);
    if (!memory->imported)
        used[memory->device] -= memory->size;
    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    free(memory);
}

int fake_cuMemGetInfo(size_t *unused, size_t *total)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context) {
        *total = fake_machine.memory;
        *unused = fake_machine.memory - used[context->device];
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemGetAllocationGranularity(size_t *unit, const struct sl_cu_allocation *what, int option)
{
    (void)option;
    *unit = fake_machine.unit;
    return what->type == SL_CU_ALLOCATION_PINNED ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

static int refuse(size_t size, const struct sl_cu_allocation *what, unsigned long long flags)
{
    if (!fake_can(SL_CU_CAN_MAP_MEMORY) ||
        (what->handle_types == SL_CU_HANDLE_POSIX_FD && !fake_can(SL_CU_CAN_EXPORT_FD)))
        return SL_CU_NOT_SUPPORTED;
    if (flags || !size || size % fake_machine.unit || what->type != SL_CU_ALLOCATION_PINNED ||
        (what->handle_types && what->handle_types != SL_CU_HANDLE_POSIX_FD) ||
        what->location.type != SL_CU_LOCATION_DEVICE)
        return SL_CU_INVALID_VALUE;
    if (fake_place(what->location.id) < 0)
        return SL_CU_INVALID_DEVICE;
    return size > fake_machine.memory - used[what->location.id] ? SL_CU_OUT_OF_MEMORY : 0;
}

int fake_cuMemCreate(uint64_t *handle, size_t size, const struct sl_cu_allocation *what, unsigned long long flags)
{
    char name[sizeof NAME + 12];
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_current(&code))
        code = refuse(size, what, flags);
    if (code == 0) {
        snprintf(name, sizeof name, NAME "%d", fake_place(what->location.id));
        int fd = memfd_create(name, MFD_CLOEXEC);
        if (fd >= 0 && ftruncate(fd, (off_t)size))
            abort();
        if (fd >= 0) {
            *handle = (uintptr_t)add(fd, what->location.id, size);
            used[what->location.id] += size;
        } else {
            code = SL_CU_OPERATING_SYSTEM; /* out of descriptors */
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemRelease(uint64_t handle)
{
    pthread_mutex_lock(&fake_lock);
    struct fake_memory *memory = memory_of(handle);
    if (memory) {
        fake_living.handles--;
        memory->released = true;
        end_if_unused(memory);
    }
    pthread_mutex_unlock(&fake_lock);
    return memory ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuMemExportToShareableHandle(void *shareable, uint64_t handle, int type, unsigned long long flags)
{
    pthread_mutex_lock(&fake_lock);
    struct fake_memory *memory = memory_of(handle);
    int fd = memory && type == SL_CU_HANDLE_POSIX_FD && !flags ? fcntl(memory->fd, F_DUPFD, 3) : -1;
    pthread_mutex_unlock(&fake_lock);
    if (fd < 0)
        return SL_CU_INVALID_VALUE;
    *(int *)shareable = fd;
    return SL_CU_OK;
}

/* The owner of a descriptor's memory: the GPU's number in the machine; -1: it is not memory. Another memfd is of the
 * same kind as ours; to take it for one of ours is no mistake of the library's. */
static int owner_of(int fd, size_t *size)
{
    static const char begin[] = "/memfd:" NAME;
    char link[64], name[sizeof begin + 32];
    struct stat status;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        fake_break_rule("a descriptor that is no memory was given to the driver");
    if (length < (ssize_t)sizeof begin || strncmp(name, begin, sizeof begin - 1) != 0)
        return -1;
    name[length] = 0;
    *size = (size_t)status.st_size;
    return atoi(name + sizeof begin - 1);
}

int fake_cuMemImportFromShareableHandle(uint64_t *handle, void *shareable, int type)
{
    size_t size = 0;
    int code = SL_CU_INVALID_VALUE, device = 0;

    pthread_mutex_lock(&fake_lock);
    int place = type == SL_CU_HANDLE_POSIX_FD ? owner_of((int)(intptr_t)shareable, &size) : -1;
    if (place < 0)
        goto done;
    while (device < FAKE_GPUS && fake_place(device) != place)
        device++;
    if (device == FAKE_GPUS && fake_machine.unseen) { /* not in this container */
        code = SL_CU_INVALID_DEVICE;
        goto done;
    }
    if (device == FAKE_GPUS) /* CUDA_VISIBLE_DEVICES hides it: its memory can still be mapped */
        device = HIDDEN;
    int fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 3);
    if (fd >= 0 && fake_current(&code)) {
        struct fake_memory *memory = add(fd, device, size);
        memory->imported = true;
        *handle = (uintptr_t)memory;
    } else if (fd >= 0) {
        close(fd);
    }
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wish, unsigned long long flags)
{
    (void)alignment;
    if (flags || !size || size % fake_machine.unit)
        return SL_CU_INVALID_VALUE;
    void *wanted = fake_machine.apart
                       ? NULL
                       : (void *)(uintptr_t)wish; /* if apart, what is adjacent there is not so in the fake GPU */
    void *at = mmap(wanted, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return SL_CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    fake_range_add(FAKE_RESERVED, (uintptr_t)at, size);
    fake_living.reservations++;
    pthread_mutex_unlock(&fake_lock);
    *address = (uintptr_t)at;
    return SL_CU_OK;
}

/* The reservation with exactly this range; NULL: none. */
static struct fake_range *reservation(uint64_t address, size_t size)
{
    struct fake_range *range = fake_range_at(address);

    return range && range->kind == FAKE_RESERVED && range->address == address && range->size == size ? range : NULL;
}

int fake_cuMemAddressFree(uint64_t address, size_t size)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    struct fake_range *range = reservation(address, size);
    if (range && !range->memory) {
        munmap((void *)(uintptr_t)address, size);
        fake_range_end(range);
        fake_living.reservations--;
        code = SL_CU_OK;
    } else {
        fake_break_rule(range ? "of addresses where memory is mapped still"
                              : "of addresses that are not reserved, or not any more");
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    struct fake_memory *memory = memory_of(handle);
    struct fake_range *range = reservation(address, size);
    if (memory && range && !range->memory && memory->size == size && offset == 0 && !flags &&
        mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd, 0) != MAP_FAILED) {
        range->memory = memory;
        range->device = memory->device;
        memory->mappings++;
        fake_living.mappings++;
        code = SL_CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

static void forget_view(struct fake_range *range)
{
    if (range->view)
        munmap(range->view, range->size);
    range->view = NULL;
}

int fake_cuMemUnmap(uint64_t address, size_t size)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    fake_pause();
    struct fake_range *range = reservation(address, size);
    if (range && range->memory) {
        mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
        forget_view(range);
        memset(range->access, 0, sizeof range->access);
        range->memory->mappings--;
        end_if_unused(range->memory);
        range->memory = NULL;
        fake_living.mappings--;
        code = SL_CU_OK;
    } else {
        fake_break_rule("of memory that is not mapped there, or not any more");
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* May the GPU `device` have this access to memory of `owner`? */
static int check_access(int owner, const struct sl_cu_access *who)
{
    if (who->location.type != SL_CU_LOCATION_DEVICE ||
        (who->flags && who->flags != SL_CU_ACCESS_READ && who->flags != SL_CU_ACCESS_READ_WRITE))
        return SL_CU_INVALID_VALUE;
    if (fake_place(who->location.id) < 0)
        return SL_CU_INVALID_DEVICE;
    if (who->location.id == owner || fake_machine.peers)
        return 0;
    if (owner != HIDDEN) /* else nobody could have asked */
        fake_break_rule("for a GPU that cannot reach this memory");
    return SL_CU_INVALID_DEVICE;
}

/* The CPU may do what the most powerful of the GPUs may. */
static void protect(struct fake_range *range)
{
    int rights = 0;

    for (int i = 0; i < FAKE_GPUS; i++)
        rights |= range->access[i] == SL_CU_ACCESS_READ_WRITE ? PROT_READ | PROT_WRITE
                  : range->access[i] == SL_CU_ACCESS_READ     ? PROT_READ
                                                              : 0;
    forget_view(range);
    if (fake_machine.apart && rights) {
        void *view = mmap(NULL, range->size, rights, MAP_SHARED, range->memory->fd, 0);
        if (view == MAP_FAILED)
            abort();
        range->view = view;
    } else {
        mprotect((void *)(uintptr_t)range->address, range->size, rights);
    }
}

int fake_cuMemSetAccess(uint64_t address, size_t size, const struct sl_cu_access *who, size_t count)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    fake_pause();
    struct fake_range *range = reservation(address, size);
    if (range && range->memory && count)
        code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = check_access(range->memory->device, &who[i]);
    for (size_t i = 0; i < count && code == 0; i++)
        range->access[who[i].location.id] = (unsigned char)who[i].flags;
    if (code == 0)
        protect(range);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* ---- memory of one context, in one process ---- */

struct fake_range *fake_range_map(enum fake_range_kind kind, int fd, size_t size, struct sl_cu_context *context)
{
    int rights = fake_machine.apart ? PROT_NONE : PROT_READ | PROT_WRITE;
    void *at = mmap(NULL, size, rights, MAP_SHARED, fd, 0);
    void *view = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED || view == MAP_FAILED)
        abort();
    struct fake_range *range = fake_range_add(kind, (uintptr_t)at, size);
    range->view = view;
    range->fd = fd;
    range->device = context->device;
    range->context = context;
    range->access[context->device] = SL_CU_ACCESS_READ_WRITE;
    range->owned = fake_thread.library;
    fake_living.allocations += range->owned;
    return range;
}

static struct fake_range *map_new(size_t size, struct sl_cu_context *context)
{
    int fd = memfd_create("fake allocation", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)size))
        abort();
    used[context->device] += size;
    return fake_range_map(FAKE_ALLOCATED, fd, size, context);
}

static int allocate(uint64_t *address, size_t size, bool managed)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context && (!size || size > fake_machine.memory - used[context->device]))
        code = size ? SL_CU_OUT_OF_MEMORY : SL_CU_INVALID_VALUE;
    if (code == 0) {
        struct fake_range *range = map_new(size, context);
        if (managed) {
            memset(range->access, SL_CU_ACCESS_READ_WRITE, sizeof range->access);
            mprotect((void *)(uintptr_t)range->address, size, PROT_READ | PROT_WRITE);
        }
        range->managed = managed;
        *address = range->address;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemAlloc(uint64_t *address, size_t size)
{
    return allocate(address, size, false);
}

int fake_cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags)
{
    return flags == 1 || flags == 2 ? allocate(address, size, true) : SL_CU_INVALID_VALUE;
}

static void free_range(struct fake_range *range)
{
    munmap((void *)(uintptr_t)range->address, range->size);
    forget_view(range);
    if (range->fd >= 0)
        close(range->fd);
    if (range->kind == FAKE_ALLOCATED)
        used[range->device] -= range->size;
    if (range->kind == FAKE_PINNED)
        fake_living.pinned--;
    else
        fake_living.allocations -= range->owned;
    fake_range_end(range);
}

int fake_free(enum fake_range_kind kind, uint64_t address)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (context)
        code = fake_wait_to_free(context);
    struct fake_range *range = fake_range_at(address);
    if (code == 0 && (!range || range->kind != kind || range->address != address)) {
        fake_break_rule("of memory that is not there, or not any more");
        code = SL_CU_INVALID_VALUE;
    }
    if (code == 0) {
        fake_check_context(range->context, context);
        fake_pause();
        free_range(range);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemFree(uint64_t address)
{
    return fake_free(FAKE_ALLOCATED, address);
}

/* The memory is there at once, as if the work before had been done. */
int fake_cuMemAllocAsync(uint64_t *address, size_t size, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && !fake_can(SL_CU_MEMORY_POOLS))
        code = SL_CU_NOT_SUPPORTED;
    else if (stream && stream->capture) /* a node of the graph; the library has no use for that */
        code = SL_CU_NOT_SUPPORTED;
    else if (stream && (size == 0 || size > fake_machine.memory - used[stream->context->device]))
        code = size ? SL_CU_OUT_OF_MEMORY : SL_CU_INVALID_VALUE;
    if (code == 0)
        *address = map_new(size, stream->context)->address;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* It goes when the stream gets there: work on another stream that still uses it then kills the context. */
int fake_cuMemFreeAsync(uint64_t address, struct sl_cu_stream *handle)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    struct fake_range *range = fake_range_at(address);
    if (stream && (!range || range->kind != FAKE_ALLOCATED || range->address != address || range->freed)) {
        fake_break_rule("of memory that is not there, or not any more");
        code = SL_CU_INVALID_VALUE;
    }
    if (code == 0)
        code = fake_queue(stream, &(struct op){ .kind = OP_FREE, .address = address });
    if (code == 0)
        range->freed = true;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

void fake_free_now(const struct op *op)
{
    free_range(fake_range_at(op->address));
}

void fake_memory_end(struct sl_cu_context *context)
{
    struct fake_range *range = fake_ranges;

    while (range) {
        struct fake_range *next = range->next;
        if (range->context == context && range->kind == FAKE_REGISTERED) {
            fake_living.registrations--;
            fake_range_end(range);
        } else if (range->context == context && range->kind != FAKE_RESERVED) {
            free_range(range);
        }
        range = next;
    }
}
