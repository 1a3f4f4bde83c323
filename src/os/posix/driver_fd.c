/* SPDX-License-Identifier: MIT
 *
 * Descriptors made by a driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "os/os.h"
#include "util/result.h"

int sl_os_driver_fd_kind(int fd, struct sl_os_driver_fd *kind)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return sl_fail_errno(errno, "looking at descriptor %d", fd);
    kind->file_system = status.st_dev;
    kind->type = status.st_mode & S_IFMT;
    kind->driver = S_ISCHR(status.st_mode) ? major(status.st_rdev) : 0;
    return 0;
}

int sl_os_driver_fd_prepare(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0)
        return sl_fail_errno(errno, "taking over descriptor %d", fd);
    return 0;
}
