/* SPDX-License-Identifier: MIT
 *
 * The size of a page.
 */
#include "os/win32/win32.h"

size_t sl_os_page_size(void)
{
    SYSTEM_INFO info;

    GetSystemInfo(&info);
    return info.dwPageSize;
}
