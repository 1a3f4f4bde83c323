/* SPDX-License-Identifier: MIT
 *
 * A frame of another process, copied from another GPU to this one.
 */
#include "driver.h"
#include "limit.h"
#include "rounds.h"

static struct cu_stream *stream;
static struct gpu_shared slot;
static uint64_t own;

static void copy(uint32_t round)
{
    (void)round;
    CU(MemcpyDtoDAsync, own, slot.address, frame_bytes(), stream);
    CU(StreamSynchronize, stream);
}

static void copy_frames(void)
{
    stream = gpu_stream();
    CU(MemAlloc, &own, frame_bytes());
    measure_copies(copy);
    CU(MemFree, own);
    CU(StreamDestroy, stream);
}

void limit_far(int index)
{
    int fd;
    if (index == 0) {
        slot = gpu_shared_make(frame_bytes(), &fd);
        pass_fd(fd);
    } else {
        slot = gpu_shared_take(frame_bytes(), take_fd());
        copy_frames();
    }
    meet();
    gpu_shared_free(slot);
}
