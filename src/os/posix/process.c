/* SPDX-License-Identifier: MIT
 *
 * The peer process: its identity, whether it may be trusted, whether it is alive.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/result.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define ID_IS_PIDFD ((idtype_t)3) /* P_PIDFD, which is missing in older headers */

int sl_os_peer(int fd, struct sl_peer_identity *peer)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return sl_fail_errno(errno, "asking who the peer is");
    if (who.uid == (uid_t)-1)
        return sl_fail(SLUICE_E_SYSTEM, "asking who the peer is: the socket is not connected");
    int pidfd = -1;
    size = sizeof(pidfd);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            return sl_fail_errno(errno, "getting a descriptor of the peer's process");
        pidfd = -1; /* an older kernel, or it is dead already */
    }
    *peer = (struct sl_peer_identity){ .pid = (uint32_t)who.pid, .uid = who.uid, .gid = who.gid };
    peer->pidfd = sl_above_standard(pidfd);
    return 0;
}

static uint32_t overflow_uid;

static void read_overflow_uid(void)
{
    overflow_uid = 65534;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (!file)
        return;
    unsigned value;
    if (fscanf(file, "%u", &value) == 1)
        overflow_uid = value;
    fclose(file);
}

static bool contains(const uint32_t *list, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

/* The peer's supplementary groups, if the kernel reports them. */
static bool in_other_groups(int fd, const uint32_t *gids, uint32_t gid_count)
{
    gid_t few[64], *groups = few;
    socklen_t size = sizeof(few);
    int result = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
    if (result < 0 && errno == ERANGE) { /* `size` has the required size */
        groups = malloc(size);
        if (!groups)
            return false;
        result = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size);
    }
    bool found = false;
    for (size_t i = 0; result == 0 && !found && i < size / sizeof(*groups); i++)
        found = contains(gids, gid_count, groups[i]);
    if (groups != few)
        free(groups);
    return found;
}

bool sl_os_peer_allowed(int fd, const struct sl_peer_identity *peer, const uint32_t *uids, uint32_t uid_count,
                        const uint32_t *gids, uint32_t gid_count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_overflow_uid);
    if (contains(uids, uid_count, peer->uid))
        return true;
    if (peer->uid == overflow_uid)
        return false;
    if (peer->uid == geteuid() || contains(gids, gid_count, peer->gid))
        return true;
    return gid_count && in_other_groups(fd, gids, gid_count);
}

int sl_os_self_pidfd(void)
{
    return sl_above_standard((int)syscall(SYS_pidfd_open, getpid(), 0));
}

bool sl_os_pidfd_valid(int fd)
{
    /* It need not be our child: in that case the error is ECHILD. Anything but a pidfd gives EBADF. */
    siginfo_t info;
    int result;
    if (fd < 0)
        return false;
    SL_RETRY(result, waitid(ID_IS_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT));
    return result == 0 || errno == ECHILD || errno == EAGAIN;
}

bool sl_os_pidfd_dead(int fd)
{
    struct pollfd process = { .fd = fd, .events = POLLIN };
    int result;
    if (fd < 0)
        return false;
    SL_RETRY(result, poll(&process, 1, 0));
    return result > 0 && process.revents & (POLLIN | POLLHUP);
}

bool sl_os_process_runs(uint32_t pid)
{
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

uint32_t sl_os_pid(void)
{
    return (uint32_t)getpid();
}

uint32_t sl_os_uid(void)
{
    return geteuid();
}

void sl_os_program(char *name, size_t size)
{
    const char *program = program_invocation_short_name;
    snprintf(name, size, "%s", program && *program ? program : "?");
}

/* The kernel reads a signal mask there before it looks at what to do with it, which is nothing that exists. Containers
 * forbid process_vm_readv. */
bool sl_os_readable(const void *address)
{
    uintptr_t mask = (uintptr_t)address & ~(uintptr_t)7;

    return mask && syscall(SYS_rt_sigprocmask, -1, mask, NULL, 8) != 0 &&
           errno != EFAULT; /* no mask would be no error */
}
