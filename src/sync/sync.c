/* SPDX-License-Identifier: MIT
 *
 * The list of synchronisation kinds.
 */
#include "sync/sync.h"

#include <stddef.h>
#include <string.h>

extern const struct sl_sync_ops sl_sync_host;
extern const struct sl_sync_ops sl_sync_cuda;

static sl_word32 waiting;

bool sl_sync_wait_available(void)
{
    return sl_load(&waiting, relaxed) < SL_SYNC_MAX_WAITS;
}

bool sl_sync_wait_reserve(void)
{
    if (sl_add(&waiting, 1) < SL_SYNC_MAX_WAITS)
        return true;
    sl_sync_wait_release();
    return false;
}

void sl_sync_wait_release(void)
{
    sl_add(&waiting, (uint32_t)-1);
}

static const struct sl_sync_ops *const kinds[] = { &sl_sync_host, &sl_sync_cuda };

const struct sl_sync_ops *sl_sync_of_device(const char *device)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->device, device) == 0)
            return kinds[i];
    return NULL;
}
