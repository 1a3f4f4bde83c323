/* SPDX-License-Identifier: MIT
 *
 * Memory objects: memfds that have all pages allocated and a sealed size, so that no later access
 * to them can fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "os/kept.h"
#include "os/posix/posix.h"
#include "util/result.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Pages are allocated in steps: when a signal arrives the kernel abandons the whole call, so a
 * program with a profiling timer would never complete a large one. */
#define STEP (UINT64_C(2) << 20)

static int check_size(const char *name, uint64_t size)
{
    if (!size || size % sl_os_page_size())
        return sl_fail(SLUICE_E_INVALID, "memory for %s: %" PRIu64 " bytes are not whole pages of %zu", name, size,
                       sl_os_page_size());
    struct rlimit limit; /* exceeding it raises a signal that kills by default */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur)
        return sl_fail(SLUICE_E_NO_MEMORY,
                       "memory for %s: %" PRIu64 " bytes were asked for, RLIMIT_FSIZE allows %" PRIu64
                       " (raise it: ulimit -f)",
                       name, size, (uint64_t)limit.rlim_cur);
    uint64_t there = sl_memory_available();
    if (size > there)
        return sl_fail(SLUICE_E_NO_MEMORY,
                       "memory for %s: %" PRIu64 " bytes were asked for, there are %" PRIu64
                       " left here (use fewer or smaller slots)",
                       name, size, there);
    return 0;
}

static int fill(int fd, uint64_t size)
{
    if (size > INT64_MAX) {
        errno = ENOMEM;
        return -1;
    }
    int result;
    SL_RETRY(result, ftruncate(fd, (off_t)size));
    for (uint64_t at = 0; result == 0 && at < size; at += STEP) {
        uint64_t step = size - at < STEP ? size - at : STEP;
        SL_RETRY(result, fallocate(fd, 0, (off_t)at, (off_t)step));
    }
    return result;
}

int sl_os_memory_create(const char *name, uint64_t size, int *fd)
{
    int result = check_size(name, size);
    if (result)
        return result;
    char shown[200]; /* the kernel accepts up to 249 bytes */
    snprintf(shown, sizeof(shown), "%s", name);
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int made = sl_above_standard(memfd_create(shown, flags | MFD_NOEXEC_SEAL));
    if (made < 0 && errno == EINVAL) /* before Linux 6.3 */
        made = sl_above_standard(memfd_create(shown, flags));
    char what[300];
    snprintf(what, sizeof(what), "memory for %s: %" PRIu64 " bytes were asked for", name, size);
    if (made < 0)
        return sl_fail_call(errno, "memfd_create", what);
    if (fill(made, size) < 0 || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
        result = sl_fail_call(errno, "fallocate", what);
        sl_os_close(made);
        return result;
    }
    *fd = made;
    return 0;
}

int sl_os_memory_seal(int fd, bool read_only)
{
    int seals = F_SEAL_SEAL | (read_only ? F_SEAL_FUTURE_WRITE : 0);
    if (fcntl(fd, F_ADD_SEALS, seals) == 0)
        return 0;
    if (errno == EINVAL && read_only && fcntl(fd, F_GET_SEALS) >= 0)
        return sl_fail(SLUICE_E_UNSUPPORTED, "this kernel cannot make memory read-only for others (Linux 5.1 can)");
    return sl_fail_errno(errno, "sealing memory (descriptor %d)", fd);
}

/* The kind of a descriptor that cannot be a memory object. Does not call into its file system: with
 * FUSE that may be the peer itself, which need not answer. */
static const char *kind_of(int fd)
{
    struct statx status = { .stx_mode = 0 };
    (void)statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status);
    switch (status.stx_mode & S_IFMT) {
    case S_IFREG: return "a file";
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    default: return "something else";
    }
}

/* The pages must not be removable, nor be allocated only at our access: that could fail, and kill
 * the process. */
static int check_pages(int fd, const struct stat *status)
{
    struct statfs system;
    if (fstatfs(fd, &system) < 0)
        return sl_fail_errno(errno, "a received descriptor (%d)", fd);
    if (system.f_type == HUGETLBFS_MAGIC)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent memory in huge pages, which could be taken "
                                          "away");
    if ((uint64_t)status->st_blocks < (uint64_t)status->st_size / 512)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent %" PRIu64 " bytes of memory that has %" PRIu64 " only",
                       (uint64_t)status->st_size, (uint64_t)status->st_blocks * 512);
    return 0;
}

int sl_os_memory_check(int fd, uint64_t size, bool read_only)
{
    /* Seals first: they cannot be removed, and once these two are set the size is fixed. */
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat status;
    if (seals < 0 && errno == EBADF)
        return sl_fail_errno(errno, "a received descriptor (%d)", fd);
    if (seals < 0)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent %s where memory was announced", kind_of(fd));
    if (fstat(fd, &status) < 0)
        return sl_fail_errno(errno, "a received descriptor (%d)", fd);
    if (!(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW))
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent memory whose size it could still change");
    if (read_only && !(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)))
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent memory that others may write");
    if ((uint64_t)status.st_size != size)
        return sl_fail(SLUICE_E_PROTOCOL, "the peer sent %" PRIu64 " bytes of memory where %" PRIu64 " were announced",
                       (uint64_t)status.st_size, size);
    return check_pages(fd, &status);
}

int sl_os_map(int fd, uint64_t size, bool writable, void **address)
{
    void *mapped = MAP_FAILED;
    int access = PROT_READ | (writable ? PROT_WRITE : 0);
    errno = ENOMEM;
    if (size <= SIZE_MAX)
        mapped = mmap(NULL, (size_t)size, access, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return sl_fail_errno(errno, "mapping %" PRIu64 " bytes %s", size, writable ? "to write" : "to read");
    *address = mapped;
    return 0;
}

void sl_os_unmap(void *address, uint64_t size)
{
    if (address && !sl_os_is_kept(address))
        munmap(address, (size_t)size);
}
