/* SPDX-License-Identifier: MIT
 *
 * A folder that only this user can access, and small files in it that are replaced as a whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

/* ---- the folder ---- */

/* Makes it, and the folders that it is in, as far as they do not exist. */
static int make_folders(const char *path)
{
    char part[4096];

    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
        return sl_fail(SLUICE_E_INVALID, "the name of a folder is longer than %zu bytes", sizeof part - 1);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(part, 0700);
        *slash = '/';
    }
    if (mkdir(part, 0700) < 0 && errno != EEXIST)
        return sl_fail_errno(errno, "making the folder %s", path);
    return 0;
}

static int check_folder(const char *path, int fd)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return sl_fail_errno(errno, "the folder %s", path);
    if (status.st_uid != geteuid())
        return sl_fail(SLUICE_E_PERMISSION, "the folder %s belongs to user %u, not to us (%u)", path,
                       (unsigned)status.st_uid, (unsigned)geteuid());
    if ((status.st_mode & 0777) != 0700)
        return sl_fail(SLUICE_E_PERMISSION, "the folder %s has mode %04o where 0700 is needed: chmod 700 it", path,
                       (unsigned)status.st_mode & 0777u);
    return 0;
}

int sl_os_private_dir_open(const char *path, bool make, int *dir)
{
    int fd, r = make ? make_folders(path) : 0;

    if (r != 0)
        return r;
    SL_RETRY(fd, sl_above_standard(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)));
    if (fd < 0 && errno == ENOENT)
        return sl_fail(SLUICE_E_NOT_FOUND, "there is no folder %s", path);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return sl_fail(SLUICE_E_PERMISSION, "%s is a link, or no folder", path);
    if (fd < 0)
        return sl_fail_errno(errno, "the folder %s", path);
    r = check_folder(path, fd);
    if (r == 0)
        *dir = fd;
    else
        sl_os_close(fd);
    return r;
}

/* ---- files in it ---- */

int sl_os_private_read(int dir, const char *name, uint64_t most, void **bytes, size_t *size)
{
    struct stat status;
    int fd, r;

    SL_RETRY(fd, sl_above_standard(openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)));
    if (fd < 0)
        return errno == ENOENT ? SLUICE_E_NOT_FOUND : sl_fail_errno(errno, "opening %s", name);
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || (uint64_t)status.st_size > most)
        r = sl_fail(SLUICE_E_INVALID, "%s is no file of up to %" PRIu64 " bytes", name, most);
    else
        r = sl_read_all(fd, name, bytes, size);
    sl_os_close(fd);
    return r;
}

/* Beyond the limit a write would raise a signal, which kills by default. */
static bool within_limit(size_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur >= size;
}

static int write_beside(int dir, const char *name, const void *bytes, size_t size)
{
    int fd;

    if (!within_limit(size))
        return EFBIG;
    SL_RETRY(fd, sl_above_standard(openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)));
    if (fd < 0)
        return errno;
    int error = sl_write_all(fd, bytes, size);
    sl_os_close(fd);
    return error;
}

int sl_os_private_replace(int dir, const char *name, const void *bytes, size_t size)
{
    char beside[96];

    /* The time, as processes of other containers have our numbers, too. */
    snprintf(beside, sizeof beside, SL_OS_BESIDE "%u-%" PRIx64 "-%" PRIx64, sl_os_pid(), sl_os_thread_number(),
             (uint64_t)sl_os_wall_clock());
    int error = write_beside(dir, beside, bytes, size);
    if (error == 0 && renameat(dir, beside, dir, name) < 0)
        error = errno;
    if (error == 0)
        return 0;
    unlinkat(dir, beside, 0);
    return sl_fail_errno(error, "writing %s", name);
}

void sl_os_private_touch(int dir, const char *name)
{
    utimensat(dir, name, NULL, AT_SYMLINK_NOFOLLOW);
}

int sl_os_private_list(int dir, int (*each)(void *context, const char *name, int64_t changed), void *context)
{
    int fd, r = 0;

    SL_RETRY(fd, openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries) {
        r = sl_fail_errno(errno, "listing a folder");
        if (fd >= 0)
            sl_os_close(fd);
        return r;
    }
    for (const struct dirent *entry; r == 0 && (entry = readdir(entries));) {
        struct stat status;
        if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
            r = each(context, entry->d_name, status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec);
    }
    closedir(entries);
    return r;
}

int64_t sl_os_wall_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
