/* SPDX-License-Identifier: MIT
 *
 * posix/posix.h: a descriptor is a number of ours for a section with a name, which has the process and the number.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "posix/posix.h"

#undef stat
#undef open
#undef close
#undef fopen

enum { FIRST = 1000, MOST = 4096 };

static struct {
    bool used;
    HANDLE section;
    int64_t size;
    uint64_t owner; /* the process, and the number there */
} memories[MOST];
static SRWLOCK lock = SRWLOCK_INIT;

static int new_number(void)
{
    int at = 0;

    AcquireSRWLockExclusive(&lock);
    while (at < MOST && memories[at].used)
        at++;
    if (at < MOST)
        memories[at].used = true;
    ReleaseSRWLockExclusive(&lock);
    return at < MOST ? FIRST + at : -1;
}

int memfd_create(const char *name, unsigned flags)
{
    int fd = new_number();

    (void)name;
    (void)flags;
    if (fd >= 0)
        memories[fd - FIRST].owner = (uint64_t)GetCurrentProcessId() << 32 | (unsigned)fd;
    return fd;
}

static void name_of(uint64_t owner, char name[64])
{
    snprintf(name, 64, "Local\\fake-driver-%u-%u", (unsigned)(owner >> 32), (unsigned)owner);
}

int posix_truncate(int fd, int64_t size)
{
    char name[64];

    name_of(memories[fd - FIRST].owner, name);
    memories[fd - FIRST].size = size;
    memories[fd - FIRST].section =
        CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, name);
    return memories[fd - FIRST].section ? 0 : -1;
}

int posix_stat(int fd, struct fake_stat *status)
{
    if (fd < FIRST || fd >= FIRST + MOST || !memories[fd - FIRST].used)
        return -1;
    status->st_ino = memories[fd - FIRST].owner;
    status->st_mode = 0x8000; /* S_IFREG */
    status->st_size = memories[fd - FIRST].size;
    return 0;
}

/* Another process's memory, "/proc/PID/fd/N". */
int posix_open(const char *path, int flags, ...)
{
    unsigned pid, number;
    char name[64];
    int fd;

    (void)flags;
    if (sscanf(path, "/proc/%u/fd/%u", &pid, &number) != 2)
        return -1;
    uint64_t owner = (uint64_t)pid << 32 | number;
    name_of(owner, name);
    HANDLE section = OpenFileMappingA(FILE_MAP_READ | FILE_MAP_WRITE, FALSE, name);
    if (!section || (fd = new_number()) < 0)
        return -1;
    memories[fd - FIRST].section = section;
    memories[fd - FIRST].owner = owner;
    return fd;
}

int posix_close(int fd)
{
    if (fd < FIRST || fd >= FIRST + MOST)
        return -1;
    if (memories[fd - FIRST].section)
        CloseHandle(memories[fd - FIRST].section);
    memories[fd - FIRST].section = NULL;
    memories[fd - FIRST].used = false;
    return 0;
}

static DWORD protection(int rights)
{
    return rights & PROT_WRITE ? PAGE_READWRITE : rights & PROT_READ ? PAGE_READONLY : PAGE_NOACCESS;
}

void *mmap(void *wanted, size_t size, int rights, int flags, int fd, int64_t at)
{
    void *mapped;

    (void)wanted;
    (void)at;
    if (flags & MAP_FIXED) /* memory at addresses of the program's choice, which cuda-link's protocol does not use */
        return MAP_FAILED;
    if (flags & MAP_ANONYMOUS) {
        mapped = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, protection(rights));
    } else {
        DWORD before;
        mapped = MapViewOfFile(memories[fd - FIRST].section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, size);
        if (mapped && !rights)
            VirtualProtect(mapped, size, PAGE_NOACCESS, &before);
    }
    return mapped ? mapped : MAP_FAILED;
}

int munmap(void *at, size_t size)
{
    (void)size;
    return UnmapViewOfFile(at) || VirtualFree(at, 0, MEM_RELEASE) ? 0 : -1;
}

int mprotect(void *at, size_t size, int rights)
{
    DWORD before;

    return VirtualProtect(at, size, protection(rights), &before) ? 0 : -1;
}

ssize_t process_vm_readv(int pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                         unsigned long from_count, unsigned long flags)
{
    SIZE_T got = 0;

    (void)pid;
    (void)to_count;
    (void)from_count;
    (void)flags;
    return ReadProcessMemory(GetCurrentProcess(), from->iov_base, to->iov_base, from->iov_len, &got) ? (ssize_t)got
                                                                                                     : -1;
}

int prctl(int what, ...)
{
    (void)what;
    return -1; /* no thread has a name that can be asked for here */
}

int fcntl(int fd, int what, ...)
{
    (void)fd;
    (void)what;
    return -1;
}

ssize_t readlink(const char *path, char *text, size_t size)
{
    (void)path;
    (void)text;
    (void)size;
    return -1;
}

void *dlopen(const char *path, int flags)
{
    (void)flags;
    return (void *)LoadLibraryA(path);
}

void *dlsym(void *library, const char *name)
{
    FARPROC found = GetProcAddress(library, name);
    void *symbol;

    memcpy(&symbol, &found, sizeof symbol);
    return symbol;
}

int dladdr(const void *at, Dl_info *info)
{
    static char path[MAX_PATH];
    HMODULE module;

    if (!GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, at,
                            &module) ||
        !GetModuleFileNameA(module, path, MAX_PATH))
        return 0;
    info->dli_fname = path;
    return 1;
}

/* Under Wine there is a /proc, which is not this process's. */
FILE *posix_fopen(const char *path, const char *mode)
{
    char text[2] = { mode[0], 0 }; /* not "e" */

    return strncmp(path, "/proc/", 6) == 0 ? NULL : fopen(path, text);
}

int setenv(const char *name, const char *value, int replace)
{
    (void)replace;
    return SetEnvironmentVariableA(name, value) ? 0 : -1;
}
