/* SPDX-License-Identifier: MIT
 *
 * The fake driver on Windows has no kernels but those that gpu.c knows, as they are libraries of Linux; and a time
 * slice lasts for ever.
 */
#include <pthread.h>

#include "fake/internal.h"

int fake_image_open(const void *bytes, struct fake_image **image, const char **log)
{
    (void)bytes;
    *image = NULL;
    *log = "";
    return SL_CU_OK;
}

const struct fake_kernel *fake_image_find(const struct fake_image *image, const char *name)
{
    (void)image;
    (void)name;
    return NULL;
}

struct fake_launch *fake_launch_new(const struct fake_image *image, const struct fake_kernel *kernel,
                                    const uint32_t grid[3], const uint32_t block[3], size_t shared, void **arguments)
{
    (void)image;
    (void)kernel;
    (void)grid;
    (void)block;
    (void)shared;
    (void)arguments;
    return NULL;
}

void fake_launch_hold(struct fake_launch *launch)
{
    (void)launch;
}

void fake_launch_drop(struct fake_launch *launch)
{
    (void)launch;
}

void *fake_launch_see(const struct fake_launch *launch, int device)
{
    (void)launch;
    (void)device;
    return NULL;
}

bool fake_launch_run(const struct fake_launch *launch, void *bytes)
{
    (void)launch;
    (void)bytes;
    return false;
}

void fake_turns_begin(void)
{
}

void fake_turns_end(void)
{
}

bool fake_turn_lasts(void)
{
    return true;
}

bool fake_turn_is_held(void)
{
    return false;
}

int64_t fake_turn_since(void)
{
    return 0;
}

int64_t fake_turn_until(void)
{
    return INT64_MAX;
}

int64_t fake_turn_take(void)
{
    return 0;
}

void fake_turn_leave(void)
{
}
