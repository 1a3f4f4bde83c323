/* SPDX-License-Identifier: MIT
 *
 * Descriptors that programs poll: epoll and eventfd.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

int sl_os_epoll_open(int *fd)
{
    int epoll = sl_above_standard(epoll_create1(EPOLL_CLOEXEC));
    if (epoll < 0)
        return sl_fail_call(errno, "epoll_create1", "cannot make an epoll descriptor");
    *fd = epoll;
    return 0;
}

int sl_os_epoll_add(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return sl_fail_errno(errno, "cannot add descriptor %d to an epoll descriptor", fd);
    return 0;
}

void sl_os_epoll_remove(int epoll, int fd)
{
    (void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

int sl_os_eventfd_open(int *fd)
{
    int event = sl_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event < 0)
        return sl_fail_call(errno, "eventfd2", "cannot make an eventfd");
    *fd = event;
    return 0;
}

void sl_os_eventfd_set(int fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

void sl_os_eventfd_clear(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

int sl_os_descriptor(int fd)
{
    return fd;
}

int sl_os_handle(int fd, void **handle)
{
    (void)fd;
    (void)handle;
    return sl_fail(SLUICE_E_UNSUPPORTED, "handles are Windows': poll the descriptor (sluice_reader_fd)");
}

int sl_os_wait_readable(int fd, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline == SLUICE_FOREVER ? -1 : deadline - sl_os_now();
        if (deadline != SLUICE_FOREVER && left < 0)
            left = 0;
        struct timespec time = { .tv_sec = left / SLUICE_S, .tv_nsec = left % SLUICE_S };
        struct pollfd poll = { .fd = fd, .events = POLLIN };
        int n = ppoll(&poll, 1, left < 0 ? NULL : &time, NULL);
        if (n > 0)
            return 0;
        if (n == 0)
            return SLUICE_TIMEOUT;
        if (errno != EINTR)
            return sl_fail_errno(errno, "cannot poll descriptor %d", fd);
    }
}
