/* SPDX-License-Identifier: MIT
 *
 * What the fake driver uses of Linux, on Windows: memory that other processes find by the number of a process and of a
 * descriptor, as /proc/PID/fd/N there.
 */
#ifndef WIN32_POSIX_H
#define WIN32_POSIX_H

#include <fcntl.h>
#include <io.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PROT_NONE       0
#define PROT_READ       1
#define PROT_WRITE      2
#define MAP_SHARED      1
#define MAP_PRIVATE     2
#define MAP_FIXED       16
#define MAP_ANONYMOUS   32
#define MAP_NORESERVE   64
#define MAP_FAILED      ((void *)-1)
#define MFD_CLOEXEC     1
#define O_CLOEXEC       0
#define F_DUPFD         0
#define F_DUPFD_CLOEXEC 0
#define PR_GET_NAME     16
#define RTLD_NOW        2
#define RTLD_LOCAL      0

struct iovec {
    void *iov_base;
    size_t iov_len;
};

struct fake_stat {
    uint64_t st_ino;
    uint32_t st_mode;
    int64_t st_size;
};

typedef struct {
    const char *dli_fname;
} Dl_info;

int memfd_create(const char *name, unsigned flags);
int posix_truncate(int fd, int64_t size);
int posix_stat(int fd, struct fake_stat *status);
int posix_access(const char *path, int how);
int fake_stat(const char *path, struct fake_stat *status);
int posix_open(const char *path, int flags, ...);
int posix_close(int fd);
int shm_open(const char *name, int flags, unsigned mode);
ssize_t pread(int fd, void *bytes, size_t size, int64_t at);
ssize_t pwrite(int fd, const void *bytes, size_t size, int64_t at);
void *mmap(void *wanted, size_t size, int rights, int flags, int fd, int64_t at);
int munmap(void *at, size_t size);
int mprotect(void *at, size_t size, int rights);
ssize_t process_vm_readv(int pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                         unsigned long from_count, unsigned long flags);
int prctl(int what, ...);
int fcntl(int fd, int what, ...);
ssize_t readlink(const char *path, char *text, size_t size);
void *dlopen(const char *path, int flags);
void *dlsym(void *library, const char *name);
int dladdr(const void *at, Dl_info *info);
FILE *posix_fopen(const char *path, const char *mode);
int setenv(const char *name, const char *value, int replace);

#undef ftruncate
#undef fstat
#undef stat
#define ftruncate posix_truncate
#define fstat     posix_stat
#define stat      fake_stat
#define open      posix_open
#define access    posix_access
#define close     posix_close
#define fopen     posix_fopen

#endif
