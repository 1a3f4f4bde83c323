/* SPDX-License-Identifier: MIT
 *
 * Memory without a name, and mapping. That another process sent some is for Sluice's own channels, which do not exist
 * here yet.
 */
#include "os/win32/win32.h"

#include <inttypes.h>

#include "os/kept.h"
#include "util/result.h"

int sl_os_memory_create(const char *name, uint64_t size, int *fd)
{
    HANDLE section =
        CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, NULL);

    if (!section)
        return sl_fail_windows(GetLastError(), "making %" PRIu64 " bytes of memory (%s)", size, name);
    return sl_fd_new(section, NULL, fd);
}

/* A section keeps its size, and nobody else has a handle to this one. */
int sl_os_memory_seal(int fd, bool read_only)
{
    (void)fd;
    (void)read_only;
    return 0;
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
    if (!address || sl_os_is_kept(address))
        return;
    sl_shared_remove(address);
    if (VirtualQuery(address, &about, sizeof about) && about.Type == MEM_MAPPED)
        UnmapViewOfFile(address);
    else
        VirtualFree(address, 0, MEM_RELEASE);
}
