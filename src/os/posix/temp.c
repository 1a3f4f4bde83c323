/* SPDX-License-Identifier: MIT
 *
 * Private temporary folders, and whole files in them; libraries that are in memory only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* ---- folders ---- */

int sl_os_temp_make(char *path, size_t size)
{
    const char *where = secure_getenv("TMPDIR");

    if (!where || *where != '/')
        where = "/tmp";
    if ((size_t)snprintf(path, size, "%s/sluice-XXXXXX", where) >= size)
        return sl_fail(SLUICE_E_INVALID, "the name of the folder for temporary files, TMPDIR, is too long");
    if (!mkdtemp(path)) /* with mode 0700 */
        return sl_fail_errno(errno, "making a temporary folder in %s (TMPDIR names another)", where);
    return 0;
}

void sl_os_temp_remove(const char *path)
{
    DIR *dir = opendir(path);

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        unlinkat(dirfd(dir), entry->d_name, 0); /* not "." and "..": these are folders */
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* ---- files ---- */

int sl_write_all(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n;
        SL_RETRY(n, write(fd, (const char *)bytes + done, size - done));
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

int sl_os_file_write(const char *path, const void *bytes, size_t size)
{
    int fd;

    SL_RETRY(fd, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700));
    if (fd < 0)
        return sl_fail_errno(errno, "making %s", path);
    int error = sl_write_all(fd, bytes, size);
    sl_os_close(fd);
    return error ? sl_fail_errno(error, "writing %s", path) : 0;
}

int sl_read_all(int fd, const char *path, void **bytes, size_t *size)
{
    struct stat status;

    if (fstat(fd, &status) < 0)
        return sl_fail_errno(errno, "reading %s", path);
    size_t length = (size_t)status.st_size, done = 0;
    char *all = malloc(length + 1);
    if (!all)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the %zu bytes of %s", length, path);
    while (done < length) {
        ssize_t n;
        SL_RETRY(n, pread(fd, all + done, length - done, (off_t)done));
        if (n <= 0) {
            int error = n < 0 ? errno : EIO;
            free(all);
            return sl_fail_errno(error, "reading %s", path);
        }
        done += (size_t)n;
    }
    all[length] = 0;
    *bytes = all;
    *size = length;
    return 0;
}

int sl_os_file_read(const char *path, void **bytes, size_t *size)
{
    int fd;

    SL_RETRY(fd, open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return sl_fail_errno(errno, "opening %s", path);
    int r = sl_read_all(fd, path, bytes, size);
    sl_os_close(fd);
    return r;
}

/* ---- libraries ---- */

/* The loader takes a library for one that it has by its path. Descriptors get the same numbers again, so each path is
 * another spelling: a dot or none for each bit of a count. */
static void path_of(int fd, char *path, size_t size)
{
    static sl_word32 loads;
    uint32_t bits = (uint32_t)sl_add(&loads, 1);
    size_t at = (size_t)snprintf(path, size, "/proc/self/fd");

    for (int i = 0; i < 32 && bits >> i; i++)
        at += (size_t)snprintf(path + at, size - at, bits >> i & 1 ? "/." : "//.");
    snprintf(path + at, size - at, "/%d", fd);
}

int sl_os_dl_load(const char *name, const void *bytes, size_t size, void **library)
{
    char path[160];
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_EXEC);

    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC);
    fd = sl_above_standard(fd);
    if (fd < 0)
        return sl_fail_call(errno, "memfd_create", "making a file in memory");
    int error = sl_write_all(fd, bytes, size);
    int r = error ? sl_fail_errno(error, "writing %zu bytes into memory", size) : 0;
    if (r == 0) {
        path_of(fd, path, sizeof path);
        r = sl_os_dl_open(path, library);
    }
    sl_os_close(fd);
    return r;
}
