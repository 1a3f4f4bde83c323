/* SPDX-License-Identifier: MIT
 *
 * The kinds of synchronisation there are.
 */
#include "sync/sync.h"

#include <stddef.h>
#include <string.h>

extern const struct sl_sync_ops sl_sync_host;
extern const struct sl_sync_ops sl_sync_cuda;

static const struct sl_sync_ops *const kinds[] = { &sl_sync_host, &sl_sync_cuda };

const struct sl_sync_ops *sl_sync_of_device(const char *device)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->device, device) == 0)
            return kinds[i];
    return NULL;
}
