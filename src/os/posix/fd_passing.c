/* SPDX-License-Identifier: MIT
 *
 * Messages and descriptors between processes, over sockets that preserve message boundaries.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

/* The most that the kernel passes in one message (SCM_MAX_FD). With room for all of them a
 * truncated list can only mean that this process has no descriptors left. */
enum { MAX_RECEIVED_FDS = 253 };

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

int sl_os_send(int fd, const void *message, size_t size, const int *fds, int fd_count)
{
    if (!size || fd_count < 0 || fd_count > SL_OS_MAX_FDS)
        return sl_fail(SLUICE_E_INVALID, "a message of %zu bytes with %d descriptors", size, fd_count);
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(SL_OS_MAX_FDS * sizeof(int))];
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
    case ETOOMANYREFS: /* too many of this user's descriptors are in flight */ return SLUICE_AGAIN;
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ECONNREFUSED: return SLUICE_CLOSED;
    default: return sl_fail_errno(errno, "sending %zu bytes with %d descriptors", size, fd_count);
    }
}

/* A TCP socket may have SO_LINGER set, which can block its last close for hours. */
void sl_os_discard(const int *fds, int count)
{
    struct linger none = { 0 };
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0)
            (void)setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
        sl_os_close(fds[i]);
    }
}

void sl_os_take_no_descriptors(int fd)
{
    int no = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
}

static int collect_fds(struct msghdr *header, int *fds)
{
    int count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int received_here = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (received_here > MAX_RECEIVED_FDS - count)
            received_here = MAX_RECEIVED_FDS - count;
        memcpy(fds + count, CMSG_DATA(c), (size_t)received_here * sizeof(int));
        count += received_here;
    }
    return count;
}

static int fail_truncated(void)
{
    struct rlimit limit = { 0, 0 };
    getrlimit(RLIMIT_NOFILE, &limit);
    return sl_fail(SLUICE_E_NO_DESCRIPTORS,
                   "descriptors that the peer sent were cut off: "
                   "RLIMIT_NOFILE is %llu here (raise it: ulimit -n)",
                   (unsigned long long)limit.rlim_cur);
}

/* One received message with all its descriptors. */
struct received {
    ssize_t size;   /* 0: the end, or an empty message; -1: see errno */
    bool certified; /* it came with its sender's credentials */
    int flags;      /* those of recvmsg */
    int count;
    int fds[MAX_RECEIVED_FDS];
};

/* A connection reset is reported before messages that the peer sent earlier, and only once, so read
 * again after it. */
static void receive(int fd, void *bytes, size_t capacity, struct received *received)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(MAX_RECEIVED_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = { .iov_base = bytes, .iov_len = capacity };
    struct msghdr header;
    ssize_t got;
    bool reset = false;
    for (;;) {
        header = (struct msghdr){
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        SL_RETRY(got, recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
        if (got >= 0 || errno != ECONNRESET || reset)
            break;
        reset = true;
    }
    received->size = got < 0 && reset ? 0 : got;
    received->flags = got < 0 ? 0 : header.msg_flags;
    received->certified = got >= 0 && header.msg_controllen > 0;
    received->count = got < 0 ? 0 : collect_fds(&header, received->fds);
    for (int i = 0; i < received->count; i++)
        if ((received->fds[i] = sl_above_standard(received->fds[i])) < 0)
            received->flags |= MSG_CTRUNC;
}

int sl_os_receive(int fd, void *message, size_t capacity, size_t *size, int *fds, int *fd_count)
{
    struct received received;
    int result = 0;
    receive(fd, message, capacity, &received);
    if (received.size < 0)
        return errno == EAGAIN     ? SLUICE_AGAIN
               : errno == ENOTCONN ? SLUICE_CLOSED
                                   : sl_fail_errno(errno, "receiving a message");
    if (received.flags & MSG_CTRUNC)
        result = fail_truncated();
    else if (received.flags & MSG_TRUNC)
        result = sl_fail(SLUICE_E_PROTOCOL, "the peer sent a message of more than %zu bytes", capacity);
    else if (received.count > SL_OS_MAX_FDS)
        result = sl_fail(SLUICE_E_PROTOCOL, "the peer sent %d descriptors in one message", received.count);
    else if (!received.size)
        result = SLUICE_CLOSED; /* no correct peer sends an empty message */
    if (result) {
        sl_os_discard(received.fds, received.count);
        return result;
    }
    memcpy(fds, received.fds, (size_t)received.count * sizeof(int));
    *fd_count = received.count;
    *size = (size_t)received.size;
    return 0;
}

int sl_os_socket_pair(int fds[2])
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return sl_fail_errno(errno, "making a pair of sockets");
    pair[0] = sl_above_standard(pair[0]);
    pair[1] = sl_above_standard(pair[1]);
    if (pair[0] < 0 || pair[1] < 0) {
        int result = sl_fail_errno(EMFILE, "making a pair of sockets");
        sl_os_close(pair[0]);
        sl_os_close(pair[1]);
        return result;
    }
    fds[0] = pair[0];
    fds[1] = pair[1];
    return 0;
}

bool sl_os_is_wake_socket(int fd)
{
    int domain = -1, type = -1;
    socklen_t size = sizeof(domain);
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    size = sizeof(type);
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    return domain == AF_UNIX && type == SOCK_SEQPACKET;
}

int sl_os_accept(int listener, int *fd)
{
    int accepted;
    SL_RETRY(accepted, sl_above_standard(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (accepted < 0 && (errno == EAGAIN || errno == ECONNABORTED))
        return SLUICE_AGAIN;
    if (accepted < 0)
        return sl_fail_errno(errno, "accepting a connection");
    *fd = accepted;
    return 0;
}

int sl_os_descriptors_left(uint32_t count)
{
    struct rlimit limit = { 0, 0 };

    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX; fd-- > 0 && count > 0;)
        count -= fcntl(fd, F_GETFD) < 0 && errno == EBADF;
    return count == 0 ? 0
                      : sl_fail(SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE is %llu here (raise it: ulimit -n)",
                                (unsigned long long)limit.rlim_cur);
}

bool sl_os_drain(int fd)
{
    bool any = false;
    char bytes[64];
    struct received received;
    for (int i = 0; i < 1000; i++) { /* limited, as a peer may send without end */
        receive(fd, bytes, sizeof(bytes), &received);
        sl_os_discard(received.fds, received.count);
        if (received.size <= 0)
            break;
        any = true;
    }
    return any;
}

/* Could its queue hold descriptors? */
static bool accepts_descriptors(int fd)
{
    int takes = 1;
    socklen_t size = sizeof(takes);
    return getsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &takes, &size) < 0 || takes;
}

bool sl_os_hung_up(int fd)
{
    struct pollfd events = { .fd = fd };
    return poll(&events, 1, 0) > 0 && events.revents & POLLHUP;
}

void sl_os_hang_up(int fd)
{
    int error = errno, yes = 1;
    struct received received;
    char byte;
    if (fd >= 0 && accepts_descriptors(fd)) {
        /* Nothing can arrive after what is read here. An empty message looks like the end, but
         * every message has credentials. */
        (void)shutdown(fd, SHUT_RD);
        (void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
        do {
            receive(fd, &byte, 1, &received);
            sl_os_discard(received.fds, received.count);
        } while (received.size > 0 || received.certified);
    }
    if (fd >= 0)
        (void)shutdown(fd, SHUT_RDWR);
    sl_os_close(fd);
    errno = error;
}
