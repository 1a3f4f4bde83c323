/* SPDX-License-Identifier: MIT
 *
 * Descriptors that others made.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/os.h"

static struct sl_os_driver_fd kind_of(int fd)
{
    struct sl_os_driver_fd kind;

    memset(&kind, 0xee, sizeof kind);
    CHECK_OK(sl_os_driver_fd_kind(fd, &kind));
    return kind;
}

TEST(driver_fd_kinds_are_recognised)
{
    int one, two, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct sl_os_driver_fd kind;

    CHECK_OK(sl_os_memory_create("one", 4096, &one));
    CHECK_OK(sl_os_memory_create("two", 8192, &two));
    CHECK_EQ(kind_of(one).file_system, kind_of(two).file_system);
    CHECK_EQ(kind_of(one).type, kind_of(two).type);
    CHECK_EQ(kind_of(one).driver, 0);
    CHECK_EQ(kind_of(file).type, kind_of(one).type);
    CHECK_NE(kind_of(file).file_system, kind_of(one).file_system);
    CHECK_NE(kind_of(null).type, kind_of(one).type);
    CHECK_EQ(kind_of(null).driver, 1); /* the kernel's memory devices */
    sl_os_close(one);
    sl_os_close(two);
    close(null);
    close(file);
    CHECK_SAYS(sl_os_driver_fd_kind(-1, &kind), SLUICE_E_SYSTEM, "descriptor -1");
}

TEST(driver_fds_do_not_outlive_exec)
{
    int fd = open("/dev/null", O_RDONLY);

    CHECK_EQ(fcntl(fd, F_GETFD), 0);
    CHECK_OK(sl_os_driver_fd_prepare(fd));
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    CHECK_SAYS(sl_os_driver_fd_prepare(-1), SLUICE_E_SYSTEM, "descriptor -1");
}
