/* SPDX-License-Identifier: MIT
 *
 * What programs wait for: events. Sets of descriptors are for Sluice's own channels, which do not exist here yet.
 */
#include "os/win32/win32.h"
#include "util/result.h"

int sl_os_epoll_open(int *fd)
{
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Windows has no set of descriptors to wait for");
}

int sl_os_epoll_add(int epoll, int fd)
{
    (void)epoll;
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, "Windows has no set of descriptors to wait for");
}

void sl_os_epoll_remove(int epoll, int fd)
{
    (void)epoll;
    (void)fd;
}

int sl_os_eventfd_open(int *fd)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);

    if (!event)
        return sl_fail_windows(GetLastError(), "making an event");
    return sl_fd_new(event, NULL, fd);
}

void sl_os_eventfd_set(int fd)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (object)
        SetEvent(object->handle);
}

void sl_os_eventfd_clear(int fd)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (object)
        ResetEvent(object->handle);
}

int sl_os_wait_readable(int fd, int64_t deadline)
{
    struct sl_object_fd *object = sl_fd_find(fd);

    if (!object)
        return sl_fail(SLUICE_E_INVALID, "%d stands for no handle", fd);
    return sl_wait_until(&object->handle, 1, deadline) == 0 ? 0 : SLUICE_TIMEOUT;
}
