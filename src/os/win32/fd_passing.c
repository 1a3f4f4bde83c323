/* SPDX-License-Identifier: MIT
 *
 * Messages of Sluice's own channels, which do not exist here yet.
 */
#include "os/win32/win32.h"

int sl_os_send(int fd, const void *message, size_t size, const int *fds, int fd_count)
{
    (void)fd;
    (void)message;
    (void)size;
    (void)fds;
    (void)fd_count;
    return SLUICE_CLOSED;
}

int sl_os_receive(int fd, void *message, size_t capacity, size_t *size, int *fds, int *fd_count)
{
    (void)fd;
    (void)message;
    (void)capacity;
    (void)size;
    (void)fds;
    (void)fd_count;
    return SLUICE_CLOSED;
}

void sl_os_take_no_descriptors(int fd)
{
    (void)fd;
}

void sl_os_discard(const int *fds, int count)
{
    for (int i = 0; i < count; i++)
        sl_os_close(fds[i]);
}

void sl_os_hang_up(int fd)
{
    (void)fd;
}

bool sl_os_hung_up(int fd)
{
    (void)fd;
    return true;
}

int sl_os_socket_pair(int fds[2])
{
    (void)fds;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

bool sl_os_is_wake_socket(int fd)
{
    (void)fd;
    return false;
}

int sl_os_accept(int listener, int *fd)
{
    (void)listener;
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

bool sl_os_drain(int fd)
{
    (void)fd;
    return false;
}

int sl_os_peer(int fd, struct sl_peer_identity *peer)
{
    (void)fd;
    (void)peer;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

bool sl_os_peer_allowed(int fd, const struct sl_peer_identity *peer, const uint32_t *uids, uint32_t uid_count,
                        const uint32_t *gids, uint32_t gid_count)
{
    (void)fd;
    (void)peer;
    (void)uids;
    (void)uid_count;
    (void)gids;
    (void)gid_count;
    return false;
}
