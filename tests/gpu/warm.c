/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdlib.h>

#include "gpu/kit.h"
#include "harness/harness.h"

static void do_nothing(void *data)
{
    (void)data;
}

/* A real driver has threads and descriptors of its own from the first context on, and keeps them.
 * In a test's process they are made before the harness counts. Not where the fake driver is linked.
 */
__attribute__((constructor)) static void warm_up(void)
{
    int count;

    if (dlsym(RTLD_DEFAULT, "fake_broken_rule") || !getenv(HARNESS_FOLDER) || !gpu_load() ||
        gpu_is_fake() || cu.Init(0) != 0 || cu.DeviceGetCount(&count) != 0)
        return;
    for (int i = 0; i < count && i < 2; i++) {
        gpu_use(i);
        cu.LaunchHostFunc(NULL, do_nothing, NULL); /* which have a thread of their own */
        cu.CtxSynchronize();
    }
    cu.CtxSetCurrent(NULL);
}
