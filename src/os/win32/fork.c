/* SPDX-License-Identifier: MIT
 *
 * Windows does not fork, and handles are not inherited unless they are made so.
 */
#include "os/os.h"

bool sl_os_forked(void)
{
    return false;
}

int sl_fork_install(void)
{
    return 0;
}

int sl_os_close_in_child(int fd)
{
    (void)fd;
    return 0;
}
