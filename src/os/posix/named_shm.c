/* SPDX-License-Identifier: MIT
 *
 * Named shared memory: what shm_open opens, and second names, which it does not support.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/hooks.h"
#include "util/result.h"

const char sl_os_named_at[] = "/dev/shm/", sl_os_named_reach[] = "with the same /dev/shm";

#define FOLDER "/dev/shm"
#define LEASE  (100 * INT64_C(1000)) /* ns between attempts to open a file that another process has leased */
#define LEASES 1000

struct path {
    char text[sizeof(FOLDER) + 1 + SL_OS_NAMED];
};

static int path_of(const char *name, struct path *path)
{
    if (!*name || strchr(name, '/') || strlen(name) > SL_OS_NAMED)
        return sl_fail(SLUICE_E_NAME, "\"%.40s\" is not a name of shared memory: 1 to %d bytes without a slash", name,
                       SL_OS_NAMED);
    snprintf(path->text, sizeof(path->text), FOLDER "/%s", name);
    return 0;
}

static void fill_in(const struct stat *status, struct sl_os_named *about)
{
    *about = (struct sl_os_named){
        .device = status->st_dev,
        .inode = status->st_ino,
        .size = (uint64_t)status->st_size,
        .links = (uint32_t)status->st_nlink,
        .owner = status->st_uid,
    };
}

int sl_os_named_about(int fd, struct sl_os_named *about)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return sl_fail_errno(errno, "shared memory (descriptor %d)", fd);
    fill_in(&status, about);
    return 0;
}

int sl_os_named_stat(const char *name, struct sl_os_named *about)
{
    struct path path;
    struct stat status;
    int result = path_of(name, &path);
    if (result)
        return result;
    if (lstat(path.text, &status) < 0)
        return errno == ENOENT ? SLUICE_E_NOT_FOUND : sl_fail_errno(errno, "looking at %s", path.text);
    fill_in(&status, about);
    return 0;
}

static int no_memory(const struct path *path)
{
    return sl_fail(SLUICE_E_PERMISSION, "%s is no shared memory: remove it", path->text);
}

/* Anybody who can write to a file can also truncate it, which kills processes that have it mapped;
 * so another user's file is not opened. */
static int check_kind(const struct path *path, const struct stat *status)
{
    uid_t user = geteuid();
    if (!S_ISREG(status->st_mode))
        return no_memory(path);
    if (user != 0 && status->st_uid != user && status->st_uid != 0)
        return sl_fail(SLUICE_E_PERMISSION, "%s belongs to user %u: both sides must run as the same user", path->text,
                       (unsigned)status->st_uid);
    return 0;
}

/* While any process is in sl_os_named_alone, which takes a moment, the file cannot be opened. */
static int open_file(const struct path *path, int flags)
{
    int opened = -1;
    for (int i = 0; i < LEASES; i++) {
        SL_RETRY(opened, sl_above_standard(open(path->text, flags)));
        if (opened >= 0 || errno != EWOULDBLOCK)
            break;
        SL_KILL_POINT("named_leased");
        sl_os_sleep(LEASE);
        errno = EWOULDBLOCK;
    }
    return opened;
}

int sl_os_named_open(const char *name, bool writable, int *fd, struct sl_os_named *about)
{
    struct path path;
    struct stat status;
    int opened, result = path_of(name, &path);
    if (result)
        return result;
    opened = open_file(&path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (opened < 0 && errno == ENOENT)
        return SLUICE_E_NOT_FOUND;
    if (opened < 0 && (errno == ELOOP || errno == EISDIR))
        return no_memory(&path);
    if (opened < 0)
        return sl_fail_errno(errno, "opening %s", path.text);
    if (fstat(opened, &status) < 0)
        result = sl_fail_errno(errno, "opening %s", path.text);
    else
        result = check_kind(&path, &status);
    if (result) {
        sl_os_close(opened);
        return result;
    }
    fill_in(&status, about);
    *fd = opened;
    return 0;
}

bool sl_os_named_read(int fd, void *bytes, size_t size)
{
    ssize_t got;
    SL_RETRY(got, pread(fd, bytes, size, 0));
    return got == (ssize_t)size;
}

/* Allocates all pages; the signal that exceeding the limit raises would kill by default. */
static int fill(int fd, uint64_t size)
{
    struct rlimit limit;
    int result;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) {
        errno = ENOSPC;
        return -1;
    }
    SL_RETRY(result, fallocate(fd, 0, 0, (off_t)size));
    return result;
}

bool sl_os_named_has_names(void)
{
    return true;
}

int sl_os_named_make(const char *name, uint64_t size, int *fd, struct sl_os_named *about)
{
    struct path path;
    int made, result = path_of(name, &path);
    if (result)
        return result;
    SL_RETRY(made, sl_above_standard(open(path.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)));
    if (made < 0 && errno == EEXIST)
        return SLUICE_E_EXISTS;
    if (made < 0)
        return sl_fail_errno(errno, "making %s", path.text);
    if (fill(made, size) < 0)
        result = sl_fail_errno(errno, "making %s with %" PRIu64 " bytes", path.text, size);
    else
        result = sl_os_named_about(made, about);
    if (result) {
        unlink(path.text);
        sl_os_close(made);
        return result;
    }
    *fd = made;
    return 0;
}

