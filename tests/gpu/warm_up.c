/* SPDX-License-Identifier: MIT */
#include "gpu/kit.h"

static void do_nothing(void *data)
{
    (void)data;
}

/* A real driver has threads and descriptors of its own from the first context on, and keeps them: a test's process
 * makes them before the harness counts. This takes seconds where other programs make contexts, too, so a test that is
 * skipped does without. */
static void warm_up(void)
{
    int count;

    if (cu.DeviceGetCount(&count) != 0)
        return;
    for (int i = 0; i < count && i < 2; i++) {
        gpu_use(i);
        cu.LaunchHostFunc(NULL, do_nothing, NULL); /* they have a thread of their own */
        cu.CtxSynchronize();
    }
    cu.CtxSetCurrent(NULL);
    TEST_BEGINS_HERE();
}

__attribute__((constructor)) static void offer(void)
{
    gpu_warm_up = warm_up;
}
