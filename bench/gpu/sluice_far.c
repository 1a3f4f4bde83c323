/* SPDX-License-Identifier: MIT
 *
 * A reader on another GPU than the channel's: it copies a frame to its own GPU, or acquire does.
 */
#include "channel.h"

#define FAR_WARM_UP 3
#define READY       (200 * INT64_C(1000)) /* long enough for a frame that nobody works on */

/* The same frame again and again, by the program itself. */
static void copy_frames(void)
{
    int64_t until = INT64_MAX, start, end = 0;
    struct sluice_array array;
    uint64_t own;
    channel_take();
    check(sluice_frame_array(&channel_frame, NULL, &array), "the array");
    CU(MemAlloc, &own, frame_bytes());
    for (int round = -FAR_WARM_UP; end < until; round++) {
        start = clock_ns();
        if (round == 0)
            until = start + job->ns;
        CU(MemcpyDtoDAsync, own, (uintptr_t)array.data, frame_bytes(), native);
        CU(StreamSynchronize, native);
        end = clock_ns();
        if (round >= 0)
            sample("call", end - start);
    }
    channel_give();
    CU(MemFree, own);
}

/* The next frame, as soon as one was taken. */
static void put_frames(void)
{
    for (uint32_t round = 1; !atomic_load(&stage->last); round++) {
        channel_put();
        await_got(round);
    }
}

/* Frames that are ready. */
static void acquire_frames(void)
{
    int64_t until = INT64_MAX, end = 0;
    for (int round = -FAR_WARM_UP; end < until; round++) {
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
        atomic_store(&stage->lanes[1].got, (uint32_t)(round + FAR_WARM_UP + 1));
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
        put_frames();
    else if (index == 0)
        channel_put();
    else if (job->staged)
        acquire_frames();
    else
        copy_frames();
    meet();
    channel_close();
}
