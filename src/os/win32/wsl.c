/* SPDX-License-Identifier: MIT
 *
 * This is Windows itself.
 */
#include "os/os.h"

bool sl_os_holds_work_back(void)
{
    return true;
}

bool sl_os_wsl(const char *root)
{
    (void)root;
    return false;
}
