/* SPDX-License-Identifier: MIT
 *
 * Mappings that stay until the process ends: memory that a driver failed to unregister.
 */
#include "os/kept.h"

#include "os/os.h"
#include "util/atomic.h"

#define KEPT 64 /* usually none is */
static _Atomic(void *) kept[KEPT];
static sl_word32 kept_count;

void sl_os_keep_mapped(void *address)
{
    uint32_t at = sl_add(&kept_count, 1);

    if (at < KEPT)
        sl_store(&kept[at], address, release);
}

bool sl_os_is_kept(const void *address)
{
    uint32_t count = sl_load(&kept_count, acquire);

    for (uint32_t i = 0; i < count && i < KEPT; i++)
        if (sl_load(&kept[i], acquire) == address)
            return true;
    return false;
}
