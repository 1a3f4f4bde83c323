/* SPDX-License-Identifier: MIT
 *
 * The sockets of channels: in the folder, for readers; and in the kernel's own list of names, where nobody can remove
 * them, for the writer's claim.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/posix/posix.h"
#include "util/hooks.h"
#include "util/result.h"

enum { BACKLOG = 128 };

/* A socket's address has room for 107 bytes; a longer path is opened through the folder's
 * descriptor. */
static int address_of(struct sockaddr_un *address, int dir, const char *path, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    size_t room = sizeof(address->sun_path);
    int length = snprintf(address->sun_path, room, "%s/%s", path, name);
    if (length < 0 || (size_t)length >= room)
        length = snprintf(address->sun_path, room, "/proc/self/fd/%d/%s", dir, name);
    if (length < 0 || (size_t)length >= room)
        return sl_fail(SLUICE_E_NAME, "the name %.40s... is too long for a socket", name);
    return 0;
}

static int new_socket(int *fd)
{
    int made = sl_above_standard(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (made < 0)
        return sl_fail_errno(errno, "making a socket");
    *fd = made;
    return 0;
}

/* ---- listening ---- */

static int start_listening(int fd, int dir, const struct sockaddr_un *address, const char *name, unsigned mode,
                           int64_t group)
{
    SL_KILL_POINT("after_bind");
    if (group >= 0 && fchownat(dir, name, (uid_t)-1, (gid_t)group, AT_SYMLINK_NOFOLLOW) < 0)
        return sl_fail_errno(errno, "giving the socket %s to group %lld", address->sun_path, (long long)group);
    /* Readers send their pidfd only on kernels that cannot provide it, and those do not support
     * this option. */
    sl_os_take_no_descriptors(fd);
    if (listen(fd, BACKLOG) < 0)
        return sl_fail_errno(errno, "listening on %s", address->sun_path);
    /* Last, as it also tells those who watch the folder that the socket listens now. */
    if (fchmodat(dir, name, (mode_t)mode, 0) < 0)
        return sl_fail_errno(errno, "giving the socket %s mode %04o", address->sun_path, mode);
    return 0;
}

/* A socket of that name may be replaced, as nobody listens on it any more; anything else is not
 * ours. */
static int check_replaceable(int dir, const char *path, const char *name)
{
    struct stat status;
    if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || S_ISSOCK(status.st_mode))
        return 0;
    return sl_fail(SLUICE_E_EXISTS,
                   "%s in %s is no socket, and in the way: remove it, or take another "
                   "name",
                   name, path);
}

int sl_os_listen(int dir, const char *path, const char *name, unsigned mode, int64_t group, int *fd)
{
    struct sockaddr_un address;
    int made = -1;
    int result = address_of(&address, dir, path, name);
    if (!result)
        result = check_replaceable(dir, path, name);
    if (!result)
        result = new_socket(&made);
    if (result)
        return result;
    /* The file has this mode from its first moment, less the umask. */
    (void)fchmod(made, (mode_t)(group < 0 ? mode : mode & 0700u));
    unlinkat(dir, name, 0);
    if (bind(made, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        result = sl_fail_errno(errno, "making the socket %s", address.sun_path);
    } else if ((result = start_listening(made, dir, &address, name, mode, group)) != 0) {
        unlinkat(dir, name, 0);
    }
    if (result) {
        sl_os_close(made);
        return result;
    }
    *fd = made;
    return 0;
}

/* ---- connecting ---- */

static int connect_failed(int error, const char *path, const char *name, bool *stale)
{
    switch (error) {
    case EAGAIN: return SLUICE_AGAIN;
    case ENOENT: return sl_fail(SLUICE_E_NOT_FOUND, "there is no %s in %s", name, path);
    case ECONNREFUSED: *stale = true; return sl_fail(SLUICE_E_NOT_FOUND, "no process listens at %s in %s", name, path);
    case EACCES:
        return sl_fail(
            SLUICE_E_PERMISSION,
            "this user may not connect to %s in %s: its writer names others by its options 'uids' and 'gids', "
            "and the folder lets them pass with chmod 711",
            name, path);
    case EPROTOTYPE: return sl_fail(SLUICE_E_PROTOCOL, "%s in %s is a socket of some other program", name, path);
    default: return sl_fail_errno(error, "connecting to %s in %s", name, path);
    }
}

int sl_os_connect(int dir, const char *path, const char *name, int *fd, bool *stale)
{
    struct sockaddr_un address;
    int made = -1, connected;
    *stale = false;
    int result = address_of(&address, dir, path, name);
    if (!result)
        result = new_socket(&made);
    if (result)
        return result;
    SL_RETRY(connected, connect(made, (const struct sockaddr *)&address, sizeof(address)));
    if (connected < 0) {
        result = connect_failed(errno, path, name, stale);
        sl_os_close(made);
        return result;
    }
    *fd = made;
    return 0;
}

/* ---- claims ---- */

static uint64_t hash(uint64_t sum, const void *bytes, size_t size)
{
    for (const unsigned char *at = bytes; size > 0; size--) /* FNV-1a */
        sum = (sum ^ *at++) * UINT64_C(0x100000001b3);
    return sum;
}

/* Of a folder's path, as seen from this process: in another mount namespace or below another root, the same path
 * may be another folder. */
static uint64_t hash_of_folder(const char *folder)
{
    static const char *const where[] = { "/", "/proc/self/ns/mnt" };
    char real[PATH_MAX];
    struct sl_os_file file;
    struct stat status;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
        file = (struct sl_os_file){ 0 };
        if (stat(where[i], &status) == 0)
            file = (struct sl_os_file){ .device = status.st_dev, .inode = status.st_ino };
        sum = hash(sum, &file, sizeof(file));
    }
    if (realpath(folder, real))
        folder = real;
    return hash(sum, folder, strlen(folder));
}

/* An address that begins with a zero byte is in no folder: it exists as long as its socket. */
static socklen_t claim_address(struct sockaddr_un *address, const char *folder, const char *name)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "sluice/%u/%016" PRIx64 "/%s",
                          (unsigned)geteuid(), hash_of_folder(folder), name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Who listens there? Another user's process does not count. */
static bool find_claimant(const struct sockaddr_un *address, socklen_t size, uint32_t *pid)
{
    struct ucred who = { .uid = (uid_t)-1 };
    socklen_t length = sizeof(who);
    int fd = -1, connected;

    if (new_socket(&fd) != 0)
        return false;
    SL_RETRY(connected, connect(fd, (const struct sockaddr *)address, size));
    bool found = connected == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
    sl_os_close(fd);
    *pid = (uint32_t)who.pid;
    return found;
}

int sl_os_claim(const char *folder, const char *name, int *fd, uint32_t *holder)
{
    struct sockaddr_un address;
    socklen_t size = claim_address(&address, folder, name);
    int made = -1, result = new_socket(&made);

    *fd = -1;
    if (result)
        return result;
    if (bind(made, (const struct sockaddr *)&address, size) == 0 && listen(made, BACKLOG) == 0) {
        sl_os_take_no_descriptors(made);
        *fd = made;
        return 0;
    }
    bool taken = errno == EADDRINUSE && find_claimant(&address, size, holder);
    sl_os_close(made);
    return taken ? SLUICE_E_EXISTS : 0;
}

bool sl_os_find_claimant(const char *folder, const char *name, uint32_t *pid)
{
    struct sockaddr_un address;
    socklen_t size = claim_address(&address, folder, name);

    return find_claimant(&address, size, pid);
}
