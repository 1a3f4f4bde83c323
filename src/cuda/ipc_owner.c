/* SPDX-License-Identifier: MIT
 *
 * Finds out which GPU another process's memory is on, from its handle alone: opens it on any GPU
 * that can, and asks the driver for the pointer's device.
 */
#include <stdio.h>

#include "cuda/cuda.h"

int sl_cuda_count(int *count)
{
    int r = sl_cuda_load();
    return r == 0 ? sl_cu(NULL, DeviceGetCount, count) : r;
}

static int find_gpu(const unsigned char *uuid, int *ordinal)
{
    char text[SL_CUDA_UUID_TEXT], name[sizeof "cuda:" + sizeof text];

    sl_cuda_uuid_text(uuid, text);
    snprintf(name, sizeof name, "cuda:%s", text);
    return sl_cuda_find(name, ordinal);
}

/* For memory of another GPU some drivers may report the GPU that has it mapped: that one serves as
 * well as the owner. */
static int query_ordinal(struct sl_cuda_block *block, int *ordinal)
{
    struct sl_cuda_context *context = sl_cuda_ipc_context(block);
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_PLAIN, &scope);

    if (r != 0)
        return r;
    r = sl_cu(context, PointerGetAttribute, ordinal, SL_CU_POINTER_ORDINAL, sl_cuda_ipc_address(block));
    sl_cuda_leave(&scope);
    return r;
}

static int open_anywhere(const struct sl_cu_memory_handle *handle, int count, struct sl_cuda_block **block,
                         int *ordinal)
{
    struct sl_cuda_share share = { .handle = *handle };
    char name[SL_CUDA_NAME];
    int r = SLUICE_E_UNSUPPORTED;

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "cuda:%d", i);
        if ((r = sl_cuda_ipc_open(name, &share, 0, block)) == 0) {
            *ordinal = i;
            return 0;
        }
    }
    return r;
}

int sl_cuda_ipc_owner(const unsigned char *uuid, const struct sl_cu_memory_handle *handle, char name[SL_CUDA_NAME])
{
    struct sl_cuda_block *block;
    int count, ordinal, reported = -1;
    int r = sl_cuda_count(&count);

    if (r != 0)
        return r;
    if (!uuid || find_gpu(uuid, &ordinal) != 0) {
        block = sl_cuda_ipc_find(handle);
        if (block)
            ordinal = sl_cuda_ipc_context(block)->device;
        else if ((r = open_anywhere(handle, count, &block, &ordinal)) != 0)
            return r;
        if (query_ordinal(block, &reported) == 0 && reported >= 0 && reported < count)
            ordinal = reported;
        sl_cuda_ipc_drop(block);
    }
    snprintf(name, SL_CUDA_NAME, "cuda:%d", ordinal);
    return 0;
}
