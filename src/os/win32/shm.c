/* SPDX-License-Identifier: MIT
 *
 * Mapping memory. Memory without a name is for Sluice's own channels, which do not exist here yet.
 */
#include "os/win32/win32.h"

#include <inttypes.h>

#include "util/result.h"

int sl_os_memory_create(const char *name, uint64_t size, int *fd)
{
    (void)name;
    (void)size;
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_memory_seal(int fd, bool read_only)
{
    (void)fd;
    (void)read_only;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_memory_check(int fd, uint64_t size, bool read_only)
{
    (void)fd;
    (void)size;
    (void)read_only;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_map(int fd, uint64_t size, bool writable, void **address)
{
    struct sl_object_fd *object = sl_fd_find(fd);
    DWORD access = writable ? FILE_MAP_READ | FILE_MAP_WRITE : FILE_MAP_READ;

    if (!object)
        return sl_fail(SLUICE_E_INVALID, "%d stands for no memory", fd);
    void *mapped = MapViewOfFile(object->handle, access, 0, 0, (SIZE_T)size);
    if (!mapped)
        return sl_fail_windows(GetLastError(), "mapping %" PRIu64 " bytes %s", size, writable ? "to write" : "to read");
    sl_shared_add(mapped, size, object->name);
    *address = mapped;
    return 0;
}

void sl_os_unmap(void *address, uint64_t size)
{
    MEMORY_BASIC_INFORMATION about;

    (void)size;
    if (!address)
        return;
    sl_shared_remove(address);
    if (VirtualQuery(address, &about, sizeof about) && about.Type == MEM_MAPPED)
        UnmapViewOfFile(address);
    else
        VirtualFree(address, 0, MEM_RELEASE);
}

void sl_os_keep_mapped(void *address)
{
    (void)address; /* no channel registers its memory with a driver here */
}
