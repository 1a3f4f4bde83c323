/* SPDX-License-Identifier: MIT
 *
 * From GPU memory into the host's: one frame after the other, and each beside the CPU's work on the
 * one before.
 */
#include "driver.h"
#include "limit.h"
#include "stage.h"

#define FETCH_WARM_UP 3 /* large frames take long */

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

void limit_fetch(int index)
{
    open_fetch();
    busy_begin(index + 1);
    int64_t until = INT64_MAX, start, end = 0;
    for (int round = -FETCH_WARM_UP; end < until; round++) {
        start = clock_ns();
        if (round == 0)
            until = start + job->ns;
        CU(MemcpyDtoHAsync, buffers[round & 1], source, frame_bytes(), stream);
        CU(StreamSynchronize, stream);
        end = clock_ns();
        if (round >= 0)
            sample("call", end - start);
    }
    busy_end();
    close_fetch();
}

void limit_pipeline(int index)
{
    (void)index;
    open_fetch();
    int64_t until = INT64_MAX, start = clock_ns();
    for (int round = -FETCH_WARM_UP; start < until; round++) {
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
