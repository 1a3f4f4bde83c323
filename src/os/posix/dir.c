/* SPDX-License-Identifier: MIT
 *
 * The folder of channels: which one it is, whether it can be trusted, its locks, and the names in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

/* ---- which folder ---- */

/* $XDG_RUNTIME_DIR, if it belongs to this user: after sudo and su it may be another's. */
static const char *runtime_folder(void)
{
    const char *path = secure_getenv("XDG_RUNTIME_DIR");
    struct stat status;
    if (!path || *path != '/' || stat(path, &status) < 0)
        return NULL;
    return S_ISDIR(status.st_mode) && status.st_uid == geteuid() ? path : NULL;
}

static const char *given_folder(void)
{
    const char *path = secure_getenv("SLUICE_DIR");
    return path && *path ? path : NULL;
}

int sl_os_folder_name(char *path, size_t size, bool *ours)
{
    const char *given = given_folder(), *runtime = runtime_folder();
    char found[4096], here[4096];
    int length;
    /* Absolute, as the working directory may change. */
    if (given && *given != '/' && getcwd(here, sizeof(here)))
        length = snprintf(found, sizeof(found), "%s/%s", strcmp(here, "/") ? here : "", given);
    else if (given)
        length = snprintf(found, sizeof(found), "%s", given);
    else if (runtime)
        length = snprintf(found, sizeof(found), "%s/sluice", runtime);
    else
        length = snprintf(found, sizeof(found), "/tmp/sluice-%u", (unsigned)geteuid());
    if (length < 0 || (size_t)length >= size || (size_t)length >= sizeof(found))
        return sl_fail(SLUICE_E_INVALID,
                       "the folder of channels has a name of %d bytes; %zu is "
                       "the longest that works (see %s)",
                       length, size - 1, given ? "SLUICE_DIR" : "XDG_RUNTIME_DIR");
    memcpy(path, found, (size_t)length + 1);
    *ours = !given;
    return 0;
}

/* The standard folders, in the order in which they are searched. False: there is no k-th. */
static bool standard_folder(int k, char *path, size_t size, bool *real)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    int length = 0;
    switch (k) {
    case 0:
        length = snprintf(path, size, "%s/sluice", runtime ? runtime : "");
        *real = runtime && *runtime == '/';
        break;
    case 1:
        length = snprintf(path, size, "/run/user/%u/sluice", (unsigned)geteuid());
        *real = true;
        break;
    case 2:
        length = snprintf(path, size, "/tmp/sluice-%u", (unsigned)geteuid());
        *real = true;
        break;
    default: return false;
    }
    *real = *real && length > 0 && (size_t)length < size;
    return true;
}

static bool named_before(int k, const char *path)
{
    char earlier[4096];
    bool ours, real;
    if (sl_os_folder_name(earlier, sizeof(earlier), &ours) == 0 && !strcmp(earlier, path))
        return true;
    for (int i = 0; i < k; i++)
        if (standard_folder(i, earlier, sizeof(earlier), &real) && real && !strcmp(earlier, path))
            return true;
    return false;
}

bool sl_os_folder_other(int k, char *path, size_t size)
{
    char found[4096];
    bool real;
    for (int i = 0; standard_folder(i, found, sizeof(found), &real); i++) {
        if (!real || strlen(found) >= size || named_before(i, found) || k-- > 0)
            continue;
        strcpy(path, found);
        return true;
    }
    return false;
}

/* ---- opening it ---- */

static int refuse(const char *path, const char *why, const char *remedy)
{
    return sl_fail(SLUICE_E_PERMISSION, "the folder of channels, %s, %s: %s", path, why, remedy);
}

static int check_standard(const char *path, const struct stat *status)
{
    if (status->st_uid != geteuid())
        return sl_fail(SLUICE_E_PERMISSION,
                       "the folder of channels, %s, belongs to user %u, not "
                       "to us (%u): have it removed, or set SLUICE_DIR",
                       path, (unsigned)status->st_uid, (unsigned)geteuid());
    if ((status->st_mode & 0777) != 0700)
        return sl_fail(SLUICE_E_PERMISSION,
                       "the folder of channels, %s, has mode %04o where 0700 "
                       "is needed: chmod 700 it, or set SLUICE_DIR to a folder for several users",
                       path, (unsigned)status->st_mode & 0777u);
    return 0;
}

