/* SPDX-License-Identifier: MIT
 *
 * A reader on another GPU than the channel's. The reader copies a frame to its own GPU, or acquire does.
 */
#include "channel.h"

#define READY (200 * KIT_US) /* by then a frame without GPU work is ready */

static struct sluice_array array;
static uint64_t own;

static void copy(uint32_t round)
{
    (void)round;
    CU(MemcpyDtoDAsync, own, (uintptr_t)array.data, frame_bytes(), native);
    CU(StreamSynchronize, native);
}

/* The program itself copies the same frame again and again. */
static void copy_frames(void)
{
    channel_take();
    check(sluice_frame_array(&channel_frame, NULL, &array), "the array");
    CU(MemAlloc, &own, frame_bytes());
    measure_copies(copy);
    channel_give();
    CU(MemFree, own);
}

/* acquire, of frames that are ready. */
static void acquire_frames(void)
{
    int64_t until = INT64_MAX, end = 0;
    for (int round = -COPY_WARM_UP; end < until; round++) {
        spin_for(READY);
        int64_t start = clock_ns();
        if (round == 0)
            until = start + job->ns;
        channel_take();
        end = clock_ns();
        if (round >= 0)
            sample("call", end - start);
        channel_give();
        if (end >= until)
            atomic_store(&stage->last, 1);
        atomic_store(&stage->lanes[1].got, (uint32_t)(round + COPY_WARM_UP + 1));
    }
}

void sluice_far(int index)
{
    if (index == 0)
        channel_write(CHANNEL_SLOTS);
    else
        channel_read(1, false);
    meet();
    if (index == 0 && job->staged)
        channel_put_frames();
    else if (index == 0)
        channel_put();
    else if (job->staged)
        acquire_frames();
    else
        copy_frames();
    meet();
    channel_close();
}
