/* SPDX-License-Identifier: MIT
 *
 * Can the CPU access a program's memory? Copying from or to that of a GPU would end the process.
 */
#include "copy/copy.h"
#include "cuda/cuda.h"
#include "util/result.h"

#define LEAST_PAGE 4096

bool sl_copy_host_accessible(const void *first, uint64_t bytes)
{
    if (bytes == 0 || !sl_cuda_present())
        return true; /* without a driver no GPU's memory has an address here */
    const char *last = (const char *)first + bytes - 1;
    return sl_os_readable(first) && (((uintptr_t)first ^ (uintptr_t)last) < LEAST_PAGE || sl_os_readable(last));
}

int sl_copy_check_sides(const struct sl_copy_job *job)
{
    const char *fix = job->way == SL_COPY_SEND
                          ? "copy it to host memory first (in PyTorch: tensor.cpu()), or open the writer on that GPU"
                          : "fetch into host memory, and copy from there";

    for (uint32_t i = 0; i < job->count; i++) {
        const struct sl_copy_side *side = &job->sides[i];
        if (!sl_copy_host_accessible(side->first, side->bytes))
            return sl_fail(
                SLUICE_E_INVALID,
                "channel '%s': array '%.31s': the CPU cannot access the %llu bytes at %p: they are a GPU's, or were "
                "freed, and this channel's frames are in host memory; %s",
                job->copier->channel, side->name, (unsigned long long)side->bytes, side->first, fix);
    }
    return 0;
}
