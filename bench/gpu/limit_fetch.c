/* SPDX-License-Identifier: MIT
 *
 * Copies from GPU memory into the host's: one frame after the other, and each during the CPU's work on
 * the one before.
 */
#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;
static uint64_t source;
static void *buffers[2];

static void open_fetch(void)
{
    stream = gpu_stream();
    CU(MemAlloc, &source, frame_bytes());
    for (int i = 0; i < 2; i++)
        buffers[i] = gpu_pinned(frame_bytes());
}

static void close_fetch(void)
{
    for (int i = 0; i < 2; i++)
        gpu_pinned_free(buffers[i], frame_bytes());
    CU(MemFree, source);
    CU(StreamDestroy, stream);
}

static void fetch(uint32_t round)
{
    CU(MemcpyDtoHAsync, buffers[round & 1], source, frame_bytes(), stream);
    CU(StreamSynchronize, stream);
}

void limit_fetch(int index)
{
    open_fetch();
    busy_begin(index + 1);
    measure_copies(fetch);
    busy_end();
    close_fetch();
}

void limit_pipeline(int index)
{
    (void)index;
    open_fetch();
    int64_t until = INT64_MAX, start = clock_ns();
    for (int round = -COPY_WARM_UP; start < until; round++) {
        if (round == 0)
            until = start + job->ns;
        CU(MemcpyDtoHAsync, buffers[round & 1], source, frame_bytes(), stream);
        spin_for(job->work);
        CU(StreamSynchronize, stream);
        int64_t end = clock_ns();
        if (round >= 0)
            sample("loop", end - start);
        start = end;
    }
    close_fetch();
}
