/* SPDX-License-Identifier: MIT
 *
 * Memory. A GPU's is a memfd, so that what another process maps is really shared, what is read-only
 * really is, and a pointer into it works here as it stands.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake/inside.h"

/* Handles, reservations with what is mapped into them, and registrations, in one list each. */
struct piece {
    uint64_t address; /* of a handle: its descriptor */
    size_t size;
    bool mapped, writable, registered, imported;
    struct piece *next;
};

static struct piece *handles, *ranges;
static size_t used;

static struct piece *add(struct piece **list, uint64_t address, size_t size)
{
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece)
        abort();
    *piece = (struct piece){ .address = address, .size = size, .next = *list };
    *list = piece;
    return piece;
}

static struct piece *find(struct piece *list, uint64_t address)
{
    while (list && !(address - list->address < list->size))
        list = list->next;
    return list;
}

static void take_out(struct piece **list, struct piece *piece)
{
    while (*list != piece)
        list = &(*list)->next;
    *list = piece->next;
    free(piece);
}

bool fake_writable(uint64_t address, size_t size)
{
    /* Also a misaligned word is no word. */
    struct piece *piece = find(ranges, address);

    return address % size == 0 && piece && piece->writable;
}

int fake_cuMemGetInfo(size_t *unused, size_t *total)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (fake_current(&code)) {
        *total = fake_machine.memory;
        *unused = fake_machine.memory - used;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemGetAllocationGranularity(size_t *unit, const struct sl_cu_allocation *what,
                                       int option)
{
    (void)option;
    *unit = fake_machine.unit;
    return what->type == SL_CU_ALLOCATION_PINNED ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

int fake_cuMemCreate(uint64_t *handle, size_t size, const struct sl_cu_allocation *what,
                     unsigned long long flags)
{
    int code;

    pthread_mutex_lock(&fake_lock);
    if (!fake_current(&code))
        goto done;
    if (flags || !size || size % fake_machine.unit || what->type != SL_CU_ALLOCATION_PINNED ||
        what->handle_types != SL_CU_HANDLE_POSIX_FD || what->location.type != SL_CU_LOCATION_DEVICE)
        code = SL_CU_INVALID_VALUE;
    else if (size > fake_machine.memory - used)
        code = SL_CU_OUT_OF_MEMORY;
    if (code)
        goto done;
    int fd = memfd_create("fake GPU memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size))
        abort();
    struct piece *piece = add(&handles, (uint64_t)fd, size);
    used += size;
    fake_living.handles++;
    *handle = (uintptr_t)piece;
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemRelease(uint64_t handle)
{
    pthread_mutex_lock(&fake_lock);
    struct piece *piece = (struct piece *)(uintptr_t)handle;
    close((int)piece->address);
    if (!piece->imported)
        used -= piece->size; /* sooner than a GPU, which counts mappings too */
    fake_living.handles--;
    take_out(&handles, piece);
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuMemExportToShareableHandle(void *shareable, uint64_t handle, int type,
                                      unsigned long long flags)
{
    struct piece *piece = (struct piece *)(uintptr_t)handle;
    int fd = type == SL_CU_HANDLE_POSIX_FD && !flags ? fcntl((int)piece->address, F_DUPFD, 3) : -1;

    if (fd < 0)
        return SL_CU_INVALID_VALUE;
    *(int *)shareable = fd;
    return SL_CU_OK;
}

int fake_cuMemImportFromShareableHandle(uint64_t *handle, void *shareable, int type)
{
    struct stat status;
    int fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 3);

    if (fd < 0 || type != SL_CU_HANDLE_POSIX_FD || fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        fake_break_rule("a descriptor that is no memory was given to the driver");
        if (fd >= 0)
            close(fd);
        return SL_CU_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    struct piece *piece = add(&handles, (uint64_t)fd, (size_t)status.st_size);
    piece->imported = true;
    fake_living.handles++;
    *handle = (uintptr_t)piece;
    pthread_mutex_unlock(&fake_lock);
    return SL_CU_OK;
}

int fake_cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wish,
                             unsigned long long flags)
{
    (void)alignment;
    (void)wish;
    (void)flags;
    void *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return SL_CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    add(&ranges, (uintptr_t)at, size);
    fake_living.reservations++;
    pthread_mutex_unlock(&fake_lock);
    *address = (uintptr_t)at;
    return SL_CU_OK;
}

int fake_cuMemAddressFree(uint64_t address, size_t size)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    struct piece *range = find(ranges, address);
    if (range && range->size == size && !range->mapped && !range->registered) {
        munmap((void *)(uintptr_t)address, size);
        take_out(&ranges, range);
        fake_living.reservations--;
        code = SL_CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle,
                  unsigned long long flags)
{
    struct piece *piece = (struct piece *)(uintptr_t)handle;
    int code = SL_CU_INVALID_VALUE;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct piece *range = find(ranges, address);
    if (range && !range->mapped && range->size == size && piece->size == size && offset == 0 &&
        mmap((void *)(uintptr_t)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED,
             (int)piece->address, 0) != MAP_FAILED) {
        range->mapped = true;
        fake_living.mappings++;
        code = SL_CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemUnmap(uint64_t address, size_t size)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    struct piece *range = find(ranges, address);
    if (range && range->mapped && range->size == size) {
        mmap((void *)(uintptr_t)address, size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        range->mapped = range->writable = false;
        fake_living.mappings--;
        code = SL_CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemSetAccess(uint64_t address, size_t size, const struct sl_cu_access *who, size_t count)
{
    int code = SL_CU_INVALID_VALUE;

    pthread_mutex_lock(&fake_lock);
    struct piece *range = find(ranges, address);
    if (range && range->mapped && range->size == size && count == 1 &&
        who->location.type == SL_CU_LOCATION_DEVICE) {
        range->writable = who->flags == SL_CU_ACCESS_READ_WRITE;
        mprotect((void *)(uintptr_t)address, size, PROT_READ | (range->writable ? PROT_WRITE : 0));
        code = SL_CU_OK;
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemAlloc(uint64_t *address, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return SL_CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&fake_lock);
    add(&ranges, (uintptr_t)at, size)->writable = true;
    pthread_mutex_unlock(&fake_lock);
    *address = (uintptr_t)at;
    return SL_CU_OK;
}

int fake_cuMemFree(uint64_t address)
{
    pthread_mutex_lock(&fake_lock);
    struct piece *range = find(ranges, address);
    if (range) {
        munmap((void *)(uintptr_t)address, range->size);
        take_out(&ranges, range);
    }
    pthread_mutex_unlock(&fake_lock);
    return range ? SL_CU_OK : SL_CU_INVALID_VALUE;
}

/* ---- memory of the host ---- */

/* Is all of it mapped here, and may it be written? */
static bool look(uint64_t address, size_t size, bool *writable)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long from, to;
    char access[8], line[400];
    bool found = false;

    while (maps && !found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3)
            continue;
        found = from <= address && address + size <= to && access[0] == 'r';
        *writable = access[1] == 'w';
    }
    if (maps)
        fclose(maps);
    return found;
}

int fake_cuMemHostRegister(void *address, size_t size, unsigned flags)
{
    uint64_t at = (uintptr_t)address;
    bool writable = false;
    int code;

    pthread_mutex_lock(&fake_lock);
    if (!fake_current(&code))
        goto done;
    if (find(ranges, at) || find(ranges, at + size - 1))
        code = SL_CU_ALREADY_REGISTERED;
    else if (!look(at, size, &writable) || (!writable && !(flags & SL_CU_HOST_READ_ONLY)))
        code = SL_CU_INVALID_VALUE;
    if (code == 0) {
        struct piece *piece = add(&ranges, at, size);
        piece->registered = true;
        piece->writable = !(flags & SL_CU_HOST_READ_ONLY);
        fake_living.registrations++;
    }
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemHostUnregister(void *address)
{
    uint64_t at = (uintptr_t)address;
    bool writable;
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_context *context = fake_current(&code);
    if (!context)
        goto done;
    for (struct sl_cu_stream *s = fake_streams; s; s = s->next) /* as a GPU does */
        if (s->context == context)
            fake_wait(s, s->last_id);
    struct piece *piece = find(ranges, at);
    if (!piece || !piece->registered || piece->address != at) {
        code = SL_CU_NOT_REGISTERED;
        goto done;
    }
    if (!look(at, piece->size, &writable))
        fake_break_rule("unmapped before it was unregistered");
    take_out(&ranges, piece);
    fake_living.registrations--;
done:
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuMemHostGetDevicePointer(uint64_t *device, void *host, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&fake_lock);
    struct piece *piece = find(ranges, (uintptr_t)host);
    *device = (uintptr_t)host;
    pthread_mutex_unlock(&fake_lock);
    return piece && piece->registered ? SL_CU_OK : SL_CU_INVALID_VALUE;
}
