/* SPDX-License-Identifier: MIT
 *
 * The kinds of memory there are.
 */
#include "mem/mem.h"

#include <stddef.h>
#include <string.h>

extern const struct sl_mem_ops sl_mem_host;
extern const struct sl_mem_ops sl_mem_cuda;

static const struct sl_mem_ops *const kinds[] = { &sl_mem_host, &sl_mem_cuda };

const struct sl_mem_ops *sl_mem_of_kind(uint32_t kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i]->kind == kind)
            return kinds[i];
    return NULL;
}

const struct sl_mem_ops *sl_mem_of_device(const char *device)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i]->name, device) == 0)
            return kinds[i];
    return NULL;
}
