/* SPDX-License-Identifier: MIT
 *
 * A number for each thread that this process has had; unlike the system's, none is used twice.
 */
#include "os/os.h"
#include "util/atomic.h"

uint64_t sl_os_thread_number(void)
{
    static sl_word last;
    static _Thread_local uint64_t mine;

    if (mine == 0)
        mine = sl_add(&last, 1) + 1;
    return mine;
}