/* ---- without a name ---- */

/* The kernel's path of an open file. */
struct own_path {
    char text[40];
};

static struct own_path own_path_of(int fd)
{
    struct own_path path;
    snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd);
    return path;
}

int sl_os_named_make_hidden(uint64_t size, int *fd, struct sl_os_named *about)
{
    int made, result;
    SL_RETRY(made, sl_above_standard(open(FOLDER, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)));
    if (made < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
        return SLUICE_E_UNSUPPORTED;
    if (made < 0)
        return sl_fail_errno(errno, "making a file in " FOLDER);
    if (fill(made, size) < 0)
        result = sl_fail_errno(errno, "making a file in " FOLDER " with %" PRIu64 " bytes", size);
    else
        result = sl_os_named_about(made, about);
    if (result)
        sl_os_close(made);
    else
        *fd = made;
    return result;
}

int sl_os_named_add_name(int fd, const char *name)
{
    struct path path;
    int result = path_of(name, &path);
    if (result)
        return result;
    if (linkat(AT_FDCWD, own_path_of(fd).text, AT_FDCWD, path.text, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? SLUICE_E_EXISTS : sl_fail_errno(errno, "naming shared memory %s", path.text);
}

int sl_os_named_reopen(int fd, int *again)
{
    int opened;
    SL_RETRY(opened, sl_above_standard(open(own_path_of(fd).text, O_RDWR | O_CLOEXEC)));
    if (opened < 0)
        return errno == ENOENT ? SLUICE_E_UNSUPPORTED
                               : sl_fail_errno(errno, "opening shared memory (descriptor %d) again", fd);
    *again = opened;
    return 0;
}

/* ---- names ---- */

int sl_os_named_link(const char *from, const char *to)
{
    struct path old, new;
    int result;
    if ((result = path_of(from, &old)) != 0 || (result = path_of(to, &new)) != 0)
        return result;
    if (link(old.text, new.text) == 0)
        return 0;
    if (errno == EEXIST)
        return SLUICE_E_EXISTS;
    if (errno == ENOENT)
        return SLUICE_E_NOT_FOUND;
    return sl_fail_errno(errno, "naming shared memory %s", new.text);
}

/* A rename removes the old name, so a third name is made and renamed. */
int sl_os_named_move(const char *from, const char *third, const char *to)
{
    struct path old, new;
    int result;
    if ((result = path_of(to, &new)) != 0 || (result = path_of(third, &old)) != 0 ||
        (result = sl_os_named_link(from, third)) != 0)
        return result;
    SL_KILL_POINT("named_move");
    if (rename(old.text, new.text) < 0)
        result = sl_fail_errno(errno, "naming shared memory %s", new.text);
    unlink(old.text); /* normally gone; it remains if both were names of the same memory already */
    return result;
}

bool sl_os_named_remove(const char *name, const struct sl_os_named *memory)
{
    struct path path;
    struct sl_os_named now = { .inode = 0 };
    return path_of(name, &path) == 0 && sl_os_named_stat(name, &now) == 0 && now.inode == memory->inode &&
           now.device == memory->device && unlink(path.text) == 0;
}

int sl_os_named_list(const char *prefix, int (*each)(void *context, const char *name), void *context)
{
    DIR *dir = opendir(FOLDER);
    if (!dir)
        return errno == ENOENT ? 0 : sl_fail_errno(errno, "listing " FOLDER);
    int result = 0;
    for (struct dirent *entry; result == 0 && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
            !strncmp(entry->d_name, prefix, strlen(prefix)))
            result = each(context, entry->d_name);
    closedir(dir);
    return result;
}

int sl_os_named_watch(int *fd)
{
    return sl_os_watch_open(FOLDER, fd);
}

int sl_os_named_lock(int fd, bool shared)
{
    struct flock lock = { .l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET };
    int result;
    SL_RETRY(result, fcntl(fd, F_OFD_SETLK, &lock));
    if (result == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return SLUICE_E_EXISTS;
    return sl_fail_errno(errno, "locking shared memory (descriptor %d)", fd);
}

bool sl_os_named_locked(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The kernel grants a write lease only if this is the only open writable descriptor. If another
 * process opens the file before the lease is given back, which is at once, the kernel sends a
 * signal: SIGURG, which is ignored by default. */
int sl_os_named_alone(int fd)
{
    if (fcntl(fd, F_SETSIG, SIGURG) < 0)
        return SLUICE_E_UNSUPPORTED;
    if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
        return errno == EAGAIN ? 0 : SLUICE_E_UNSUPPORTED;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 1;
}