static int check_given(const char *path, const struct stat *status, bool others)
{
    if ((status->st_mode & S_IWOTH) && !(status->st_mode & S_ISVTX))
        return refuse(path, "can be written by everybody, who could replace our files", "chmod o-w or chmod +t it");
    if (others && !(status->st_mode & 0011))
        return refuse(path, "lets no other user in, whom this channel is also for", "chmod 711 it");
    return 0;
}

static int open_folder(const char *path, int flags)
{
    int fd;
    flags |= O_DIRECTORY | O_CLOEXEC;
    SL_RETRY(fd, sl_above_standard(open(path, O_RDONLY | flags)));
    if (fd < 0 && errno == EACCES) /* a folder that can be searched but not listed */
        SL_RETRY(fd, sl_above_standard(open(path, O_PATH | flags)));
    return fd;
}

static int open_failed(const char *path, bool ours)
{
    struct stat status;
    int error = errno;
    if (error == ENOENT)
        return sl_fail(SLUICE_E_NOT_FOUND, "there is no folder of channels at %s", path);
    if (ours && (error == ELOOP || error == ENOTDIR) && lstat(path, &status) == 0)
        return refuse(path, S_ISLNK(status.st_mode) ? "is a link" : "is not a folder", "remove it, or set SLUICE_DIR");
    return sl_fail_errno(error, "the folder of channels, %s", path);
}

int sl_os_folder_open(const char *path, bool ours, struct sl_folder_options options, int *dir)
{
    if (ours && options.others)
        return refuse(path, "is for this user alone, and this channel is also for others",
                      "set SLUICE_DIR, for both sides, to a folder that they may enter");
    mode_t mode = options.others ? 0711 : 0700;
    bool made = options.create && mkdir(path, mode) == 0;
    if (options.create && !made && errno != EEXIST)
        return sl_fail_errno(errno, "making the folder of channels, %s", path);
    int fd = open_folder(path, ours ? O_NOFOLLOW : 0);
    if (fd < 0)
        return open_failed(path, ours);
    if (made)
        fchmod(fd, mode); /* whatever the umask was; checked below */
    struct stat status;
    int result = 0;
    if (fstat(fd, &status) < 0)
        result = sl_fail_errno(errno, "the folder of channels, %s", path);
    else
        result = ours ? check_standard(path, &status) : check_given(path, &status, options.others);
    if (result) {
        sl_os_close(fd);
        return result;
    }
    *dir = fd;
    return 0;
}

/* ---- locks ---- */

static uint32_t read_pid(int fd)
{
    char text[16] = "";
    ssize_t got;
    SL_RETRY(got, pread(fd, text, sizeof(text) - 1, 0));
    unsigned long pid = got > 0 ? strtoul(text, NULL, 10) : 0;
    return pid <= INT32_MAX ? (uint32_t)pid : 0;
}

/* The pid is only for messages and people: the lock works without it. The file is truncated only if
 * it is longer than the text, as truncating may wait for the disk. */
static void write_pid(int fd, int64_t size)
{
    char text[16];
    int length = snprintf(text, sizeof(text), "%u\n", sl_os_pid());
    ssize_t result;
    struct rlimit limit; /* exceeding it raises a signal that kills by default */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(text))
        return;
    SL_RETRY(result, pwrite(fd, text, (size_t)length, 0));
    if (size > length)
        SL_RETRY(result, ftruncate(fd, result < 0 ? 0 : length));
}

