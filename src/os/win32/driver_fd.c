/* SPDX-License-Identifier: MIT
 *
 * A driver makes no descriptors here: what it shares in this way, channels of Sluice's own use alone.
 */
#include "os/os.h"
#include "util/result.h"

int sl_os_driver_fd_kind(int fd, struct sl_os_driver_fd *kind)
{
    (void)fd;
    (void)kind;
    return sl_fail(SLUICE_E_UNSUPPORTED, "a driver's descriptors are not shared on Windows");
}

int sl_os_driver_fd_prepare(int fd)
{
    (void)fd;
    return sl_fail(SLUICE_E_UNSUPPORTED, "a driver's descriptors are not shared on Windows");
}
