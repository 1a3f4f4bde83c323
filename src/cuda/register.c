/* SPDX-License-Identifier: MIT
 *
 * Host memory that a GPU reads and writes: the pages with the words that writer and readers share.
 */
#include <inttypes.h>

#include "cuda/cuda.h"
#include "os/os.h"
#include "util/result.h"

int sl_cuda_register(struct sl_cuda_context *context, void *address, uint64_t size, bool writable)
{
    unsigned flags = SL_CU_HOST_PORTABLE | SL_CU_HOST_DEVICEMAP;
    struct sl_cuda_scope scope;

    if ((uintptr_t)address % sl_os_page_size() || !size || size % sl_os_page_size() || size > SIZE_MAX)
        return sl_fail(SLUICE_E_INVALID, "%s: %" PRIu64 " bytes at %p are not whole pages of %zu", context->name, size,
                       address, sl_os_page_size());
    int r = sl_cuda_check_cap(context, SL_CU_CAN_REGISTER_HOST, "use host memory (cuMemHostRegister)");
    if (r == 0 && !writable) {
        r = sl_cuda_check_cap(context, SL_CU_CAN_REGISTER_READ_ONLY,
                              "use host memory that is read-only (CU_MEMHOSTREGISTER_READ_ONLY)");
        flags |= SL_CU_HOST_READ_ONLY;
    }
    if (r == 0)
        r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, MemHostRegister, address, (size_t)size, flags);
    sl_cuda_leave(&scope);
    return r;
}

int sl_cuda_unregister(struct sl_cuda_context *context, void *address)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r; /* the registration ended with the context */
    r = sl_cu(context, MemHostUnregister, address);
    sl_cuda_leave(&scope);
    return r;
}

int sl_cuda_query_address(struct sl_cuda_context *context, void *host, uint64_t *device)
{
    struct sl_cuda_scope scope;
    int r = sl_cuda_enter(context, SL_CUDA_RELAXED, &scope);
    if (r != 0)
        return r;
    r = sl_cu(context, MemHostGetDevicePointer, device, host, 0);
    sl_cuda_leave(&scope);
    return r;
}
