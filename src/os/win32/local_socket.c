/* SPDX-License-Identifier: MIT
 *
 * The sockets of Sluice's own channels, which do not exist here yet.
 */
#include "os/win32/win32.h"

int sl_os_listen(int dir, const char *path, const char *name, unsigned mode, int64_t group, int *fd)
{
    (void)dir;
    (void)path;
    (void)name;
    (void)mode;
    (void)group;
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_connect(int dir, const char *path, const char *name, int *fd, bool *stale)
{
    (void)dir;
    (void)path;
    (void)name;
    (void)fd;
    (void)stale;
    return sl_fail(SLUICE_E_UNSUPPORTED, SL_NATIVE_NEEDS_LINUX);
}

int sl_os_claim(const char *folder, const char *name, int *fd, uint32_t *holder)
{
    (void)folder;
    (void)name;
    (void)holder;
    *fd = -1;
    return 0;
}

bool sl_os_find_claimant(const char *folder, const char *name, uint32_t *pid)
{
    (void)folder;
    (void)name;
    (void)pid;
    return false;
}
