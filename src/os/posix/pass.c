/* SPDX-License-Identifier: MIT
 *
 * Messages and descriptors between processes, over sockets that keep message boundaries.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

/* The kernel passes no more in one message (SCM_MAX_FD). With room for all of them, a cut-off list
 * has one meaning: no descriptors were left here. */
enum { MOST_FDS = 253 };

int sl_os_send(int fd, const void *message, size_t size, const int *fds, int fd_count)
{
    if (!size || fd_count < 0 || fd_count > SL_OS_MAX_FDS)
        return sl_fail(SLUICE_E_INVALID, "a message of %zu bytes with %d descriptors", size,
                       fd_count);
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(SL_OS_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = { .iov_base = (void *)(uintptr_t)message, .iov_len = size };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    if (fd_count) {
        memset(&control, 0, sizeof(control));
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)fd_count * sizeof(int));
    }
    ssize_t sent;
    SL_RETRY(sent, sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (sent >= 0)
        return 0;
    switch (errno) {
    case EAGAIN:
    case ENOBUFS:
    case ETOOMANYREFS: /* descriptors of this user that others have not taken yet */
        return SLUICE_AGAIN;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ECONNREFUSED:
        return SLUICE_CLOSED;
    default:
        return sl_fail_errno(errno, "sending %zu bytes with %d descriptors", size, fd_count);
    }
}

static void close_all(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        sl_os_close(fds[i]);
}

static int take_fds(struct msghdr *header, int *fds)
{
    int count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int came = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (came > MOST_FDS - count)
            came = MOST_FDS - count;
        memcpy(fds + count, CMSG_DATA(c), (size_t)came * sizeof(int));
        count += came;
    }
    return count;
}

static int cut_off(void)
{
    struct rlimit limit = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &limit);
    return sl_fail(SLUICE_E_NO_DESCRIPTORS, "descriptors that the peer sent were cut off: "
                   "RLIMIT_NOFILE is %llu here (raise it: ulimit -n)",
                   (unsigned long long)limit.rlim_cur);
}

/* The end of a connection, or nothing yet. A reset is reported before what the peer sent ahead of
 * it, and once only: after it, read on. */
static ssize_t receive(int fd, struct msghdr *header)
{
    ssize_t got;
    size_t room = header->msg_controllen;
    bool reset = false;
    for (;;) {
        header->msg_controllen = room;
        SL_RETRY(got, recvmsg(fd, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
        if (got >= 0 || errno != ECONNRESET)
            break;
        if (reset)
            return 0;
        reset = true;
    }
    return got < 0 && reset ? 0 : got;
}

int sl_os_receive(int fd, void *message, size_t capacity, size_t *size, int *fds, int *fd_count)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control;
    int came[MOST_FDS];
    struct iovec part = { .iov_base = message, .iov_len = capacity };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof(control) };
    ssize_t got = receive(fd, &header);
    if (got < 0)
        return errno == EAGAIN     ? SLUICE_AGAIN
               : errno == ENOTCONN ? SLUICE_CLOSED
                                   : sl_fail_errno(errno, "receiving a message");

    int count = take_fds(&header, came);
    int result = 0;
    if (header.msg_flags & MSG_CTRUNC)
        result = cut_off();
    else if (header.msg_flags & MSG_TRUNC)
        result = sl_fail(SLUICE_E_PROTOCOL, "the peer sent a message of more than %zu bytes",
                         capacity);
    else if (count > SL_OS_MAX_FDS)
        result = sl_fail(SLUICE_E_PROTOCOL, "the peer sent %d descriptors in one message", count);
    else if (!got)
        result = SLUICE_CLOSED; /* nobody sends an empty message */
    if (result) {
        close_all(came, count);
        return result;
    }
    memcpy(fds, came, (size_t)count * sizeof(int));
    *fd_count = count;
    *size = (size_t)got;
    return 0;
}

int sl_os_socket_pair(int fds[2])
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return sl_fail_errno(errno, "making a pair of sockets");
    fds[0] = pair[0];
    fds[1] = pair[1];
    return 0;
}

int sl_os_accept(int listener, int *fd)
{
    int accepted;
    SL_RETRY(accepted, accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted < 0 && (errno == EAGAIN || errno == ECONNABORTED))
        return SLUICE_AGAIN;
    if (accepted < 0)
        return sl_fail_errno(errno, "accepting a connection");
    *fd = accepted;
    return 0;
}

void sl_os_close(int fd)
{
    int error = errno;
    if (fd >= 0)
        sl_fork_close(fd);
    errno = error;
}

bool sl_os_drain(int fd)
{
    bool any = false;
    char bytes[64];
    struct iovec part = { .iov_base = bytes, .iov_len = sizeof(bytes) };
    for (int i = 0; i < 1000; i++) { /* a peer that never stops shall not keep us here */
        struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
        if (receive(fd, &header) <= 0)
            break;
        any = true;
    }
    return any;
}