int sl_os_lock(int dir, const char *name, int *fd, uint32_t *holder)
{
    int lock, result;
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    SL_RETRY(lock, sl_above_standard(openat(dir, name, flags, 0600)));
    if (lock < 0)
        return errno == EACCES ? sl_fail(SLUICE_E_PERMISSION,
                                         "this user may not write the lock file %s: take another name, or a folder of "
                                         "one's own: SLUICE_DIR",
                                         name)
                               : sl_fail_errno(errno, "the lock file %s", name);
    struct stat status;
    /* A file that is written to must be a plain one. */
    if (fstat(lock, &status) < 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1) {
        sl_os_close(lock);
        return sl_fail(SLUICE_E_PERMISSION, "the lock file %s is not a file of this one name: remove it", name);
    }
    SL_RETRY(result, flock(lock, LOCK_EX | LOCK_NB));
    if (result < 0) {
        if (errno == EWOULDBLOCK) {
            *holder = read_pid(lock);
            result = SLUICE_E_EXISTS;
        } else {
            result = sl_fail_errno(errno, "locking %s", name);
        }
        sl_os_close(lock);
        return result;
    }
    *holder = read_pid(lock);
    write_pid(lock, status.st_size);
    *fd = lock;
    return 0;
}

void sl_os_lock_forget(int fd)
{
    int result;
    SL_RETRY(result, ftruncate(fd, 0));
    (void)result;
}

/* ---- names in it ---- */

void sl_os_remove(int dir, const char *name)
{
    unlinkat(dir, name, 0);
}

bool sl_os_file_at(int dir, const char *name, struct sl_os_file *file)
{
    struct stat status;
    if (fstatat(dir < 0 ? AT_FDCWD : dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    *file = (struct sl_os_file){ .device = status.st_dev, .inode = status.st_ino };
    return true;
}

bool sl_os_is_file(int fd, const struct sl_os_file *file)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode;
}

static int list_entries(DIR *entries, int (*each)(void *context, const char *name, uint32_t uid), void *context)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (!entry)
            return errno ? sl_fail_errno(errno, "listing the folder of channels") : 0;
        struct stat status;
        if (entry->d_type != DT_SOCK && entry->d_type != DT_UNKNOWN)
            continue;
        if (fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(status.st_mode))
            continue; /* removed meanwhile, or no socket */
        int result = each(context, entry->d_name, status.st_uid);
        if (result)
            return result;
    }
}

int sl_os_list(int dir, int (*each)(void *context, const char *name, uint32_t uid), void *context)
{
    int fd;
    SL_RETRY(fd, openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0 && errno == EACCES)
        return sl_fail(SLUICE_E_PERMISSION,
                       "this user may not list the folder of channels: its owner lets others by chmod 755");
    if (fd < 0)
        return sl_fail_errno(errno, "listing the folder of channels");
    DIR *entries = fdopendir(fd);
    if (!entries) {
        int result = sl_fail_errno(errno, "listing the folder of channels");
        sl_os_close(fd);
        return result;
    }
    int result = list_entries(entries, each, context);
    closedir(entries);
    return result;
}

int sl_os_watch_add(int fd, const char *path)
{
    uint32_t names = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ATTRIB; /* see sl_os_listen */
    uint32_t folder = IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    if (inotify_add_watch(fd, path, names | folder) >= 0)
        return 0;
    return errno == ENOENT ? sl_fail(SLUICE_E_NOT_FOUND, "there is no folder of channels at %s", path)
                           : sl_fail_errno(errno, "watching %s", path);
}

int sl_os_watch_open(const char *path, int *fd)
{
    int made = sl_above_standard(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (made < 0 && errno == EMFILE)
        return sl_fail(SLUICE_E_NO_DESCRIPTORS,
                       "watching %s: out of descriptors (RLIMIT_NOFILE) "
                       "or of fs.inotify.max_user_instances",
                       path);
    if (made < 0)
        return sl_fail_errno(errno, "watching %s", path);
    int result = sl_os_watch_add(made, path);
    if (result) {
        sl_os_close(made);
        return result;
    }
    *fd = made;
    return 0;
}

static void note_any(void *context, const char *name)
{
    (void)name;
    *(bool *)context = true;
}

bool sl_os_watch_drain(int fd)
{
    bool any = false;
    while (sl_os_watch_read(fd, note_any, &any))
        ;
    return any;
}

bool sl_os_watch_read(int fd, void (*each)(void *context, const char *name), void *context)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t got;
    SL_RETRY(got, read(fd, events, sizeof(events)));
    for (ssize_t at = 0; at < got;) {
        const struct inotify_event *event = (const struct inotify_event *)(const void *)(events + at);
        each(context, event->len ? event->name : NULL);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return got > 0;
}
