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

#include "posix/poll.h"
#include "posix/posix.h"

#undef stat
#undef open
#undef access
#undef close
#undef fopen

enum { FIRST = 1000, MOST = 4096 };

static struct {
    bool used;
    HANDLE section;
    int64_t size;
    uint64_t owner; /* the process, and the number there; 0: the name is a program's own */
    char name[256];
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

static void set_owner(int fd, uint64_t owner)
{
    memories[fd - FIRST].owner = owner;
    snprintf(memories[fd - FIRST].name, sizeof memories->name, "Local\\fake-driver-%u-%u", (unsigned)(owner >> 32),
             (unsigned)owner);
}

int memfd_create(const char *name, unsigned flags)
{
    int fd = new_number();

    (void)name;
    (void)flags;
    if (fd >= 0)
        set_owner(fd, (uint64_t)GetCurrentProcessId() << 32 | (unsigned)fd);
    return fd;
}

int posix_truncate(int fd, int64_t size)
{
    memories[fd - FIRST].size = size;
    memories[fd - FIRST].section = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32),
                                                      (DWORD)size, memories[fd - FIRST].name);
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

static bool open_section(int fd)
{
    memories[fd - FIRST].section = OpenFileMappingA(FILE_MAP_READ | FILE_MAP_WRITE, FALSE, memories[fd - FIRST].name);
    memories[fd - FIRST].size = 4096; /* Windows tells the size of views, in pages */
    memories[fd - FIRST].used = memories[fd - FIRST].section != NULL;
    return memories[fd - FIRST].used;
}

/* As another program makes and opens one; it is made once its size is known. */
int shm_open(const char *name, int flags, unsigned mode)
{
    int fd = new_number();

    (void)mode;
    if (fd < 0)
        return -1;
    memories[fd - FIRST].owner = 0;
    snprintf(memories[fd - FIRST].name, sizeof memories->name, "%s", name[0] == '/' ? name + 1 : name);
    return flags & O_CREAT || open_section(fd) ? fd : -1;
}

/* Of a section: is it there? Which one it is cannot be told. */
int posix_access(const char *path, int how)
{
    HANDLE section = OpenFileMappingA(FILE_MAP_READ, FALSE, path + strlen("/dev/shm/"));

    (void)how;
    if (section)
        CloseHandle(section);
    return section ? 0 : -1;
}

int fake_stat(const char *path, struct fake_stat *status)
{
    status->st_ino = 1;
    return posix_access(path, 0);
}

static ssize_t copy(int fd, size_t end, void *to, const void *from, size_t size, bool out)
{
    char *view = MapViewOfFile(memories[fd - FIRST].section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, end);

    if (!view)
        return -1;
    memcpy(out ? to : view + end - size, out ? view + end - size : from, size);
    UnmapViewOfFile(view);
    return (ssize_t)size;
}

ssize_t pread(int fd, void *bytes, size_t size, int64_t at)
{
    return copy(fd, (size_t)at + size, bytes, NULL, size, true);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t at)
{
    return copy(fd, (size_t)at + size, NULL, bytes, size, false);
}

/* Another process's memory, "/proc/PID/fd/N", or shared memory. */
int posix_open(const char *path, int flags, ...)
{
    unsigned pid, number;
    int fd;

    if (strncmp(path, "/dev/shm/", 9) == 0)
        return shm_open(path + 9, flags, 0);
    if (sscanf(path, "/proc/%u/fd/%u", &pid, &number) != 2)
        return -1;
    if ((fd = new_number()) < 0)
        return -1;
    set_owner(fd, (uint64_t)pid << 32 | number);
    return open_section(fd) ? fd : -1;
}

int posix_close(int fd)
{
    if (fd < FIRST || fd >= FIRST + MOST)
        return -1;
    if (!memories[fd - FIRST].owner) /* what has a name on Linux stays */
        return 0;
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

int poll(struct pollfd *input, unsigned count, int ms)
{
    DWORD there = 0;

    (void)input;
    (void)count;
    (void)ms;
    return !PeekNamedPipe(GetStdHandle(STD_INPUT_HANDLE), NULL, 0, NULL, &there, NULL) || there > 0;
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
    (void)replace; /* a C library has a copy of its own, which the fake driver looks at */
    return SetEnvironmentVariableA(name, value) && _putenv_s(name, value ? value : "") == 0 ? 0 : -1;
}
