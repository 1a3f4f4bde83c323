/* SPDX-License-Identifier: MIT
 *
 * What a conversion is compared with: the driver's copy of as many bytes as it reads and writes, many of them behind
 * each other on one stream.
 */
#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;
static uint64_t from, to;

static void copy(uint32_t round)
{
    (void)round;
    for (int i = 0; i < job->group; i++)
        CU(MemcpyDtoDAsync, to, from, (size_t)job->bytes, stream);
    CU(StreamSynchronize, stream);
}

void limit_copies(int index)
{
    (void)index;
    stream = gpu_stream();
    CU(MemAlloc, &from, (size_t)job->bytes);
    CU(MemAlloc, &to, (size_t)job->bytes);
    measure_copies(copy);
    CU(MemFree, to);
    CU(MemFree, from);
    CU(StreamDestroy, stream);
}
