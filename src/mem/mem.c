/* SPDX-License-Identifier: MIT
 *
 * The list of memory kinds.
 */
#include "mem/mem.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"
#include "util/result.h"

extern const struct sl_mem_ops sl_mem_host;
extern const struct sl_mem_ops sl_mem_cuda;
extern const struct sl_mem_ops sl_mem_cuda_ipc;

/* Among the kinds for one device, the better one comes first. */
static const struct sl_mem_ops *const kinds[] = { &sl_mem_host, &sl_mem_cuda, &sl_mem_cuda_ipc };

const struct sl_mem_ops *sl_mem_of_kind(uint32_t kind)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i]->kind == kind)
            return kinds[i];
    return NULL;
}

uint32_t sl_mem_driver(const struct sl_mem_ops *ops)
{
    return ops->driver ? ops->driver() : 0;
}

int sl_mem_choose(const char *kind, const char *device, const struct sl_mem_ops **ops)
{
    char missing[400] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i]->name, kind) != 0)
            continue;
        int r = kinds[i]->able(device);
        if (r == 0) {
            *ops = kinds[i];
            if (used)
                sl_log(SLUICE_LOG_INFO, "slots on \"%s\" are opened by handles, so that readers can write to them: %s",
                       device, missing);
        }
        if (r != SLUICE_E_UNSUPPORTED)
            return r;
        if (used < sizeof missing)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", used ? "; " : "", sl_last_error());
    }
    return sl_fail(SLUICE_E_UNSUPPORTED, "frames cannot lie on \"%s\", but in host memory they can: %s", device,
                   missing);
}

static void end(void *argument)
{
    struct sl_mem_shared *shared = argument;

    shared->end(shared);
}

void sl_mem_drop(struct sl_mem_shared *shared)
{
    if (sl_add(&shared->users, (uint32_t)-1) != 1)
        return;
    if (shared->in_background)
        sl_background_run(end, shared);
    else
        end(shared);
}

int sl_mem_create(struct sl_memory *memory, const char *name, uint64_t size, bool writable)
{
    bool on_gpu = memory->ops->kind != SL_MEM_HOST;

    if (on_gpu)
        sl_background_await_capacity();
    int r = memory->ops->create(memory, name, size, writable);
    if ((r == SLUICE_E_NO_MEMORY || r == SLUICE_E_NO_DESCRIPTORS) && on_gpu && sl_background_drain())
        r = memory->ops->create(memory, name, size, writable);
    return r;
}
